# SPDX-License-Identifier: Apache-2.0
"""`nvcc --cubin` for the CPU device: compiles to PTX, with the real nvcc or with NVRTC, and writes a container.

All other command lines are passed to the real nvcc. Its programs run on the CPU device if they contain PTX.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

CUBIN = {"--cubin", "-cubin"}
OUTPUT = {"-o", "--output-file"}
FOLDER = {"-odir", "--output-directory"}
SOURCES = {".cu", ".c", ".cc", ".cpp", ".cxx"}
# Options of nvcc whose value is the next argument (not a source file), unless it follows an equals sign.
WITH_VALUE = {
    *("-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code", "-std", "--std", "-x"),
    *("-I", "--include-path", "-isystem", "--system-include", "-D", "--define-macro", "-U", "--undefine-macro"),
    *("-include", "--pre-include", "-L", "--library-path", "-l", "--library", "-ccbin", "--compiler-bindir"),
    *("-Xcompiler", "--compiler-options", "-Xptxas", "--ptxas-options", "-Xcudafe", "-Xlinker", "--linker-options"),
    *("-maxrregcount", "--maxrregcount", "-ftz", "--ftz", "-prec-div", "--prec-div", "-prec-sqrt", "--prec-sqrt"),
    *("-fmad", "--fmad", "-O", "--optimize", "-diag-suppress", "--diag-suppress", "-t", "--threads", "-m"),
}
# Options that NVRTC supports under the same name. Other options concern host code or machine code.
NVRTC = re.compile(
    r"-(I|D|U|isystem|include)|--(include-path|define-macro|undefine-macro|pre-include|system-include)"
    r"|--?(std|ftz|prec-div|prec-sqrt|fmad|maxrregcount|use_fast_math|G|device-debug|lineinfo|generate-line-info"
    r"|extra-device-vectorization|restrict|expt-relaxed-constexpr|extended-lambda|diag-suppress)"
)


class Command(NamedTuple):
    is_cubin: bool
    sources: list[Path]
    output: Path | None
    folder: Path | None
    rest: list[tuple[str, str | None]]  # all other options with their values


def parse(arguments: Sequence[str]) -> Command:
    is_cubin, sources, output, folder = False, [], None, None
    rest: list[tuple[str, str | None]] = []
    left = iter(arguments)
    for argument in left:
        name, equals, value = argument.partition("=")
        if argument in CUBIN:
            is_cubin = True
        elif name in OUTPUT:
            output = Path(value if equals else next(left, ""))
        elif name in FOLDER:
            folder = Path(value if equals else next(left, ""))
        elif not argument.startswith("-"):
            sources.append(Path(argument))
        elif argument in WITH_VALUE:
            rest.append((argument, next(left, "")))
        else:
            rest.append((argument, None))
    return Command(is_cubin, sources, output, folder, rest)


def real_nvcc() -> str | None:
    """Returns the path of the nvcc that would run without this one, or of the one in the NVIDIA wheels."""
    own = Path(__file__).resolve().parent
    folders = [f for f in os.environ.get("PATH", os.defpath).split(os.pathsep) if f and Path(f).resolve() != own]
    if found := shutil.which("nvcc", path=os.pathsep.join(folders)):
        return found
    from cuda.pathfinder import find_nvidia_binary_utility

    return find_nvidia_binary_utility("nvcc")


def has_host_compiler(command: Command) -> bool:
    given = [
        name.partition("=")[2] or value for name, value in command.rest if name.startswith(("-ccbin", "--compiler-b"))
    ]
    return bool(given) or shutil.which("gcc") is not None


def ptx_of_nvcc(nvcc: str, command: Command, source: Path) -> bytes | int:
    """Returns the PTX, or the exit status of nvcc, which has printed the error."""
    options = [part for option in command.rest for part in option if part is not None]
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "code.ptx"
        done = subprocess.run([nvcc, "--ptx", *options, str(source), "-o", str(ptx)])
        return done.returncode if done.returncode != 0 else ptx.read_bytes()


def nvrtc_options(command: Command, source: Path) -> Iterator[str]:
    arch = "compute_90"
    for name, value in command.rest:
        text = name if value is None else f"{name}{value}" if len(name) == 2 else f"{name}={value}"
        if found := re.fullmatch(
            r"--?(?:arch|gpu-architecture|gencode|generate-code)=(?:arch=)?(?:sm|compute)_(\w+).*", text
        ):
            arch = f"compute_{found[1]}"
        elif NVRTC.match(text):
            yield text
    yield f"--gpu-architecture={arch}"
    yield f"--include-path={source.resolve().parent}"


def ptx_of_nvrtc(command: Command, source: Path) -> bytes | int:
    from cuda.bindings import nvrtc
    from cuda.pathfinder import find_nvidia_header_directory

    options = [option.encode() for option in nvrtc_options(command, source)]
    if headers := find_nvidia_header_directory("cudart"):
        options.append(f"--include-path={headers}".encode())
    done, program = nvrtc.nvrtcCreateProgram(source.read_bytes(), str(source).encode(), 0, [], [])
    if done == nvrtc.nvrtcResult.NVRTC_SUCCESS:
        (done,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.stderr.write(bytes(log).rstrip(b"\0").decode(errors="replace"))
    if done != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return 1
    ptx = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, ptx)
    return bytes(ptx)


def container(ptx: bytes) -> bytes:
    """Returns the container that the CPU device loads as a cubin: an ELF file with the PTX."""
    os.environ["CUCORE_DEVICE"] = "cpu"
    from cuda.core import Linker, LinkerOptions, ObjectCode

    target = re.search(rb"^\s*\.target\s+(sm_\w+)", ptx, re.MULTILINE)
    arch = target[1].decode() if target else "sm_90"
    code = Linker(ObjectCode.from_ptx(ptx), options=LinkerOptions(arch=arch)).link("cubin").code
    assert isinstance(code, bytes)  # a str would be the name of a file
    return code


def complain(text: str) -> int:
    print(f"cucore's stand-in for nvcc: {text}", file=sys.stderr)
    return 1


def print_version() -> int:
    """Prints the text of `nvcc --version` if there is no nvcc, with the release of the compiler in use."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    print(f"cucore's stand-in for nvcc, which compiles with NVRTC\nrelease {major}.{minor}, V{major}.{minor}.0")
    return 0


def main(arguments: Sequence[str]) -> int:
    command = parse(arguments)
    nvcc = real_nvcc()
    if not command.is_cubin:
        if nvcc is not None:
            os.execv(nvcc, [nvcc, *arguments])
        if set(arguments) & {"--version", "-V"}:
            return print_version()
        return complain(
            "only `nvcc --cubin` works without nvcc: pip install nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt"
        )
    if len(command.sources) != 1 or command.sources[0].suffix not in SOURCES:
        return complain(f"--cubin takes one source file, not {[str(s) for s in command.sources]}")
    source = command.sources[0]
    if not source.is_file():
        return complain(f"{source}: no such file")
    ptx = (
        ptx_of_nvcc(nvcc, command, source)
        if nvcc is not None and has_host_compiler(command)
        else ptx_of_nvrtc(command, source)
    )
    if isinstance(ptx, int):
        return ptx
    output = command.output or (command.folder or Path()) / f"{source.stem}.cubin"
    output.write_bytes(container(ptx))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
