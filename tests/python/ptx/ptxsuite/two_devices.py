# SPDX-License-Identifier: Apache-2.0
"""Python programs in a process with two devices that share a multicast object."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ON_GPU = os.environ.get("CUCORE_DEVICE") == "gpu"

HEAD = """
import ctypes, sys
import numpy as np
from cuda.bindings import driver

def ok(result):
    assert result[0] == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]

ok(driver.cuInit(0))
count = min(ok(driver.cuDeviceGetCount()), 2)
multicast_supported = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
if count < 2 or not all(ok(driver.cuDeviceGetAttribute(multicast_supported, ok(driver.cuDeviceGet(d)))) for d in range(count)):
    print("no multicast")
    sys.exit()
context = ok(driver.cuDevicePrimaryCtxRetain(ok(driver.cuDeviceGet(0))))
ok(driver.cuCtxSetCurrent(context))

prop = driver.CUmulticastObjectProp()
prop.numDevices = count
unit = prop.size = ok(driver.cuMulticastGetGranularity(prop, driver.CUmulticastGranularity_flags.CU_MULTICAST_GRANULARITY_RECOMMENDED))
multicast = ok(driver.cuMulticastCreate(prop))
for d in range(count):
    ok(driver.cuMulticastAddDevice(multicast, ok(driver.cuDeviceGet(d))))

def mapped(handle):
    where = ok(driver.cuMemAddressReserve(unit, 0, driver.CUdeviceptr(0), 0))
    ok(driver.cuMemMap(where, unit, 0, handle, 0))
    access = [driver.CUmemAccessDesc() for _ in range(count)]
    for d, a in enumerate(access):
        a.location.type, a.location.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, d
        a.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    ok(driver.cuMemSetAccess(where, unit, access, count))
    return where

copies = []
for d in range(count):
    memory = driver.CUmemAllocationProp()
    memory.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    memory.location.type, memory.location.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, d
    handle = ok(driver.cuMemCreate(unit, memory, 0))
    ok(driver.cuMulticastBindMem(multicast, 0, handle, 0, unit, 0))
    copies.append(mapped(handle))
everywhere = mapped(multicast)
out = ok(driver.cuMemAlloc(4096))

def fill(*arrays):
    for where, data in zip(copies, arrays, strict=True):
        ok(driver.cuMemcpyHtoD(where, data.ctypes.data, data.nbytes))

def read(where, dtype, n):
    data = np.zeros(n, dtype)
    ok(driver.cuMemcpyDtoH(data.ctypes.data, where, data.nbytes))
    return data

def run(body, address=None, version="8.1", target="sm_90"):
    text = f'''.version {version}
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 o) {{
  .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .f64 %d<3>; .reg .b64 %rd<9>; .reg .b16 %h<3>;
  ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [o];
  {body}
  ret;
}}'''
    module = ok(driver.cuModuleLoadData(text.encode() + b"\\0"))
    kernel = ok(driver.cuModuleGetFunction(module, b"k"))
    arguments = ((int(address or everywhere), int(out)), (ctypes.c_uint64, ctypes.c_uint64))
    ok(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))
    return driver.cuCtxSynchronize()[0]
"""


def program(body: str, **variables: str) -> None:
    """Runs the body after HEAD, with these environment variables on the CPU device."""
    environment = os.environ if ON_GPU else {**os.environ, "CUCORE_CPU_DEVICES": "2", **variables}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + body + "\nprint('done')"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.stdout.strip() == "no multicast":
        assert ON_GPU
        pytest.skip("no two devices that share a multicast object")
    assert done.stdout.strip().endswith("done"), done.stdout + done.stderr
