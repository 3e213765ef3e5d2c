# SPDX-License-Identifier: Apache-2.0
"""DLPack, the array interfaces and StridedMemoryView."""

import gc
import subprocess
import sys
import sysconfig
import types
import weakref

import pytest
from cuda.core import LegacyPinnedMemoryResource, ManagedMemoryResource, _core
from cuda.core.utils import StridedMemoryView, args_viewable_as_strided_memory

np = pytest.importorskip("numpy")


def test_numpy_reads_and_writes_pinned_buffers_in_place(device):
    buffer = LegacyPinnedMemoryResource().allocate(64)
    array = np.from_dlpack(buffer)
    assert array.dtype == np.int8 and array.shape == (64,)
    array.view(np.float32)[:] = np.arange(16)
    assert np.array_equal(np.from_dlpack(buffer).view(np.float32), np.arange(16, dtype=np.float32))


def test_dlpack_consumer_keeps_the_buffer(device):
    buffer = LegacyPinnedMemoryResource().allocate(64)
    ref = weakref.ref(buffer)
    array = np.from_dlpack(buffer)
    del buffer
    gc.collect()
    assert ref() is not None
    array[0] = 3
    del array
    gc.collect()
    assert ref() is None


def test_device_buffer_returns_its_dlpack_device(device, stream):
    buffer = device.allocate(64, stream=stream)
    assert buffer.__dlpack_device__() == (2, 0)
    capsule = buffer.__dlpack__()
    assert "dltensor" in repr(capsule)
    assert "dltensor_versioned" in repr(buffer.__dlpack__(max_version=(1, 0)))
    with pytest.raises(BufferError):
        buffer.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError):
        buffer.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="stream"):
        StridedMemoryView.from_dlpack(buffer)
    view = StridedMemoryView.from_dlpack(buffer, stream.handle)
    assert view.ptr == buffer.handle and view.is_device_accessible and view.device_id == 0


def test_view_of_a_numpy_array_has_its_layout():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    # Strides come from the exporter: NumPy's DLPack returns them (since 2.4), its array interface returns None for C order.
    views = (StridedMemoryView.from_dlpack(array), (4, 1)), (StridedMemoryView.from_array_interface(array), None)
    for view, strides in views:
        assert view.ptr == array.ctypes.data and view.shape == (3, 4) and view.strides in (strides, None)
        assert view._dense_strides() == (4, 1)
        assert view.dtype == np.float32 and view.size == 12 and not view.is_device_accessible
        assert view.device_id == -1 and view.exporting_obj is array
    turned = StridedMemoryView.from_any_interface(array.T, -1)
    assert turned.shape == (4, 3) and turned.strides == (1, 4)
    fixed = np.arange(3)
    fixed.flags.writeable = False
    assert StridedMemoryView.from_array_interface(fixed).readonly
    assert np.array_equal(np.from_dlpack(StridedMemoryView.from_any_interface(array, -1)), array)
    with pytest.raises(BufferError, match="no interface"):
        StridedMemoryView.from_any_interface(3)


def test_view_of_a_cuda_array_interface_has_its_layout(device, stream):
    buffer = device.allocate(64, stream=stream)

    class Array:
        __cuda_array_interface__ = {
            "shape": (2, 8), "typestr": "<f4", "data": (buffer.handle, True), "version": 3,
            "strides": (32, 4), "stream": int(stream.handle),
        }  # fmt: skip

    view = StridedMemoryView.from_cuda_array_interface(Array(), int(stream.handle))
    assert view.ptr == buffer.handle and view.shape == (2, 8) and view.readonly and view.dtype == np.float32
    assert StridedMemoryView.from_any_interface(Array(), -1).device_id == 0


def test_view_of_a_buffer_that_does_not_fit_raises(device, stream):
    buffer = device.allocate(64, stream=stream)
    view = StridedMemoryView.from_buffer(buffer, (4, 4), dtype=np.dtype(np.float32))
    assert view.size == 16 and view.dtype == np.float32 and view.exporting_obj is buffer
    assert view.view(dtype=np.dtype(np.int32)).dtype == np.int32
    with pytest.raises(ValueError, match="outside"):
        StridedMemoryView.from_buffer(buffer, (5, 4), dtype=np.dtype(np.float32))
    with pytest.raises(ValueError, match="dtype or itemsize"):
        StridedMemoryView.from_buffer(buffer, (4,))


def test_strided_copies_work_in_both_directions(device, stream):
    source = np.arange(24, dtype=np.int32).reshape(4, 6)
    buffer = device.allocate(source.nbytes, stream=stream)
    middle = StridedMemoryView.from_buffer(buffer, (4, 6), dtype=source.dtype)
    middle.copy_from(StridedMemoryView.from_array_interface(source), stream)
    target = np.zeros((4, 8), np.int32)
    StridedMemoryView.from_array_interface(target[:, 1:7]).copy_from(middle, stream)
    assert np.array_equal(target[:, 1:7], source) and not target[:, 0].any() and not target[:, 7].any()


def test_decorated_arguments_have_view():
    @args_viewable_as_strided_memory((1,))
    def function(a, b):
        return a, b.view(-1)

    array = np.zeros(3)
    first, view = function(1, array)
    assert first == 1 and isinstance(view, StridedMemoryView) and view.ptr == array.ctypes.data


def test_view_created_by_its_constructor_has_all_properties():
    import numpy as np
    from cuda.core.utils import StridedMemoryView

    array = np.zeros((4, 6), np.float32)
    with pytest.warns(DeprecationWarning, match="from_any_interface"):
        view = StridedMemoryView(array[:, ::2], stream_ptr=-1)
    assert (view.shape, view.strides, view.ptr) == ((4, 3), (6, 2), array.ctypes.data)
    layout = view._layout  # used by numba-cuda
    assert layout.strides_in_bytes == (24, 8) and not layout.is_contiguous_any
    assert StridedMemoryView.from_any_interface(array, stream_ptr=-1)._layout.is_contiguous_c
    assert StridedMemoryView.from_any_interface(array.T, stream_ptr=-1)._layout.is_contiguous_f


def test_empty_view_warns_and_has_no_elements():
    with pytest.warns(DeprecationWarning, match="StridedMemoryView"):
        view = StridedMemoryView()
    assert (view.ptr, view.size, view.dtype, view.exporting_obj) == (0, 0, None, None)
    assert not view.is_device_accessible and not view.readonly and "ptr=0x0" in repr(view)
    with pytest.raises(BufferError):
        view.__dlpack__()


@pytest.mark.parametrize("itemsize", [1, 3, 4, 64])
def test_view_of_a_buffer_without_a_dtype_has_none(device, stream, itemsize):
    buffer = device.allocate(256, stream=stream)
    view = StridedMemoryView.from_buffer(buffer, (2, 2), itemsize=itemsize)
    assert view.dtype is None and view._layout.itemsize == itemsize and view.size == 4
    with pytest.raises(BufferError, match="DLPack has no elements of type None"):
        view.__dlpack__()


def test_view_without_a_dtype_gets_one_by_view(device, stream):
    view = StridedMemoryView.from_buffer(device.allocate(64, stream=stream), (4, 4), itemsize=4)
    typed = view.view(dtype=np.dtype(np.float32))
    assert typed.dtype == np.float32 and typed.shape == (4, 4) and typed.__dlpack__() is not None
    assert view.dtype is None


def test_view_without_arguments_returns_the_same_view():
    view = StridedMemoryView.from_any_interface(np.zeros(4), -1)
    assert view.view() is view
    assert view.view(dtype=np.dtype(np.int64)) is not view


def test_memory_of_a_foreign_device_raises_before_it_is_exported():
    class Foreign:
        asked = False

        def __dlpack_device__(self):
            return 10, 0  # ROCm

        def __dlpack__(self, **options):
            self.asked = True

    foreign = Foreign()
    with pytest.raises(BufferError, match="DLPack's type 10"):
        StridedMemoryView.from_dlpack(foreign, stream_ptr=-1)
    with pytest.raises(BufferError, match="DLPack's type 10"):
        StridedMemoryView.from_any_interface(foreign, stream_ptr=-1)
    assert not foreign.asked


def test_arrays_of_records_are_viewed_with_their_type(device, stream):
    record = np.dtype([("x", "i4"), ("y", "f8")], align=True)
    array = np.zeros((3, 2), dtype=record)
    array["x"] = np.arange(6).reshape(3, 2)
    for view in (StridedMemoryView.from_any_interface(array, -1), StridedMemoryView.from_array_interface(array)):
        assert view.dtype == record and view.shape == (3, 2) and view.ptr == array.ctypes.data
    assert StridedMemoryView.from_any_interface(array[::2], -1).strides == (4, 1)
    buffer = device.allocate(array.nbytes, stream=stream)
    there = StridedMemoryView.from_buffer(buffer, array.shape, dtype=record)
    there.copy_from(StridedMemoryView.from_any_interface(array, -1), stream=stream)
    back = np.zeros_like(array)
    there.copy_to(StridedMemoryView.from_any_interface(back, -1), stream=stream)
    stream.sync()
    assert (back == array).all()
    with pytest.raises(BufferError, match="DLPack has no elements"):
        there.__dlpack__()
    packed = np.zeros(4, dtype=[("x", "i4"), ("y", "f8")])  # a y every 12 bytes
    with pytest.raises(ValueError, match="no multiples"):
        StridedMemoryView.from_array_interface(packed["y"])


FIELDS = ("ptr", "shape", "_dl_type", "_dl_device", "device_id", "is_device_accessible", "readonly")


def same(array, stream_ptr=-1):
    """The direct view of an array equals its view through DLPack."""
    short = StridedMemoryView.from_any_interface(array, stream_ptr=stream_ptr)
    long = StridedMemoryView.from_dlpack(array, stream_ptr=stream_ptr)
    assert short.exporting_obj is array
    # NumPy before 2.4 exports no strides where they are dense.
    assert 0 in short.shape or short._dense_strides() == long._dense_strides()
    return [getattr(short, name) for name in FIELDS] == [getattr(long, name) for name in FIELDS]


@pytest.mark.parametrize("kind", ["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d", "F", "D"])
def test_view_of_a_numpy_array_equals_its_dlpack_view(kind):
    array = np.zeros((4, 6), kind)
    fixed = array.copy()
    fixed.flags.writeable = False
    assert all(same(a) for a in (array, array[:, ::2], array.T, array[::-1], array[0, 0:1], array[1], fixed))
    scalar = np.array(3, kind)
    assert same(scalar) and StridedMemoryView.from_any_interface(scalar).shape == ()
    assert same(np.zeros((1, 2, 3, 1, 2, 3), kind)) and same(np.zeros((0, 3), kind))


def test_view_of_a_broadcast_array_is_read_only():
    row = np.zeros(3, np.float32)
    StridedMemoryView.from_any_interface(row, stream_ptr=-1)  # the element type is known from now on
    for array in (np.broadcast_to(row, (4, 3)), np.broadcast_arrays(row, np.zeros((4, 3)))[0]):
        view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
        assert view.readonly and view.shape == (4, 3) and view.strides == (0, 1)


def test_attributes_of_a_view_can_be_set_and_not_deleted():
    array = np.zeros((2, 3), np.float32)
    view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
    view.shape = (3, 2)
    assert view.shape == (3, 2) and view.strides == (3, 1) and view.ptr == array.ctypes.data
    with pytest.raises(AttributeError):
        del view.ptr
    assert view.ptr == array.ctypes.data


def cupy_array(address: int) -> object:
    """What a view reads of an array of CuPy."""
    data = type("MemoryPointer", (), {"ptr": address, "device_id": 0})()
    members = {
        "__module__": "cupy",
        "data": data,
        "shape": (4,),
        "strides": (4,),
        "_c_contiguous": True,
        "dtype": np.dtype(np.float32),
        "__dlpack_device__": lambda self: (2, 7),
    }
    return type("ndarray", (), members)()


def test_view_of_a_cupy_array_asks_the_driver_for_the_kind_of_memory(device, stream):
    device_memory = device.allocate(16, stream=stream)
    managed = ManagedMemoryResource().allocate(16, stream=stream)
    host = np.zeros(4, np.float32)  # the driver does not know it: the array itself says where it is
    for address, expected in ((device_memory.handle, (2, 0)), (managed.handle, (13, 0)), (host.ctypes.data, (2, 7))):
        view = StridedMemoryView.from_any_interface(cupy_array(int(address)), stream_ptr=-1)
        assert view.is_device_accessible and view.ptr == int(address) and view.strides == (1,)
        assert view.__dlpack_device__() == expected == view._dl_device


def test_view_of_a_packed_cupy_array_has_its_strides(device, stream):
    memory = device.allocate(96, stream=stream)
    for shape, packed, strides, expected in (
        ((2, 3, 4), True, None, (12, 4, 1)),  # not read
        ((2, 3, 4), False, (4, 8, 24), (1, 2, 6)),
        ((2, 1, 4), True, (16, 64, 4), (4, 16, 1)),  # the stride of one element may be anything
    ):
        array = cupy_array(int(memory.handle))
        type(array).shape, type(array)._c_contiguous, type(array).strides = shape, packed, strides
        view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
        assert view.shape == shape and view.strides == expected


CUPY_FIELDS = """
import ctypes, gc, sys, types
import numpy as np
from cuda.core.utils import StridedMemoryView

gc.disable()  # the words of these objects are not all objects
words = lambda thing: (ctypes.c_uint64 * (type(thing).__basicsize__ // 8)).from_address(id(thing))
slots = lambda count: tuple(f"w{i:02}" for i in range(count))
numbers = lambda values: (ctypes.c_int64 * len(values))(*values)


class MemoryPointer:
    __slots__ = slots(4)  # the table of functions, the address, the device, what is kept
    device_id = 3
    ptr = property(lambda self: words(self)[3])


class ndarray:
    __slots__ = slots(int(sys.argv[1]))
    __module__ = "cupy"
    # What the attributes say. Of an array that the fields describe, they are not asked.
    shape, strides, _c_contiguous, dtype = (2, 3), (24, 8), False, np.dtype(np.float32)
    data = property(lambda self: pointer)


sys.modules["cupy"] = types.SimpleNamespace() if sys.argv[2] == "unnamed" else types.ModuleType("cupy")
sys.modules["cupy"].ndarray = ndarray


def fill(array, pointer, shape, strides):
    here, there = words(array), words(pointer)
    extents, steps = numbers(shape), numbers(strides)
    for at, values in ((5, extents), (8, steps)):
        here[at : at + 3] = [ctypes.addressof(values), *[ctypes.addressof(values) + 8 * len(values)] * 2]
    here[4] = int(np.prod(shape))
    here[13], here[14] = id(ndarray.dtype), id(pointer)
    there[3], there[4] = 1 << 40, 3
    return extents, steps


pointer, array = MemoryPointer(), ndarray()
kept = fill(array, pointer, (2, 3), (24, 8) if sys.argv[2] != "other" else (8, 24))
for _ in range(40):
    view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
    assert (view.shape, view.strides, view.ptr, view.device_id) == ((2, 3), (6, 2), 1 << 40, 3), view
more = fill(array, pointer, (5, 4, 2), (32, -8, 4))
view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
print(view.shape, view.strides, view.ptr == 1 << 40, view.device_id, view.dtype, view.is_device_accessible, view.readonly)
for thing in (array, pointer):
    words(thing)[2:] = [0] * (len(words(thing)) - 2)
"""


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="reads attributes only")
@pytest.mark.parametrize(
    ("slots", "case", "expected"),
    [
        (14, "same", "(5, 4, 2) (8, -2, 1) True 3 float32 True False"),
        (14, "other", "(2, 3) (6, 2) True 3 float32 True False"),  # the fields say something else than the attributes
        (15, "same", "(2, 3) (6, 2) True 3 float32 True False"),  # a larger object, whose fields may be others
        (14, "unnamed", "(2, 3) (6, 2) True 3 float32 True False"),  # a class that may be destroyed
    ],
)
def test_fields_of_a_cupy_array_are_read_once_its_attributes_confirmed_them(slots, case, expected):
    done = subprocess.run([sys.executable, "-c", CUPY_FIELDS, str(slots), case], capture_output=True, text=True)
    assert done.stdout.strip() == expected, done.stderr


def test_views_of_cupy_arrays_follow_the_attributes_of_each_array(device, stream):
    cupy = pytest.importorskip("cupy")
    memory = device.allocate(4096, stream=stream)
    held = cupy.cuda.UnownedMemory(int(memory.handle), 4096, memory, 0)
    whole = cupy.ndarray((4, 6), cupy.float32, cupy.cuda.MemoryPointer(held, 64))
    for _ in range(3):
        for array in (whole, whole[:, ::2], whole.T, whole[1], whole[1:, 2:], whole[2, 3], whole[:0], whole.view("i2")):
            view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
            assert view.shape == array.shape and view.exporting_obj is array and view.ptr == array.data.ptr
            if 0 not in array.shape and array.ndim > 0:
                assert tuple(step * array.itemsize for step in view.strides) == array.strides
            assert view.dtype == array.dtype and view.device_id == 0 and view.is_device_accessible
    whole.shape = (6, 4)
    assert StridedMemoryView.from_any_interface(whole, stream_ptr=-1).shape == (6, 4)


def test_array_with_an_unsupported_element_type_raises():
    for array in (np.zeros(3, ">i4"), np.zeros(3, object)):
        with pytest.raises((BufferError, TypeError)):
            StridedMemoryView.from_any_interface(array, stream_ptr=-1)


def test_view_keeps_its_array_and_supports_weak_references():
    array = np.zeros(8)
    view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
    watched, seen = weakref.ref(array), weakref.ref(view)
    del array
    gc.collect()
    assert watched() is not None
    del view
    gc.collect()
    assert watched() is None and seen() is None


def test_objects_of_freed_views_are_used_again_without_their_values():
    flat, deep = np.zeros(3, np.float32), np.zeros((1, 2, 3, 4, 5, 6), np.int8)
    deep.flags.writeable = False
    seen = set()
    for _ in range(100):
        first = StridedMemoryView.from_any_interface(deep, stream_ptr=-1)
        assert first.shape == deep.shape and first.readonly and first.dtype == np.int8 and first.strides is not None
        watched = weakref.ref(first)
        seen.add(id(first))
        del first
        second = StridedMemoryView.from_any_interface(flat, stream_ptr=-1)
        seen.add(id(second))
        assert watched() is None
        assert second.shape == (3,) and second.strides == (1,) and not second.readonly and second.dtype == np.float32
        assert second.ptr == flat.ctypes.data and second.exporting_obj is flat and second.device_id == -1
        assert gc.is_tracked(second)
        del second
    assert len(seen) < 50
    held = [StridedMemoryView.from_any_interface(flat, stream_ptr=-1) for _ in range(200)]
    assert len({id(view) for view in held}) == 200


def test_what_was_set_in_a_freed_view_is_released_and_not_in_the_next():
    class Owner:
        pass

    array = np.zeros(3, np.float32)
    for name, default in (("_owner", None), ("_dtype", None), ("readonly", False), ("is_device_accessible", False)):
        view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
        assert getattr(view, name) is default
        owner = Owner()
        watched = weakref.ref(owner)
        setattr(view, name, owner)
        assert getattr(view, name) is owner
        del view, owner
        assert watched() is None
        view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
        assert getattr(view, name) is default and view.shape == (3,)
        del view


def test_a_view_that_alone_keeps_its_array_frees_it():
    for _ in range(3):
        array = np.zeros(3, np.float32)
        watched = weakref.ref(array)
        view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
        del array
        assert watched() is not None
        del view
        assert watched() is None


def test_a_long_chain_of_views_is_freed():
    array = np.zeros(3)
    watched = weakref.ref(array)
    view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
    for _ in range(200_000):
        outer = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
        outer.exporting_obj = view
        view = outer
    del array, outer, view
    gc.collect()
    assert watched() is None


def test_a_class_derived_from_the_view_makes_views_of_itself():
    class Derived(StridedMemoryView):
        pass

    class Own(StridedMemoryView):
        @classmethod
        def from_any_interface(cls, obj, stream_ptr=None):
            return "own", cls

    class Below(Own):
        pass

    class Told(StridedMemoryView):
        def __init_subclass__(cls, word="", **more):
            super().__init_subclass__(**more)
            cls.word = word

    class BelowTold(Told, word="yes"):
        pass

    array = np.zeros(3)
    for _ in range(3):
        assert type(Derived.from_any_interface(array, stream_ptr=-1)) is Derived
        assert type(StridedMemoryView.from_any_interface(array, stream_ptr=-1)) is StridedMemoryView
    assert Below.from_any_interface(array) == ("own", Below)
    assert BelowTold.word == "yes" and type(BelowTold.from_any_interface(array, -1)) is BelowTold
    with pytest.raises(TypeError):
        type("Wrong", (StridedMemoryView,), {}, unknown=1)
    view = Derived.from_any_interface(array, stream_ptr=-1)
    assert type(view.from_any_interface(array, stream_ptr=-1)) is Derived
    view.more = 1  # has attributes of its own, and weak references
    assert weakref.ref(view)() is view


def test_view_of_a_torch_tensor_equals_its_dlpack_view(device, stream):
    torch = pytest.importorskip("torch")
    on_gpu = (
        torch.cuda.is_available() and not _core.is_cpu_device()
    )  # torch uses NVIDIA's driver, which does not know streams of the CPU device
    for place in ("cpu", "cuda") if on_gpu else ("cpu",):
        tensor = torch.zeros((4, 6), device=place)
        assert all(same(t) for t in (tensor, tensor[:, ::2], tensor.t(), tensor[1], tensor.to(torch.bfloat16)))
        assert same(torch.tensor(3, device=place)) and same(torch.zeros(3, dtype=torch.bool, device=place))
        with pytest.raises((BufferError, RuntimeError)):
            StridedMemoryView.from_any_interface(torch.zeros(3, device=place, requires_grad=True), stream_ptr=-1)
    if on_gpu:
        assert same(torch.zeros(3, device="cuda"), int(stream.handle))
        with pytest.raises(BufferError, match="stream"):
            StridedMemoryView.from_any_interface(torch.zeros(3, device="cuda"))


@pytest.mark.gpu_only  # cupy's arrays and streams belong to NVIDIA's driver
def test_view_of_a_cupy_array_equals_its_dlpack_view(device, stream):
    cupy = pytest.importorskip("cupy")
    array = cupy.zeros((4, 6), cupy.float32)
    assert all(same(a) for a in (array, array[:, ::2], array.T, array[1], array.astype(cupy.int8), array.astype("F")))
    assert same(array, int(stream.handle))


@pytest.mark.parametrize("dtype", [np.int32, "i4", np.dtype(np.int32)], ids=["class", "text", "dtype"])
def test_a_view_as_another_type_has_a_numpy_type(dtype):
    view = StridedMemoryView.from_any_interface(np.zeros(4, dtype=np.float32), stream_ptr=-1).view(dtype=dtype)
    assert isinstance(view.dtype, np.dtype) and view.dtype == np.int32


class Interface:
    """An object with an array interface that has invalid entries."""

    def __init__(self, name, address, **parts):
        facts = {"version": 3, "shape": (4,), "typestr": "<f4", "data": (address, False), "strides": None}
        setattr(self, name, facts | parts)


WRONG_PARTS = [
    {"shape": "text"}, {"shape": "12"}, {"shape": 4}, {"shape": None}, {"shape": (4.5,)}, {"shape": ("4",)}, {"shape": (-1,)},
    {"shape": (2**63,)}, {"strides": "ab"}, {"strides": (4, 4)}, {"strides": (1.0,)}, {"typestr": ""}, {"typestr": "f"},
    {"typestr": "<fx"}, {"typestr": "<f0"}, {"typestr": 3}, {"data": None}, {"data": 5}, {"data": ("x", False)},
    {"data": (-5, False)}, {"data": (2**64, False)}, {"version": "3"}, {"version": None},
]  # fmt: skip


@pytest.mark.parametrize("parts", WRONG_PARTS, ids=str)
def test_invalid_array_interface_raises_an_error_that_names_the_entry(device, parts):
    buffer = LegacyPinnedMemoryResource().allocate(64)
    name = next(iter(parts))
    words = "type of the elements" if name == "typestr" else "address" if name == "data" else name
    with pytest.raises(BufferError, match=words):
        StridedMemoryView.from_cuda_array_interface(
            Interface("__cuda_array_interface__", buffer.handle, **parts), stream_ptr=-1
        )
    with pytest.raises(BufferError, match=words):
        StridedMemoryView.from_array_interface(Interface("__array_interface__", buffer.handle, **parts))


def test_array_interface_with_an_invalid_stream_raises(device, stream):
    thing = Interface("__cuda_array_interface__", int(device.allocate(16, stream=stream).handle), stream="text")
    with pytest.raises(BufferError, match="stream"):
        StridedMemoryView.from_any_interface(thing, stream_ptr=int(stream.handle))


@pytest.mark.parametrize(
    ("wrong", "error"), [("text", TypeError), ("1", TypeError), (1.5, TypeError), ([], TypeError), (-5, ValueError)]
)
def test_dlpack_with_an_invalid_stream_raises(device, stream, wrong, error):
    buffer = device.allocate(64, stream=stream)
    view = StridedMemoryView.from_dlpack(buffer, stream_ptr=-1)
    for thing in (buffer, view):
        with pytest.raises(error, match="stream"):
            thing.__dlpack__(stream=wrong)
        with pytest.raises(error, match="stream"):
            StridedMemoryView.from_any_interface(thing, stream_ptr=wrong)
        for right in (None, -1, 1, int(stream.handle), stream, stream.handle):
            thing.__dlpack__(stream=right)


@pytest.mark.parametrize("kind", ["M8[D]", "m8[s]", "S12", "U12"])
def test_view_of_dates_and_fixed_texts_has_their_numpy_type(kind: str) -> None:
    array = np.zeros((3, 4), kind)
    view = StridedMemoryView(array, -1)
    assert (view.dtype, view.shape, view.ptr) == (array.dtype, (3, 4), array.ctypes.data)
    assert StridedMemoryView.from_array_interface(array[::2]).strides == (8, 1)
    owner = types.SimpleNamespace(
        __cuda_array_interface__={"shape": (3,), "typestr": array.dtype.str, "data": (0, False), "version": 3}
    )
    assert StridedMemoryView.from_cuda_array_interface(owner, -1).dtype == array.dtype
