# SPDX-License-Identifier: Apache-2.0
"""`python -m render.site_links FOLDER` in docs/: checks that every link of the built site leads to a file and a section that exist."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value and not re.match(r"[a-z]+:|//", value):
                self.links.append(value)


def dead_links(folder: Path) -> list[str]:
    """`page: link` for every link that leads nowhere."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            missing = not target.exists() or (
                anchor and target in pages and unquote(anchor) not in pages[target].anchors
            )
            if missing:
                dead.append(f"{path.relative_to(folder.resolve())}: {link}")
    return dead


def main(folder: Path) -> int:
    dead = dead_links(folder)
    print("\n".join(f"dead link in {row}" for row in dead), end="\n" if dead else "")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
