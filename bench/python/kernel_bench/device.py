# SPDX-License-Identifier: Apache-2.0
"""The CPU device through the C driver API, and NVRTC; both loaded by path, without Python packages."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

Dim = tuple[int, int, int]


def find_nvrtc() -> str:
    places = [
        *(Path(p) for p in os.environ.get("KERNELS_NVRTC", "").split(":") if p),
        *(Path(p) for p in sys.path if p),
    ]
    for place in places:
        if place.is_file():
            return str(place)
        for pattern in ("nvidia/cu*/lib/libnvrtc.so.*", "nvidia/cuda_nvrtc/lib/libnvrtc.so.*"):
            found = sorted(
                path for path in place.glob(pattern) if "builtins" not in path.name and "alt" not in path.name
            )
            if found:
                return str(found[-1])
    return "libnvrtc.so.13"


def pointers_to(arguments: list[Any]) -> Any:
    """Kernel parameters of a launch. The arguments must outlive it."""
    return (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])


class Device:
    """One context, one module, and memory that is kept until the program ends."""

    def __init__(self, driver: Path, source: str, include: Path | None = None) -> None:
        self._driver = ctypes.CDLL(str(driver))
        self._call("cuInit", 0)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)
        self._module = ctypes.c_void_p()
        self.ptx = self._compile(source, include)
        self._call("cuModuleLoadData", ctypes.byref(self._module), self.ptx)
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._launch = self._driver.cuLaunchKernel
        self._launch.argtypes = [
            ctypes.c_void_p,
            *[ctypes.c_uint] * 7,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} answers {code}")

    def _compile(self, source: str, include: Path | None) -> bytes:
        path = find_nvrtc()
        nvrtc = ctypes.CDLL(path)
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
        options = [b"--gpu-architecture=compute_90", b"-std=c++17"]
        # The wheel of NVRTC may lack headers (crt/mma.h) that a toolkit beside it has.
        toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
        folders = [include or Path(path).parent.parent / "include", *(Path(t) / "include" for t in toolkits if t)]
        options += [b"-I" + str(folder).encode() for folder in folders if folder.is_dir()]
        code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if code != 0:
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(log.value.decode())
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        ptx = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetPTX(program, ptx)
        return ptx.raw

    def array(self, like: np.ndarray) -> np.ndarray:
        """Device memory, which is memory of this process. Must be freed with free()."""
        memory = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(like.nbytes))
        place = (ctypes.c_ubyte * like.nbytes).from_address(memory.value)
        return np.frombuffer(place, like.dtype).reshape(like.shape)

    def free(self, array: np.ndarray) -> None:
        self._call("cuMemFree_v2", ctypes.c_uint64(array.ctypes.data))

    def clear(self, memory: ctypes.c_uint64, nbytes: int) -> None:
        self._call("cuMemsetD8Async", memory, ctypes.c_ubyte(0), ctypes.c_size_t(nbytes), None)

    def address(self, name: str) -> ctypes.c_void_p:
        return ctypes.cast(getattr(self._driver, name), ctypes.c_void_p)

    def function(self, name: str) -> ctypes.c_void_p:
        if name not in self._functions:
            function = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
            self._functions[name] = function
        return self._functions[name]

    def prepare(self, name: str, grid: Dim, block: Dim, arguments: list[Any]) -> Any:
        """A prepared launch: a function without arguments."""
        function = self.function(name)
        pointers = pointers_to(arguments)
        launch = self._launch

        def go(kept: Any = arguments) -> None:
            code = launch(function, *grid, *block, 0, None, pointers, None)
            if code != 0:
                raise RuntimeError(f"cuLaunchKernel({name}) answers {code}")

        return go

    def wait(self) -> None:
        code = self._driver.cuCtxSynchronize()
        if code != 0:
            raise RuntimeError(f"cuCtxSynchronize answers {code}")
