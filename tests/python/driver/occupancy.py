# SPDX-License-Identifier: Apache-2.0
"""Records the results of the driver's occupancy functions for kernels limited by shared memory and threads.

python occupancy.py LIBRARY OUTPUT [--clusters]
"""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from pathlib import Path

STATIC = (0, 1024, 5000, 16384, 48000)
BLOCKS = (1, 32, 33, 64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 992, 1024)
DYNAMIC = (0, 1, 1000, 1024, 8192, 20000, 32768, 48 << 10, 64 << 10, 100000, 227 << 10)


def ptx() -> bytes:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n"
    for bytes_ in STATIC:
        body = "mov.u32 %r, s; st.shared.u32 [%r], %r;" if bytes_ else ""
        shared = f".shared .align 4 .b8 s[{bytes_}];" if bytes_ else ""
        text += f".visible .entry k{bytes_}() {{ .reg .b32 %r; {shared} {body} ret; }}\n"
    text += ".visible .entry bounded() .maxntid 256, 1, 1 .minnctapersm 4 { ret; }\n"
    return text.encode() + b"\0"


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]  # fmt: skip


def start(library: str, text: bytes) -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """The driver and a module in its primary context."""
    cuda = ctypes.CDLL(library)
    context, module = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuModuleLoadData(ctypes.byref(module), text) == 0
    return cuda, module


def collect_clusters(library: str) -> dict[str, list[int]]:
    """Clusters of every size and several shapes, with and without non-portable sizes."""
    cuda, module = start(library, ptx())
    answers: dict[str, list[int]] = {}
    for name in ("k0", "bounded"):
        function = ctypes.c_void_p()
        assert cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()) == 0
        cuda.cuFuncSetAttribute(function, 8, 227 * 1024)
        for allowed, block, dynamic in itertools.product((0, 1), BLOCKS, (0, 8192, 32768, 48 << 10, 100000, 227 << 10)):
            assert cuda.cuFuncSetAttribute(function, 14, allowed) == 0
            case = f"{name} {'non-portable' if allowed else 'portable'} {block} {dynamic}"
            value = ctypes.c_int(-7)
            code = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                ctypes.byref(value), function, block, ctypes.c_size_t(dynamic)
            )
            answers[f"{case} blocks"] = [code, value.value]
            config = Config((1024, 1, 1), (block, 1, 1), dynamic)
            value = ctypes.c_int(-7)
            code = cuda.cuOccupancyMaxPotentialClusterSize(ctypes.byref(value), function, ctypes.byref(config))
            answers[f"{case} potential"] = [code, value.value]
            shapes = [(size, 1, 1) for size in range(1, 18)]
            for shape in [
                *shapes,
                (2, 2, 1),
                (1, 2, 2),
                (4, 4, 1),
                (2, 2, 2),
                (1, 1, 4),
                (3, 5, 1),
                (0, 1, 1),
                (5, 3, 2),
            ]:
                attribute = Attribute(4, b"", (ctypes.c_uint * 16)(*shape))
                grid = tuple(64 * max(side, 1) for side in shape)
                config = Config(grid, (block, 1, 1), dynamic, None, ctypes.pointer(attribute), 1)
                value = ctypes.c_int(-7)
                code = cuda.cuOccupancyMaxActiveClusters(ctypes.byref(value), function, ctypes.byref(config))
                answers[f"{case} clusters {' '.join(map(str, shape))}"] = [code, value.value]
            for grid in (
                (7, 1, 1),
                (8, 3, 1),
            ):  # a grid that is not a multiple of the cluster; a grid smaller than the cluster
                attribute = Attribute(4, b"", (ctypes.c_uint * 16)(4, 1, 1))
                config = Config(grid, (block, 1, 1), dynamic, None, ctypes.pointer(attribute), 1)
                value = ctypes.c_int(-7)
                code = cuda.cuOccupancyMaxActiveClusters(ctypes.byref(value), function, ctypes.byref(config))
                answers[f"{case} grid {' '.join(map(str, grid))}"] = [code, value.value]
            config = Config((64, 1, 1), (block, 1, 1), dynamic)  # no cluster
            value = ctypes.c_int(-7)
            code = cuda.cuOccupancyMaxActiveClusters(ctypes.byref(value), function, ctypes.byref(config))
            answers[f"{case} no cluster"] = [code, value.value]
    return answers


def collect(library: str) -> dict[str, list[int]]:
    """Error code and result of every query, by name."""
    cuda, module = start(library, ptx())
    answers: dict[str, list[int]] = {}
    for name in [f"k{bytes_}" for bytes_ in STATIC] + ["bounded"]:
        function = ctypes.c_void_p()
        assert cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()) == 0
        for attribute in range(17):  # CU_FUNC_ATTRIBUTE_*
            value = ctypes.c_int(-7)
            code = cuda.cuFuncGetAttribute(ctypes.byref(value), attribute, function)
            answers[f"{name} attribute {attribute}"] = [code, value.value]
        cuda.cuFuncSetAttribute(
            function, 8, 227 * 1024 - int(name[1:]) if name[1:].isdigit() else 227 * 1024
        )  # opt-in dynamic shared memory
        cuda.cuFuncSetAttribute(function, 14, 1)  # non-portable cluster sizes
        for block in BLOCKS:
            for dynamic in DYNAMIC:
                value = ctypes.c_int(-7)
                code = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    ctypes.byref(value), function, block, ctypes.c_size_t(dynamic)
                )
                answers[f"{name} blocks {block} {dynamic}"] = [code, value.value]
            for count in (1, 2, 4, 8, 16):
                size = ctypes.c_size_t(7)
                code = cuda.cuOccupancyAvailableDynamicSMemPerBlock(ctypes.byref(size), function, count, block)
                answers[f"{name} available {count} {block}"] = [code, size.value]
        for dynamic in DYNAMIC:
            for limit in (0, 100, 512):
                grid, size = ctypes.c_int(-7), ctypes.c_int(-7)
                code = cuda.cuOccupancyMaxPotentialBlockSize(
                    ctypes.byref(grid), ctypes.byref(size), function, None, ctypes.c_size_t(dynamic), limit
                )
                answers[f"{name} potential {dynamic} {limit}"] = [code, grid.value, size.value]
            for block in (64, 256, 1024):
                config = Config((1024, 1, 1), (block, 1, 1), dynamic)
                value = ctypes.c_int(-7)
                code = cuda.cuOccupancyMaxPotentialClusterSize(ctypes.byref(value), function, ctypes.byref(config))
                answers[f"{name} cluster size {block} {dynamic}"] = [code, value.value]
                for cluster in (1, 2, 8, 16, 3, 32):
                    attribute = Attribute(4, b"", (ctypes.c_uint * 16)(cluster, 1, 1))
                    config = Config((cluster * 64, 1, 1), (block, 1, 1), dynamic, None, ctypes.pointer(attribute), 1)
                    value = ctypes.c_int(-7)
                    code = cuda.cuOccupancyMaxActiveClusters(ctypes.byref(value), function, ctypes.byref(config))
                    answers[f"{name} clusters {cluster} {block} {dynamic}"] = [code, value.value]
    return answers


if __name__ == "__main__":
    found = collect_clusters(sys.argv[1]) if "--clusters" in sys.argv else collect(sys.argv[1])
    Path(sys.argv[2]).write_text(json.dumps(found, indent=0) + "\n")
