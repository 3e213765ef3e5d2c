# SPDX-License-Identifier: Apache-2.0
"""Writes a wheel: a zip file with a RECORD of its files."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

try:
    import deflate  # type: ignore[import-not-found, unused-ignore]
except ImportError:  # zlib does it; files become a few percent larger
    deflate = None


class _Whole:
    """What zipfile compresses a file with: libdeflate, which sees all of it at once and searches longer than zlib."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def compress(self, data: bytes) -> bytes:
        self._parts.append(bytes(data))
        return b""

    def flush(self) -> bytes:
        return bytes(deflate.deflate_compress(b"".join(self._parts), 12))


@contextmanager
def _best_compression() -> Iterator[None]:
    if deflate is None or not hasattr(zipfile, "_get_compressor"):
        yield
        return
    with mock.patch.object(zipfile, "_get_compressor", lambda *_: _Whole()):
        yield


def write(path: Path, files: Mapping[str, bytes], record: str, modes: Mapping[str, int] | None = None) -> None:
    """Writes `files` and a file `record` with their digests. The output is reproducible: equal input yields equal bytes."""
    rows = []
    with _best_compression(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, data: bytes) -> None:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = ((modes or {}).get(name, 0o100644)) << 16
            archive.writestr(info, data, compresslevel=9)

        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data)
        add(record, ("".join(rows) + f"{record},,\n").encode())
