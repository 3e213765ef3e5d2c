# SPDX-License-Identifier: Apache-2.0
"""Arrays, textures, tensor maps and device resources."""

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import ContextOptions, CUDAError, SMResourceOptions, TensorMapDescriptorOptions
from cuda.core.texture import (
    MipmappedArrayOptions,
    OpaqueArrayOptions,
    ResourceDescriptor,
    TextureObjectOptions,
)
from cuda.core.typing import AddressModeType
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


# ---- wrong values of options, resources and copies


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"filter_mode": "cubic"}, ValueError, "filter_mode must be one of 'point', 'linear', not 'cubic'"),
        ({"read_mode": "float"}, ValueError, "read_mode must be one of"),
        ({"mipmap_filter_mode": 1}, ValueError, "mipmap_filter_mode must be one of"),
        ({"border_color": (1, 2)}, ValueError, "border_color must have four values, not 2"),
        ({"border_color": (1, 2, 3, "x")}, TypeError, r"border_color\[3\] must be a number, not str"),
        ({"border_color": 1.0}, TypeError, "border_color must be a tuple of four numbers, not float"),
        ({"address_mode": ("clamp",) * 4}, ValueError, "address_mode must have one to three values, not 4"),
        ({"address_mode": ()}, ValueError, "address_mode must have one to three values, not 0"),
        ({"address_mode": 3}, TypeError, "address_mode must be a tuple of address modes, not int"),
        ({"address_mode": "repeat"}, ValueError, "address_mode must be one of 'wrap', 'clamp', 'mirror', 'border'"),
        ({"address_mode": ("clamp", "repeat")}, ValueError, r"address_mode\[1\] must be one of"),
        ({"max_anisotropy": -1}, ValueError, "max_anisotropy must be at least 0"),
        ({"max_anisotropy": 1.5}, TypeError, "max_anisotropy must be an int, not float"),
        ({"mipmap_level_bias": "x"}, TypeError, "mipmap_level_bias must be a number, not str"),
    ],
    ids=str,
)
def test_wrong_texture_option_raises_when_the_options_are_made(device, stream, wrong, error, text):
    with pytest.raises(error, match=text):
        TextureObjectOptions(**wrong)
    changed = TextureObjectOptions()
    for name, value in wrong.items():
        setattr(changed, name, value)
    array = device.create_opaque_array(OpaqueArrayOptions((4,), "float32", 1))
    with pytest.raises(error, match=text):
        device.create_texture_object(resource=ResourceDescriptor.from_opaque_array(array), options=changed)


def test_texture_takes_one_to_three_address_modes_and_a_border_color(device):
    array = device.create_opaque_array(OpaqueArrayOptions((4, 4), "float32", 1))
    resource = ResourceDescriptor.from_opaque_array(array)
    for modes in ("wrap", ("border",), ["clamp", AddressModeType.MIRROR], ("clamp", "border", "clamp")):
        options = TextureObjectOptions(address_mode=modes, normalized_coords=True, border_color=[0, 0.5, 1, 1])
        device.create_texture_object(resource=resource, options=options).close()


@pytest.mark.parametrize(
    ("size", "text"), [(0, "positive multiple"), (5, "positive multiple"), (-4, "at least 0"), (4096, "more than")]
)
def test_linear_resource_of_a_wrong_size_raises(device, stream, size, text):
    buffer = device.allocate(1024, stream=stream)
    with pytest.raises(ValueError, match=text):
        ResourceDescriptor.from_linear(buffer, format="float32", num_channels=1, size_bytes=size)
    assert ResourceDescriptor.from_linear(buffer, format="float32", num_channels=1).size_bytes == 1024
    assert ResourceDescriptor.from_linear(buffer, format="float32", num_channels=2, size_bytes=16).size_bytes == 16


@pytest.mark.parametrize(("width", "height"), [(0, 1), (1, 0)])
def test_rows_without_elements_raise(device, stream, width, height):
    buffer = device.allocate(1024, stream=stream)
    with pytest.raises(ValueError, match="at least 1"):
        ResourceDescriptor.from_pitch2d(
            buffer, format="float32", num_channels=1, width=width, height=height, pitch_bytes=32
        )


def test_resource_of_something_else_than_a_buffer_raises_type_error(device):
    with pytest.raises(TypeError, match="buffer must be a Buffer, not int"):
        ResourceDescriptor.from_linear(3, format="float32", num_channels=1)
    with pytest.raises(TypeError, match="buffer must be a Buffer, not bytes"):
        ResourceDescriptor.from_pitch2d(b"", format="uint8", num_channels=1, width=1, height=1, pitch_bytes=32)


def test_surface_of_a_resource_that_is_no_opaque_array_raises_value_error(device, stream):
    buffer = device.allocate(1024, stream=stream)
    mipmaps = device.create_mipmapped_array(MipmappedArrayOptions((8, 8), "float32", 1, 2, is_surface_load_store=True))
    for resource, kind in (
        (ResourceDescriptor.from_linear(buffer, format="float32", num_channels=1), "linear"),
        (
            ResourceDescriptor.from_pitch2d(
                buffer, format="float32", num_channels=1, width=8, height=2, pitch_bytes=512
            ),
            "pitch2d",
        ),
        (ResourceDescriptor.from_mipmapped_array(mipmaps), "mipmapped"),
    ):
        with pytest.raises(ValueError, match=f"from_opaque_array.*not of a {kind} one"):
            device.create_surface_object(resource=resource)
    with pytest.raises(TypeError, match="ResourceDescriptor"):
        device.create_surface_object(resource=3)


def test_handles_of_arrays_are_ints_and_zero_after_close(device):
    array = device.create_opaque_array(OpaqueArrayOptions((8,), "float32", 1))
    mipmaps = device.create_mipmapped_array(MipmappedArrayOptions((8, 8), "float32", 1, 2))
    for made in (array, mipmaps):
        assert type(made.handle) is int and made.handle != 0
    assert driver.cuArrayGetDescriptor(array.handle)[1].Width == 8  # what the bindings take
    for made in (array, mipmaps):
        made.close()
        assert made.handle == 0


def test_copies_of_an_array_use_as_much_of_a_larger_object_as_it_holds(device, stream):
    array = device.create_opaque_array(OpaqueArrayOptions((8,), "uint8", 1))
    array.copy_from(bytes(range(100)), stream=stream)
    host = bytearray(b"\xff" * 12)
    array.copy_to(host, stream=stream)
    assert host == bytes(range(8)) + b"\xff" * 4
    buffer = device.allocate(64, stream=stream)
    buffer.fill(9, stream=stream)
    array.copy_to(buffer, stream=stream)
    array.copy_from(buffer, stream=stream)
    back = bytearray(64)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    assert back == bytes(range(8)) + b"\x09" * 56
    for smaller in (bytes(7), bytearray(7)):
        with pytest.raises(ValueError, match="the array has 8 bytes, the other side only 7"):
            array.copy_from(smaller, stream=stream)


@pytest.mark.parametrize(
    ("shape", "error", "text"),
    [
        (3, TypeError, "shape must be a tuple of ints, not int"),
        ((4, 0), ValueError, r"shape\[1\] must be at least 1, not 0"),
        ((4, 1.5), TypeError, r"shape\[1\] must be an int, not float"),
        ((), ValueError, "shape must have one to three values"),
        ((1, 2, 3, 4), ValueError, "shape must have one to three values"),
    ],
    ids=str,
)
def test_array_of_a_wrong_shape_raises_an_error_that_names_the_place(device, shape, error, text):
    with pytest.raises(error, match=text):
        device.create_opaque_array(OpaqueArrayOptions(shape, "float32", 1))
    with pytest.raises(error, match=text):
        device.create_mipmapped_array(MipmappedArrayOptions(shape, "float32", 1, 1))


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"box_dim": 3}, TypeError, "box_dim must be a tuple of ints, not int"),
        ({"box_dim": (8, 1.5)}, TypeError, r"box_dim\[1\] must be an int, not float"),
        ({"element_strides": 1}, TypeError, "element_strides must be a tuple of ints, not int"),
        ({"interleave": "none"}, TypeError, "interleave must be a TensorMapInterleave, not str"),
        ({"swizzle": 3}, TypeError, "swizzle must be a TensorMapSwizzle, not int"),
        ({"l2_promotion": 1}, TypeError, "l2_promotion must be a TensorMapL2Promotion, not int"),
        ({"oob_fill": None}, TypeError, "oob_fill must be a TensorMapOOBFill, not NoneType"),
        ({"data_type": "bad"}, TypeError, "data_type must be a TensorMapDataType"),
        ({"data_type": 3.5}, TypeError, "data_type must be a TensorMapDataType"),
        ({"data_type": np.complex64}, ValueError, "data_type must be a TensorMapDataType"),
    ],
    ids=str,
)
def test_wrong_tensor_map_option_raises_when_the_options_are_made(wrong, error, text):
    with pytest.raises(error, match=text):
        TensorMapDescriptorOptions(**{"box_dim": (8, 8), **wrong})


def test_tensor_map_options_take_sequences_and_types(device, stream):
    options = TensorMapDescriptorOptions(box_dim=[8, np.int64(8)], element_strides=[1, 1], data_type=np.float32)
    assert options.box_dim == (8, 8) and options.element_strides == (1, 1)
    view = StridedMemoryView.from_buffer(device.allocate(1024, stream=stream), (16, 16), itemsize=4)
    made = view.as_tensor_map(options)
    assert repr(made) == "<TensorMapDescriptor tiled rank=2 data_type=FLOAT32 swizzle=NONE>"
    with pytest.raises(ValueError, match="cannot hold elements of type None"):
        view.as_tensor_map((8, 8))
    with pytest.raises(ValueError, match=r"box_dim\[0\] must be in 1..256, not 0"):
        view.as_tensor_map((0, 8), data_type="FLOAT32")
