# SPDX-License-Identifier: Apache-2.0
"""Writes the source of a filter library: a library with the names of another one, for the linker.

    python tools/filter_library.py libcucore_cpu.so libcuda.c
    cc -shared -Wl,--filter=libcucore_cpu.so libcuda.c -o libcuda.so.1

The dynamic linker loads the other library with it and takes every function from there, so these are never called.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def functions(library: Path) -> list[str]:
    """The functions that a shared library exports."""
    listing = subprocess.run(["readelf", "-W", "--dyn-syms", str(library)], capture_output=True, text=True, check=True)
    return sorted(set(re.findall(r"FUNC\s+GLOBAL\s+DEFAULT\s+\d+\s+(\w+)", listing.stdout)))


def main(library: Path, source: Path) -> None:
    lines = [f'__attribute__((visibility("default"))) void {name}(void) {{}}\n' for name in functions(library)]
    source.write_text("".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
