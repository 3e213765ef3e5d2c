# SPDX-License-Identifier: Apache-2.0
"""Size of the installed packages."""

from __future__ import annotations

import struct
from pathlib import Path

import cucore
import cuda.bindings
import cuda.core
import cuda.pathfinder

MEGABYTE = 1_000_000


def files() -> dict[Path, int]:
    """Every file of the installed packages and its size; links count once."""
    folders = [Path(next(iter(p.__path__))) for p in (cucore, cuda.bindings, cuda.core, cuda.pathfinder)]
    found = (path for folder in folders for path in folder.rglob("*"))
    return {
        path: path.stat().st_size
        for path in found
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    }


def has_its_own_runtime() -> bool:
    """Whether the compiler linked libstdc++ into every library, as some toolchains do: that adds up to 2.5 MB to each."""
    library = Path(next(iter(cucore.__path__))) / "lib" / "libcucore.so.0"
    return b"\0libstdc++.so.6\0" not in library.read_bytes()


def test_packages_without_the_cpu_device_are_smaller_than_10_mb() -> None:
    sizes = {
        path: size for path, size in files().items() if "libcucore_cpu" not in path.name and path.parent.name != "cpu"
    }
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    limit = 14 if has_its_own_runtime() else 10
    assert sum(sizes.values()) < limit * MEGABYTE, largest


def test_packages_with_the_cpu_device_are_smaller_than_60_mb() -> None:
    sizes = files()
    assert sum(sizes.values()) < 60 * MEGABYTE, sorted(sizes.items(), key=lambda item: -item[1])[:8]


def thread_local_bytes(library: Path) -> int:
    """Static TLS of a 64-bit ELF library: the size of its PT_TLS segment."""
    data = library.read_bytes()
    (at,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    headers = (data[at + n * size : at + (n + 1) * size] for n in range(count))
    return sum(struct.unpack_from("<Q", header, 0x28)[0] for header in headers if header[:4] == b"\x07\0\0\0")


def test_cpu_device_needs_little_static_tls() -> None:
    """The signal handlers use static TLS, of which glibc reserves 1664 bytes for all libraries that are loaded with dlopen().
    After numba's LLVM is loaded, 1288 bytes fit and 1328 do not."""
    library = Path(next(iter(cucore.__path__))) / "lib" / "libcucore_cpu.so"
    if library.exists():  # not built on a GPU machine
        assert 0 < thread_local_bytes(library) <= 1024
