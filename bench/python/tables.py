# SPDX-License-Identifier: Apache-2.0
"""Writes tables of measurements into pages."""

from __future__ import annotations

import re
from pathlib import Path


def replace_table(page: Path, name: str, text: str) -> None:
    """Replaces what stands between `<!-- NAME -->` and the next `<!-- end -->`."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    new, count = place.subn(lambda found: f"{found[1]}{text}\n{found[2]}", page.read_text())
    if count != 1:
        raise SystemExit(f"{page} has no place for the table {name}")
    page.write_text(new)
