# SPDX-License-Identifier: Apache-2.0
"""Writes libraries to link with, so that what is linked runs on systems with an older glibc and libstdc++ than this one.

    python tools/link_stubs.py FOLDER --compiler c++ --glibc 2.28 --glibcxx 3.4.24

This system's libraries keep the older versions of their symbols (pthread_create@GLIBC_2.2.5 beside pthread_create@GLIBC_2.34), and a
linker takes the newest. A stub is an empty library with the same soname that has, of each symbol, the newest version up to the given
one. What is newer comes from archives that are linked statically: of libstdc++ and libgcc, their own archives; of glibc, `glibc_compat.c`.
The folder goes first in the search path of the linker (-L). CMake does all this: -DCUCORE_GLIBC=2.28.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

SYMBOL = re.compile(
    r"^ *\d+: [0-9a-f]+ +\S+ (FUNC|OBJECT|IFUNC|TLS|NOTYPE) +(GLOBAL|WEAK|UNIQUE) +\S+ +(?!UND)\S+ ([^@\s]+)@@?(\S+)",
    re.M,
)
# Libraries of glibc that were separate up to 2.33, and are empty since. Old systems have their functions there.
SEPARATE = ("libpthread.so.0", "libdl.so.2", "librt.so.1")
# Where the assembler puts a symbol that is no function, and its type.
KINDS = {"OBJECT": (".data", "%object"), "TLS": ('.section .tdata, "awT", %progbits', "%tls_object")}
Version = tuple[int, ...]


def number(version: str) -> Version | None:
    """GLIBC_2.28 as (2, 28); None for versions that are no release (GLIBC_PRIVATE)."""
    found = re.fullmatch(r"[A-Z]+_([\d.]+)", version)
    return tuple(map(int, found[1].split("."))) if found else None


def symbols(library: Path, limits: dict[str, Version]) -> dict[str, tuple[str, str]]:
    """For each symbol of a library: its type, and its newest version within the limits (by prefix: GLIBC, GLIBCXX, CXXABI)."""
    listing = subprocess.run(
        ["readelf", "-W", "--dyn-syms", str(library)], capture_output=True, text=True, check=True
    ).stdout
    result: dict[str, tuple[str, str]] = {}
    for kind, _, name, version in SYMBOL.findall(listing):
        this = number(version)
        if this is None or this > limits.get(version.split("_")[0], (0,)):
            continue
        if name not in result or this > (number(result[name][1]) or ()):
            result[name] = (kind, version)
    return result


def write_stub(path: Path, soname: str, found: dict[str, tuple[str, str]], compiler: str) -> None:
    lines = []
    for index, (name, (kind, version)) in enumerate(sorted(found.items())):
        label = f"stub_{index}"
        section, shape = KINDS.get(kind, (".text", "%function"))
        lines += [section, f".globl {label}", f".type {label}, {shape}"]
        lines += [f"{label}: .byte 0", f".size {label}, 1", f'.symver {label}, "{name}@@{version}", remove']
    assembly, script = path.with_suffix(".s"), path.with_suffix(".map")
    assembly.write_text("\n".join(lines) + "\n")
    versions = sorted({version for _, version in found.values()})
    script.write_text("".join(f"{version} {{}};\n" for version in versions))
    options = [
        "-shared",
        "-nostdlib",
        f"-Wl,-soname,{soname}",
        *([f"-Wl,--version-script={script}"] if versions else []),
    ]
    subprocess.run([compiler, *options, "-o", str(path), str(assembly)], check=True)
    assembly.unlink()
    script.unlink()


def library_of(compiler: str, name: str) -> Path:
    """Where the compiler finds a library."""
    found = subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        raise SystemExit(f"{compiler} has no {name}")
    return Path(found).resolve()


def loader_of(library: Path) -> str:
    """The name of the dynamic loader, which the C library needs."""
    listing = subprocess.run(["readelf", "-W", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\(NEEDED\).*\[(ld-.+?)\]", listing)
    if found is None:
        raise SystemExit(f"{library} needs no dynamic loader")
    return found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--glibc", default="2.28")
    parser.add_argument("--glibcxx", default="3.4.24")
    parser.add_argument("--cxxabi", default="1.3.11")
    parser.add_argument("--gcc", default="7.0.0", help="the version of libgcc_s.so.1's symbols")
    options = parser.parse_args()
    limits = {"GLIBC": options.glibc, "GLIBCXX": options.glibcxx, "CXXABI": options.cxxabi, "GCC": options.gcc}
    numbers = {prefix: tuple(map(int, text.split("."))) for prefix, text in limits.items()}
    folder, compiler = options.folder.resolve(), options.compiler
    folder.mkdir(parents=True, exist_ok=True)
    loader = loader_of(library_of(compiler, "libc.so.6"))  # has __tls_get_addr
    for name in ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", loader):
        write_stub(folder / f"stub-{name}", name, symbols(library_of(compiler, name), numbers), compiler)
    for name in SEPARATE:
        write_stub(folder / f"stub-{name}", name, {}, compiler)
    source = Path(__file__).with_name("glibc_compat.c")
    subprocess.run(
        [compiler, "-x", "c", "-O2", "-fPIC", "-fvisibility=hidden", "-c", str(source), "-o", str(folder / "compat.o")],
        check=True,
    )
    archive = folder / "libcucore_compat.a"
    archive.unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", str(archive), str(folder / "compat.o")], check=True)
    separate = " ".join(str(folder / f"stub-{name}") for name in SEPARATE)
    # The linker reads these texts where it looks for -lc, -lm, -lstdc++ and -lgcc_s.
    as_needed = f"AS_NEEDED({folder / f'stub-{loader}'})"
    inline = library_of(compiler, "libc_nonshared.a")  # atexit() and others that each library has for itself
    (folder / "libc.so").write_text(f"INPUT({folder / 'stub-libc.so.6'} {inline} {as_needed} {separate} {archive})\n")
    (folder / "libm.so").write_text(f"INPUT({folder / 'stub-libm.so.6'})\n")
    newer = library_of(compiler, "libstdc++.a")
    (folder / "libstdc++.so").write_text(f"INPUT({folder / 'stub-libstdc++.so.6'} {newer})\n")
    (folder / "libgcc_s.so").write_text(f"INPUT({folder / 'stub-libgcc_s.so.1'} -lgcc)\n")
    for name in SEPARATE:
        (folder / f"{name.partition('.')[0]}.so").write_text(f"INPUT({folder / f'stub-{name}'})\n")


if __name__ == "__main__":
    main()
