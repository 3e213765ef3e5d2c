# SPDX-License-Identifier: Apache-2.0
"""Files of programs with their results: written on a machine with NVRTC, run on any device."""

from __future__ import annotations

import dataclasses
import json
import lzma
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .worker import Batch

FORMAT = 1
OLDEST = ".version 8.3"  # no newer feature is used, and drivers reject newer versions


def save(path: Path, batches: list[Batch]) -> None:
    """Writes a compressed JSON file with a list of modules. Expected results are complete, in hexadecimal."""
    modules = [
        {
            "language": b.language,
            "ptx": re.sub(r"^\.version .*$", OLDEST, b.ptx.decode(), flags=re.MULTILINE),
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


def differences(want: bytes, got: bytes) -> str:
    """The first words that differ."""
    n = min(len(want), len(got)) // 8 * 8
    a, b = np.frombuffer(want[:n], np.uint64), np.frombuffer(got[:n], np.uint64)
    at = np.flatnonzero(a != b)
    shown = ", ".join(f"[{i}] expected {int(a[i]):#x}, got {int(b[i]):#x}" for i in at[:3])
    return f"; {len(at)} of {len(a)} words differ: {shown}"
