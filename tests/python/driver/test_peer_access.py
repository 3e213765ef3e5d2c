# SPDX-License-Identifier: Apache-2.0
"""Kernels can access memory of another device only with peer access; copies between devices always work. Each program uses four CPU devices
and runs in a separate process, because a kernel without access ends its context."""

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
def test_memory_of_another_device_requires_peer_access(threads: int) -> None:
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


def test_peer_access_is_directional() -> None:
    run("""
use(1)
check(driver.cuCtxEnablePeerAccess(contexts[0], 0))
use(0)
check(driver.cuCtxEnablePeerAccess(contexts[2], 0))
third = allocate(2)
assert run(b"put", third, 3) == 0
assert run(b"put", theirs, 3) == 700
""")


def test_peer_access_fault_names_the_device() -> None:
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


def test_pool_access_controls_reads_and_writes() -> None:
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


def test_peer_access_does_not_grant_pool_access() -> None:
    run("""
use(1)
block = check(driver.cuMemAllocAsync(4096, 0))
check(driver.cuCtxSynchronize())
use(0)
check(driver.cuCtxEnablePeerAccess(contexts[1], 0))
assert run(b"put", block, 4) == 700
""")


def test_mapping_access_controls_reads_and_writes() -> None:
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


def test_copies_memset_pinned_and_managed_memory_need_no_peer_access() -> None:
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


OBJECTS = r"""
TEXT = b'''
.version 8.3
.target sm_90
.address_size 64
.visible .entry fetch(.param .u64 texture, .param .u64 out) {
  .reg .b64 %t, %o; .reg .f32 %f<4>; .reg .b32 %i;
  ld.param.u64 %t, [texture]; ld.param.u64 %o, [out]; mov.u32 %i, 3;
  tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%t, {%i}];
  st.global.f32 [%o], %f0; ret; }
.visible .entry load(.param .u64 surface, .param .u64 out) {
  .reg .b64 %t, %o; .reg .b32 %v, %x;
  ld.param.u64 %t, [surface]; ld.param.u64 %o, [out]; mov.u32 %x, 8;
  suld.b.2d.b32.trap %v, [%t, {%x, %x}];
  st.global.b32 [%o], %v; ret; }
.visible .entry store(.param .u64 surface, .param .u64 out) {
  .reg .b64 %t; .reg .b32 %v, %x;
  ld.param.u64 %t, [surface]; mov.u32 %x, 8; mov.u32 %v, 77;
  sust.b.2d.b32.trap [%t, {%x, %x}], %v; ret; }
.visible .entry box(.param .align 64 .b8 map[128], .param .u64 out) {
  .reg .b64 %m, %o; .reg .b32 %t, %b, %x, %v; .reg .pred %p;
  .shared .align 128 .b8 tile[64]; .shared .align 8 .b8 bar[8];
  mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %o, [out];
  mov.u32 %t, tile; mov.u32 %b, bar; mov.u32 %x, 0;
  mbarrier.init.shared::cta.b64 [%b], 1;
  fence.mbarrier_init.release.cluster;
  cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%t], [%m, {%x}], [%b];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 64;
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0;
  @!%p bra wait;
  ld.shared.u32 %v, [%t+8]; st.global.u32 [%o], %v; ret; }
'''
use(0)
objects = check(driver.cuModuleLoadData(TEXT))

def start(name, first, out, type_=ctypes.c_uint64):
    use(0)
    kernel = check(driver.cuModuleGetFunction(objects, name))
    check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, ((first, int(out)), (type_, ctypes.c_uint64)), 0))
    return int(driver.cuCtxSynchronize()[0])

def resource(**fields):
    made = driver.CUDA_RESOURCE_DESC()
    if "array" in fields:
        made.resType, made.res.array.hArray = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY, fields["array"]
    else:
        made.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        made.res.linear.devPtr, made.res.linear.sizeInBytes, made.res.linear.numChannels = fields["linear"], 4096, 1
        made.res.linear.format = driver.CUarray_format.CU_AD_FORMAT_FLOAT
    return made

def surface_on(device):
    use(device)
    desc = driver.CUDA_ARRAY3D_DESCRIPTOR()
    desc.Width, desc.Height, desc.NumChannels, desc.Flags = 16, 16, 1, 2
    desc.Format = driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32
    return int(check(driver.cuSurfObjectCreate(resource(array=check(driver.cuArray3DCreate(desc))))))

def peers(on):
    use(0)
    check(driver.cuCtxEnablePeerAccess(contexts[1], 0) if on else driver.cuCtxDisablePeerAccess(contexts[1]))
"""


def test_texture_of_another_device_requires_peer_access() -> None:
    run(
        OBJECTS
        + """
use(1)
check(driver.cuMemsetD32(theirs, 0x40490fdb, 16))
use(0)
texture = int(check(driver.cuTexObjectCreate(resource(linear=theirs), driver.CUDA_TEXTURE_DESC(), None)))
peers(True)
assert start(b"fetch", texture, mine) == 0 and read(mine) == 0x40490fdb
peers(False)
assert start(b"fetch", texture, mine) == 700
"""
    )


@pytest.mark.parametrize("kernel", ["load", "store"])
def test_surface_of_another_device_requires_peer_access(kernel: str) -> None:
    run(
        OBJECTS
        + f"""
assert start(b"{kernel}", surface_on(0), mine) == 0
surface = surface_on(1)
peers(True)
assert start(b"store", surface, mine) == 0
assert start(b"load", surface, mine) == 0 and read(mine) == 77
peers(False)
assert start(b"{kernel}", surface, mine) == 700
"""
    )


def test_tensor_copy_from_another_device_requires_peer_access() -> None:
    run(
        OBJECTS
        + """
class Map(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint64 * 16)]
use(1)
check(driver.cuMemsetD32(theirs, 1234, 16))
use(0)
kinds = driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT32
encoded = check(driver.cuTensorMapEncodeTiled(kinds, 1, int(theirs), [64], [], [16], [1], driver.CUtensorMapInterleave(0),
                                              driver.CUtensorMapSwizzle(0), driver.CUtensorMapL2promotion(0), driver.CUtensorMapFloatOOBfill(0)))
words = Map((ctypes.c_uint64 * 16)(*[int(word) for word in encoded.opaque]))
peers(True)
assert start(b"box", words, mine, None) == 0 and read(mine) == 1234
peers(False)
assert start(b"box", words, mine, None) == 700
"""
    )


def test_streams_wait_for_events_of_other_devices() -> None:
    """Device 0 adds to a value that device 1 writes late: the stream of device 0 must wait for the event."""
    run("""
use(1)
there = check(driver.cuStreamCreate(1))
event = check(driver.cuEventCreate(2))
late = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(b'''
.version 8.0
.target sm_90
.address_size 64
.visible .entry late(.param .u64 to) {
  .reg .b64 %p, %t, %end; .reg .b32 %v; .reg .pred %more;
  ld.param.u64 %p, [to]; mov.u64 %t, %globaltimer; add.u64 %end, %t, 20000000;
again:
  mov.u64 %t, %globaltimer; setp.lt.u64 %more, %t, %end;
  @%more bra again;
  mov.u32 %v, 100; st.global.u32 [%p], %v; ret; }
''')), b"late"))
check(driver.cuMemsetD32(theirs, 0, 16))
check(driver.cuLaunchKernel(late, 1, 1, 1, 1, 1, 1, 0, there, ((int(theirs),), (ctypes.c_uint64,)), 0))
check(driver.cuEventRecord(event, there))
use(0)
check(driver.cuCtxEnablePeerAccess(contexts[1], 0))
here = check(driver.cuStreamCreate(1))
check(driver.cuStreamWaitEvent(here, event, 0))
check(driver.cuLaunchKernel(kernels[b"add"], 1, 1, 1, 1, 1, 1, 0, here, ((int(theirs),), (ctypes.c_uint64,)), 0))
check(driver.cuStreamSynchronize(here))
assert read(theirs) == 101
""")
