"""Kernels reach memory of another device only where they were given access; copies between devices always work. The programs ask for four devices
of the CPU device, each in a process of its own: a kernel that goes where it may not ends its context."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cpu_only

SETUP = r"""
import ctypes
from cuda.bindings import driver

def check(result):
    code, *values = result
    assert code == 0, (code, driver.cuGetErrorName(code))
    return values[0] if len(values) == 1 else values

PTX = b'''
.version 8.0
.target sm_90
.address_size 64
.visible .entry put(.param .u64 to, .param .u32 value) {
  .reg .b64 %p; .reg .b32 %v, %t;
  ld.param.u64 %p, [to]; ld.param.u32 %v, [value];
  mov.u32 %t, %tid.x; add.u32 %v, %v, %t; mul.wide.u32 %q, %t, 4; add.u64 %p, %p, %q;
  st.global.u32 [%p], %v; ret; }
.visible .entry get(.param .u64 from, .param .u64 to) {
  .reg .b64 %p, %q; .reg .b32 %v;
  ld.param.u64 %p, [from]; ld.param.u64 %q, [to];
  ld.global.u32 %v, [%p]; st.global.u32 [%q], %v; ret; }
.visible .entry follow(.param .u64 list) {
  .reg .b64 %p; .reg .b32 %v;
  ld.param.u64 %p, [list]; ld.global.u64 %p, [%p];
  mov.u32 %v, 9; st.global.u32 [%p], %v; ret; }
.visible .entry add(.param .u64 to) {
  .reg .b64 %p; .reg .b32 %v;
  ld.param.u64 %p, [to]; atom.global.add.u32 %v, [%p], 1; ret; }
.visible .entry ignore(.param .u64 to) { ret; }
'''.replace(b".reg .b64 %p; .reg .b32 %v, %t;", b".reg .b64 %p, %q; .reg .b32 %v, %t;")
check(driver.cuInit(0))
assert check(driver.cuDeviceGetCount()) == 4
contexts = [check(driver.cuDevicePrimaryCtxRetain(device)) for device in range(4)]

def use(device):
    check(driver.cuCtxSetCurrent(contexts[device]))

use(0)
module = check(driver.cuModuleLoadData(PTX))
kernels = {name: check(driver.cuModuleGetFunction(module, name)) for name in (b"put", b"get", b"follow", b"add", b"ignore")}

def run(name, *arguments, threads=1):
    '''The code of a launch on device 0, waited for.'''
    use(0)
    types = tuple(ctypes.c_uint32 if isinstance(a, bool) or a < 1000 else ctypes.c_uint64 for a in map(int, arguments))
    check(driver.cuLaunchKernel(kernels[name], 1, 1, 1, threads, 1, 1, 0, 0, (tuple(map(int, arguments)), types), 0))
    return int(driver.cuCtxSynchronize()[0])

def allocate(device, bytes=4096):
    use(device)
    return check(driver.cuMemAlloc(bytes))

def read(address):
    word = ctypes.c_uint32()
    check(driver.cuMemcpyDtoH(ctypes.addressof(word), address, 4))
    return word.value

def location(device):
    place = driver.CUmemLocation()
    place.type, place.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, device
    return place

def access(device, flags):
    desc = driver.CUmemAccessDesc()
    desc.location, desc.flags = location(device), flags
    return desc

READ, WRITE = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READ, driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
mine, theirs = allocate(0), allocate(1)
"""


def run(program: str) -> None:
    environment = dict(os.environ, CUCORE_DEVICE="cpu", CUCORE_CPU_DEVICES="4")
    done = subprocess.run(
        [sys.executable, "-c", SETUP + program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", [1, 64])
def test_memory_of_another_device_needs_peer_access(threads: int) -> None:
    run(f"""
assert run(b"put", mine, 5, threads={threads}) == 0 and read(mine) == 5
use(0)
check(driver.cuCtxEnablePeerAccess(contexts[1], 0))
assert run(b"put", theirs, 6, threads={threads}) == 0 and read(theirs) == 6
assert run(b"get", theirs, mine) == 0 and read(mine) == 6
assert run(b"add", theirs) == 0 and read(theirs) == 7
check(driver.cuCtxDisablePeerAccess(contexts[1]))
assert run(b"ignore", theirs) == 0
assert run(b"put", theirs, 8, threads={threads}) == 700
use(1)
assert read(theirs) == 7  # nothing was written, and the other device's context is well
""")


@pytest.mark.parametrize("kernel", ["get", "add", "follow"])
def test_reads_atomics_and_addresses_from_memory_are_checked(kernel: str) -> None:
    arguments = {"get": "theirs, mine", "add": "theirs", "follow": "mine"}[kernel]
    run(f"""
address = ctypes.c_uint64(int(theirs))
use(0)
check(driver.cuMemcpyHtoD(mine, ctypes.addressof(address), 8))
assert run(b"{kernel}", {arguments}) == 700
""")


def test_access_is_one_way_and_to_one_device() -> None:
    run("""
use(1)
check(driver.cuCtxEnablePeerAccess(contexts[0], 0))
use(0)
check(driver.cuCtxEnablePeerAccess(contexts[2], 0))
third = allocate(2)
assert run(b"put", third, 3) == 0
assert run(b"put", theirs, 3) == 700
""")


def test_a_fault_names_the_device() -> None:
    run("""
import cuda.core
kernel = None
assert run(b"put", theirs, 3) == 700
from cuda.core import Device
try:
    Device(0).sync()
except cuda.core.CUDAError as error:
    assert "device 1" in str(error), str(error)
else:
    raise AssertionError("no error")
""")


def test_pools_say_who_may_read_and_write() -> None:
    run("""
use(1)
pool = check(driver.cuDeviceGetDefaultMemPool(1))
block = check(driver.cuMemAllocAsync(4096, 0))
check(driver.cuCtxSynchronize())
check(driver.cuMemPoolSetAccess(pool, [access(0, WRITE)], 1))
assert run(b"put", block, 4) == 0
check(driver.cuMemPoolSetAccess(pool, [access(0, READ)], 1))
assert run(b"get", block, mine) == 0 and read(mine) == 4
assert run(b"put", block, 5) == 700
""")


def test_peer_access_does_not_open_pools() -> None:
    run("""
use(1)
block = check(driver.cuMemAllocAsync(4096, 0))
check(driver.cuCtxSynchronize())
use(0)
check(driver.cuCtxEnablePeerAccess(contexts[1], 0))
assert run(b"put", block, 4) == 700
""")


def test_mappings_say_who_may_read_and_write() -> None:
    run("""
prop = driver.CUmemAllocationProp()
prop.type, prop.location = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED, location(1)
size = 2 << 20
handle = check(driver.cuMemCreate(size, prop, 0))
address = check(driver.cuMemAddressReserve(size, 0, 0, 0))
check(driver.cuMemMap(address, size, 0, handle, 0))
check(driver.cuMemSetAccess(address, size, [access(1, WRITE), access(0, WRITE)], 2))
assert run(b"put", address, 4) == 0
check(driver.cuMemSetAccess(address, size, [access(0, READ)], 1))
assert run(b"get", address, mine) == 0 and read(mine) == 4
assert run(b"put", address, 5) == 700
""")


def test_copies_fills_and_shared_kinds_of_memory_need_no_access() -> None:
    run("""
use(0)
check(driver.cuMemsetD32(theirs, 77, 16))
check(driver.cuMemcpyPeer(mine, contexts[0], theirs, contexts[1], 64))
assert read(mine) == 77
check(driver.cuMemcpyDtoD(theirs, mine, 64))
managed = check(driver.cuMemAllocManaged(4096, 1))
pinned = check(driver.cuMemAllocHost(4096))
for address in (managed, pinned):
    assert run(b"put", address, 6) == 0
""")


def test_four_devices_pass_a_token_around() -> None:
    run("""
buffers = [allocate(device) for device in range(4)]
for device in range(4):
    use(device)
    check(driver.cuCtxEnablePeerAccess(contexts[(device + 1) % 4], 0))
for device in range(4):
    use(device)
    own = check(driver.cuModuleLoadData(PTX))
    get = check(driver.cuModuleGetFunction(own, b"get"))
    put = check(driver.cuModuleGetFunction(own, b"put"))
    neighbour = buffers[(device + 1) % 4]
    types = (ctypes.c_uint64, ctypes.c_uint32)
    check(driver.cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, 0, ((int(neighbour), 10 + device), types), 0))
    check(driver.cuLaunchKernel(get, 1, 1, 1, 1, 1, 1, 0, 0, ((int(neighbour), int(buffers[device]) + 4), (ctypes.c_uint64,) * 2), 0))
    check(driver.cuCtxSynchronize())
for device in range(4):
    use(device)
    assert read(buffers[device]) == 10 + (device - 1) % 4 and read(int(buffers[device]) + 4) == 10 + device
""")
