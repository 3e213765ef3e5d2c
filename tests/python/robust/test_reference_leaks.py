# SPDX-License-Identifier: Apache-2.0
"""Repeating an operation, successful or failing, creates no additional Python objects."""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys
import sysconfig
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver, runtime
from cuda.core import (
    Buffer,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ObjectCode,
    Program,
    StreamOptions,
    launch,
)
from cuda.core.graph import GraphDefinition
from cuda.core.utils import InMemoryProgramCache, StridedMemoryView, args_viewable_as_strided_memory

pytestmark = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="counts of blocks are not exact without a GIL"
)

LEAVES_NOTHING = pytest.mark.promise("Repeating any operation, also a failing one, leaks no Python objects")
TURNS = 60
ONE = LaunchConfig(grid=1, block=1)
PTX = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"


class Things:
    def __init__(self, device: Device, kernel: Callable[[str], Any]) -> None:
        self.device = device
        self.stream = device.create_stream()
        self.add_one, self.scale, self.nothing = kernel("add_one"), kernel("scale"), kernel("nothing")
        self.pinned = LegacyPinnedMemoryResource().allocate(1024)
        self.buffer = device.allocate(1024, stream=self.stream)
        self.array = np.zeros(16, np.int32)
        self.code = ObjectCode.from_ptx(PTX)
        self.cache = InMemoryProgramCache()
        self.definition = GraphDefinition()
        self.node = self.definition.launch(ONE, self.add_one, self.buffer, 4)
        self.graph = self.definition.instantiate()
        self.stream.sync()


def time_between(t: Things) -> None:
    first, second = (t.stream.record(options=EventOptions(timing_enabled=True)) for _ in range(2))
    t.stream.sync()
    assert second - first >= 0


def capture(t: Things) -> None:
    builder = t.stream.create_graph_builder().begin_building()
    launch(builder, ONE, t.add_one, t.buffer, 4)
    first, second = builder.split(2)
    launch(second, ONE, t.nothing)
    first.callback(lambda: t)
    type(builder).join(first, second).end_building().complete().launch(t.stream)
    t.stream.sync()


def a_capture_that_fails(t: Things) -> None:
    builder = t.stream.create_graph_builder().begin_building()
    try:
        t.stream.sync()
    finally:
        builder.close()


def define(t: Things) -> None:
    definition = GraphDefinition()
    definition.launch(ONE, t.add_one, t.buffer, 4).callback(lambda: t).memset(t.buffer, 0, 16)
    definition.instantiate().launch(t.stream)
    t.stream.sync()


@args_viewable_as_strided_memory((0,))
def viewed(array: Any, stream: Any) -> Any:
    return array.view(stream.handle)


class Raises:
    """An argument whose special methods all raise."""

    def __index__(self) -> int:
        raise KeyError("index")

    def __len__(self) -> int:
        raise KeyError("len")

    def __iter__(self) -> Any:
        raise KeyError("iter")

    def __cuda_stream__(self) -> Any:
        raise KeyError("stream")

    def __dlpack__(self, **_: Any) -> Any:
        raise KeyError("dlpack")

    def __dlpack_device__(self) -> Any:
        raise KeyError("device")

    @property
    def __cuda_array_interface__(self) -> Any:
        raise KeyError("interface")


def node_parameters(t: Things) -> None:
    parameters = driver.CUDA_KERNEL_NODE_PARAMS()
    parameters.kern = driver.CUkernel(int(t.add_one.handle))
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1
    parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1
    parameters.kernelParams = ((int(t.buffer.handle), 4), (ctypes.c_void_p, ctypes.c_int))
    graph = driver.cuGraphCreate(0)[1]
    assert driver.cuGraphAddKernelNode(graph, None, 0, parameters)[0] == 0
    driver.cuGraphDestroy(graph)


OPERATIONS: dict[str, Callable[[Things], Any]] = {
    "device": lambda t: (Device(0), Device(0).properties.warp_size, Device(0).name, Device(0).arch, Device(0).uuid),
    "set_current": lambda t: Device(0).set_current(),
    "stream": lambda t: t.device.create_stream(options=StreamOptions(nonblocking=True)).close(),
    "stream left to the collector": lambda t: t.device.create_stream(),
    "event": lambda t: t.stream.record(options=EventOptions(timing_enabled=True)).sync(),
    "time between events": time_between,
    "wait": lambda t: t.stream.wait(t.device.create_stream()),
    "allocate": lambda t: t.device.allocate(256, stream=t.stream).close(),
    "pool": lambda t: (
        DeviceMemoryResource(t.device, options=DeviceMemoryResourceOptions(max_size=1 << 20))
        .allocate(64, stream=t.stream)
        .close()
    ),
    "pool attributes": lambda t: t.device.memory_resource.attributes.used_mem_current,
    "copies": lambda t: (
        t.buffer.copy_from(t.pinned, stream=t.stream),
        t.buffer.copy_to(t.pinned, stream=t.stream),
        t.stream.sync(),
    ),
    "copy to a new buffer": lambda t: t.buffer.copy_to(stream=t.stream).close(),
    "copy to bytes": lambda t: t.buffer.copy_to(bytearray(1024), stream=t.stream),
    "fill": lambda t: (t.buffer.fill(1, stream=t.stream), t.buffer.fill(b"ab", stream=t.stream)),
    "buffer of a handle": lambda t: Buffer.from_handle(int(t.pinned.handle), 64, owner=t.pinned).close(),
    "view of an array": lambda t: StridedMemoryView.from_any_interface(t.array, stream_ptr=-1).shape,
    "view of a buffer": lambda t: StridedMemoryView.from_buffer(t.pinned, shape=(4, 4), dtype=np.dtype("f4")).dtype,
    "a function of views": lambda t: viewed(t.array, t.stream),
    "dlpack": lambda t: np.from_dlpack(t.pinned),
    "memoryview": lambda t: memoryview(t.pinned),
    "launch": lambda t: launch(t.stream, ONE, t.add_one, t.buffer, 4),
    "launch with other arguments": lambda t: launch(
        t.stream, ONE, t.scale, int(t.buffer.handle), np.float32(2), np.uint64(4)
    ),
    "configuration": lambda t: (LaunchConfig(grid=(2, 3), block=(1, 2, 3), shmem_size=4), repr(ONE), hash(ONE)),
    "code": lambda t: ObjectCode.from_ptx(PTX).get_kernel("k").attributes.num_regs(),
    "kernel's arguments": lambda t: (t.add_one.num_arguments, t.add_one.arguments_info, t.add_one.occupancy),
    "program cache": lambda t: (t.cache.__setitem__(b"k", t.code), t.cache[b"k"], t.cache.get(b"other")),
    "pickles": lambda t: pickle.loads(pickle.dumps((ONE, t.code, t.device))),
    "capture": capture,
    "definition": define,
    "graph launched": lambda t: (t.graph.launch(t.stream), t.stream.sync()),
    "graph changed": lambda t: t.graph.update(t.definition),
    "node questions": lambda t: (t.node.pred, t.node.succ, repr(t.node), t.definition.nodes(), t.definition.edges()),
    "driver memory": lambda t: driver.cuMemFree(driver.cuMemAlloc(256)[1]),
    "driver answers": lambda t: (driver.cuDeviceGetAttribute(1, 0), driver.cuDeviceGetName(64, 0), driver.cuCtxGetCurrent()),
    "driver refuses": lambda t: (driver.cuMemAlloc(2**60), driver.cuDeviceGet(99)),
    "driver structures": node_parameters,
    "driver enumerations": lambda t: (driver.CUresult(1), driver.CUdevice_attribute(5).name),
    "runtime": lambda t: (runtime.cudaGetDeviceProperties(0), runtime.cudaFree(runtime.cudaMalloc(64)[1])),
    "runtime structures": lambda t: setattr(runtime.cudaMemcpy3DParms(), "extent", runtime.make_cudaExtent(1, 2, 3)),
}  # fmt: skip

FAILURES: dict[str, Callable[[Things], Any]] = {
    "device that is not there": lambda t: Device(99),
    "stream of a strange object": lambda t: t.device.create_stream(Raises()),
    "stream options that are none": lambda t: t.device.create_stream(options={"priority": 99}),
    "wait for what is no stream": lambda t: t.stream.wait("x"),
    "allocate too much": lambda t: t.device.allocate(2**60, stream=t.stream),
    "allocate nonsense": lambda t: t.device.allocate("many", stream=t.stream),
    "copy of a strange object": lambda t: t.buffer.copy_from(Raises(), stream=t.stream),
    "fill with nonsense": lambda t: t.buffer.fill("x", stream=t.stream),
    "fill with too much": lambda t: t.buffer.fill(b"12345", stream=t.stream),
    "view of a strange object": lambda t: StridedMemoryView.from_any_interface(Raises(), stream_ptr=-1),
    "launch with too few": lambda t: launch(t.stream, ONE, t.add_one, t.buffer),
    "launch with too many": lambda t: launch(t.stream, ONE, t.nothing, t.buffer, 1, 2, 3),
    "launch with a strange argument": lambda t: launch(t.stream, ONE, t.add_one, Raises(), 4),
    "launch on a strange stream": lambda t: launch(Raises(), ONE, t.nothing),
    "launch of no kernel": lambda t: launch(t.stream, ONE, "kernel"),
    "launch of a shape that is none": lambda t: launch(t.stream, LaunchConfig(grid=1, block=4096), t.nothing),
    "configuration of nonsense": lambda t: LaunchConfig(grid=(1, 2, 3, 4), block="x"),
    "configuration of a strange object": lambda t: LaunchConfig(grid=Raises(), block=1),
    "code that is none": lambda t: ObjectCode.from_ptx(b"nonsense").get_kernel("k"),
    "kernel that is not there": lambda t: t.code.get_kernel("other"),
    "program that does not compile": lambda t: Program("int x", "c++").compile("nonsense"),
    "capture that fails": a_capture_that_fails,
    "driver given nonsense": lambda t: driver.cuMemAlloc("x"),
    "driver given a strange object": lambda t: driver.cuMemAlloc(Raises()),
    "driver enumeration that is none": lambda t: driver.CUresult(123456),
}  # fmt: skip


@pytest.fixture
def things(device, kernel):
    if sys.getallocatedblocks() == 0:
        pytest.skip("Python's own allocator, which counts blocks, is not used")
    return Things(device, kernel)


def blocks() -> int:
    for _ in range(3):
        gc.collect()
    return sys.getallocatedblocks()


def grows(things: Things, operation: Callable[[], Any]) -> list[int]:
    """Blocks allocated by each round, up to the first round that allocates none: earlier rounds fill caches."""
    growths: list[int] = []
    for _ in range(16):
        before = blocks()
        for _ in range(TURNS):
            operation()
        things.stream.sync()
        growths.append(blocks() - before)
        if growths[-1] < TURNS // 2:
            return []
    return growths


@LEAVES_NOTHING
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_leaks_no_references(things, name):
    assert not grows(things, lambda: OPERATIONS[name](things))


@LEAVES_NOTHING
@pytest.mark.parametrize("name", FAILURES)
def test_failing_operation_leaks_no_references(things, name):
    def attempt() -> None:
        with pytest.raises(Exception):  # noqa: B017 - which one is the business of other tests
            FAILURES[name](things)

    assert not grows(things, attempt)


@LEAVES_NOTHING
def test_local_classes_are_freed_after_use(things):
    """The type cache must not keep types alive."""

    def use() -> list[weakref.ref[type]]:
        class Foreign:
            def __cuda_stream__(self):
                return 0, int(things.stream.handle)

        class Number(int):
            pass

        class Array(np.ndarray):
            pass

        launch(Foreign(), ONE, things.add_one, things.buffer, Number(4))
        StridedMemoryView.from_any_interface(np.zeros(4).view(Array), stream_ptr=-1)
        return [weakref.ref(made) for made in (Foreign, Number, Array)]

    made = use()
    gc.collect()
    assert [reference() for reference in made] == [None, None, None]


def test_leaked_reference_is_detected(things):
    kept: list[object] = []
    assert grows(things, lambda: kept.append(object()))
