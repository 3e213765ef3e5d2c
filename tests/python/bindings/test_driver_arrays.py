# SPDX-License-Identifier: Apache-2.0
"""Arrays, mipmaps, textures, surfaces, texture references and tensor maps through the driver bindings."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver as d

FLOAT = d.CUarray_format.CU_AD_FORMAT_FLOAT
BYTE = d.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8


def described(width: int, height: int = 0, depth: int = 0, flags: int = 0, form: Any = BYTE, channels: int = 1) -> Any:
    made = d.CUDA_ARRAY3D_DESCRIPTOR()
    made.Width, made.Height, made.Depth, made.Flags = width, height, depth, flags
    made.Format, made.NumChannels = form, channels
    return made


@pytest.fixture
def array(context: Any, check: Any) -> Any:
    """An array of 64 x 64 floats with surface load/store."""
    made = check(d.cuArray3DCreate(described(64, 64, flags=d.CUDA_ARRAY3D_SURFACE_LDST, form=FLOAT)))
    yield made
    check(d.cuArrayDestroy(made))


@pytest.fixture
def mipmap(context: Any, check: Any) -> Any:
    made = check(d.cuMipmappedArrayCreate(described(64, 64, form=FLOAT), 4))
    yield made
    check(d.cuMipmappedArrayDestroy(made))


def test_levels_of_a_mipmap_are_arrays_of_half_the_size(mipmap: Any, check: Any) -> None:
    sizes = [check(d.cuArray3DGetDescriptor(check(d.cuMipmappedArrayGetLevel(mipmap, i)))).Width for i in range(4)]
    assert sizes == [64, 32, 16, 8]
    assert d.cuMipmappedArrayGetLevel(mipmap, 4)[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE


def test_memory_requirements_of_an_array_cover_its_elements(device: Any, context: Any, check: Any) -> None:
    can = d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED
    flags = d.CUDA_ARRAY3D_DEFERRED_MAPPING if check(d.cuDeviceGetAttribute(can, device)) else 0
    array = check(d.cuArray3DCreate(described(64, 64, flags=flags, form=FLOAT)))
    needs = check(d.cuArrayGetMemoryRequirements(array, device))
    assert needs.size >= 64 * 64 * 4 and needs.alignment > 0
    check(d.cuArrayDestroy(array))
    mipmap = check(d.cuMipmappedArrayCreate(described(64, 64, flags=flags, form=FLOAT), 2))
    assert check(d.cuMipmappedArrayGetMemoryRequirements(mipmap, device)).size >= needs.size
    check(d.cuMipmappedArrayDestroy(mipmap))


def test_planes_of_a_planar_array_have_their_own_formats(context: Any, check: Any) -> None:
    code, array = d.cuArray3DCreate(
        described(64, 64, flags=d.CUDA_ARRAY3D_VIDEO_ENCODE_DECODE, form=d.CUarray_format.CU_AD_FORMAT_NV12, channels=3)
    )
    if code != 0:
        plain = check(d.cuArray3DCreate(described(64, 64)))
        assert d.cuArrayGetPlane(plain, 5)[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE
        check(d.cuArrayDestroy(plain))
        pytest.skip("no pictures of several planes")
    luma = check(d.cuArray3DGetDescriptor(check(d.cuArrayGetPlane(array, 0))))
    chroma = check(d.cuArray3DGetDescriptor(check(d.cuArrayGetPlane(array, 1))))
    assert (luma.Width, luma.NumChannels, chroma.Width, chroma.NumChannels) == (64, 1, 32, 2)
    check(d.cuArrayDestroy(array))


def test_tiles_of_a_sparse_array_are_mapped_and_unmapped(device: Any, stream: Any, check: Any) -> None:
    can = d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED
    if not check(d.cuDeviceGetAttribute(can, device)):
        pytest.skip("no sparse arrays")
    flags = d.CUDA_ARRAY3D_SPARSE
    array = check(d.cuArray3DCreate(described(1024, 1024, flags=flags)))
    properties = check(d.cuArrayGetSparseProperties(array))
    tile = properties.tileExtent
    assert tile.width * tile.height * tile.depth == 65536
    mipmap = check(d.cuMipmappedArrayCreate(described(1024, 1024, flags=flags), 3))
    assert check(d.cuMipmappedArrayGetSparseProperties(mipmap)).tileExtent.width == tile.width
    check(d.cuMipmappedArrayDestroy(mipmap))
    p = d.CUmemAllocationProp()
    p.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    p.location.type, p.location.id = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, int(device)
    p.allocFlags.usage = d.CU_MEM_CREATE_USAGE_TILE_POOL
    option = d.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    pool = check(d.cuMemCreate(max(65536, check(d.cuMemGetAllocationGranularity(p, option))), p, 0))
    info = d.CUarrayMapInfo()
    info.resourceType = d.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    info.resource.array = array
    info.subresourceType = d.CUarraySparseSubresourceType.CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL
    level = info.subresource.sparseLevel
    level.extentWidth, level.extentHeight, level.extentDepth = tile.width, tile.height, 1
    info.memOperationType = d.CUmemOperationType.CU_MEM_OPERATION_TYPE_MAP
    info.memHandleType = d.CUmemHandleType.CU_MEM_HANDLE_TYPE_GENERIC
    info.memHandle.memHandle = pool
    info.deviceBitMask = 1 << int(device)
    check(d.cuMemMapArrayAsync([info], 1, stream))
    copy = d.CUDA_MEMCPY2D()
    copy.srcMemoryType, copy.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_HOST, d.CUmemorytype.CU_MEMORYTYPE_ARRAY
    copy.srcHost, copy.dstArray, copy.WidthInBytes, copy.Height = (ctypes.c_char * 4)(*b"tile"), array, 4, 1
    check(d.cuStreamSynchronize(stream))
    check(d.cuMemcpy2D(copy))
    back = (ctypes.c_char * 4)()
    copy.srcMemoryType, copy.dstMemoryType = copy.dstMemoryType, copy.srcMemoryType
    copy.srcArray, copy.dstHost = array, back
    check(d.cuMemcpy2D(copy))
    assert bytes(back) == b"tile"
    info.memOperationType = d.CUmemOperationType.CU_MEM_OPERATION_TYPE_UNMAP
    info.memHandle.memHandle = 0
    check(d.cuMemMapArrayAsync([info], 1, stream))
    check(d.cuStreamSynchronize(stream))
    check(d.cuArrayDestroy(array))
    check(d.cuMemRelease(pool))


def test_texture_and_surface_objects_return_their_descriptors(array: Any, mipmap: Any, check: Any) -> None:
    resource = d.CUDA_RESOURCE_DESC()
    resource.resType = d.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    resource.res.array.hArray = array
    sampling = d.CUDA_TEXTURE_DESC()
    sampling.filterMode = d.CUfilter_mode.CU_TR_FILTER_MODE_LINEAR
    sampling.addressMode = [d.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
    sampling.maxAnisotropy = 4
    sampling.flags = d.CU_TRSF_NORMALIZED_COORDINATES
    texture = check(d.cuTexObjectCreate(resource, sampling, None))
    assert int(check(d.cuTexObjectGetResourceDesc(texture)).res.array.hArray) == int(array)
    found = check(d.cuTexObjectGetTextureDesc(texture))
    assert (found.filterMode, found.maxAnisotropy) == (sampling.filterMode, 4)
    assert found.addressMode[0] == d.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP
    check(d.cuTexObjectDestroy(texture))
    resource.resType = d.CUresourcetype.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
    resource.res.mipmap.hMipmappedArray = mipmap
    view = d.CUDA_RESOURCE_VIEW_DESC()
    view.format = d.CUresourceViewFormat.CU_RES_VIEW_FORMAT_FLOAT_1X32
    view.width = view.height = 64
    view.lastMipmapLevel = 3
    texture = check(d.cuTexObjectCreate(resource, sampling, view))
    assert check(d.cuTexObjectGetResourceViewDesc(texture)).lastMipmapLevel == 3
    check(d.cuTexObjectDestroy(texture))
    resource.resType = d.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    resource.res.array.hArray = array
    surface = check(d.cuSurfObjectCreate(resource))
    assert int(check(d.cuSurfObjectGetResourceDesc(surface)).res.array.hArray) == int(array)
    check(d.cuSurfObjectDestroy(surface))


def test_texture_reference_returns_its_settings(context: Any, memory: Any, array: Any, mipmap: Any, check: Any) -> None:
    code, reference = d.cuTexRefCreate()
    if code == d.CUresult.CUDA_ERROR_NOT_SUPPORTED:
        pytest.skip("no texture references")
    assert code == 0
    check(d.cuTexRefSetArray(reference, array, d.CU_TRSA_OVERRIDE_FORMAT))
    assert int(check(d.cuTexRefGetArray(reference))) == int(array)
    assert check(d.cuTexRefGetFormat(reference)) == (FLOAT, 1)
    mode = d.CUaddress_mode.CU_TR_ADDRESS_MODE_MIRROR
    check(d.cuTexRefSetAddressMode(reference, 1, mode))
    assert check(d.cuTexRefGetAddressMode(reference, 1)) == mode
    linear = d.CUfilter_mode.CU_TR_FILTER_MODE_LINEAR
    check(d.cuTexRefSetFilterMode(reference, linear))
    check(d.cuTexRefSetMipmapFilterMode(reference, linear))
    assert check(d.cuTexRefGetFilterMode(reference)) == check(d.cuTexRefGetMipmapFilterMode(reference)) == linear
    check(d.cuTexRefSetMipmapLevelBias(reference, 0.5))
    assert check(d.cuTexRefGetMipmapLevelBias(reference)) == 0.5
    check(d.cuTexRefSetMipmapLevelClamp(reference, 1.0, 3.0))
    assert check(d.cuTexRefGetMipmapLevelClamp(reference)) == (1.0, 3.0)
    check(d.cuTexRefSetMaxAnisotropy(reference, 8))
    assert check(d.cuTexRefGetMaxAnisotropy(reference)) == 8
    check(d.cuTexRefSetFlags(reference, d.CU_TRSF_NORMALIZED_COORDINATES))
    assert check(d.cuTexRefGetFlags(reference)) & d.CU_TRSF_NORMALIZED_COORDINATES
    check(d.cuTexRefSetBorderColor(reference, [0.25, 0.5, 0.75, 1.0]))
    assert check(d.cuTexRefGetBorderColor(reference)) == [0.25, 0.5, 0.75, 1.0]
    check(d.cuTexRefSetMipmappedArray(reference, mipmap, d.CU_TRSA_OVERRIDE_FORMAT))
    assert int(check(d.cuTexRefGetMipmappedArray(reference))) == int(mipmap)
    check(d.cuTexRefSetFormat(reference, FLOAT, 1))
    assert check(d.cuTexRefSetAddress(reference, memory, 4096)) == 0
    assert int(check(d.cuTexRefGetAddress(reference))) == int(memory)
    flat = d.CUDA_ARRAY_DESCRIPTOR()
    flat.Width, flat.Height, flat.Format, flat.NumChannels = 16, 2, FLOAT, 1
    check(d.cuTexRefSetAddress2D(reference, flat, memory, 512))
    check(d.cuTexRefDestroy(reference))


PTX = b"""
.version 6.4
.target sm_52
.address_size 64
.global .texref picture;
.global .surfref canvas;
.visible .entry nothing() { ret; }
\0"""


def test_texture_and_surface_references_of_a_module_bind_arrays(context: Any, array: Any, check: Any) -> None:
    code, module = d.cuModuleLoadData(PTX)
    if code != 0:
        pytest.skip(f"no code with references any more: {code!r}")
    code, reference = d.cuModuleGetTexRef(module, b"picture")
    if code == 0:
        check(d.cuTexRefSetArray(reference, array, d.CU_TRSA_OVERRIDE_FORMAT))
        assert int(check(d.cuTexRefGetArray(reference))) == int(array)
        function = check(d.cuModuleGetFunction(module, b"nothing"))
        taken = d.cuParamSetTexRef(function, d.CU_PARAM_TR_DEFAULT, reference)[0]
        assert taken in (0, d.CUresult.CUDA_ERROR_INVALID_VALUE, d.CUresult.CUDA_ERROR_NOT_SUPPORTED)
    code, reference = d.cuModuleGetSurfRef(module, b"canvas")
    if code == 0:
        check(d.cuSurfRefSetArray(reference, array, 0))
        assert int(check(d.cuSurfRefGetArray(reference))) == int(array)
    assert d.cuModuleGetTexRef(module, b"none")[0] == d.CUresult.CUDA_ERROR_NOT_FOUND
    check(d.cuModuleUnload(module))


# ---- tensor maps

PLAIN = (
    d.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
    d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
    d.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
)
DENSE = d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE
F32 = d.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32


def numbers(*values: int, width: Any = d.cuuint64_t) -> list[Any]:
    return [width(value) for value in values]


@pytest.fixture
def tensors(device: Any, context: Any, check: Any) -> None:
    can = d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED
    if not check(d.cuDeviceGetAttribute(can, device)):
        pytest.skip("no tensor maps")


def test_tiled_tensor_map_is_encoded_and_its_address_replaced(memory: Any, tensors: Any, check: Any) -> None:
    def encoded(address: Any) -> Any:
        return check(
            d.cuTensorMapEncodeTiled(
                F32,
                2,
                address,
                numbers(32, 16),
                numbers(128),
                numbers(8, 8, width=d.cuuint32_t),
                numbers(1, 1, width=d.cuuint32_t),
                DENSE,
                *PLAIN,
            )
        )

    first, second = encoded(memory), encoded(int(memory) + 2048)
    assert [int(word) for word in first.opaque] != [int(word) for word in second.opaque]
    check(d.cuTensorMapReplaceAddress(first, int(memory) + 2048))
    assert [int(word) for word in first.opaque] == [int(word) for word in second.opaque]
    assert d.cuTensorMapReplaceAddress(first, int(memory) + 4)[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE
    small = numbers(8, 8, width=d.cuuint32_t), numbers(1, 1, width=d.cuuint32_t)
    with pytest.raises(TypeError, match="globalDim must be a list or tuple"):
        d.cuTensorMapEncodeTiled(F32, 2, memory, 3, numbers(128), *small, DENSE, *PLAIN)
    with pytest.raises(ValueError, match="globalStrides has 0 elements, but tensorRank is 2"):
        d.cuTensorMapEncodeTiled(F32, 2, memory, numbers(32, 16), [], *small, DENSE, *PLAIN)


def test_im2col_tensor_map_is_encoded(memory: Any, tensors: Any, since: Any, check: Any) -> None:
    ones = numbers(1, 1, 1, width=d.cuuint32_t)
    image = (F32, 3, memory, numbers(8, 16, 2), numbers(32, 512))
    made = check(d.cuTensorMapEncodeIm2col(*image, [0], [0], 8, 4, ones, DENSE, *PLAIN))
    assert any(int(word) for word in made.opaque)
    since(12080)
    code, wide = d.cuTensorMapEncodeIm2colWide(
        *image, 0, 0, 8, 4, ones, DENSE, d.CUtensorMapIm2ColWideMode.CU_TENSOR_MAP_IM2COL_WIDE_MODE_W,
        d.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B, *PLAIN[1:],
    )  # fmt: skip
    assert code == 0 or (
        wide is None and code in (d.CUresult.CUDA_ERROR_INVALID_VALUE, d.CUresult.CUDA_ERROR_NOT_SUPPORTED)
    )
