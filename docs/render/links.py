# SPDX-License-Identifier: Apache-2.0
"""`python -m render.links FOLDER` in docs/: turns links that work in the repository into links that work in the site.

Pages link to files of the repository: examples are `../examples/...` from docs/, and rendered pages, which the repository does not
hold, are sections of `reference/rendered.md`. In the site the examples lie in `_examples`, and the rendered pages beside that file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath

LINK = re.compile(r"\]\(([^)\s]+)\)")
RENDERED = {"coverage": "rst", "deviations": "rst", "cpp": "rst", "promises": "md"}
FENCE = re.compile(r"^(`{3,}).*?^\1", re.M | re.S)


def links(text: str) -> list[str]:
    """Relative links of a page, without those in code."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    return [link for link in LINK.findall(text) if not re.match(r"[a-z]+:|#", link)]


def site_link(page: str, link: str) -> str:
    """The link of a page of docs/, as the site has it."""
    file, _, section = link.partition("#")
    if PurePosixPath(file).name == "rendered.md" and section in RENDERED:
        return f"{file.removesuffix('rendered.md')}{section}.{RENDERED[section]}"
    up = "../" * len(PurePosixPath(page).parts)
    if link.startswith(f"{up}examples/"):
        return f"{up.removeprefix('../')}_examples/{link.removeprefix(f'{up}examples/')}"
    return link


def rewritten(page: str, text: str) -> str:
    return LINK.sub(lambda match: f"]({site_link(page, match[1])})", text)


def main(folder: Path) -> None:
    for path in sorted(folder.rglob("*.md")):
        old = path.read_text(encoding="utf-8")
        new = rewritten(path.relative_to(folder).as_posix(), old)
        if new != old:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
