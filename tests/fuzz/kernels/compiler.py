# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ to PTX, with NVRTC."""

from __future__ import annotations

from cuda.bindings import nvrtc

# No fused multiply-add, so that results do not depend on the compiler; no warnings.
COMMON = ("-arch=compute_90", "-std=c++17", "-fmad=false", "-w")


class CompileError(Exception):
    """NVRTC's log."""


def compile_ptx(source: str, *options: str) -> bytes:
    code, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], [])
    if int(code):
        raise CompileError(f"nvrtcCreateProgram: {code}")
    words = [o.encode() for o in (*COMMON, *options)]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(words), words)
    if int(code):
        log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, log)
        nvrtc.nvrtcDestroyProgram(program)
        raise CompileError(log.split(b"\0")[0].decode())
    text = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(program)
    return bytes(text).rstrip(b"\0")
