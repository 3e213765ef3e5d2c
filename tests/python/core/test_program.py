# SPDX-License-Identifier: Apache-2.0
"""Programs: source in C++, PTX and NVVM IR, their options, logs and errors."""

import ctypes
import io
import os
import pathlib
import subprocess
import sys
import threading

import pytest
from cuda.core import CUDAError, Device, LaunchConfig, NVRTCError, ObjectCode, Program, ProgramOptions, launch

ARCH = "sm_90"
PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry simple_kernel(.param .u64 ptr) { ret; }
"""


def options(**kwargs):
    return ProgramOptions(arch=ARCH, **kwargs)


@pytest.fixture
def device():
    dev = Device()
    dev.set_current()
    return dev


def read_floats(buffer, count, stream):
    host = (ctypes.c_float * count)()
    buffer.copy_to(host, stream=stream)
    stream.sync()
    return list(host)


def test_cxx_compiles_to_ptx_cubin_and_ltoir():
    program = Program('extern "C" __global__ void f(int* p) { *p = 1; }', "c++", options())
    ptx = program.compile("ptx")
    assert ptx.code_type == "ptx"
    assert b".entry f(" in ptx.code
    cubin = program.compile("cubin")
    assert cubin.code.startswith(b"\x7fELF")
    ltoir = program.compile("ltoir")
    assert ltoir.code_type == "ltoir"
    assert len(ltoir.code) > 100
    assert program.backend == "NVRTC"


def test_compiled_code_runs(device):
    source = """
    template <typename T>
    __global__ void scale(T* data, T factor, size_t n) {
      size_t i = threadIdx.x + blockIdx.x * blockDim.x;
      if (i < n) data[i] *= factor;
    }"""
    stream = device.create_stream()
    program = Program(source, "c++", ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
    for target in ("cubin", "ptx"):
        kernel = program.compile(target, name_expressions=("scale<float>",)).get_kernel("scale<float>")
        buffer = device.allocate(16, stream=stream)
        buffer.copy_from((ctypes.c_float * 4)(1, 2, 3, 4), stream=stream)
        launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer, ctypes.c_float(3), ctypes.c_size_t(4))
        assert read_floats(buffer, 4, stream) == [3, 6, 9, 12]
        buffer.close(stream)


def test_name_expressions_map_to_symbols():
    program = Program("template <class T> __global__ void k(T*) {}", "c++", options())
    code = program.compile("ptx", name_expressions=["k<int>", "k<float>"])
    assert code.symbol_mapping == {"k<int>": "_Z1kIiEvPT_", "k<float>": "_Z1kIfEvPT_"}
    again = program.compile("ptx", name_expressions=("k<double>",))  # a program can be compiled again
    assert list(again.symbol_mapping) == ["k<double>"]


def test_str_as_name_expressions_raises():
    with pytest.raises(TypeError, match="name_expressions"):
        Program("__global__ void k() {}", "c++", options()).compile("ptx", name_expressions="k")


def test_compilation_error_contains_the_log():
    bad = 'extern "C" __global__ void k() { not_a_real_symbol; }'
    with pytest.raises(NVRTCError, match='identifier "not_a_real_symbol" is undefined') as caught:
        Program(bad, "c++", options(name="mine.cu")).compile("cubin")
    assert "mine.cu(1)" in str(caught.value)
    assert caught.value.name == "NVRTC_ERROR_COMPILATION"
    assert caught.value.code == 6
    assert isinstance(caught.value, CUDAError)


def test_invalid_option_raises_an_error_that_names_it():
    with pytest.raises(NVRTCError, match="--std"):
        Program("", "c++", options(std="nonsense")).compile("ptx")


def test_logs_receive_warnings():
    logs = io.StringIO()
    program = Program('extern "C" __global__ void k() { int unused_variable; }', "c++", options())
    program.compile("ptx", logs=logs)
    assert "unused_variable" in logs.getvalue()
    quiet = io.StringIO()
    Program('extern "C" __global__ void k() {}', "c++", options()).compile("ptx", logs=quiet)
    assert quiet.getvalue() == ""


FLAGS = [
    ({"relocatable_device_code": True}, ["--relocatable-device-code=true"]),
    ({"relocatable_device_code": False}, ["--relocatable-device-code=false"]),
    ({"extensible_whole_program": True}, ["--extensible-whole-program"]),
    ({"debug": True}, ["--device-debug"]),
    ({"debug": False}, []),
    ({"lineinfo": True}, ["--generate-line-info"]),
    ({"device_code_optimize": True}, ["--dopt=on"]),
    ({"ptxas_options": ["-v", "-O1"]}, ["--ptxas-options=-v", "--ptxas-options=-O1"]),
    ({"max_register_count": 32}, ["--maxrregcount=32"]),
    ({"ftz": True}, ["--ftz=true"]),
    ({"prec_sqrt": False}, ["--prec-sqrt=false"]),
    ({"prec_div": True}, ["--prec-div=true"]),
    ({"fma": False}, ["--fmad=false"]),
    ({"use_fast_math": True}, ["--use_fast_math"]),
    ({"extra_device_vectorization": True}, ["--extra-device-vectorization"]),
    ({"link_time_optimization": True}, ["--dlink-time-opt"]),
    ({"gen_opt_lto": True}, ["--gen-opt-lto"]),
    ({"define_macro": "A"}, ["--define-macro=A"]),
    ({"define_macro": ("A", "1")}, ["--define-macro=A=1"]),
    ({"define_macro": ["A", ("B", "2")]}, ["--define-macro=A", "--define-macro=B=2"]),
    ({"undefine_macro": ["A", "B"]}, ["--undefine-macro=A", "--undefine-macro=B"]),
    ({"include_path": "/a"}, ["--include-path=/a"]),
    ({"pre_include": ("a", "b")}, ["--pre-include=a", "--pre-include=b"]),
    ({"no_source_include": True}, ["--no-source-include"]),
    ({"std": "c++20"}, ["--std=c++20"]),
    ({"builtin_move_forward": False}, ["--builtin-move-forward=false"]),
    ({"builtin_initializer_list": True}, ["--builtin-initializer-list=true"]),
    ({"disable_warnings": True}, ["--disable-warnings"]),
    ({"restrict": True}, ["--restrict"]),
    ({"device_as_default_execution_space": True}, ["--device-as-default-execution-space"]),
    ({"device_int128": True}, ["--device-int128"]),
    ({"optimization_info": "inline"}, ["--optimization-info=inline"]),
    ({"no_display_error_number": True}, ["--no-display-error-number"]),
    ({"diag_error": 1}, ["--diag-error=1"]),
    ({"diag_suppress": [1, 2]}, ["--diag-suppress=1", "--diag-suppress=2"]),
    ({"diag_warn": (3,)}, ["--diag-warn=3"]),
    ({"brief_diagnostics": True}, ["--brief-diagnostics=true"]),
    ({"time": "t.csv"}, ["--time=t.csv"]),
    ({"split_compile": 4}, ["--split-compile=4"]),
    ({"fdevice_syntax_only": True}, ["--fdevice-syntax-only"]),
    ({"minimal": True}, ["--minimal"]),
    ({"no_cache": True}, ["--no-cache"]),
    ({"fdevice_time_trace": "f"}, ["--fdevice-time-trace=f"]),
    ({"device_float128": True}, ["--device-float128"]),
    ({"frandom_seed": "s"}, ["--frandom-seed=s"]),
    ({"ofast_compile": "max"}, ["--Ofast-compile=max"]),
    ({"pch": True}, ["--pch"]),
    ({"create_pch": "p"}, ["--create-pch=p"]),
    ({"use_pch": "p"}, ["--use-pch=p"]),
    ({"pch_dir": "d"}, ["--pch-dir=d"]),
    ({"pch_verbose": False}, ["--pch-verbose=false"]),
    ({"pch_messages": True}, ["--pch-messages=true"]),
    ({"instantiate_templates_in_pch": True}, ["--instantiate-templates-in-pch=true"]),
    ({"numba_debug": True}, ["--numba-debug"]),
    ({"use_libdevice": True}, []),
    ({"extra_sources": [("a", "b")]}, []),
]


@pytest.mark.parametrize(("fields", "flags"), FLAGS, ids=lambda v: next(iter(v)) if isinstance(v, dict) else None)
def test_each_program_option_becomes_its_flag(fields, flags):
    expected = [f"-arch={ARCH}".encode(), *(flag.encode() for flag in flags)]
    assert options(**fields).as_bytes("NVRTC") == expected


def test_every_program_option_is_tested():
    import dataclasses

    covered = {name for fields, _ in FLAGS for name in fields} | {"name", "arch", "use_bundled_headers"}
    assert {field.name for field in dataclasses.fields(ProgramOptions)} == covered


def test_nvvm_options_become_flags_and_unsupported_ones_raise():
    assert options(ftz=True, fma=False, debug=True, device_code_optimize=True).as_bytes("nvvm", "ltoir") == [
        b"-arch=compute_90",
        b"-g",
        b"-opt=3",
        b"-ftz=1",
        b"-fma=0",
        b"-gen-lto",
    ]
    with pytest.raises(CUDAError, match="NVVM backend: define_macro, std"):
        options(define_macro="A", std="c++17").as_bytes("NVVM")
    with pytest.raises(ValueError, match="Unknown backend"):
        options().as_bytes("gcc")


def test_compiler_accepts_the_options(tmp_path):
    (tmp_path / "mine.h").write_text("#define FROM_FILE 7\n")
    source = """
    #include "mine.h"
    #if !defined(DEBUG) || VERSION != 2 || FROM_FILE != 7 || FROM_SOURCE != 9 || __cplusplus < 202002L
    #error an option did not arrive
    #endif
    #include <given.h>
    static_assert(FROM_GIVEN == 5);
    """
    Program(
        source,
        "c++",
        options(
            std="c++20",
            define_macro=["DEBUG", ("VERSION", "2"), "FROM_SOURCE=9"],
            include_path=[str(tmp_path)],
            extra_sources=[("given.h", "#define FROM_GIVEN 5\n")],
        ),
    ).compile("ptx")


def test_include_path_may_be_a_path_object(tmp_path):
    assert options(include_path=pathlib.Path("/a/b")).as_bytes("NVRTC")[1] == b"--include-path=/a/b"


def test_options_accept_a_dict_and_wrong_types_raise():
    Program("", "c++", {"arch": ARCH, "std": "c++17"}).compile("ptx")
    with pytest.raises(TypeError, match="options"):
        Program("", "c++", 3)
    with pytest.raises(TypeError, match="max_register_count"):
        Program("", "c++", options(max_register_count="many"))
    with pytest.raises(TypeError):
        ProgramOptions(no_such_option=True)


def test_missing_compiler_headers_are_found_separately(tmp_path):
    # A wheel of the runtime alone: its headers include crt/, which is in a separate package.
    (tmp_path / "cuda_runtime_api.h").write_text("#include <crt/host_defines.h>\n")
    source = '#include <cuda_runtime_api.h>\nextern "C" __global__ void __launch_bounds__(32) f() {}'
    Program(source, "c++", options(include_path=str(tmp_path))).compile("ptx")


@pytest.mark.parametrize(
    ("header", "package"),
    [
        ("crt/not_there.h", "nvidia-cuda-crt"),
        ("cuda/std/not_there", "nvidia-cuda-cccl"),
        ("mma.h", "nvidia-cuda-runtime"),
    ],
)
def test_missing_toolkit_header_error_names_the_package(header, package):
    with pytest.raises(NVRTCError, match=f"pip install {package} .*CUDA_HOME"):
        Program(f"#include <{header}>\n", "c++", options()).compile("ptx")


def test_missing_user_header_error_is_the_compilers():
    with pytest.raises(NVRTCError) as failure:
        Program('#include "mine.h"\n', "c++", options()).compile("ptx")
    assert "mine.h" in str(failure.value) and "pip install" not in str(failure.value)


def test_bundled_headers_are_found():
    source = "#include <cuda/std/type_traits>\nstatic_assert(cuda::std::is_same_v<int, int>);"
    Program(source, "c++", options(use_bundled_headers=True, std="c++17")).compile("ptx")


def test_pch_status_reports_precompiled_headers(tmp_path):
    source = '#include "big.h"\nextern "C" __global__ void k(int* p) { *p = big(); }'
    (tmp_path / "big.h").write_text("__device__ inline int big() { return 1; }\n")
    program = Program(source, "c++", options(pch=True, pch_dir=str(tmp_path), include_path=str(tmp_path)))
    assert program.pch_status is None
    program.compile("ptx")
    assert program.pch_status == "created"
    plain = Program("", "c++", options())
    plain.compile("ptx")
    assert plain.pch_status is None


def test_unknown_language_or_target_raises():
    for language in ("fortran", "c"):  # also a RuntimeError in NVIDIA's package
        with pytest.raises(RuntimeError, match=f"code_type '{language}'"):
            Program("", language)
    with pytest.raises(ValueError, match="exe"):
        Program("", "c++", options()).compile("exe")
    with pytest.raises(ValueError, match="fatbin"):
        Program("", "c++", options()).compile("fatbin")
    with pytest.raises(TypeError):
        Program(3, "c++", options())


def test_close_is_idempotent_and_final():
    program = Program("", "c++", options())
    assert int(program.handle) != 0
    assert not program.is_closed
    program.close()
    program.close()
    assert program.is_closed
    assert int(program.handle) == 0
    with pytest.raises(RuntimeError, match="closed"):
        program.compile("ptx")


def test_a_ptx_program_is_linked_without_options(device):
    program = Program(PTX, code_type="ptx")
    assert program.backend in ("nvJitLink", "driver")
    assert program.link("cubin").get_kernel("simple_kernel").num_arguments == 1
    assert program.compile("cubin").get_kernel("simple_kernel").name == "simple_kernel"


def test_invalid_ptx_program_raises(device):
    with pytest.raises(CUDAError):
        Program(PTX.replace("ret;", "fly;"), "ptx").compile("cubin").get_kernel("simple_kernel")


IR = """
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
declare float @__nv_sqrtf(float)
define void @root(float* %p) {
  %x = load float, float* %p
  %y = call float @__nv_sqrtf(float %x)
  store float %y, float* %p
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{void (float*)* @root, !"kernel", i32 1}
!nvvmir.version = !{!1}
!1 = !{i32 2, i32 0}
"""


def test_nvvm_ir_is_linked_with_libdevice(device):
    program = Program(IR, "nvvm", options(use_libdevice=True))
    assert program.backend == "NVVM"
    code = program.compile("ptx")
    assert b".entry root(" in code.code
    assert b"__nv_sqrtf" not in code.code  # linked in
    stream = device.create_stream()
    buffer = device.allocate(4, stream=stream)
    buffer.copy_from((ctypes.c_float * 1)(49), stream=stream)
    launch(stream, LaunchConfig(grid=1, block=1), code.get_kernel("root"), buffer)
    assert read_floats(buffer, 1, stream) == [7]


def test_nvvm_ir_of_several_modules_compiles():
    helper = "\n".join(line for line in IR.splitlines() if line.startswith("target")) + (
        "\ndefine float @__nv_sqrtf(float %x) { ret float %x }\n!nvvmir.version = !{!0}\n!0 = !{i32 2, i32 0}\n"
    )
    code = Program(IR, "nvvm", options(extra_sources=[("helper", helper)])).compile("ptx")
    assert b".entry root(" in code.code


def test_invalid_nvvm_ir_raises_the_compilers_message():
    with pytest.raises(CUDAError, match=r"(?i)error"):
        Program("this is no IR", "nvvm", options()).compile("ptx")


def test_missing_compiler_error_lists_the_paths_tried(bare_environment):
    snippet = """
import sys, cuda.core, cuda.pathfinder
sys.path[:] = [p for p in sys.path if not p.endswith("-packages")]
cuda.pathfinder._environment.refresh()
try:
    cuda.core.Program("", "nvvm", {"arch": "sm_90"})
except cuda.pathfinder.DynamicLibNotFoundError as error:
    assert error.attempts and "libnvvm" in str(error)
    print("named")
else:
    print("found")  # this system has it elsewhere
"""
    paths = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    environment = bare_environment | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", snippet], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() in ("named", "found"), done.stderr


def test_programs_compile_concurrently():
    """Eight threads compile while the GIL is released: a counter keeps running."""
    results = {}
    gate = threading.Barrier(9)

    def work(number):
        gate.wait()
        source = f'extern "C" __global__ void k{number}(int* p) {{ *p = {number}; }}'
        results[number] = Program(source, "c++", options()).compile("ptx").code

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    gate.wait()
    ticks = 0
    while any(thread.is_alive() for thread in threads):
        ticks += 1
    for thread in threads:
        thread.join()
    assert all(f".entry k{n}(".encode() in results[n] for n in range(8))
    assert ticks > 0


def test_one_program_compiled_by_several_threads_yields_one_result():
    program = Program('extern "C" __global__ void k(int* p) { *p = 1; }', "c++", options())
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(program.compile("ptx").code)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(codes) == 4
    assert len(set(codes)) == 1


@pytest.mark.cpu_only
def test_cubin_of_the_cpu_device_contains_ptx_and_gpu_code():
    source = 'extern "C" __global__ void k(int* p) { *p = 1; }'
    code = Program(source, "c++", options()).compile("cubin").code
    assert b".cucore.ptx" in code
    assert b".entry k(" in code
    assert b".text.k" in code  # the section of GPU code
    assert ObjectCode.from_cubin(code).get_kernel("k").num_arguments == 1


def test_options_behave_like_a_dataclass():
    import dataclasses
    import pickle

    one = options(std="c++17")
    assert one == options(std="c++17")
    assert one != options(std="c++20")
    assert one != 3
    assert repr(one) == "ProgramOptions(name='default_program', arch='sm_90', std='c++17')"
    assert dataclasses.is_dataclass(one)
    assert dataclasses.replace(one, std="c++20") == options(std="c++20")
    assert dataclasses.asdict(one)["std"] == "c++17"
    assert pickle.loads(pickle.dumps(one)) == one
    assert ProgramOptions.name == "default_program"
    with pytest.raises(TypeError):
        hash(one)
    one.std = "c++20"
    assert one == options(std="c++20")


def test_wrong_target_or_name_expression_raises_an_error_that_names_the_argument(device):
    program = Program('extern "C" __global__ void k() {}', "c++")
    with pytest.raises(ValueError, match="target_type: 'exe' is no code type"):
        program.compile("exe")
    with pytest.raises(TypeError, match=r"name_expressions\[1\] must be a str or bytes, not float"):
        program.compile("ptx", name_expressions=("k", 1.5))
    with pytest.raises(TypeError, match="name_expressions must be a tuple of names, not int"):
        program.compile("ptx", name_expressions=3)
    with pytest.raises(TypeError, match="not one name"):
        program.compile("ptx", name_expressions="k")


def test_name_expressions_are_taken_as_text_and_as_bytes(device):
    program = Program("template <class T> __global__ void k(T* p) { *p = 1; }", "c++")
    for name in ("k<int>", b"k<int>", bytearray(b"k<int>")):
        assert program.compile("ptx", name_expressions=[name]).get_kernel("k<int>").num_arguments == 1
