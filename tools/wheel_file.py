# SPDX-License-Identifier: Apache-2.0
"""Writes a wheel: a zip file with a RECORD of its files."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path


def write(path: Path, files: Mapping[str, bytes], record: str, modes: Mapping[str, int] | None = None) -> None:
    """Writes `files` and a file `record` with their digests. The output is reproducible: equal input yields equal bytes."""
    rows = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name: str, data: bytes) -> None:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = ((modes or {}).get(name, 0o100644)) << 16
            archive.writestr(info, data)

        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data)
        add(record, ("".join(rows) + f"{record},,\n").encode())
