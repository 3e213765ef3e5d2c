# SPDX-License-Identifier: Apache-2.0
"""launch and LaunchConfig: shapes, arguments, errors that name the argument."""

import ctypes
import pickle

import pytest
from cuda.core import CUDAError, Kernel, LaunchConfig, ObjectCode, Program, ProgramOptions, Stream, launch
from cuda.core.graph import GraphDefinition
from cuda.core.texture import OpaqueArrayOptions, ResourceDescriptor
from cuda.core.utils import StridedMemoryView

np = pytest.importorskip("numpy")


def test_missing_shape_dimensions_are_one():
    config = LaunchConfig(grid=4, block=(2, 3))
    assert config.grid == (4, 1, 1) and config.block == (2, 3, 1) and config.cluster is None
    assert config.shmem_size == 0 and not config.is_cooperative and not config.cooperative_launch
    assert LaunchConfig(4, None, 8, 16, True).is_cooperative
    assert LaunchConfig(grid=1, block=1, cooperative_launch=True) == LaunchConfig(grid=1, block=1, is_cooperative=True)
    assert LaunchConfig(grid=(2, 2), cluster=2, block=1).cluster == (2, 1, 1)
    assert config.grid is config.grid and config.block is config.block
    assert pickle.loads(pickle.dumps(config)) == config and len({config, LaunchConfig(grid=4, block=(2, 3))}) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"grid": 0, "block": 1},
        {"grid": 1},
        {"grid": (1, 2, 3, 4), "block": 1},
        {},
        {"grid": "many", "block": 1},
        {"grid": 1, "block": 1.5},
        {"grid": (1, "x"), "block": 1},
        {"grid": 1, "block": 1, "cluster": "x"},
    ],
)
def test_invalid_launch_shape_raises(bad):
    with pytest.raises(ValueError, match="LaunchConfig"):
        LaunchConfig(**bad)


def test_launch_config_argument_of_a_wrong_type_raises():
    with pytest.raises(TypeError, match="shmem_size"):
        LaunchConfig(grid=1, block=1, shmem_size="x")
    with pytest.raises(TypeError, match="colour"):
        LaunchConfig(grid=1, block=1, colour=2)


def run(stream, kernel, buffer, *args, grid=4, block=256):
    launch(stream, LaunchConfig(grid=grid, block=block), kernel, buffer, *args)


@pytest.mark.parametrize(
    "factor, n",
    [
        (np.float32(3), np.uint64(1000)),
        (ctypes.c_float(3), ctypes.c_size_t(1000)),
        (3.0, 1000),
        (np.float32(3), np.int32(1000)),  # an integer is converted by value
    ],
)
def test_numpy_ctypes_and_python_scalars_reach_the_kernel(device, stream, kernel, factor, n):
    data = np.arange(1024, dtype=np.float32)
    buffer = device.allocate(data.nbytes, stream=stream)
    buffer.copy_from(data, stream=stream)
    run(stream, kernel("scale"), buffer, factor, n)
    back = np.empty_like(data)
    buffer.copy_to(back, stream=stream)
    data[:1000] *= 3
    assert np.array_equal(back, data)


def test_pointer_arguments_accept_ints_and_bindings_objects(device, stream, kernel):
    driver = pytest.importorskip("cuda.bindings.driver")
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    run(stream, kernel("add_one"), buffer.handle, np.int32(1), grid=1, block=1)
    run(stream, kernel("add_one"), driver.CUdeviceptr(buffer.handle), ctypes.c_int(1), grid=1, block=1)
    back = np.zeros(1, np.int32)
    buffer.copy_to(back, stream=stream)
    assert back[0] == 2


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]


@pytest.mark.parametrize("kind", ["ctypes", "numpy"])
def test_structures_are_passed_by_value(device, stream, kernel, kind):
    out = np.zeros(7)
    buffer = device.allocate(out.nbytes, stream=stream)
    if kind == "ctypes":
        args = (Pair(3, 4.5), True, 1 + 2j, -5, 65535)
    else:
        pair = np.array((3, 4.5), np.dtype([("a", np.int32), ("b", np.float64)], align=True))[()]
        args = (pair, np.bool_(True), np.complex128(1 + 2j), np.int8(-5), np.uint16(65535))
    run(stream, kernel("unpack"), buffer, *args, grid=1, block=1)
    buffer.copy_to(out, stream=stream)
    assert out.tolist() == [3, 4.5, 1, 1, 2, -5, 65535]


def test_hundreds_of_arguments_of_mixed_types_reach_the_kernel(device, stream):
    kinds = ("float f{}", "long long l{}", "double d{}", "signed char c{}", "const int* p{}")
    terms = ("f{}", "l{}", "d{}", "c{}", "*p{}")
    count = 300
    source = 'extern "C" __global__ void total(double* out, {}) {{ *out = {}; }}'.format(
        ", ".join(kinds[i % 5].format(i) for i in range(count)),
        " + ".join(terms[i % 5].format(i) for i in range(count)),
    )
    kernel = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("total")
    out, one = device.allocate(8, stream=stream), device.allocate(4, stream=stream)
    one.copy_from(np.array([7], np.int32), stream=stream)
    values = (lambda i: np.float32(i), lambda i: i, lambda i: i / 2, lambda i: np.int8(i % 100), lambda i: one)
    run(stream, kernel, out, *(values[i % 5](i) for i in range(count)), grid=1, block=1)
    back = np.zeros(1)
    out.copy_to(back, stream=stream)
    assert back[0] == sum((i, i, i / 2, i % 100, 7)[i % 5] for i in range(count))


def test_dynamic_shared_memory_limit_can_be_raised_after_the_first_launch(stream, kernel):
    nothing = kernel("nothing")
    launch(stream, LaunchConfig(grid=1, block=32), nothing)
    nothing.attributes.max_dynamic_shared_size_bytes = 65536
    launch(stream, LaunchConfig(grid=1, block=32, shmem_size=65536), nothing)
    stream.sync()


def test_kernel_runs_in_a_new_context_after_an_old_one_is_destroyed(device, kernel):
    driver = pytest.importorskip("cuda.bindings.driver")
    raising = pytest.importorskip("cuda.bindings.driver.raising")
    add_one, config = kernel("add_one"), LaunchConfig(grid=1, block=1)
    back = np.zeros(1, np.int32)
    for _ in range(3):  # a new context may have the address of an old one
        context = raising.cuCtxCreate(None, 0, 0)
        raw = raising.cuStreamCreate(0)
        stream, memory = Stream.from_handle(int(raw)), raising.cuMemAlloc(4)
        raising.cuMemsetD32(memory, 5, 1)
        launch(stream, config, add_one, memory, np.int32(1))
        device.set_current()  # a launch uses the context of its stream, not the current one
        launch(stream, config, add_one, memory, np.int32(1))
        raising.cuCtxSetCurrent(context)
        raising.cuStreamSynchronize(raw)
        raising.cuMemcpyDtoH(back, memory, 4)
        assert back[0] == 7
        raising.cuStreamDestroy(raw)
        raising.cuCtxDestroy(context)
    device.set_current()
    assert driver.cuCtxSynchronize()[0] == 0


def test_integer_arguments_keep_their_value_in_every_width(device, stream, kernel):
    out = np.zeros(3, np.int64)
    buffer = device.allocate(out.nbytes, stream=stream)
    run(stream, kernel("widths"), buffer, np.int64(-7), 2**64 - 1, np.int8(-1), grid=1, block=1)
    buffer.copy_to(out, stream=stream)
    assert out.tolist() == [-7, -1, -1]


@pytest.mark.parametrize(
    "args, error, words",
    [
        ((1.0,), TypeError, "argument 2 .* is missing"),
        ((1.0, 5, 6), TypeError, "takes 3 arguments, 4 were given"),
        ((np.float64(1), 5), TypeError, "argument 1 of kernel scale: .*8 bytes.*4"),
        ((1.0, "x"), TypeError, "argument 2 of kernel scale: a str"),
        ((1.0, 2**64), OverflowError, "argument 2 of kernel scale"),
        ((object(), 5), TypeError, "argument 1 of kernel scale"),
    ],
)
def test_wrong_kernel_argument_raises_an_error_that_names_it(device, stream, kernel, args, error, words):
    buffer = device.allocate(16, stream=stream)
    with pytest.raises(error, match=words):
        run(stream, kernel("scale"), buffer, *args)


def unlaunched_scale(device):
    """A kernel that has never run: the first launch uses a different code path than later ones."""
    code = 'extern "C" __global__ void scale(float* p, float f, size_t n) { if (threadIdx.x < n) p[threadIdx.x] *= f; }'
    return Program(code, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("scale")


@pytest.mark.parametrize(
    "factor, n",
    [
        (2.0, 10),
        (np.float32(2), np.uint64(10)),
        (ctypes.c_float(2), ctypes.c_size_t(10)),
        (2.0, np.int8(10)),
    ],
)
def test_later_launches_accept_the_same_arguments(device, stream, factor, n):
    kernel = unlaunched_scale(device)
    data = np.arange(32, dtype=np.float32)
    buffer = device.allocate(data.nbytes, stream=stream)
    buffer.copy_from(data, stream=stream)
    for _ in range(3):
        run(stream, kernel, buffer, factor, n, grid=1, block=32)
    back = np.empty_like(data)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    data[:10] *= 8
    assert np.array_equal(back, data)


@pytest.mark.parametrize("args", [(1.0,), (1.0, 5, 6), (np.float16(1), 5), (1.0, 2**64), (2**32, 5), (-(2**31) - 1, 5)])
def test_later_launches_reject_the_same_arguments(device, stream, args):
    kernel = unlaunched_scale(device)
    buffer = device.allocate(128, stream=stream)
    buffer.fill(0, stream=stream)
    with pytest.raises((TypeError, OverflowError)) as first:
        run(stream, kernel, buffer, *args, grid=1, block=32)
    run(stream, kernel, buffer, 1.0, 32, grid=1, block=32)
    with pytest.raises(first.type) as later:
        run(stream, kernel, buffer, *args, grid=1, block=32)
    assert str(later.value) == str(first.value)


KINDS = [
    # (position of the parameter, a value of another kind, what the message says)
    (1, 3, "parameter 1 is float, got int; give a float"),
    (1, np.int32(3), "parameter 1 is float, got numpy.int32"),
    (1, np.uint32(3), "parameter 1 is float, got numpy.uint32"),
    (1, ctypes.c_int(3), "parameter 1 is float, got c_int"),
    (1, True, "parameter 1 is float, got bool"),
    (2, 7.5, "parameter 2 is a 4-byte integer, got float; give an int"),
    (2, 7.0, "parameter 2 is a 4-byte integer, got float"),
    (2, np.float32(7), "parameter 2 is a 4-byte integer, got numpy.float32"),
    (2, ctypes.c_float(7), "parameter 2 is a 4-byte integer, got c_float"),
    (3, 1, "parameter 3 is double, got int"),
    (3, np.int64(1), "parameter 3 is double, got numpy.int64"),
    (3, np.complex64(1), "parameter 3 is double, got numpy.complex64"),
    (3, 1j, "parameter 3 is double, got complex"),
    (3, ctypes.c_void_p(0), "parameter 3 is double, got c_void_p"),
    (4, 1.0, "parameter 4 is a (pointer|8-byte integer), got float"),
    (4, np.float64(1), "parameter 4 is a.* got numpy.float64"),
]
KINDS_SOURCE = (
    "__global__ void kinds(double* p, float f, int i, double d, const int* q) { p[0] = f; p[1] = i; p[2] = d; }"
)


def kernel_of_kinds(device, form):
    options = ProgramOptions(arch=f"sm_{device.arch}")
    if form == "mangled":  # the name is all that tells of the types
        code = Program(KINDS_SOURCE, "c++", options).compile("cubin", name_expressions=("kinds",))
        return code.get_kernel("kinds")
    return Program('extern "C" ' + KINDS_SOURCE, "c++", options).compile(form).get_kernel("kinds")


@pytest.mark.parametrize("form", ["ptx", "cubin", "mangled"])
def test_a_value_of_another_kind_than_its_parameter_is_refused(device, stream, form):
    kernel = kernel_of_kinds(device, form)
    buffer = device.allocate(24, stream=stream)
    config, good = LaunchConfig(grid=1, block=1), [buffer, 1.5, 2, 2.5, buffer]
    for _ in range(2):  # the first launch takes another path than those after it
        for at, value, words in KINDS:
            with pytest.raises(TypeError, match=f"argument {at} of kernel .*kinds.*: {words}"):
                launch(stream, config, kernel, *good[:at], value, *good[at + 1 :])
        with pytest.raises(TypeError, match=r"parameter 3 is double, got .*Buffer"):
            launch(stream, config, kernel, *good[:3], buffer, buffer)
        launch(stream, config, kernel, *good)
    out = np.zeros(3)
    buffer.copy_to(out, stream=stream)
    stream.sync()
    assert out.tolist() == [1.5, 2, 2.5]


@pytest.mark.parametrize("values", [(np.float32(1.5), np.int64(2), np.float64(2.5)), (ctypes.c_float(1.5), True, 2.5)])
def test_a_value_of_the_kind_of_its_parameter_is_taken(device, stream, values):
    kernel = kernel_of_kinds(device, "cubin")
    buffer = device.allocate(24, stream=stream)
    for _ in range(2):
        launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer, *values, 0)
    out = np.zeros(3)
    buffer.copy_to(out, stream=stream)
    stream.sync()
    assert out.tolist() == [1.5, int(values[1]), 2.5]


def test_a_structure_is_taken_for_any_parameter_of_its_size(device, stream):
    class Bits(ctypes.Structure):
        _fields_ = [("value", ctypes.c_uint32)]

    buffer = device.allocate(24, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=1), kernel_of_kinds(device, "ptx"), buffer, Bits(0x40000000), 2, 2.5, 0)
    out = np.zeros(3)
    buffer.copy_to(out, stream=stream)
    stream.sync()
    assert out[0] == 2.0


def test_the_message_has_the_name_of_a_parameter_in_ptx(device, stream):
    ptx = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .f32 factor) { ret; }"
    kernel = ObjectCode.from_ptx(ptx).get_kernel("k")
    with pytest.raises(TypeError, match="argument 0 of kernel k: parameter 0 'factor' is float, got int"):
        launch(stream, LaunchConfig(grid=1, block=1), kernel, 3)


def test_a_mangled_name_tells_the_kinds_that_ptx_leaves_open(device, stream):
    ptx = """.version 7.0\n.target sm_70\n.address_size 64
        .visible .entry _Z1kfi(.param .b32 factor, .param .b32 count) { ret; }"""
    kernel = ObjectCode.from_ptx(ptx).get_kernel("_Z1kfi")
    config = LaunchConfig(grid=1, block=1)
    with pytest.raises(TypeError, match="parameter 0 'factor' is float, got int"):
        launch(stream, config, kernel, 3, 4)
    with pytest.raises(TypeError, match="parameter 1 'count' is a 4-byte integer, got float"):
        launch(stream, config, kernel, 3.0, 4.0)
    launch(stream, config, kernel, 3.0, 4)


def test_a_cubin_from_a_file_tells_the_kinds_by_its_mangled_names(device, stream, tmp_path):
    code = Program(KINDS_SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile(
        "cubin", name_expressions=("kinds",)
    )
    file = tmp_path / "kinds.cubin"
    file.write_bytes(code.code)
    kernel = ObjectCode.from_cubin(str(file)).get_kernel(code.symbol_mapping["kinds"])
    buffer = device.allocate(24, stream=stream)
    config = LaunchConfig(grid=1, block=1)
    with pytest.raises(TypeError, match="parameter 1 is float, got int"):
        launch(stream, config, kernel, buffer, 3, 2, 2.5, buffer)
    launch(stream, config, kernel, buffer, 1.5, 2, 2.5, buffer)
    stream.sync()


def test_the_kind_is_known_in_graphs_and_by_handle(device, stream):
    kernel = kernel_of_kinds(device, "cubin")
    again = Kernel.from_handle(int(kernel.handle))
    buffer = device.allocate(24, stream=stream)
    config = LaunchConfig(grid=1, block=1)
    with pytest.raises(TypeError, match="parameter 1 is float, got int"):
        launch(stream, config, again, buffer, 3, 2, 2.5, buffer)
    with pytest.raises(TypeError, match="parameter 1 is float, got int"):
        GraphDefinition().launch(config, kernel, buffer, 3, 2, 2.5, buffer)


def test_closed_buffer_argument_raises_an_error_that_names_it(device, stream, kernel):
    buffer = device.allocate(16, stream=stream)
    buffer.fill(0, stream=stream)
    run(stream, kernel("scale"), buffer, 1.0, 4, grid=1, block=4)
    buffer.close()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="argument 0 of kernel scale: the buffer is closed"):
            run(stream, kernel("scale"), buffer, 1.0, 4)


def test_launch_on_a_closed_stream_raises(device, kernel):
    stream = device.create_stream()
    launch(stream, LaunchConfig(grid=1, block=1), kernel("nothing"))
    launch(stream, LaunchConfig(grid=1, block=1), kernel("nothing"))
    stream.close()
    with pytest.raises(RuntimeError, match="the stream is closed"):
        launch(stream, LaunchConfig(grid=1, block=1), kernel("nothing"))


def test_failed_launch_error_names_kernel_and_shape(stream, kernel):
    with pytest.raises(CUDAError, match=r"kernel nothing, grid \(1, 1, 1\), block \(4096, 1, 1\)") as caught:
        launch(stream, LaunchConfig(grid=1, block=4096), kernel("nothing"))
    assert (caught.value.call, caught.value.object) == ("cuLaunchKernel", "kernel nothing")
    assert caught.value.code in (1, 701)
    launch(stream, LaunchConfig(grid=1, block=32), kernel("nothing"))


def test_derived_launch_config_launches(device, stream, kernel):
    class Linear(LaunchConfig):
        def __init__(self, count: int, block: int = 128) -> None:
            super().__init__(grid=(count + block - 1) // block, block=block)
            self.count = count

    config = Linear(1000)
    assert (config.count, config.grid, config) == (1000, (8, 1, 1), LaunchConfig(grid=8, block=128))
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    launch(stream, Linear(1), kernel("add_one"), buffer, 1)
    assert bytes(buffer.copy_to(bytearray(4), stream=stream)) == (1).to_bytes(4, "little")
    with pytest.raises(TypeError):
        Linear(1, block="many")


def test_launch_with_a_wrong_stream_config_or_kernel_raises(stream, kernel):
    config = LaunchConfig(grid=1, block=1)
    with pytest.raises(TypeError, match="LaunchConfig"):
        launch(stream, 3, kernel("nothing"))
    with pytest.raises(TypeError, match="Kernel"):
        launch(stream, config, 3)
    with pytest.raises(TypeError, match="stream"):
        launch(object(), config, kernel("nothing"))
    with pytest.raises(TypeError):
        launch(stream, config)


def test_launch_on_a_foreign_stream_runs(device, stream, kernel):
    class Foreign:
        def __cuda_stream__(self):
            return (0, int(stream.handle))

    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    run(Foreign(), kernel("add_one"), buffer, 1, grid=1, block=1)
    back = np.zeros(1, np.int32)
    buffer.copy_to(back, stream=stream)
    assert back[0] == 1


def test_view_argument_is_passed_as_its_address(device, stream, kernel):
    buffer = device.allocate(16, stream=stream)
    buffer.fill(0, stream=stream)
    view = StridedMemoryView.from_buffer(buffer, (4,), dtype=np.dtype(np.int32))
    launch(stream, LaunchConfig(grid=1, block=4), kernel("add_one"), view, 4)
    back = np.zeros(4, np.int32)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    assert back.tolist() == [1] * 4


def test_programmatic_stream_serialization_preserves_results(device, stream, kernel):
    """Programmatic stream serialization changes when a kernel may start, not the result of a chain of kernels."""
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    early = LaunchConfig(grid=1, block=1, programmatic_stream_serialization=True)
    assert early.programmatic_stream_serialization and "programmatic" in repr(early)
    source = """extern "C" __global__ void step(int* p) {
      asm volatile("griddepcontrol.wait;" ::: "memory");
      *p += 1;
      asm volatile("griddepcontrol.launch_dependents;");
    }"""
    step = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("step")
    for _ in range(50):
        launch(stream, early, step, buffer)
    back = np.zeros(1, np.int32)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    assert back[0] == 50


def test_texture_and_surface_arguments_reach_the_kernel(device, stream):
    source = """extern "C" __global__ void twice(cudaTextureObject_t in, cudaSurfaceObject_t out) {
      int x = threadIdx.x, y = threadIdx.y;
      surf2Dwrite(2.0f * tex2D<float>(in, x + 0.5f, y + 0.5f), out, x * 4, y);
    }"""
    twice = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("twice")
    options = OpaqueArrayOptions((8, 4), "float32", 1, is_surface_load_store=True)
    with device.create_opaque_array(options) as first, device.create_opaque_array(options) as second:
        numbers = np.arange(32, dtype=np.float32)
        first.copy_from(numbers, stream=stream)
        texture = device.create_texture_object(resource=ResourceDescriptor.from_opaque_array(first))
        surface = device.create_surface_object(resource=ResourceDescriptor.from_opaque_array(second))
        launch(stream, LaunchConfig(grid=1, block=(8, 4)), twice, texture, surface)
        back = np.zeros(32, np.float32)
        second.copy_to(back, stream=stream)
        assert (back == 2 * numbers).all()
        texture.close()
        with pytest.raises(RuntimeError, match="closed"):
            launch(stream, LaunchConfig(grid=1, block=(8, 4)), twice, texture, surface)
