# SPDX-License-Identifier: Apache-2.0
"""Compiles CUDA C++ to PTX with NVRTC through ctypes; library and headers come from NVIDIA's wheels or a toolkit."""

from __future__ import annotations

import ctypes
import functools
import glob
import os
import sys
from pathlib import Path

import pytest


class CompileError(Exception):
    """A compilation error; the text is NVRTC's log."""


def _candidates() -> list[Path]:
    """Folders with include/ and lib/ or lib64/ of a toolkit; wheels first."""
    roots = [Path(entry) / "nvidia" / name for entry in sys.path for name in ("cu13", "cuda_nvrtc")]
    roots += [Path(p) for p in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda") if p]
    return [root for root in roots if root.is_dir()]


@functools.cache
def library() -> tuple[ctypes.CDLL, list[str]]:
    """NVRTC and its include options; raises OSError if it is not installed."""
    for root in _candidates():
        found = sorted(glob.glob(str(root / "lib*" / "libnvrtc.so.*")))
        headers = root / "include"
        if found and (headers / "cuda_fp16.h").exists():
            # CUB, libcu++ and the tensor-core headers may be in another toolkit than NVRTC.
            includes = [other / "include" for other in (root, *_candidates())]
            cccl = [folder / "cccl" for folder in includes if (folder / "cccl").is_dir()][:1]
            crt = [folder for folder in includes if (folder / "crt" / "mma.h").exists()][:1]
            return ctypes.CDLL(found[0]), [f"-I{folder}" for folder in dict.fromkeys([headers, *cccl, *crt])]
    raise OSError("no NVRTC with headers found")


def skip_module_without_nvrtc() -> None:
    """Skips the calling test module if NVRTC is not installed."""
    try:
        library()
    except OSError as error:
        pytest.skip(str(error), allow_module_level=True)


@functools.cache
def compile_ptx(source: str, *options: str, arch: str = "compute_90") -> bytes:
    """PTX text of a CUDA C++ program; cached, because several tests use the same program."""
    lib, includes = library()
    program = ctypes.c_void_p()
    if lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"program.cu", 0, None, None):
        raise CompileError("nvrtcCreateProgram failed")
    words = [f"-arch={arch}".encode(), b"-std=c++17", *(o.encode() for o in (*includes, *options))]
    code = lib.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    size = ctypes.c_size_t()
    if code:
        lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        lib.nvrtcGetProgramLog(program, log)
        raise CompileError(log.value.decode())
    lib.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetPTX(program, text)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return text.value
