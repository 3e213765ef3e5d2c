# SPDX-License-Identifier: Apache-2.0
"""Structs are classes with properties; nested structs are views; pointer fields keep their target alive."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from typing import Any

import pytest
from cuda.bindings import driver, runtime


def test_fields_are_properties() -> None:
    copy = driver.CUDA_MEMCPY3D()
    copy.WidthInBytes = 64
    copy.srcMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice = 0x1000
    assert copy.WidthInBytes == 64
    assert copy.srcMemoryType is driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    assert copy.srcDevice == driver.CUdeviceptr(0x1000)


def test_nested_structs_and_unions_are_views() -> None:
    desc = driver.CUDA_RESOURCE_DESC()
    desc.res.pitch2D.width = 17
    linear = desc.res.linear
    linear.sizeInBytes = 80
    assert desc.res.pitch2D.width == 80  # a union: both members use the same bytes
    del desc
    gc.collect()
    assert linear.sizeInBytes == 80


def test_a_struct_field_is_assigned_by_value() -> None:
    window = driver.CUaccessPolicyWindow()
    window.num_bytes = 512
    value = driver.CUlaunchAttributeValue()
    value.accessPolicyWindow = window
    window.num_bytes = 1
    assert value.accessPolicyWindow.num_bytes == 512


def test_struct_alias_derives_from_its_target() -> None:
    assert driver.CUDA_ARRAY3D_DESCRIPTOR.__mro__[1:3] == (
        driver.CUDA_ARRAY3D_DESCRIPTOR_v2,
        driver.CUDA_ARRAY3D_DESCRIPTOR_st,
    )


def test_an_array_of_structs_sets_its_count() -> None:
    config = driver.CUlaunchConfig()
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    attribute.value.priority = -2
    config.attrs = [attribute, attribute]
    del attribute
    gc.collect()
    assert config.numAttrs == 2
    assert [a.value.priority for a in config.attrs] == [-2, -2]
    with pytest.raises(ValueError, match="numAttrs is 3, but attrs has 2 elements"):
        config.numAttrs = 3


def test_char_array_fields_are_bytes() -> None:
    uuid = driver.CUuuid()
    uuid.bytes = bytes(range(16))
    assert uuid.bytes == bytes(range(16))
    with pytest.raises(ValueError, match=r"CUuuid\.bytes holds 16 bytes, got 17"):
        uuid.bytes = bytes(17)
    assert runtime.cudaDeviceProp().name == b""


def test_fixed_arrays_are_lists() -> None:
    prop = driver.CUdevprop()
    prop.maxThreadsDim = [1, 2, 3]
    assert prop.maxThreadsDim == [1, 2, 3]
    with pytest.raises(ValueError, match="takes 3 values, got 2"):
        prop.maxThreadsDim = [1, 2]


def test_get_ptr_is_the_address_of_the_struct() -> None:
    extent = runtime.make_cudaExtent(2, 3, 4)
    assert list((ctypes.c_size_t * 3).from_address(extent.getPtr())) == [2, 3, 4]
    assert bytes(memoryview(extent)[:8]) == (2).to_bytes(8, "little")
    view = runtime.cudaExtent(extent.getPtr())
    view.width = 9
    assert extent.width == 9


def test_wrong_field_value_raises_an_error_that_names_the_field() -> None:
    copy = driver.CUDA_MEMCPY3D()
    with pytest.raises(TypeError, match=r"CUDA_MEMCPY3D\.Height must be an integer, not str"):
        copy.Height = "tall"
    with pytest.raises(OverflowError, match=r"CUDA_MEMCPY3D\.Height must be between 0 and"):
        copy.Height = -1
    with pytest.raises(AttributeError):
        del copy.Height
    with pytest.raises(AttributeError):
        copy.Hight = 1


def test_structs_print_their_fields() -> None:
    text = str(runtime.make_cudaPos(1, 2, 3))
    assert text == "x : 1\ny : 2\nz : 3"


def test_dim3_default_is_1_1_1() -> None:
    dim = runtime.dim3()
    assert (dim.x, dim.y, dim.z) == (1, 1, 1)


def test_sizeof_accepts_structs_and_handles() -> None:
    assert driver.sizeof(driver.CUDA_MEMCPY3D) == 200
    assert driver.sizeof(driver.CUstream) == 8
    assert driver.sizeof(driver.CUdevice) == 4
    with pytest.raises(TypeError):
        driver.sizeof(int)


def test_later_change_of_an_assigned_list_has_no_effect() -> None:
    config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
    attributes = [attribute]
    config.attrs = attributes
    attributes.extend([attribute] * 100)
    with pytest.raises(ValueError, match="numAttrs is 100, but attrs has 1 elements"):
        config.numAttrs = 100


def test_list_that_changes_during_conversion_is_converted_as_it_was(context: object) -> None:
    class Clears:
        def __index__(self) -> int:
            numbers.clear()
            return 1

    numbers: list[object] = [Clears(), *range(2, 20)]
    prop = driver.CUdevprop()
    triple: list[object] = []

    class Shrinks:
        def __index__(self) -> int:
            triple.clear()
            return 1

    triple += [Shrinks(), 2, 3]
    prop.maxThreadsDim = triple
    assert prop.maxThreadsDim == [1, 2, 3] and triple == []
    code, memory = driver.cuMemAlloc(64)
    assert code == 0
    driver.cuMemPrefetchBatchAsync([memory] * 19, numbers, 19, [driver.CUmemLocation()], [0], 1, 0, 0)
    assert numbers == []  # the list was read to its end; the driver's result does not matter
    assert driver.cuMemFree(memory) == (0,)


def an_attribute(priority: int) -> Any:
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    attribute.value.priority = priority
    return attribute


def test_an_element_of_an_array_outlives_the_array() -> None:
    config = driver.CUlaunchConfig()
    config.attrs = [an_attribute(-2)]
    element = config.attrs[0]
    for priority in range(100):
        config.attrs = [an_attribute(priority)] * (1 + priority % 3)
    config.attrs = None
    gc.collect()
    assert element.value.priority == -2 and config.numAttrs == 0 and config.attrs == []


def test_assigned_list_of_equal_length_replaces_the_previous_one() -> None:
    config = driver.CUlaunchConfig()
    for priority in (-1, -2, -3):
        config.attrs = [an_attribute(priority), an_attribute(priority - 10)]
        assert [a.value.priority for a in config.attrs] == [priority, priority - 10] and config.numAttrs == 2
    config.numAttrs = 1
    config.attrs = (an_attribute(1), an_attribute(2))
    assert config.numAttrs == 2
    config.attrs = [*config.attrs, an_attribute(3)]
    assert [a.value.priority for a in config.attrs] == [1, 2, 3]
    with pytest.raises(TypeError, match=r"CUlaunchConfig\.attrs must be CUlaunchAttribute, not .*CUuuid"):
        config.attrs = [an_attribute(4), an_attribute(5), driver.CUuuid()]
    assert [a.value.priority for a in config.attrs] == [1, 2, 3]


def test_a_copy_of_a_struct_keeps_its_array_when_the_original_gets_another() -> None:
    def signal(value: int) -> Any:
        one = driver.CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS()
        one.params.fence.value = value
        return one

    node, whole = driver.CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2(), driver.CUgraphNodeParams()
    node.paramsArray = [signal(1)]
    whole.extSemSignal = node
    node.paramsArray = [signal(2)]
    del node
    gc.collect()
    assert [p.params.fence.value for p in whole.extSemSignal.paramsArray] == [1]


def test_assigned_nested_struct_keeps_only_the_buffers_it_points_to() -> None:
    buffer = bytearray(64)
    before = sys.getrefcount(buffer)
    parms = runtime.cudaMemcpy3DParms()
    parms.srcPtr.ptr = buffer
    parms.dstPtr = parms.srcPtr
    parms.srcPtr.ptr = 0
    gc.collect()
    assert sys.getrefcount(buffer) > before  # the copy points to the buffer
    parms.dstPtr = runtime.cudaPitchedPtr()
    assert sys.getrefcount(buffer) == before
    parms.srcPtr.ptr = buffer
    parms.dstPtr = parms.srcPtr
    del parms
    assert sys.getrefcount(buffer) == before


def test_get_ptr_is_a_bound_method() -> None:
    config = driver.CUlaunchConfig()
    method = config.getPtr
    assert method() == config.getPtr() and method.__name__ == "getPtr" and method.__self__ is config
    assert method == config.getPtr and method != driver.CUlaunchConfig().getPtr and callable(method)
    assert "getPtr" in repr(method) and hash(method) == hash(config.getPtr)
    with pytest.raises(TypeError):
        config.getPtr(1)
    address = method()
    del config
    assert method() == address  # it holds the struct


def test_field_descriptor_accepts_only_structs_of_its_type() -> None:
    field = driver.CUlaunchConfig.__dict__.get("gridDimX") or vars(driver.CUlaunchConfig_st)["gridDimX"]
    config = driver.CUlaunchConfig()
    field.__set__(config, 3)
    assert field.__get__(config) == 3 == config.gridDimX and field.__name__ == "gridDimX"
    with pytest.raises(TypeError, match="gridDimX is a field of CUlaunchConfig"):
        field.__get__(driver.CUuuid())
    with pytest.raises(TypeError, match="gridDimX is a field of CUlaunchConfig"):
        field.__set__(driver.CUuuid(), 3)


def test_derived_struct_class_can_have_attributes_and_properties() -> None:
    class Mine(driver.CUlaunchConfig):  # type: ignore[misc]
        pass

    mine = Mine()
    mine.gridDimX = 4
    mine.note = "kept"
    assert (mine.gridDimX, mine.note) == (4, "kept")
    Mine.gridDimX = property(lambda self: 5)
    assert mine.gridDimX == 5
    with pytest.raises(AttributeError):
        mine.gridDimX = 6
    del Mine.gridDimX
    assert mine.gridDimX == 4
    with pytest.raises(AttributeError):
        _ = mine.nothing


def test_repr_indents_nested_structs() -> None:
    text = repr(runtime.cudaEglFrame())
    assert "frame :\n    pArray : [<cudaArray_t 0x0>" in text
    assert "\n    pPitch : [ptr : 0x0\n    pitch : 0\n" in text
    uuid = driver.CUuuid()
    uuid.bytes = bytes(range(16))
    assert repr(uuid) == "bytes : 000102030405060708090a0b0c0d0e0f"
    copy = driver.CUDA_MEMCPY3D()
    copy.srcMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcHost = 0x1000
    assert f"srcMemoryType : {driver.CUmemorytype.CU_MEMORYTYPE_DEVICE!r}\nsrcHost : 0x1000\n" in repr(copy)


# ---- a second record over the same struct


def priorities(config: driver.CUlaunchConfig) -> list[int]:
    return [one.value.priority for one in config.attrs]


def churn() -> list[bytes]:
    """Allocations that reuse freed memory."""
    return [bytes([0x5A]) * size for size in (63, 64, 127, 128, 191, 192, 255, 256) for _ in range(200)]


def test_an_array_set_through_a_second_record_lives_as_long_as_the_struct() -> None:
    config = driver.CUlaunchConfig()
    second = driver.CUlaunchConfig(_ptr=config.getPtr())
    second.attrs = [an_attribute(1), an_attribute(2), an_attribute(3)]
    del second
    gc.collect()
    kept = churn()
    assert config.numAttrs == 3 and priorities(config) == [1, 2, 3]
    del kept


def test_an_array_set_through_a_second_record_replaces_the_first_ones() -> None:
    config = driver.CUlaunchConfig()
    config.attrs = [an_attribute(9)]
    second = driver.CUlaunchConfig(_ptr=config.getPtr())
    second.attrs = [an_attribute(1), an_attribute(2)]
    del second
    kept = churn()
    assert priorities(config) == [1, 2]
    config.numAttrs = 1  # the array has two elements: a count of one is valid, three is not
    assert priorities(config) == [1]
    with pytest.raises(ValueError, match="2 elements"):
        config.numAttrs = 3
    config.attrs = [an_attribute(4)]
    kept += churn()
    assert priorities(config) == [4]
    third = driver.CUlaunchConfig(_ptr=config.getPtr())
    third.attrs = [an_attribute(7)]
    config.attrs = [an_attribute(8)]
    del third
    kept += churn()
    assert priorities(config) == [8]


def test_a_copy_of_a_struct_keeps_what_was_set_through_a_second_record() -> None:
    params = driver.CUgraphNodeParams()
    params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP
    inner = driver.CUDA_BATCH_MEM_OP_NODE_PARAMS_v2()
    op = driver.CUstreamBatchMemOpParams()
    op.writeValue.value64 = 77
    second = driver.CUDA_BATCH_MEM_OP_NODE_PARAMS_v2(_ptr=inner.getPtr())
    second.paramArray = [op, op]
    params.memOp = inner  # with the second record alive, and after both are freed
    del second, inner
    kept = churn()
    assert [int(one.writeValue.value64) for one in params.memOp.paramArray] == [77, 77]
    del kept


def test_elements_read_through_the_struct_keep_an_array_set_through_a_second_record() -> None:
    config = driver.CUlaunchConfig()
    second = driver.CUlaunchConfig(_ptr=config.getPtr())
    second.attrs = [an_attribute(5)]
    element = config.attrs[0]
    second.attrs = [an_attribute(6)]
    del second
    kept = churn()
    assert element.value.priority == 5 and priorities(config) == [6]
    del kept


def test_text_and_buffers_set_through_a_second_record_live_as_long_as_the_struct() -> None:
    copy = driver.CUDA_MEMCPY3D()
    second = driver.CUDA_MEMCPY3D(_ptr=copy.getPtr())
    data = bytearray(b"0123456789" * 20)
    watched = weakref.ref(made := memoryview(data))
    second.srcHost = made
    address = copy.srcHost
    del second, made
    gc.collect()
    kept = churn()
    assert watched() is not None and ctypes.string_at(address, 10) == b"0123456789"
    copy.srcHost = 0
    gc.collect()
    assert watched() is None
    del kept


def test_value_set_through_a_second_record_is_freed_with_the_struct() -> None:
    copy = driver.CUDA_MEMCPY3D()
    watched = weakref.ref(made := memoryview(bytearray(100)))
    driver.CUDA_MEMCPY3D(_ptr=copy.getPtr()).srcHost = made
    del made
    gc.collect()
    assert watched() is not None
    del copy
    gc.collect()
    assert watched() is None
    fresh = [driver.CUDA_MEMCPY3D() for _ in range(100)]
    assert all(one.srcHost == 0 for one in fresh)


def test_value_set_in_foreign_memory_is_kept_until_it_is_replaced() -> None:
    size = len(memoryview(driver.CUDA_MEMCPY3D()))
    memory = ctypes.create_string_buffer(size)
    watched = weakref.ref(made := memoryview(bytearray(100)))
    driver.CUDA_MEMCPY3D(_ptr=ctypes.addressof(memory)).srcHost = made
    del made
    gc.collect()
    assert watched() is not None
    driver.CUDA_MEMCPY3D(_ptr=ctypes.addressof(memory)).srcHost = 0
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize("given", ["the owner", "the second"])
@pytest.mark.parametrize("set_by", ["the owner", "the second"])
def test_graph_keeps_a_callable_set_through_any_record(context: object, check: Any, set_by: str, given: str) -> None:
    seen: list[int] = []
    params = driver.CUDA_HOST_NODE_PARAMS()
    records = {"the owner": params, "the second": driver.CUDA_HOST_NODE_PARAMS(_ptr=params.getPtr())}
    records[set_by].fn = lambda _: seen.append(1)
    graph = check(driver.cuGraphCreate(0))
    if given == "the owner":
        del records["the second"]
    check(driver.cuGraphAddHostNode(graph, None, 0, records[given]))
    del params
    records.clear()
    gc.collect()
    kept = churn()
    executable = check(driver.cuGraphInstantiate(graph, 0))
    check(driver.cuGraphLaunch(executable, 0))
    check(driver.cuCtxSynchronize())
    check(driver.cuGraphExecDestroy(executable))
    check(driver.cuGraphDestroy(graph))
    assert seen == [1]
    del kept
