# SPDX-License-Identifier: Apache-2.0
"""DLPack's C exchange table: C code of other libraries exchanges buffers and views without capsules."""

from __future__ import annotations

import ctypes
import gc
import weakref

import pytest
from cuda.core import Buffer, LegacyPinnedMemoryResource
from cuda.core.utils import StridedMemoryView

np = pytest.importorskip("numpy")


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    ]  # fmt: skip


class Managed(ctypes.Structure):
    pass


Deleter = ctypes.PYFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [
    ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", Deleter),
    ("flags", ctypes.c_uint64), ("tensor", Tensor),
]  # fmt: skip
SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
        ("allocate", ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.POINTER(Managed)), ctypes.c_void_p, SetError)),
        ("managed_from_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Managed)))),
        ("managed_to_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Managed), ctypes.POINTER(ctypes.py_object))),
        ("tensor_of_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))),
        ("current_stream", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))),
    ]  # fmt: skip


def table_of(cls: type) -> Table:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Table.from_address(pointer(cls.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


def taken(cls: type, thing: object) -> ctypes.POINTER(Managed):
    out = ctypes.POINTER(Managed)()
    assert table_of(cls).managed_from_object(thing, out) == 0
    return out


@pytest.mark.parametrize("cls", [Buffer, StridedMemoryView])
def test_types_have_the_exchange_table(cls):
    table = table_of(cls)
    assert table.major == 1 and not table.previous


@pytest.mark.parametrize("cls", [Buffer, StridedMemoryView])
def test_older_name_of_the_exchange_table_is_an_alias(cls):
    assert cls.__c_dlpack_exchange_api__ is cls.__dlpack_c_exchange_api__


def test_allocator_without_an_error_callback_sets_a_python_error():
    out = ctypes.POINTER(Managed)()
    with pytest.raises(NotImplementedError, match=r"Device.allocate"):
        table_of(Buffer).allocate(Tensor(), out, None, SetError())
    assert not out


def test_null_tensor_raises_runtime_error_and_clears_the_output():
    filled = object()
    out = ctypes.c_void_p(id(filled))
    function = ctypes.cast(table_of(StridedMemoryView).managed_to_object, ctypes.c_void_p).value
    call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))(function)
    with pytest.raises(RuntimeError, match="null"):
        call(None, out)
    assert out.value is None


def test_c_code_takes_a_managed_tensor_of_a_buffer(device, stream):
    buffer = device.allocate(64, stream=stream)
    managed = taken(Buffer, buffer)
    tensor = managed.contents.tensor
    assert (tensor.data, tensor.device_type, tensor.device_id) == (buffer.handle, *buffer.__dlpack_device__())
    assert tensor.ndim == 1 and tensor.shape[0] == 64 and (tensor.code, tensor.bits, tensor.lanes) == (0, 8, 1)
    alive = weakref.ref(buffer)
    del buffer
    gc.collect()
    assert alive() is not None
    managed.contents.deleter(managed)
    gc.collect()
    assert alive() is None


def test_c_code_takes_a_managed_tensor_of_a_view():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    managed = taken(StridedMemoryView, StridedMemoryView.from_any_interface(array.T, -1))
    tensor = managed.contents.tensor
    assert [tensor.shape[i] for i in range(2)] == [4, 3] and [tensor.strides[i] for i in range(2)] == [1, 4]
    assert (tensor.code, tensor.bits) == (2, 32) and tensor.data == array.ctypes.data
    managed.contents.deleter(managed)


def test_read_only_view_has_the_read_only_flag():
    array = np.arange(3)
    array.flags.writeable = False
    managed = taken(StridedMemoryView, StridedMemoryView.from_array_interface(array))
    assert managed.contents.flags & 1
    managed.contents.deleter(managed)


def test_view_made_by_c_code_keeps_the_tensor(device):
    buffer = LegacyPinnedMemoryResource().allocate(64)
    view = ctypes.py_object()
    assert table_of(StridedMemoryView).managed_to_object(taken(Buffer, buffer), view) == 0
    made = view.value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))  # the reference that the function returned
    assert type(made) is StridedMemoryView and made.ptr == buffer.handle and made.shape == (64,)
    alive = weakref.ref(buffer)
    del buffer
    gc.collect()
    assert alive() is not None
    del made, view
    gc.collect()
    assert alive() is None


def test_failing_exchange_function_sets_a_python_error(device, stream):
    buffer = device.allocate(64, stream=stream)
    buffer.close()
    with pytest.raises(RuntimeError, match="closed"):
        table_of(Buffer).managed_from_object(buffer, ctypes.POINTER(Managed)())
    said = []
    note = SetError(lambda context, kind, text: said.append((kind, text)))
    assert table_of(Buffer).allocate(Tensor(), ctypes.POINTER(Managed)(), None, note) == -1
    assert said[0][0] == b"NotImplementedError" and b"Device.allocate" in said[0][1]


def test_current_stream_is_the_default_stream(device):
    stream = ctypes.c_void_p(77)
    assert table_of(Buffer).current_stream(2, 0, stream) == 0
    assert stream.value == int(device.default_stream.handle)
    assert table_of(Buffer).current_stream(1, 0, stream) == 0 and stream.value is None


def borrowed(cls: type, thing: object) -> Tensor:
    tensor = Tensor()
    assert table_of(cls).tensor_of_object(thing, tensor) == 0
    return tensor


@pytest.mark.parametrize("cls", [Buffer, StridedMemoryView])
def test_no_function_of_the_table_is_null(cls):
    table = table_of(cls)
    for name, _ in Table._fields_[3:]:
        assert ctypes.cast(getattr(table, name), ctypes.c_void_p).value, name


@pytest.mark.parametrize("cls", [Buffer, StridedMemoryView])
def test_c_code_borrows_a_buffer(device, stream, cls):
    buffer = device.allocate(64, stream=stream)
    tensor = borrowed(cls, buffer)
    assert (tensor.data, tensor.device_type, tensor.device_id) == (buffer.handle, *buffer.__dlpack_device__())
    assert (tensor.ndim, tensor.shape[0], tensor.strides[0], tensor.offset) == (1, 64, 1, 0)
    assert (tensor.code, tensor.bits, tensor.lanes) == (0, 8, 1)


def test_c_code_borrows_a_view_with_its_shape_and_strides():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    view = StridedMemoryView.from_any_interface(array.T, -1)
    first, again = borrowed(StridedMemoryView, view), borrowed(StridedMemoryView, view)
    for tensor in (first, again):
        assert [tensor.shape[i] for i in range(2)] == [4, 3] and [tensor.strides[i] for i in range(2)] == [1, 4]
        assert (tensor.code, tensor.bits, tensor.data) == (2, 32, array.ctypes.data)


def test_a_borrowed_view_without_strides_is_packed():
    buffer = LegacyPinnedMemoryResource().allocate(96)
    tensor = borrowed(StridedMemoryView, StridedMemoryView.from_buffer(buffer, (2, 3, 4), dtype=np.dtype("f4")))
    assert [tensor.strides[i] for i in range(3)] == [12, 4, 1]
    scalar = borrowed(StridedMemoryView, StridedMemoryView.from_any_interface(np.array(3.0), -1))
    assert scalar.ndim == 0


def test_borrowed_tensor_follows_a_change_of_rank():
    view = StridedMemoryView.from_any_interface(np.zeros(4, np.int16), -1)
    borrowed(StridedMemoryView, view)
    with pytest.warns(DeprecationWarning):
        view.__init__(np.zeros((2, 3, 4, 5), np.int16), -1)
    tensor = borrowed(StridedMemoryView, view)
    assert [tensor.shape[i] for i in range(tensor.ndim)] == [2, 3, 4, 5]


def test_borrowing_an_unsupported_object_raises(device, stream):
    lend = table_of(StridedMemoryView).tensor_of_object
    closed = device.allocate(64, stream=stream)
    closed.close()
    frozen = np.arange(3)
    frozen.flags.writeable = False
    with pytest.warns(DeprecationWarning):
        empty = StridedMemoryView()
    for thing, error in (
        (closed, RuntimeError),
        (object(), TypeError),
        (empty, BufferError),
        (StridedMemoryView.from_buffer(LegacyPinnedMemoryResource().allocate(64), (4,), itemsize=4), BufferError),
        (StridedMemoryView.from_array_interface(frozen), BufferError),
    ):
        with pytest.raises(error):
            lend(thing, Tensor())


@pytest.mark.parametrize("wrong", ["ndim", "shape", "extent"])
def test_invalid_tensor_raises(device, wrong):
    buffer = LegacyPinnedMemoryResource().allocate(64)
    managed = taken(Buffer, buffer)
    tensor = managed.contents.tensor
    extents = (ctypes.c_int64 * 1)(-1)
    if wrong == "ndim":
        tensor.ndim = -1
    elif wrong == "shape":
        tensor.shape = None
    else:
        tensor.shape = extents
    with pytest.raises(BufferError, match="not valid"):
        table_of(StridedMemoryView).managed_to_object(managed, ctypes.py_object())
    managed.contents.deleter(managed)
