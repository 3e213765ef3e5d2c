# SPDX-License-Identifier: Apache-2.0
"""An object of every public class: repr, weak references, equality, hashing and pickling match the API facts."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuda.core
import numpy as np
import pytest
from cuda.core import (
    ContextOptions,
    CUDAError,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    GraphMemoryResource,
    Host,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Linker,
    LinkerOptions,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    NVRTCError,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
    Program,
    ProgramOptions,
    SMResourceOptions,
    StreamOptions,
    TensorMapDescriptorOptions,
    VirtualMemoryResource,
    VirtualMemoryResourceOptions,
    WorkqueueResourceOptions,
    graph,
    texture,
    utils,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "codegen"))
from factfile import read_facts

FACTS = Path(__file__).resolve().parents[2] / "compat" / "facts"
SOURCE = 'extern "C" __global__ void f(int* p) {}'


class World:
    """Objects that other objects are created from, each created on first use."""

    def __init__(self) -> None:
        self.device = Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.buffer = self.device.allocate(64 * 64 * 4, stream=self.stream)
        self.program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{self.device.arch}"))
        self.code = self.program.compile("cubin")
        self.kernel = self.code.get_kernel("f")
        self.config = LaunchConfig(grid=1, block=1)
        self.definition = graph.GraphDefinition()
        self.event = self.device.create_event()
        self.condition = self.definition.create_condition(default_value=0)
        self.array = self.device.create_opaque_array(
            texture.OpaqueArrayOptions((8, 4), "float32", 1, is_surface_load_store=True)
        )
        self.resource = texture.ResourceDescriptor.from_opaque_array(self.array)
        self.view = utils.StridedMemoryView.from_buffer(self.buffer, (64, 64), dtype=np.dtype(np.float32))

    def child(self) -> Any:
        inner = graph.GraphDefinition()
        inner.empty()
        return self.definition.embed(inner)

    def ready(self, make: Callable[[Any], Any]) -> Any:
        """A node of an executable graph."""
        definition = graph.GraphDefinition()
        node = make(definition)
        executable = definition.instantiate()
        self.kept = definition, executable
        return executable[node]


MAKE: dict[str, Callable[[World], Any]] = {
    "Buffer": lambda w: w.buffer,
    "Context": lambda w: w.device.context,
    "ContextOptions": lambda w: ContextOptions(resources=w.device.resources.sm),
    "Device": lambda w: w.device,
    "DeviceMemoryResource": lambda w: DeviceMemoryResource(w.device),
    "DeviceMemoryResourceOptions": lambda w: DeviceMemoryResourceOptions(max_size=4096),
    "DeviceResources": lambda w: w.device.resources,
    "Event": lambda w: w.event,
    "EventOptions": lambda w: EventOptions(timing_enabled=True),
    "GraphMemoryResource": lambda w: GraphMemoryResource(w.device),
    "Host": lambda w: Host(),
    "Kernel": lambda w: w.kernel,
    "LaunchConfig": lambda w: w.config,
    "LegacyPinnedMemoryResource": lambda w: LegacyPinnedMemoryResource(),
    "Linker": lambda w: Linker(w.program.compile("ptx"), options=LinkerOptions(arch=f"sm_{w.device.arch}")),
    "LinkerOptions": lambda w: LinkerOptions(arch="sm_90"),
    "ManagedBuffer": lambda w: ManagedMemoryResource().allocate(64, stream=w.stream),
    "ManagedMemoryResource": lambda w: ManagedMemoryResource(),
    "ManagedMemoryResourceOptions": lambda w: ManagedMemoryResourceOptions(preferred_location=0),
    "ObjectCode": lambda w: w.code,
    "PinnedMemoryResource": lambda w: PinnedMemoryResource(),
    "PinnedMemoryResourceOptions": lambda w: PinnedMemoryResourceOptions(max_size=4096),
    "Program": lambda w: w.program,
    "ProgramOptions": lambda w: ProgramOptions(arch="sm_90"),
    "SMResource": lambda w: w.device.resources.sm,
    "SMResourceOptions": lambda w: SMResourceOptions(count=1),
    "Stream": lambda w: w.stream,
    "StreamOptions": lambda w: StreamOptions(priority=0),
    "TensorMapDescriptor": lambda w: w.view.as_tensor_map((8, 16)),
    "TensorMapDescriptorOptions": lambda w: TensorMapDescriptorOptions(box_dim=(8, 8)),
    "VirtualMemoryResource": lambda w: VirtualMemoryResource(w.device),
    "VirtualMemoryResourceOptions": lambda w: VirtualMemoryResourceOptions(),
    "WorkqueueResource": lambda w: w.device.resources.workqueue,
    "WorkqueueResourceOptions": lambda w: WorkqueueResourceOptions(concurrency_limit=1),
    "CUDAError": lambda w: CUDAError("text", 700, "CUDA_ERROR_X"),
    "NVRTCError": lambda w: NVRTCError("text", 6, "NVRTC_ERROR_X"),
    # graphs
    "AllocNode": lambda w: w.definition.allocate(64),
    "ChildGraphNode": lambda w: w.child(),
    "EmptyNode": lambda w: w.definition.empty(),
    "EventRecordNode": lambda w: w.definition.record(w.event),
    "EventWaitNode": lambda w: w.definition.wait(w.event),
    "ExecutableChildGraphNode": lambda w: w.ready(lambda d: d.embed(graph.GraphDefinition())),
    "ExecutableEventRecordNode": lambda w: w.ready(lambda d: d.record(w.event)),
    "ExecutableEventWaitNode": lambda w: w.ready(lambda d: d.wait(w.event)),
    "ExecutableHostCallbackNode": lambda w: w.ready(lambda d: d.callback(print)),
    "ExecutableKernelNode": lambda w: w.ready(lambda d: d.launch(w.config, w.kernel, w.buffer)),
    "ExecutableMemcpyNode": lambda w: w.ready(lambda d: d.memcpy(w.buffer.handle, w.buffer.handle + 64, 16)),
    "ExecutableMemsetNode": lambda w: w.ready(lambda d: d.memset(w.buffer, 0, 16)),
    "FreeNode": lambda w: (node := w.definition.allocate(64)).deallocate(node.dptr),
    "Graph": lambda w: graph.GraphDefinition().instantiate(),
    "GraphBuilder": lambda w: w.device.create_graph_builder(),
    "GraphCompleteOptions": lambda w: graph.GraphCompleteOptions(),
    "GraphCondition": lambda w: w.condition,
    "GraphDebugPrintOptions": lambda w: graph.GraphDebugPrintOptions(),
    "GraphDefinition": lambda w: w.definition,
    "HostCallbackNode": lambda w: w.definition.callback(print),
    "IfElseNode": lambda w: w.definition.if_else(w.definition.create_condition()),
    "IfNode": lambda w: w.definition.if_then(w.definition.create_condition()),
    "KernelNode": lambda w: w.definition.launch(w.config, w.kernel, w.buffer),
    "MemcpyNode": lambda w: w.definition.memcpy(w.buffer.handle, w.buffer.handle + 64, 16),
    "MemsetNode": lambda w: w.definition.memset(w.buffer, 0, 16),
    "SwitchNode": lambda w: w.definition.switch(w.definition.create_condition(), 2),
    "WhileNode": lambda w: w.definition.while_loop(w.definition.create_condition()),
    # textures
    "MipmappedArray": lambda w: w.device.create_mipmapped_array(texture.MipmappedArrayOptions((8, 8), "uint8", 4, 3)),
    "MipmappedArrayOptions": lambda w: texture.MipmappedArrayOptions((8, 8), "uint8", 4, 3),
    "OpaqueArray": lambda w: w.array,
    "OpaqueArrayOptions": lambda w: texture.OpaqueArrayOptions((8, 4), "float32", 1),
    "ResourceDescriptor": lambda w: w.resource,
    "SurfaceObject": lambda w: w.device.create_surface_object(resource=w.resource),
    "TextureObject": lambda w: w.device.create_texture_object(resource=w.resource),
    "TextureObjectOptions": lambda w: texture.TextureObjectOptions(),
    # utils
    "CopyOptions": lambda w: utils.CopyOptions(),
    "InMemoryProgramCache": lambda w: utils.InMemoryProgramCache(),
    "StridedMemoryView": lambda w: w.view,
}
# No object has exactly this class, or none on a test machine.
ABSTRACT = {
    "ConditionalNode", "ExecutableGraphNode", "GraphNode", "MemoryResource", "ProgramCacheResource", "GraphicsResource",
    "FileStreamProgramCache",
}  # fmt: skip
MODULES = {"cuda.core": cuda.core, "cuda.core.graph": graph, "cuda.core.texture": texture, "cuda.core.utils": utils}


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def made(world: World, name: str) -> Any:
    try:
        return MAKE[name](world)
    except CUDAError as error:
        if error.code not in (801, 914):  # not supported, invalid resource type
            raise
        pytest.skip(str(error))  # not supported by this device


def public() -> set[str]:
    names = {(module, name) for module in MODULES.values() for name in module.__all__}
    classes = {name for module, name in names if isinstance(getattr(module, name), type)}
    return {
        name for name in classes if not hasattr(getattr(next(m for m, n in names if n == name), name), "__members__")
    }


def test_every_public_class_is_tested() -> None:
    assert public() - ABSTRACT == set(MAKE)


@pytest.mark.parametrize("name", MAKE)
def test_repr_names_the_class(world: World, name: str) -> None:
    thing = made(world, name)
    assert type(thing).__name__ == name
    text = repr(thing)
    assert " object at 0x" not in text, text
    assert name in text and "\n" not in text, text


@pytest.mark.parametrize("name", MAKE)
def test_object_supports_weak_references(world: World, name: str) -> None:
    thing = made(world, name)
    if name.endswith("Options") or name == "GraphCondition":  # compared by value
        return
    assert weakref.ref(thing)() is thing


def facts() -> dict[str, dict[str, Any]]:
    found = {}
    for module in MODULES:
        found |= read_facts(FACTS / f"{module}.json")["classes"]
    return found


CLASSES = facts()


@pytest.mark.parametrize("name", [name for name in MAKE if name in CLASSES])
def test_equality_and_hash_match_the_facts(world: World, name: str) -> None:
    thing = made(world, name)
    assert thing == thing and thing != object()
    compared = any("__eq__" in row for row in CLASSES[name]["methods"])
    hashed = any("__hash__" in row for row in CLASSES[name]["methods"])
    if compared and not hashed and name != "Device" and name != "Host":
        with pytest.raises(TypeError):
            hash(thing)
    else:
        assert hash(thing) == hash(thing)


@pytest.mark.parametrize(
    "name", [n for n in MAKE if n in CLASSES and any("__reduce__" in r for r in CLASSES[n]["methods"])]
)
def test_pickling_matches_the_facts(world: World, name: str) -> None:
    if name in ("Buffer", "DeviceMemoryResource", "PinnedMemoryResource"):
        return  # pickled only between processes: test_memory_resources.py
    thing = made(world, name)
    again = pickle.loads(pickle.dumps(thing))
    assert type(again) is type(thing)
    with contextlib.suppress(AttributeError):
        assert again.name == thing.name


@pytest.mark.parametrize("name", ["Buffer", "DeviceProperties", "Event", "Kernel", "ObjectCode", "Stream"])
def test_internal_class_cannot_be_instantiated(name: str) -> None:
    """A call, __new__ and a derived class all raise. (Stream() creates a stream, for compatibility.)"""
    cls = getattr(cuda.core, name, None) or getattr(cuda.core._core, name)

    class Derived(cls):  # type: ignore[misc, valid-type]
        pass

    makers = [cls, Derived, lambda: cls.__new__(cls), lambda: Derived.__new__(Derived)]
    for make in makers[1:] if name == "Stream" else makers:
        with pytest.raises(RuntimeError, match=r"^(\w+) objects cannot be instantiated directly: use \w"):
            make()


@pytest.mark.parametrize(
    "name",
    [
        "GraphicsResource", "TensorMapDescriptor", "graph.GraphBuilder", "graph.GraphCondition", "graph.EmptyNode",
        "graph.KernelNode", "texture.OpaqueArray", "texture.MipmappedArray", "texture.ResourceDescriptor",
        "texture.SurfaceObject", "texture.TextureObject", "_resources.DeviceResources", "_resources.SMResource",
        "_ipc.IPCEventDescriptor", "_ipc.IPCBufferDescriptor", "_ipc.IPCAllocationHandle",
        "_memory.GraphMemoryResourceAttributes",
    ],
)  # fmt: skip
def test_class_that_is_not_called_says_what_to_use(name: str) -> None:
    module, _, label = f"cuda.core.{name}".rpartition(".")
    cls = getattr(importlib.import_module(module), label)
    with pytest.raises(RuntimeError, match=rf"^{label} objects cannot be instantiated directly: use \w"):
        cls()


def test_options_compare_and_pickle_by_value() -> None:
    for name, make in MAKE.items():
        if name.endswith("Options") and name != "ContextOptions":
            first, second = make(None), make(None)  # type: ignore[arg-type]
            assert first == second and first is not second, name
            assert pickle.loads(pickle.dumps(first)) == first, name


@pytest.mark.parametrize(
    "cls",
    [EventOptions, StreamOptions, DeviceMemoryResourceOptions, PinnedMemoryResourceOptions],
    ids=lambda c: c.__name__,
)
def test_fast_option_constructor_equals_init(cls: Any) -> None:
    """The constructor avoids the Python code of __init__ if possible."""
    names = cls.__init__.__code__.co_varnames[1 : cls.__init__.__code__.co_argcount]

    def made(*given: Any, **named: Any) -> Any:
        self = cls.__new__(cls)
        self.__init__(*given, **named)
        return self

    for given in ((), (True,), (True, None)):
        for named in ({}, {names[-1]: 7}, {"".join(list(names[-1])): 8}):  # the last name is not interned
            assert cls(*given[: len(names) - 1], **named) == made(*given[: len(names) - 1], **named)
    for wrong in (lambda: cls(*range(9)), lambda: cls(colour=1), lambda: cls(1, **{names[0]: 1})):
        with pytest.raises(TypeError):
            wrong()

    class Derived(cls):
        def __init__(self) -> None:
            super().__init__(**{names[0]: "mine"})

    assert getattr(Derived(), names[0]) == "mine"
