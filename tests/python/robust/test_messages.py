# SPDX-License-Identifier: Apache-2.0
"""Error messages name the error, the offending value and the remedy."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from cuda.bindings import driver
from cuda.core import (
    Buffer,
    DeviceMemoryResource,
    Kernel,
    LaunchConfig,
    Linker,
    ManagedMemoryResource,
    ObjectCode,
    Program,
    StreamOptions,
    launch,
)
from cuda.core import _ipc as ipc
from cuda.core.graph import GraphDefinition
from cuda.core.texture import ResourceDescriptor
from cuda.core.utils import InMemoryProgramCache, StridedMemoryView, copy_batch, prefetch_batch

pytestmark = pytest.mark.promise("An error says what was wrong, with which value, and what to do")
ONE = LaunchConfig(grid=1, block=1)
PTX = b".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }\n"

WRONG = {
    "device number": (lambda t: type(t.device)(9999), r"below \d+, the number of devices, not 9999"),
    "shape": (lambda t: LaunchConfig(grid=0, block=1), r"grid .* at least 1 .* not 0"),
    "dimensions": (lambda t: LaunchConfig(grid=(1, 2, 3, 4), block=1), r"one to three dimensions, not 4"),
    "shared memory": (lambda t: LaunchConfig(grid=1, block=1, shmem_size=2**40), rf"32 bits, not {2**40}"),
    "too few arguments": (lambda t: launch(t.stream, ONE, t.kernel("add_one"), t.buffer), r"add_one.* 2 .*1"),
    "no kernel": (lambda t: launch(t.stream, ONE, "k"), r"kernel must be a Kernel, not str"),
    "no stream": (lambda t: t.device.allocate(4, stream="s"), r"allocate\(\): stream must be .* not str"),
    "priority": (lambda t: t.device.create_stream(options=StreamOptions(priority=99)), r"priority 99 is out of range"),
    "pattern": (lambda t: t.buffer.fill(b"123", stream=t.stream), r"1, 2 or 4 bytes, not 3"),
    "byte": (lambda t: t.buffer.fill(256, stream=t.stream), r"0\.\.255, not 256; give bytes"),
    "sizes of a copy": (lambda t: t.buffer.copy_from(t.small, stream=t.stream), r"source has 16 bytes.* 64"),
    "memory resource": (lambda t: setattr(t.device, "memory_resource", 3), r"must be a MemoryResource, not int"),
    "pool attribute": (lambda t: setattr(t.pool.attributes, "used_mem_current", 1), r"cannot be set: used_mem_current"),
    "managed location": (
        lambda t: ManagedMemoryResource(options={"preferred_location": -5, "preferred_location_type": "device"}),
        r"at least 0, not -5",
    ),
    "batch of a closed buffer": (lambda t: copy_batch(t.stream, [t.buffer, t.closed], [t.buffer] * 2), r"srcs\[1\]"),
    "batch of two sizes": (lambda t: copy_batch(t.stream, [t.small], [t.buffer]), r"16 bytes, its destination 64.*srcs\[0\]"),
    "prefetch of plain memory": (
        lambda t: prefetch_batch(t.stream, [t.buffer], t.device),
        r"buffers\[0\] is not: allocate it from a ManagedMemoryResource",
    ),
    "event descriptor": (lambda t: ipc.IPCEventDescriptor._make(b"abc", False), r"64 bytes, not 3"),
    "buffer descriptor": (lambda t: ipc.IPCBufferDescriptor._make(b"abc", 4), r"64 bytes, not 3"),
    "file descriptor": (lambda t: ipc.IPCAllocationHandle._make(-7, None), r"negative: -7"),
    "code": (lambda t: ObjectCode.from_ptx(PTX, symbol_mapping=[1]), r"symbol_mapping must be a dict of names, not list"),
    "kernel's handle": (lambda t: Kernel.from_handle("x"), r"int or a cuda.bindings handle, not str"),
    "source": (lambda t: Program("x", "fortran"), r"'fortran': it must be 'c\+\+', 'ptx' or 'nvvm'"),
    "target": (lambda t: Program("x", "ptx").compile("exe"), r"exe"),
    "nothing to link": (lambda t: Linker(), r"[Aa]t least one ObjectCode"),
    "cache size": (lambda t: InMemoryProgramCache(max_size_bytes=-1), r"None or at least 1, not -1"),
    "view outside": (
        lambda t: StridedMemoryView.from_buffer(t.buffer, shape=(100,), itemsize=4),
        r"64 bytes: shape \(100,\), strides \(1,\), elements of 4 bytes",
    ),
    "view's shape": (lambda t: StridedMemoryView.from_buffer(t.buffer, shape=(-1,), itemsize=4), r"shape \(-1,\)"),
    "dlpack version": (lambda t: t.buffer.__dlpack__(max_version=3), r"tuple \(major, minor\), not int"),
    "dlpack device": (lambda t: t.buffer.__dlpack__(dl_device="cpu"), r"tuple of two ints \(device type, device id\), not 'cpu'"),
    "pitch": (
        lambda t: ResourceDescriptor.from_pitch2d(t.buffer, format="uint8", num_channels=1, width=64, height=1, pitch_bytes=32),
        r"smaller than a row: 32, but a row has 64 bytes",
    ),
    "rows": (
        lambda t: ResourceDescriptor.from_pitch2d(t.buffer, format="uint8", num_channels=1, width=8, height=9, pitch_bytes=32),
        r"64 bytes, but 9 rows of 32",
    ),
    "graph's pattern": (lambda t: GraphDefinition().memset(t.buffer, 300, 4), r"0\.\.255, not 300"),
    "graph's function": (lambda t: GraphDefinition().callback(3), r"callable, not int"),
    "no code": (lambda t: ObjectCode.from_ptx(b"nonsense").get_kernel("k"), r"nonsense|version|not recognized"),
    "no such kernel": (lambda t: ObjectCode.from_ptx(PTX).get_kernel("other"), r"other"),
    "handle and owner": (lambda t: Buffer.from_handle(4, 4, mr=t.pool, owner=t), r"a memory resource or an owner, not both"),
    "driver's argument": (lambda t: driver.cuMemAlloc("x"), r"cuMemAlloc\(\): bytesize must be .* not str"),
    "driver's number": (lambda t: driver.cuMemAlloc(-1), r"bytesize must be between 0 and \d+, got -1"),
    "kernel parameters": (
        lambda t: driver.cuLaunchKernel(int(t.kernel("nothing").handle), 1, 1, 1, 1, 1, 1, 0, 0, (5, ()), 0),
        r"the values must be a sequence, not int",
    ),
}  # fmt: skip


@pytest.fixture
def things(device, stream, kernel):
    pool = DeviceMemoryResource(device)
    closed = device.allocate(64, stream=stream)
    closed.close()
    return SimpleNamespace(
        device=device, stream=stream, kernel=kernel, pool=pool, closed=closed,
        buffer=device.allocate(64, stream=stream), small=device.allocate(16, stream=stream),
    )  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_error_message_names_the_value(things, name):
    call, expected = WRONG[name]
    with pytest.raises(Exception, match=expected):
        call(things)


def test_pickled_error_keeps_type_message_code_and_name(things):
    with pytest.raises(Exception) as caught:
        ObjectCode.from_ptx(b"nonsense").get_kernel("k")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy), copy.code, copy.name) == (
        type(caught.value),
        str(caught.value),
        caught.value.code,
        caught.value.name,
    )
