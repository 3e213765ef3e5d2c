# SPDX-License-Identifier: Apache-2.0
"""Runs a few lines of PTX in every thread of a grid."""

from __future__ import annotations

import ctypes

import numpy as np

from .device import Device

N = 1024


def kernel(
    device: Device,
    lines: str,
    *arrays: np.ndarray,
    out: np.dtype,
    threads: int = N,
    target: str = "sm_100a",
    declarations: str = "",
    block: int = 128,
    version: str = "9.1",
) -> np.ndarray:
    """Runs one thread per element: %rd10, %rd11, ... point to this thread's elements of the arrays, %rd9 to its result."""
    out = np.dtype(out)
    sizes = [out.itemsize, *(array.dtype.itemsize for array in arrays)]
    params = ", ".join(f".param .u64 p{n}" for n in range(len(sizes)))
    loads = "".join(
        f"ld.param.u64 %rd1, [p{n}]; mad.wide.u32 %rd{9 + n}, %r0, {size}, %rd1;\n" for n, size in enumerate(sizes)
    )
    text = f""".version {version}
.target {target}
.address_size 64
{declarations}
.visible .entry k({params}) {{
  .reg .b8 %b<8>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .f32 %f<24>; .reg .b64 %rd<40>; .reg .pred %p<4>;
  .reg .b32 %t<4>;
  mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mov.u32 %t2, %ntid.x; mad.lo.u32 %r0, %t1, %t2, %t0;
  {loads}
  {lines}
  ret;
}}
"""
    module = device.load(text.encode())
    function = ctypes.c_void_p()
    device.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
    addresses = []
    result = np.zeros(threads, out)
    for array in (result, *arrays):
        pointer = ctypes.c_uint64()
        device.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        device.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        addresses.append(pointer)
    values = (ctypes.c_void_p * len(addresses))(*(ctypes.addressof(a) for a in addresses))
    block = min(threads, block)
    device.call("cuLaunchKernel", function, threads // block, 1, 1, block, 1, 1, 0, None, values, None)
    device.call("cuCtxSynchronize")
    device.call("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), addresses[0], ctypes.c_size_t(result.nbytes))
    for pointer in addresses:
        device.call("cuMemFree_v2", pointer)
    device.call("cuModuleUnload", module)
    return result
