# SPDX-License-Identifier: Apache-2.0
"""A queued copy or fill whose memory is unmapped before it runs raises an exception with a report; the process survives."""

from __future__ import annotations

import pytest

# A GPU's driver copies from host memory in the calling thread, and crashes if that memory is unmapped.
pytestmark = pytest.mark.cpu_only

COMMON = """
import ctypes, mmap, re
from cuda.bindings import driver
setup()

def gone(bytes=1 << 16):  # an address at which there was memory
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    return libc.mmap(None, bytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)

def fails(work, *sentences):
    for _ in range(2):  # it stays
        try:
            work()
        except CUDAError as e:
            assert e.code == 700, e
            for sentence in sentences:
                assert re.search(sentence, str(e)), (sentence, str(e))
        else:
            raise AssertionError("no error")
    driver.cuDevicePrimaryCtxReset(0)
    driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
"""

CASES = {
    "a copy from the host": (
        "driver.cuMemcpyHtoD(target.handle, at, 256) and device.sync()",
        "copy of 256 bytes from {at} to 0x[0-9a-f]+: illegal memory access at 0x[0-9a-f]+; unmapped or protected host memory",
    ),
    "a copy to the host": (
        "driver.cuMemcpyDtoH(at, target.handle, 256) and device.sync()",
        "copy of 256 bytes from 0x[0-9a-f]+ to {at}: illegal memory access",
    ),
    "a copy in a stream": (
        "driver.cuMemcpyHtoDAsync(target.handle, at, 256, stream.handle) and device.sync()",
        "copy of 256 bytes from {at}",
    ),
    "a copy of buffers": (
        "target.copy_from(Buffer.from_handle(at, 256), stream=stream) or stream.sync()",
        "copy of 256 bytes from {at}",
    ),
}


@pytest.mark.promise("A copy from or to unmapped host memory is a CUDA error")
@pytest.mark.parametrize("name", CASES)
def test_copy_of_unmapped_host_memory_is_a_cuda_error(child, name):
    work, sentence = CASES[name]
    child.ok(
        COMMON
        + f"""
at = gone()
target = device.allocate(256, stream=stream)
stream.sync()
fails(lambda: {work}, {sentence!r}.format(at=hex(at)))
device = Device(0)
device.set_current()
stream = device.create_stream()
buffer = device.allocate(64, stream=stream)
buffer.fill(7, stream=stream)
stream.sync()
"""
    )


@pytest.mark.promise("A copy or fill of freed memory is a CUDA error with a report")
@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        ("inner.fill(1, stream=stream)", "fill of 4096 bytes at 0x"),
        ("outer.copy_from(inner, stream=stream)", "copy of 4096 bytes from 0x"),
        ("outer.copy_to(inner, stream=stream)", "copy of 4096 bytes from 0x"),
    ],
    ids=["fill", "copy from", "copy to"],
)
def test_queued_copy_of_unmapped_device_memory_is_a_cuda_error_with_a_report(child, work, sentence):
    child.ok(
        COMMON
        + f"""
prop = driver.CUmemAllocationProp()
prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
unit = 2 << 20
memory = driver.cuMemCreate(unit, prop, 0)[1]
at = driver.cuMemAddressReserve(unit, 0, 0, 0)[1]
assert driver.cuMemMap(at, unit, 0, memory, 0)[0] == 0
access = driver.CUmemAccessDesc()
access.location = prop.location
access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
assert driver.cuMemSetAccess(at, unit, [access], 1)[0] == 0
flag = LegacyPinnedMemoryResource().allocate(4)
word = memoryview(flag).cast("B")
word[:] = bytes(4)
inner, outer = Buffer.from_handle(int(at), 4096), device.allocate(4096, stream=stream)
launch(stream, LaunchConfig(grid=1, block=1), code.get_kernel("wait_for"), flag)
{work}
driver.cuCtxPopCurrent()  # as a garbage collector does it: with no context current, so that nothing is waited for
assert driver.cuMemUnmap(at, unit)[0] == 0
device.set_current()
word[0] = 1
fails(stream.sync, {sentence!r}, "illegal memory access at 0x", "has been freed")
"""
    )


AFTER_A_RESET = """
import numpy as np
from cuda.bindings import driver, runtime
def works(kernel):
    device = Device()
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer, 1)
    back = np.zeros(1, np.int32)
    buffer.copy_to(back, stream=stream)
    stream.record().sync()
    device.sync()
    assert back[0] == 1
    LegacyPinnedMemoryResource().allocate(64).close()
    builder = device.create_graph_builder().begin_building()
    launch(builder, LaunchConfig(grid=1, block=1), kernel, buffer, 1)
    builder.end_building().complete().launch(stream)
    buffer.copy_to(back, stream=stream)
    assert back[0] == 2
setup()
kernel = code.get_kernel("add_one")
works(kernel)
unfinished = device.create_graph_builder().begin_building()
for round in range(3):
    stream = Device().create_stream()
    if {fault}:
        try:
            launch(stream, LaunchConfig(grid=1, block=1), kernel, 8, 1)
            stream.sync()
        except CUDAError as error:
            assert error.code == 700, error
        else:
            raise AssertionError("no fault")
    {reset}
    works(kernel)
    works(ObjectCode.from_cubin(open(os.environ["KERNELS"], "rb").read()).get_kernel("add_one"))
    thread = threading.Thread(target=works, args=(kernel,))
    thread.start()
    thread.join()
"""


@pytest.mark.cpu_only  # after a fault the process can no longer use an H200
@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize(
    "reset", ["assert driver.cuDevicePrimaryCtxReset(0)[0] == 0", "assert runtime.cudaDeviceReset()[0] == 0"]
)
def test_objects_created_after_a_primary_context_reset_work(child, fault, reset):
    child.ok(AFTER_A_RESET.format(fault=fault, reset=reset))


UNFINISHED = """
from cuda.bindings import driver
setup()
builders = [device.create_graph_builder().begin_building() for _ in range(2)]
builders += [stream.create_graph_builder().begin_building()]
builders += list(builders[0].split(2))
other = device.create_stream()
try:
    launch(other, LaunchConfig(grid=1, block=1), code.get_kernel("add_one"), 8, 1)
    other.sync()
except CUDAError:
    pass
{end}
"""


@pytest.mark.cpu_only  # after the fault the process can no longer use a GPU
@pytest.mark.parametrize(
    "end", ["pass", "builders.clear(); gc.collect()", "driver.cuDevicePrimaryCtxReset(0); del builders"]
)
def test_unfinished_graph_builder_is_destroyed_silently_after_a_fault(child, end):
    child.ok(UNFINISHED.format(end=end))
