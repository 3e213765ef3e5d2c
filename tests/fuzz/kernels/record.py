"""Programs with their results in a file: made where NVRTC is, run again on any device."""

from __future__ import annotations

import dataclasses
import json
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .worker import Batch

FORMAT = 1


def save(path: Path, batches: list[Batch]) -> None:
    """One compressed file: a list of modules as JSON. Expected results are kept whole, in hexadecimal."""
    modules = [
        {
            "language": b.language,
            "ptx": b.ptx.decode(),
            "launches": [dataclasses.asdict(launch) for launch in b.launches],
            "expected": [(e or b"").hex() for e in b.expected],
        }
        for b in batches
    ]
    text = json.dumps({"format": FORMAT, "modules": modules})
    path.write_bytes(lzma.compress(text.encode(), preset=6))


def load(path: Path) -> list[dict[str, Any]]:
    content = json.loads(lzma.decompress(path.read_bytes()))
    if content["format"] != FORMAT:
        raise ValueError(f"{path}: format {content['format']}, expected {FORMAT}")
    return content["modules"]  # type: ignore[no-any-return]
