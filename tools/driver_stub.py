# SPDX-License-Identifier: Apache-2.0
"""Writes the source of a library that has the functions of another one for the linker alone, as the stubs of the CUDA toolkit do.

    python tools/driver_stub.py libcucore_cpu.so libcuda.c
    cc -shared -Wl,-soname,libcuda.so.1 libcuda.c -o stubs/libcuda.so

A program that is linked with it loads libcuda.so.1.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def functions(library: Path) -> list[str]:
    """The functions of the driver API that a shared library exports."""
    listing = subprocess.run(["readelf", "-W", "--dyn-syms", str(library)], capture_output=True, text=True, check=True)
    return sorted(set(re.findall(r"FUNC\s+GLOBAL\s+DEFAULT\s+\d+\s+(cu[A-Z]\w+)", listing.stdout)))


def main(library: Path, source: Path) -> None:
    lines = [f'__attribute__((visibility("default"))) void {name}(void) {{}}\n' for name in functions(library)]
    source.write_text("".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
