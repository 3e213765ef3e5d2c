# SPDX-License-Identifier: Apache-2.0
"""Textures, surfaces and arrays that are closed while queued work, a graph or another object uses them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from cuda.core.graph import GraphDefinition
from cuda.core.texture import (
    MipmappedArrayOptions,
    OpaqueArrayOptions,
    ResourceDescriptor,
    TextureObjectOptions,
)

ONE = LaunchConfig(grid=1, block=1)
SOURCE = r"""
extern "C" __global__ void fetch(cudaTextureObject_t from, float* out) { *out = tex2D<float>(from, 1, 1); }
extern "C" __global__ void fetch1(cudaTextureObject_t from, float* out) { *out = tex1Dfetch<float>(from, 1); }
extern "C" __global__ void fetch_level(cudaTextureObject_t from, float* out) {
  *out = tex2DLod<float>(from, 0.5f, 0.5f, 1);
}
extern "C" __global__ void store(cudaSurfaceObject_t to, float value) { surf2Dwrite(value, to, 4, 1); }
"""


@lru_cache(maxsize=1)
def compiled() -> Any:
    return Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{Device(0).arch}")).compile("cubin")


def floats(*values: float) -> bytes:
    import struct

    return struct.pack(f"{len(values)}f", *values)


@pytest.fixture
def out(device, stream):
    return device.allocate(4, stream=stream)


def read(buffer: Any, stream: Any) -> bytes:
    back = bytearray(buffer.size)
    buffer.copy_to(back, stream=stream)
    return bytes(back)


def blocked(stream: Any) -> Callable[[], None]:
    """Blocks the stream until the returned function is called."""
    gate = threading.Event()
    assert driver.cuLaunchHostFunc(stream.handle, lambda _: gate.wait(), None)[0] == 0
    return gate.set


def load(kernel: Any, stream: Any, *arguments: Any) -> None:
    """Launches once: a GPU's driver loads code with the first launch and waits for all streams."""
    launch(stream, ONE, kernel, *arguments)
    stream.sync()


def filled_array(device: Any, stream: Any, value: float, *, surface: bool = False) -> Any:
    array = device.create_opaque_array(OpaqueArrayOptions((4, 2), "float32", 1, is_surface_load_store=surface))
    array.copy_from(floats(*[value] * 8), stream=stream)
    stream.sync()
    return array


def new_textures(device: Any, array: Any) -> list[Any]:
    """New objects that may reuse the memory of a destroyed one."""
    resource = ResourceDescriptor.from_opaque_array(array)
    return [device.create_texture_object(resource=resource) for _ in range(16)]


def test_texture_closed_while_queued_work_uses_it_is_still_read(device, stream, out):
    kernel = compiled().get_kernel("fetch")
    array, other = filled_array(device, stream, 3), filled_array(device, stream, 4)
    load(kernel, stream, new_textures(device, other)[0], out)
    go_on = blocked(stream)
    with device.create_texture_object(resource=ResourceDescriptor.from_opaque_array(array)) as texture:
        launch(stream, ONE, kernel, texture, out)
    kept = new_textures(device, other)
    go_on()
    assert read(out, stream) == floats(3)
    del kept


def test_mipmap_texture_closed_while_queued_work_uses_it_is_still_read(device, stream, out):
    kernel = compiled().get_kernel("fetch_level")
    mipmaps = device.create_mipmapped_array(MipmappedArrayOptions((4, 4), "float32", 1, 2))
    mipmaps.get_level(1).copy_from(floats(5, 5, 5, 5), stream=stream)
    resource = ResourceDescriptor.from_mipmapped_array(mipmaps)
    options = TextureObjectOptions(normalized_coords=True, max_mipmap_level_clamp=1)
    load(kernel, stream, device.create_texture_object(resource=resource, options=options), out)
    go_on = blocked(stream)
    with device.create_texture_object(resource=resource, options=options) as texture:
        launch(stream, ONE, kernel, texture, out)
    go_on()
    assert read(out, stream) == floats(5)


def test_surface_closed_while_queued_work_uses_it_is_still_written(device, stream):
    kernel = compiled().get_kernel("store")
    array = filled_array(device, stream, 0, surface=True)
    import numpy as np

    load(
        kernel,
        stream,
        device.create_surface_object(resource=ResourceDescriptor.from_opaque_array(array)),
        np.float32(1),
    )
    go_on = blocked(stream)
    with device.create_surface_object(resource=ResourceDescriptor.from_opaque_array(array)) as surface:
        launch(stream, ONE, kernel, surface, np.float32(6))
    go_on()
    back = bytearray(32)
    array.copy_to(back, stream=stream)
    assert bytes(back) == floats(0, 0, 0, 0, 0, 6, 0, 0)


def test_closed_objects_are_destroyed_after_the_queued_work(device, stream, out):
    kernel = compiled().get_kernel("fetch")
    array = filled_array(device, stream, 3)
    for _ in range(100):
        with device.create_texture_object(resource=ResourceDescriptor.from_opaque_array(array)) as texture:
            launch(stream, ONE, kernel, texture, out)
    stream.sync()
    assert texture.handle == 0
    array.close()
    assert read(out, stream) == floats(3)


def test_destroyed_handle_returns_an_error_at_once(device, stream):
    array = filled_array(device, stream, 3)
    texture = device.create_texture_object(resource=ResourceDescriptor.from_opaque_array(array))
    handle = texture.handle
    go_on = blocked(stream)
    texture.close()
    try:
        answer = driver.cuTexObjectGetResourceDesc(handle)[0]
    finally:
        go_on()
    assert answer == driver.CUresult.CUDA_ERROR_INVALID_VALUE


# ---- objects that depend on each other


def test_texture_keeps_the_memory_of_a_closed_buffer(device, stream, out):
    buffer = device.allocate(256, stream=stream)
    buffer.copy_from(floats(1, 2, 3, 4), stream=stream)
    address = buffer.handle
    resource = ResourceDescriptor.from_linear(buffer, format="float32", num_channels=1)
    texture = device.create_texture_object(resource=resource)
    buffer.close(stream)
    others = [device.allocate(256, stream=stream) for _ in range(4)]
    for other in others:
        other.fill(0, stream=stream)
    assert address not in [other.handle for other in others]
    launch(stream, ONE, compiled().get_kernel("fetch1"), texture, out)
    assert read(out, stream) == floats(2)
    texture.close()
    with pytest.raises(RuntimeError, match="closed"):
        device.create_texture_object(resource=resource)


def test_texture_keeps_a_closed_array(device, stream, out):
    array = filled_array(device, stream, 3)
    texture = device.create_texture_object(resource=ResourceDescriptor.from_opaque_array(array))
    array.close()
    assert array.is_closed
    kept = [filled_array(device, stream, 9) for _ in range(4)]
    launch(stream, ONE, compiled().get_kernel("fetch"), texture, out)
    assert read(out, stream) == floats(3)
    texture.close()
    del kept


def test_level_keeps_a_closed_mipmapped_array(device, stream):
    mipmaps = device.create_mipmapped_array(MipmappedArrayOptions((4, 4), "float32", 1, 2))
    level = mipmaps.get_level(1)
    mipmaps.close()
    level.copy_from(floats(5, 6, 7, 8), stream=stream)
    back = bytearray(16)
    level.copy_to(back, stream=stream)
    assert bytes(back) == floats(5, 6, 7, 8)
    level.close()
    with pytest.raises(RuntimeError, match="closed"):
        level.copy_to(back, stream=stream)


# ---- graphs


@pytest.mark.parametrize("way", ["definition", "capture", "executable"])
def test_graph_keeps_a_closed_texture(device, stream, out, way):
    kernel = compiled().get_kernel("fetch")
    array, other = filled_array(device, stream, 3), filled_array(device, stream, 4)
    texture = device.create_texture_object(resource=ResourceDescriptor.from_opaque_array(array))
    definition = GraphDefinition()
    if way == "capture":
        builder = device.create_graph_builder().begin_building()
        launch(builder, ONE, kernel, texture, out)
        graph = builder.end_building().complete()
    elif way == "definition":
        definition.launch(ONE, kernel, texture, out)
        graph = definition.instantiate()
    else:
        node = definition.launch(ONE, kernel, new_textures(device, other)[0], out)
        graph = definition.instantiate()
        graph[node].update(config=ONE, kernel=kernel, args=(texture, out))
    texture.close()
    array.close()
    kept = new_textures(device, other)
    graph.launch(stream)
    assert read(out, stream) == floats(3)
    graph.close()
    gc.collect()
    del kept


def test_graph_keeps_a_closed_array(device, stream):
    array = filled_array(device, stream, 3)
    target = device.allocate(32, stream=stream)
    definition = GraphDefinition()
    definition.memcpy(target, array, 32)
    builder = device.create_graph_builder().begin_building()
    array.copy_to(target, stream=builder)
    captured = builder.end_building().complete()
    array.close()
    kept = [filled_array(device, stream, 9) for _ in range(4)]
    for graph in (definition.instantiate(), captured):
        target.fill(0, stream=stream)
        graph.launch(stream)
        assert read(target, stream) == floats(*[3] * 8)
    del kept


def test_graph_keeps_the_memory_of_a_tensor_map(device, stream):
    np = pytest.importorskip("numpy")
    from cuda.core.utils import StridedMemoryView

    source = r"""
    struct alignas(64) Map { unsigned long long words[16]; };  // what a CUtensorMap is to the host
    extern "C" __global__ void touch(const __grid_constant__ Map map, unsigned long long* out) { *out = map.words[0]; }
    """
    code = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    kernel = code.get_kernel("touch")
    first, second = (device.allocate(1024, stream=stream) for _ in range(2))
    views = [
        StridedMemoryView.from_buffer(buffer, shape=(16, 16), dtype=np.dtype(np.float32)) for buffer in (first, second)
    ]
    tensor_map = views[0].as_tensor_map(box_dim=(8, 8))
    out = device.allocate(8, stream=stream)
    definition = GraphDefinition()
    node = definition.launch(ONE, kernel, tensor_map, out)
    definition.instantiate().launch(stream)
    before = read(out, stream)
    tensor_map.replace_address(views[1])
    address = first.handle
    del views
    first.close(stream)
    assert address not in [device.allocate(1024, stream=stream).handle for _ in range(4)]
    node.update(config=ONE)  # with the original arguments of the node
    definition.instantiate().launch(stream)
    assert read(out, stream) == before
