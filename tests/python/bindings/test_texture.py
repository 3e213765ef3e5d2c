# SPDX-License-Identifier: Apache-2.0
"""A texture object as a kernel argument, with NumPy and with ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver, runtime

SOURCE = """
extern "C" __global__ void look(float *out, int width, cudaTextureObject_t texture)
{ int i = threadIdx.x; if (i < width) out[i] = tex1Dfetch<float>(texture, i); }
"""


@pytest.mark.parametrize("form", ["numpy", "ctypes"])
def test_a_kernel_reads_through_a_texture(form: str, compile_kernel: Any, stream: Any, check: Any) -> None:
    width = 16
    data = (ctypes.c_float * width)(*range(width))
    source, target = check(runtime.cudaMalloc(4 * width)), check(runtime.cudaMalloc(4 * width))
    check(runtime.cudaMemcpy(source, data, 4 * width, runtime.cudaMemcpyKind.cudaMemcpyHostToDevice))
    resource = runtime.cudaResourceDesc()
    resource.resType = runtime.cudaResourceType.cudaResourceTypeLinear
    resource.res.linear.devPtr = source
    resource.res.linear.desc = check(
        runtime.cudaCreateChannelDesc(32, 0, 0, 0, runtime.cudaChannelFormatKind.cudaChannelFormatKindFloat)
    )
    resource.res.linear.sizeInBytes = 4 * width
    texture_desc = runtime.cudaTextureDesc()
    texture_desc.readMode = runtime.cudaTextureReadMode.cudaReadModeElementType
    code, texture = runtime.cudaCreateTextureObject(resource, texture_desc, None)
    assert code == 0
    assert isinstance(texture, runtime.cudaTextureObject_t)
    if form == "numpy":
        np = pytest.importorskip("numpy")
        values = (
            np.array([target], dtype=np.intp),
            np.array(width, dtype=np.uint32),
            np.array([int(texture)], dtype=np.intp),
        )
        arguments: Any = np.array([v.ctypes.data for v in values], dtype=np.intp)
    else:
        arguments = ((target, width, texture), (ctypes.c_void_p, ctypes.c_int, None))
    kernel = compile_kernel(SOURCE, "look")
    check(driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, 0))
    check(driver.cuStreamSynchronize(stream))
    back = (ctypes.c_float * width)()
    check(runtime.cudaMemcpy(back, target, 4 * width, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    assert list(back) == list(range(width))
    again = check(runtime.cudaGetTextureObjectResourceDesc(texture))
    assert again.res.linear.desc.x == 32
    assert check(runtime.cudaGetTextureObjectTextureDesc(texture)).readMode == texture_desc.readMode
    check(runtime.cudaDestroyTextureObject(texture))
    for pointer in (source, target):
        check(runtime.cudaFree(pointer))
