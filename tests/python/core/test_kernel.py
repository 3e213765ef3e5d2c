# SPDX-License-Identifier: Apache-2.0
"""Kernels: parameters, attributes, occupancy, handles."""

import ctypes
import gc
import pickle
import warnings
import weakref

import pytest
from cuda.bindings import driver
from cuda.core import CUDAError, Device, Kernel, LaunchConfig, ObjectCode, Program, ProgramOptions, launch

np = pytest.importorskip("numpy")

SOURCE = """
struct Triple { char c; double d; short s; };
extern "C" __global__ void mixed(char a, double b, short c, Triple t, float* p) { *p = a + b + c + t.d; }
extern "C" __global__ void none() {}
extern "C" __global__ void __launch_bounds__(128) bounded(float* p) {
  __shared__ float tile[256];
  tile[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = tile[127 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def code():
    device = Device()
    device.set_current()
    return Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")


@pytest.fixture(autouse=True)
def current():
    Device().set_current()


def test_parameters_have_offsets_and_sizes(code):
    kernel = code.get_kernel("mixed")
    assert kernel.num_arguments == 5
    assert [tuple(info) for info in kernel.arguments_info] == [(0, 1), (8, 8), (16, 2), (24, 24), (48, 8)]
    assert kernel.arguments_info[3].offset == 24
    assert code.get_kernel("none").arguments_info == []


def test_attributes_are_ints_that_may_be_called(code):
    attributes = code.get_kernel("bounded").attributes
    assert attributes.max_threads_per_block == 128
    assert attributes.max_threads_per_block() == 128
    assert attributes.shared_size_bytes() == 1024
    assert attributes.num_regs() == attributes.num_regs
    assert attributes.local_size_bytes() >= 0
    assert attributes.max_threads_per_block(0) == 128
    assert attributes[0].shared_size_bytes == 1024
    assert attributes[Device(0)].shared_size_bytes == 1024


def test_all_attributes_can_be_read(code):
    attributes = code.get_kernel("none").attributes
    names = [name for name in dir(type(attributes)) if not name.startswith("_")]
    assert len(names) == 16
    for name in names:
        assert isinstance(getattr(attributes, name), int), name


def test_dynamic_shared_memory_limit_can_be_set(code):
    attributes = code.get_kernel("bounded").attributes
    attributes.max_dynamic_shared_size_bytes = 65536
    assert attributes.max_dynamic_shared_size_bytes == 65536
    with pytest.raises(AttributeError):
        attributes.num_regs = 3


def test_occupancy_returns_launchable_sizes(code):
    occupancy = code.get_kernel("bounded").occupancy
    blocks = occupancy.max_active_blocks_per_multiprocessor(block_size=128, dynamic_shared_memory_size=0)
    assert blocks >= 1
    result = occupancy.max_potential_block_size(dynamic_shared_memory_needed=0, block_size_limit=0)
    assert 1 <= result.max_block_size <= 128
    assert result.min_grid_size >= 1
    assert occupancy.max_potential_block_size(0, 64).max_block_size <= 64
    assert occupancy.available_dynamic_shared_memory_per_block(1, 128) > 0


def test_occupancy_of_clusters_is_positive(code):
    device = Device()
    stream = device.create_stream()
    config = LaunchConfig(grid=2, cluster=2, block=64)
    occupancy = code.get_kernel("none").occupancy
    assert occupancy.max_active_clusters(config, stream=stream) >= 1
    assert occupancy.max_potential_cluster_size(config, stream=stream) >= 2


def test_kernel_from_handle_equals_the_kernel(code):
    kernel = code.get_kernel("mixed")
    same = Kernel.from_handle(kernel.handle, code)
    assert same == kernel
    assert hash(same) == hash(kernel)
    assert same.num_arguments == 5
    assert same.name == "mixed"
    assert Kernel.from_handle(int(kernel.handle)) == kernel
    with pytest.raises(TypeError):
        Kernel.from_handle("mixed")
    with pytest.raises(ValueError):
        Kernel.from_handle(0)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(Kernel.from_handle(int(kernel.handle)))


def answers(shared_memory):
    """The result of the driver function with a C callback."""
    function = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(shared_memory)
    address = ctypes.cast(function, ctypes.c_void_p).value
    return driver.CUoccupancyB2DSize(address), function


@pytest.mark.parametrize("limit", [0, 64])
def test_occupancy_calls_a_callable_for_the_shared_memory_of_a_block(code, limit):
    occupancy, asked = code.get_kernel("bounded").occupancy, []

    def shared_memory(block_size):
        asked.append(block_size)
        return block_size * 8

    handle, function = answers(shared_memory)
    found = [occupancy.max_potential_block_size(given, limit) for given in (shared_memory, function, handle)]
    assert len(set(found)) == 1 and 1 <= found[0].max_block_size <= (limit or 128) and asked
    numbers = [
        occupancy.max_potential_block_size(given, limit) for given in (512, np.int64(512), lambda n: np.int32(512))
    ]
    assert len(set(numbers)) == 1


def test_occupancy_without_a_function_needs_no_shared_memory(code):
    occupancy = code.get_kernel("bounded").occupancy
    assert occupancy.max_potential_block_size(driver.CUoccupancyB2DSize(0), 0) == occupancy.max_potential_block_size(
        0, 0
    )


def test_exception_of_an_occupancy_callable_is_raised(code):
    calls = []

    def fails(block_size):
        calls.append(block_size)
        raise LookupError("no such block")

    kernel = code.get_kernel("bounded")
    with pytest.raises(LookupError, match="no such block"):
        kernel.occupancy.max_potential_block_size(fails, 0)
    with pytest.raises(LookupError, match="no such block"):
        driver.cuOccupancyMaxPotentialBlockSize(int(kernel.handle), fails, 0, 0)
    assert len(calls) == 2


def test_occupancy_callable_may_query_another_kernel(code):
    inner, outer = code.get_kernel("none").occupancy, code.get_kernel("bounded").occupancy
    alone = outer.max_potential_block_size(lambda n: n, 0)
    assert outer.max_potential_block_size(lambda n: (inner.max_potential_block_size(lambda m: m, 0), n)[1], 0) == alone


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (-1, ValueError), (2**64, ValueError), (1024.0, TypeError), ("1024", TypeError), (None, TypeError),
        (lambda n: -1, ValueError), (lambda n: None, TypeError), (lambda n: 1.5, TypeError), (lambda: 0, TypeError),
        (driver.CUoccupancyB2DSize(12345), ValueError),
    ],
    ids=str,
)  # fmt: skip
def test_occupancy_with_an_invalid_size_raises(code, given, error):
    with pytest.raises(error):
        code.get_kernel("bounded").occupancy.max_potential_block_size(given, 0)


def test_driver_occupancy_with_user_data_but_no_function_raises(code):
    with pytest.raises(ValueError, match="blockSizeToDynamicSMemSize"):
        driver.cuOccupancyMaxPotentialBlockSize(int(code.get_kernel("bounded").handle), 1024, 0, 0)


@pytest.mark.parametrize("query", ["max_active_clusters", "max_potential_cluster_size"])
def test_cluster_query_without_a_stream_raises_an_error_that_names_it(code, query):
    with pytest.raises(TypeError, match="stream must be a Stream"):
        getattr(code.get_kernel("mixed").occupancy, query)(LaunchConfig(grid=1, block=1))


@pytest.mark.parametrize("handle", [8, 12345, 1 << 40, (1 << 47) - 8, 2**64 - 8], ids=hex)
def test_invalid_kernel_handle_raises(code, handle):
    with pytest.raises(CUDAError, match="is not the handle of a kernel"):
        Kernel.from_handle(handle)
    with pytest.raises(CUDAError, match="the code given with it has no such kernel"):
        Kernel.from_handle(handle, code)


def test_kernel_handle_of_other_code_raises(code):
    other = Program('extern "C" __global__ void other() {}', "c++", ProgramOptions(arch=f"sm_{Device().arch}"))
    kernel = other.compile("cubin").get_kernel("other")
    assert Kernel.from_handle(kernel.handle).name == "other"


def test_kernel_from_handle_with_its_own_code_does_not_warn(code):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Kernel.from_handle(code.get_kernel("mixed").handle, code) == code.get_kernel("mixed")


def test_kernel_handle_of_unloaded_code_raises():
    program = Program('extern "C" __global__ void gone() {}', "c++", ProgramOptions(arch=f"sm_{Device().arch}"))
    code = program.compile("cubin")
    handle = int(code.get_kernel("gone").handle)
    library = driver.cuLibraryLoadData(code.code, [], [], 0, [], [], 0)[1]
    second = int(driver.cuLibraryGetKernel(library, b"gone")[1])
    assert Kernel.from_handle(handle).name == Kernel.from_handle(second).name == "gone"
    assert driver.cuLibraryUnload(library)[0] == 0
    del code
    gc.collect()
    for unloaded in (handle, second):
        with pytest.raises(CUDAError, match="has been unloaded"):
            Kernel.from_handle(unloaded)


@pytest.mark.cpu_only  # NVIDIA's driver accepts handles of its other objects as kernels
def test_handle_of_another_object_as_kernel_raises(code):
    device = Device()
    stream = device.create_stream()
    for thing in (stream, stream.record(), device.context):
        with pytest.raises(CUDAError, match="is not the handle of a kernel"):
            Kernel.from_handle(int(thing.handle))


@pytest.mark.parametrize("handle", ["12", 12.5, b"12", None, [1]], ids=repr)
def test_kernel_handle_of_a_wrong_type_raises(handle):
    with pytest.raises(TypeError, match="handle must be an int"):
        Kernel.from_handle(handle)


def test_kernels_compare_by_handle(code):
    assert code.get_kernel("mixed") == code.get_kernel("mixed")
    assert code.get_kernel("mixed") != code.get_kernel("none")
    assert code.get_kernel("mixed") != None  # noqa: E711


def test_unpickled_kernel_has_its_code():
    kernel = ObjectCode.from_ptx(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u32 n) { ret; }\n"
    ).get_kernel("k")
    copy = pickle.loads(pickle.dumps(kernel))
    assert copy.name == "k"
    assert pickle.loads(pickle.dumps(copy)).name == "k"
    assert copy.num_arguments == 1


def test_unpickling_does_not_touch_the_driver(code, tmp_path):
    """The kernel is looked up on first use, so a missing kernel raises only then."""
    import subprocess
    import sys

    file = tmp_path / "kernels"
    file.write_bytes(pickle.dumps([code.get_kernel("mixed"), code.get_kernel("none")]))
    program = """
import pickle, sys
from cuda.core._core import driver_is_loaded
mixed, none = pickle.load(open(sys.argv[1], "rb"))
assert (mixed.name, repr(none)) == ("mixed", "<Kernel none>") and not driver_is_loaded()
again, _ = pickle.loads(pickle.dumps([mixed, none]))
assert not driver_is_loaded()
assert mixed.num_arguments == 5 and driver_is_loaded()
assert mixed == mixed and mixed != none and hash(mixed) == hash(mixed)
"""
    subprocess.run([sys.executable, "-c", program, file], check=True)


def test_unpickled_kernel_that_is_missing_in_its_code_raises_on_use(device, stream):
    code = ObjectCode.from_ptx(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
    kernel = pickle.loads(pickle.dumps(code.get_kernel("k")).replace(b"\x8c\x01k", b"\x8c\x01x"))
    with pytest.raises(CUDAError, match="there is no kernel 'x'"):
        launch(stream, LaunchConfig(grid=1, block=1), kernel)


def test_kernel_supports_weak_references_and_repr(code):
    kernel = code.get_kernel("mixed")
    assert weakref.ref(kernel)() is kernel
    assert repr(kernel) == "<Kernel mixed>"


def test_attributes_and_occupancy_are_cached_and_do_not_keep_the_kernel(code):
    kernel = Kernel.from_handle(code.get_kernel("mixed").handle, code)
    attributes, occupancy = kernel.attributes, kernel.occupancy
    assert kernel.attributes is attributes and kernel.occupancy is occupancy
    kernel.attributes.max_dynamic_shared_size_bytes = 2048
    gone = weakref.ref(kernel)
    del kernel
    assert gone() is None  # without garbage collection
    assert attributes.max_dynamic_shared_size_bytes == 2048
    assert occupancy.max_active_blocks_per_multiprocessor(32, 0) > 0


def test_kernel_from_handle_keeps_its_code_loaded(device, stream):
    import gc

    source = 'extern "C" __global__ void put(int* p) { *p = 42; }'
    code = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    other = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    kernel = code.get_kernel("put")
    again = Kernel.from_handle(kernel.handle)
    with pytest.warns(UserWarning, match="not of the code given as mod"):
        misnamed = Kernel.from_handle(kernel.handle, other)
    del code, kernel, other
    gc.collect()
    buffer = device.allocate(4, stream=stream)
    for one in (again, misnamed):
        buffer.fill(0, stream=stream)
        launch(stream, LaunchConfig(grid=1, block=1), one, buffer)
        back = bytearray(4)
        buffer.copy_to(back, stream=stream)
        assert int.from_bytes(back, "little") == 42
