# SPDX-License-Identifier: Apache-2.0
"""Linking relocatable code and LTO-IR."""

import ctypes
import struct
import warnings

import pytest
from cuda.bindings import driver
from cuda.core import (
    CUDAError,
    Device,
    LaunchConfig,
    Linker,
    LinkerOptions,
    ObjectCode,
    Program,
    ProgramOptions,
    launch,
)
from cuda.core import _linker as linker_module

HELPER = 'extern "C" __device__ float helper_func(float x) { return x * x; }'
MAIN = """
extern "C" __device__ float helper_func(float x);
extern "C" __global__ void main_kernel(float* data, size_t N) {
  unsigned int tid = threadIdx.x + blockIdx.x * blockDim.x;
  if (tid < N) data[tid] = helper_func(data[tid]);
}
"""
MANY_REGISTERS = """
template <int N> __device__ void work(float* p) {
  float a[N], sum = 0;
  for (int i = 0; i < N; ++i) a[i] = p[i * threadIdx.x];
  for (int i = 0; i < N; ++i) sum += a[i] * a[N - 1 - i];
  p[0] = sum;
}
extern "C" __global__ void many(float* p) { work<64>(p); }
extern "C" __global__ void __launch_bounds__(256) bounded(float* p) { work<64>(p); }
extern "C" __global__ void after(float* p) { work<64>(p + 1); }
"""


@pytest.fixture
def device():
    dev = Device()
    dev.set_current()
    return dev


def pieces(target, arch):
    options = ProgramOptions(arch=arch, relocatable_device_code=True)
    return [Program(source, "c++", options).compile(target) for source in (HELPER, MAIN)]


def squares(device, code):
    stream = device.create_stream()
    buffer = device.allocate(12, stream=stream)
    buffer.copy_from((ctypes.c_float * 3)(1, 2, 3), stream=stream)
    launch(stream, LaunchConfig(grid=1, block=32), code.get_kernel("main_kernel"), buffer, ctypes.c_size_t(3))
    host = (ctypes.c_float * 3)()
    buffer.copy_to(host, stream=stream)
    stream.sync()
    return list(host)


@pytest.mark.parametrize("target", ["cubin", "ptx"])
def test_relocatable_code_links_and_runs(device, target):
    arch = f"sm_{device.arch}"
    linker = Linker(*pieces(target, arch), options=LinkerOptions(name="linked_program", arch=arch))
    code = linker.link(target_type="cubin")
    assert code.name == "linked_program"
    assert squares(device, code) == [1, 4, 9]
    assert linker.get_error_log() == ""
    assert isinstance(linker.get_info_log(), str)
    assert linker.backend in ("nvJitLink", "driver")
    linker.close()


def test_ltoir_links_and_runs(device):
    if Linker.which_backend() != "nvJitLink":
        pytest.skip("LTO-IR needs nvJitLink")
    arch = f"sm_{device.arch}"
    options = LinkerOptions(arch=arch, link_time_optimization=True)
    assert squares(device, Linker(*pieces("ltoir", arch), options=options).link("cubin")) == [1, 4, 9]
    ptx = Linker(*pieces("ltoir", arch), options=LinkerOptions(arch=arch, link_time_optimization=True, ptx=True)).link(
        "ptx"
    )
    assert b".entry main_kernel(" in ptx.code
    assert squares(device, ptx) == [1, 4, 9]


def test_ltoir_links_with_other_code(device):
    if Linker.which_backend() != "nvJitLink":
        pytest.skip("LTO-IR needs nvJitLink")
    arch = f"sm_{device.arch}"
    lto = Program(MAIN, "c++", ProgramOptions(arch=arch, relocatable_device_code=True)).compile("ltoir")
    cubin = Program(HELPER, "c++", ProgramOptions(arch=arch, relocatable_device_code=True)).compile("cubin")
    linker = Linker(lto, cubin, options=LinkerOptions(arch=arch, link_time_optimization=True))
    assert squares(device, linker.link("cubin")) == [1, 4, 9]


def test_function_of_ltoir_that_only_other_code_calls_is_kept(device):
    """The optimizer of LTO-IR sees no call of `helper_func`, and must not remove it."""
    if Linker.which_backend() != "nvJitLink":
        pytest.skip("LTO-IR needs nvJitLink")
    arch = f"sm_{device.arch}"
    how = ProgramOptions(arch=arch, relocatable_device_code=True)
    helper = Program(HELPER, "c++", how).compile("ltoir")
    printing = Program(
        'extern "C" __global__ void other(int i) { printf("%d", i); } __device__ int nowhere(int);'
        'extern "C" __global__ void third(int* p) { if (*p == 77) *p = nowhere(1); }',
        "c++",
        how,
    )
    for main in (Program(MAIN, "c++", how).compile(target) for target in ("ptx", "cubin")):
        linker = Linker(main, helper, options=LinkerOptions(arch=arch, link_time_optimization=True))
        assert squares(device, linker.link("cubin")) == [1, 4, 9]
        wrong = Linker(
            main, helper, printing.compile("ptx"), options=LinkerOptions(arch=arch, link_time_optimization=True)
        )
        with pytest.raises(CUDAError, match="nowhere"):
            wrong.link("cubin")


def test_linked_code_keeps_symbol_mappings(device):
    arch = f"sm_{device.arch}"
    source = HELPER + "template <class T> __global__ void k(T* p) { *p = 1; }"
    options = ProgramOptions(arch=arch, relocatable_device_code=True)
    code = Program(source, "c++", options).compile("cubin", name_expressions=("k<int>",))
    linked = Linker(code, options=LinkerOptions(arch=arch)).link("cubin")
    assert linked.get_kernel("k<int>").num_arguments == 1


def test_unresolved_symbol_raises_an_error_that_names_it(device):
    arch = f"sm_{device.arch}"
    main = pieces("cubin", arch)[1]
    with pytest.raises(CUDAError, match="helper_func"):
        Linker(main, options=LinkerOptions(arch=arch)).link("cubin").get_kernel("main_kernel")


def test_a_linker_links_once_and_can_be_closed(device):
    arch = f"sm_{device.arch}"
    linker = Linker(*pieces("ptx", arch), options=LinkerOptions(arch=arch))
    assert not linker.is_closed
    linker.link("cubin")
    with pytest.raises(RuntimeError, match="already"):
        linker.link("cubin")
    linker.close()
    linker.close()
    assert linker.is_closed
    assert linker.handle == 0
    with pytest.raises(RuntimeError, match="closed"):
        linker.link("cubin")


def test_wrong_linker_argument_raises():
    with pytest.raises(ValueError, match="At least one"):
        Linker()
    with pytest.raises(TypeError, match="ObjectCode"):
        Linker("code")
    code = ObjectCode.from_ptx(b".version 8.0")
    with pytest.raises(ValueError, match="ltoir"):
        Linker(code).link("ltoir")
    with pytest.raises(TypeError):
        Linker(code, options=3)
    assert Linker(code, options={"name": "mine"}).backend == Linker.which_backend()


FLAGS = [
    ({"max_register_count": 32}, ["-maxrregcount=32"]),
    ({"time": True}, ["-time"]),
    ({"verbose": True}, ["-verbose"]),
    ({"verbose": False}, []),
    ({"link_time_optimization": True}, ["-lto"]),
    ({"ptx": True}, ["-ptx"]),
    ({"optimization_level": 2}, ["-O2"]),
    ({"debug": True}, ["-g"]),
    ({"lineinfo": True}, ["-lineinfo"]),
    ({"ftz": False}, ["-ftz=false"]),
    ({"prec_div": True}, ["-prec-div=true"]),
    ({"prec_sqrt": False}, ["-prec-sqrt=false"]),
    ({"fma": True}, ["-fma=true"]),
    ({"kernels_used": ["a", "b"]}, ["-kernels-used=a", "-kernels-used=b"]),
    ({"variables_used": "v"}, ["-variables-used=v"]),
    ({"optimize_unused_variables": True}, ["-optimize-unused-variables"]),
    ({"ptxas_options": ("-v",)}, ["-Xptxas=-v"]),
    ({"split_compile": 0}, ["-split-compile=0"]),
    ({"split_compile_extended": 2}, ["-split-compile-extended=2"]),
    ({"no_cache": True}, ["-no-cache"]),
    ({"numba_debug": True}, []),
]


@pytest.mark.parametrize(("fields", "flags"), FLAGS, ids=lambda v: next(iter(v)) if isinstance(v, dict) else None)
@pytest.mark.filterwarnings("ignore:LinkerOptions.numba_debug")
def test_each_linker_option_becomes_its_flag(fields, flags):
    assert LinkerOptions(arch="sm_90", **fields).as_bytes() == [b"-arch=sm_90", *(f.encode() for f in flags)]


def test_every_linker_option_is_tested():
    import dataclasses

    covered = {name for fields, _ in FLAGS for name in fields} | {"name", "arch"}
    assert {field.name for field in dataclasses.fields(LinkerOptions)} == covered


def test_linker_options_for_another_backend_raise():
    with pytest.raises(ValueError, match="nvjitlink"):
        LinkerOptions(arch="sm_90").as_bytes("driver")


@pytest.fixture
def without_nvjitlink(monkeypatch):
    """Linkers tell that the driver links, as they do on a GPU where nvJitLink is not installed."""
    native = linker_module._core._Linker

    class ByDriver:
        backend = "driver"

        def __init__(self, *arguments):
            self._native = native(*arguments)

        def __getattr__(self, name):
            return getattr(self._native, name)

    monkeypatch.setattr(linker_module._core, "_Linker", ByDriver)
    monkeypatch.setattr(linker_module._core, "_runs_on_cpu", lambda: False)


def test_linking_by_the_driver_for_want_of_nvjitlink_warns(device, without_nvjitlink):
    with pytest.warns(RuntimeWarning, match="pip install nvidia-nvjitlink"):
        Linker(*pieces("ptx", f"sm_{device.arch}"), options=LinkerOptions(arch=f"sm_{device.arch}"))


@pytest.mark.cpu_only  # PTX is linked by the CPU device's driver
def test_linking_for_the_cpu_device_does_not_warn(device):
    arch = f"sm_{device.arch}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker = Linker(*pieces("ptx", arch), options=LinkerOptions(arch=arch, ftz=True))
    assert squares(device, linker.link("cubin")) == [1, 4, 9]


@pytest.mark.parametrize(
    "option",
    [{"ftz": True}, {"prec_div": False}, {"prec_sqrt": True}, {"fma": False}, {"kernels_used": "main_kernel"},
     {"variables_used": "v"}, {"optimize_unused_variables": True}],
    ids=lambda option: next(iter(option)),
)  # fmt: skip
def test_option_that_the_drivers_linker_ignores_warns(device, without_nvjitlink, option):
    arch = f"sm_{device.arch}"
    with pytest.warns(RuntimeWarning), pytest.warns(DeprecationWarning, match=f"ignores {next(iter(option))}"):
        Linker(*pieces("ptx", arch), options=LinkerOptions(arch=arch, **option))


@pytest.mark.cpu_only  # on a GPU nvJitLink links everything if it is installed
def test_driver_and_nvjitlink_backends_both_link(device):
    arch = f"sm_{device.arch}"
    options = LinkerOptions(
        arch=arch, lineinfo=True, debug=False, max_register_count=64, optimization_level=3, verbose=True
    )
    by_driver = Linker(*pieces("ptx", arch), options=options)
    assert squares(device, by_driver.link("cubin")) == [1, 4, 9]
    assert (
        by_driver.backend == "driver" and by_driver.get_error_log() == "" and isinstance(by_driver.get_info_log(), str)
    )
    failing = Linker(pieces("ptx", arch)[1], options=LinkerOptions(arch=arch, name="half"))
    with pytest.raises(CUDAError, match="half"):
        failing.link("cubin")
    assert "helper_func" in failing.get_error_log()
    if Linker.which_backend() == "nvJitLink":
        options = LinkerOptions(arch=arch, link_time_optimization=True, ftz=True, prec_div=False, fma=True, time=True)
        by_library = Linker(*pieces("ltoir", arch), options=options)
        assert squares(device, by_library.link("cubin")) == [1, 4, 9]
        assert by_library.backend == "nvJitLink"


@pytest.mark.parametrize(
    "arch", ["nonsense", "", "90", "sm_", "sm_x", "sm_9", "sm_9000", "sm_90b", "sm-90", "SM_90", "sm_90 "]
)
def test_invalid_architecture_raises(device, arch):
    code = ObjectCode.from_ptx(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n")
    with pytest.raises(ValueError, match=r"LinkerOptions\.arch"):
        Linker(code, options=LinkerOptions(arch=arch))


@pytest.mark.cpu_only  # a GPU's assembler may take fewer
@pytest.mark.parametrize("how", ["nvrtc", "ptx program", "linker", "module", "library"])
def test_register_limit_is_a_kernel_attribute(device, how):
    options = {"arch": f"sm_{device.arch}"}
    ptx = Program(MANY_REGISTERS, "c++", ProgramOptions(**options)).compile("ptx")
    wanted = ptx.get_kernel("many").attributes.num_regs()
    assert wanted > 32

    def registers(limit, name):
        if how == "nvrtc":
            code = Program(MANY_REGISTERS, "c++", ProgramOptions(**options, max_register_count=limit)).compile("cubin")
        elif how == "ptx program":
            code = Program(ptx.code.decode(), "ptx", ProgramOptions(**options, max_register_count=limit)).compile(
                "cubin"
            )
        elif how == "linker":
            code = Linker(ptx, options=LinkerOptions(**options, max_register_count=limit)).link("cubin")
        else:
            choice, attribute = (
                driver.CUjit_option.CU_JIT_MAX_REGISTERS,
                driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS,
            )
            image = ptx.code + b"\0"
            if how == "module":
                module = driver.cuModuleLoadDataEx(image, 1, [choice], [limit])[1]
                return driver.cuFuncGetAttribute(attribute, driver.cuModuleGetFunction(module, name.encode())[1])[1]
            library = driver.cuLibraryLoadData(image, [choice], [limit], 1, [], [], 0)[1]
            return driver.cuKernelGetAttribute(attribute, driver.cuLibraryGetKernel(library, name.encode())[1], 0)[1]
        return code.get_kernel(name).attributes.num_regs()

    assert [registers(limit, "many") for limit in (16, 32, 255)] == [16, 32, wanted]
    bounds = ptx.get_kernel("bounded").attributes.num_regs()
    assert registers(16, "bounded") == bounds  # the kernel's launch bounds take precedence over the option
    assert registers(16, "after") == 16


def library_of_machine_code():
    """An archive with one object file whose fat binary holds machine code only, as nvcc -rdc=true -arch=sm_90 makes it."""
    code = b"machine code".ljust(16, b"\0")
    entry = struct.pack("<HHIQ48x", 2, 1, 64, len(code)) + code
    fatbin = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry
    names = b"\0__nv_relfatbin\0.shstrtab\0"
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        1,
        62,
        1,
        0,
        0,
        64 + len(fatbin) + len(names),
        0,
        64,
        0,
        0,
        64,
        3,
        2,
    )
    sections = bytes(64)
    for name, at, size in ((1, 64, len(fatbin)), (16, 64 + len(fatbin), len(names))):
        sections += struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 1, 0)
    member = header + fatbin + names + sections
    member += b"\n" * (len(member) % 2)
    return b"!<arch>\n" + f"{'member.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(member):<10}`\n".encode() + member


@pytest.mark.cpu_only  # a GPU links machine code
def test_function_of_a_library_without_ptx_raises_an_error_that_names_the_cause(device):
    arch = f"sm_{device.arch}"
    main = pieces("ptx", arch)[1]
    linker = Linker(main, ObjectCode.from_library(library_of_machine_code()), options=LinkerOptions(arch=arch))
    with pytest.raises(CUDAError, match="1 members of the linked libraries hold machine code for GPUs only") as caught:
        linker.link("cubin")
    assert "helper_func" in str(caught.value)
