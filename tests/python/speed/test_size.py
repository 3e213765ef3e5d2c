"""How large the installed packages are."""

from __future__ import annotations

import struct
from pathlib import Path

import cucore
import cuda.bindings
import cuda.core
import cuda.pathfinder

MEGABYTE = 1_000_000


def files() -> dict[Path, int]:
    """Every file of our packages and its size; links count once."""
    folders = [Path(next(iter(p.__path__))) for p in (cucore, cuda.bindings, cuda.core, cuda.pathfinder)]
    found = (path for folder in folders for path in folder.rglob("*"))
    return {
        path: path.stat().st_size
        for path in found
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    }


def test_the_packages_without_the_cpu_device_take_less_than_10_mb() -> None:
    sizes = {
        path: size for path, size in files().items() if "libcucore_cpu" not in path.name and path.parent.name != "cpu"
    }
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    assert sum(sizes.values()) < 10 * MEGABYTE, largest


def test_the_packages_with_the_cpu_device_take_less_than_60_mb() -> None:
    sizes = files()
    assert sum(sizes.values()) < 60 * MEGABYTE, sorted(sizes.items(), key=lambda item: -item[1])[:8]


def thread_local_bytes(library: Path) -> int:
    """What a 64-bit ELF library wants for every thread: the size of its PT_TLS segment."""
    data = library.read_bytes()
    (at,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    headers = (data[at + n * size : at + (n + 1) * size] for n in range(count))
    return sum(struct.unpack_from("<Q", header, 0x28)[0] for header in headers if header[:4] == b"\x07\0\0\0")


def test_the_device_can_be_loaded_after_libraries_that_took_thread_local_memory_too() -> None:
    """Its signal handlers need memory in the block that glibc keeps for libraries loaded late: 1664 bytes for all of them.
    After numba's LLVM 1288 bytes still fitted, and 1328 did not."""
    library = Path(next(iter(cucore.__path__))) / "lib" / "libcucore_cpu.so"
    if library.exists():  # built without it for a GPU machine
        assert 0 < thread_local_bytes(library) <= 1024
