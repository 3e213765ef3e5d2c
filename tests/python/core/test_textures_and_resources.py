# SPDX-License-Identifier: Apache-2.0
"""Arrays, textures, tensor maps and device resources."""

import pytest
from cuda.core import ContextOptions, CUDAError, SMResourceOptions
from cuda.core.texture import (
    MipmappedArrayOptions,
    OpaqueArrayOptions,
    ResourceDescriptor,
    TextureObjectOptions,
)
from cuda.core.utils import StridedMemoryView

NOT_SUPPORTED = 801


def test_array_keeps_copied_data(device, stream):
    with device.create_opaque_array(OpaqueArrayOptions((8, 4), "float32", 1)) as array:
        assert array.shape == (8, 4) and array.element_bytes == 4 and array.size_bytes == 128
        data = bytes(range(128))
        array.copy_from(data, stream=stream)
        back = bytearray(128)
        assert array.copy_to(back, stream=stream) is back and back == data
        with pytest.raises(ValueError, match="128 bytes"):
            array.copy_from(bytes(4), stream=stream)
    assert array.is_closed
    for bad in (((8, 4), "float99", 1), ((8, 4), "uint8", 3), ((), "uint8", 1), ((0,), "uint8", 1)):
        with pytest.raises(ValueError):
            device.create_opaque_array(OpaqueArrayOptions(*bad))


def test_mipmapped_arrays_have_smaller_levels(device):
    array = device.create_mipmapped_array(MipmappedArrayOptions((8, 8), "uint8", 4, 3))
    assert [array.get_level(i).shape for i in range(3)] == [(8, 8), (4, 4), (2, 2)]
    with pytest.raises(ValueError):
        array.get_level(3)
    with pytest.raises(ValueError):
        device.create_mipmapped_array(MipmappedArrayOptions((8, 8), "uint8", 4, 30))


def test_textures_and_surfaces_are_created_from_resources(device, stream):
    array = device.create_opaque_array(OpaqueArrayOptions((8, 4), "float32", 1, is_surface_load_store=True))
    resource = ResourceDescriptor.from_opaque_array(array)
    assert resource.kind == "opaque_array" and resource.source is array
    buffer = device.allocate(256, stream=stream)
    with pytest.raises(ValueError, match="pitch_bytes"):
        ResourceDescriptor.from_pitch2d(buffer, format="uint8", num_channels=4, width=8, height=2, pitch_bytes=8)
    with pytest.raises(TypeError):
        device.create_texture_object(resource=array)
    plain = device.create_opaque_array(OpaqueArrayOptions((8, 4), "float32", 1))
    with pytest.raises(ValueError, match="is_surface_load_store"):
        device.create_surface_object(resource=ResourceDescriptor.from_opaque_array(plain))
    try:
        texture = device.create_texture_object(resource=resource, options=TextureObjectOptions(filter_mode="linear"))
        surface = device.create_surface_object(resource=resource)
    except CUDAError as error:
        if error.code != NOT_SUPPORTED:
            raise
        pytest.skip(str(error))
    assert texture.handle and surface.handle and texture.resource is resource
    texture.close()
    surface.close()
    assert texture.is_closed and surface.is_closed


def test_tensor_map_is_created_and_invalid_arguments_raise(device, stream):
    np = pytest.importorskip("numpy")
    buffer = device.allocate(64 * 64 * 4, stream=stream)
    view = StridedMemoryView.from_buffer(buffer, (64, 64), dtype=np.dtype(np.float32))
    descriptor = view.as_tensor_map((8, 16))
    assert descriptor.device == device
    address, size = descriptor._kernel_argument_address
    assert address % 64 == 0 and size == 128
    other = device.allocate(64 * 64 * 4, stream=stream)
    descriptor.replace_address(StridedMemoryView.from_buffer(other, (64, 64), dtype=np.dtype(np.float32)))
    for bad in ((8,), (0, 8), (512, 8)):
        with pytest.raises(ValueError, match="box_dim"):
            view.as_tensor_map(bad)
    with pytest.raises(TypeError):
        view.as_tensor_map()


def test_green_context_has_a_part_of_the_multiprocessors(device):
    resources = device.resources
    assert resources.sm.sm_count == device.properties.multiprocessor_count
    groups, rest = resources.sm.split(SMResourceOptions(count=resources.sm.min_partition_size))
    assert len(groups) == 1 and groups[0].sm_count + rest.sm_count <= resources.sm.sm_count
    context = device.create_context(ContextOptions(resources=groups))
    assert context.is_green and not context.is_closed
    stream = context.create_stream()
    stream.sync()
    assert stream.context == context
    stream.close()
    context.close()
    assert context.is_closed
    with pytest.raises(ValueError):
        device.create_context(ContextOptions(resources=[]))
