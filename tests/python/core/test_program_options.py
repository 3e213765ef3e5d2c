# SPDX-License-Identifier: Apache-2.0
"""Options of programs and linkers as NVIDIA's package takes and refuses them; exceptions of the libraries."""

import functools
import warnings

import pytest
from cuda.bindings import nvvm
from cuda.core import CUDAError, Linker, LinkerOptions, ObjectCode, Program, ProgramOptions, _core
from cuda.core.utils import FileStreamProgramCache, InMemoryProgramCache

SOURCE = 'extern "C" __global__ void f(int* p) { *p = A_VALUE; }'
PLAIN = 'extern "C" __global__ void f(int* p) { *p = 1; }'


def ptx():
    return Program(PLAIN, "c++", ProgramOptions(arch="sm_90")).compile("ptx")


def test_options_have_the_architecture_of_the_device_and_a_name(device):
    options = ProgramOptions(name=None)
    assert options.arch == f"sm_{device.arch}" and options.name == "default_program"
    assert ProgramOptions(arch="sm_75").arch == "sm_75"
    options.arch = "sm_80"
    assert options.arch == "sm_80"


@pytest.mark.parametrize(
    "sources", [5, {"a": "b"}, "text", [("a",)], ["ab"], [("a", "b", "c")], [(1, "b")], [("a", 2)]]
)
def test_malformed_extra_sources_are_refused_when_the_options_are_made(sources):
    with pytest.raises(TypeError, match="extra_sources"):
        ProgramOptions(extra_sources=sources)


def test_options_of_other_kinds_of_source_are_refused():
    text = ptx().code
    with pytest.raises(ValueError, match="extra_sources"):
        Program(text, "ptx", ProgramOptions(arch="sm_90", extra_sources=[("a", "b")]))
    with pytest.raises(ValueError, match="'a' is empty"):
        Program(b"; ModuleID = 'x'", "nvvm", ProgramOptions(arch="sm_90", extra_sources=[("a", "")]))
    for kind, code in (("c++", PLAIN), ("ptx", text)):
        with pytest.raises(ValueError, match="use_libdevice"):
            Program(code, kind, ProgramOptions(arch="sm_90", use_libdevice=True))


@pytest.mark.parametrize("macro", [("A",), ("A", 1), [("A",)], [("A", 1)], [5], (("A", "1", "2"),), {"A"}])
def test_a_malformed_macro_is_a_runtime_error(macro):
    with pytest.raises(RuntimeError, match="define_macro"):
        Program(PLAIN, "c++", ProgramOptions(arch="sm_90", define_macro=macro))


@pytest.mark.parametrize(
    "macro", ["A_VALUE=7", ("A_VALUE", "7"), ["A_VALUE=7"], [("A_VALUE", "7"), "B"], (("A_VALUE", "7"),)]
)
def test_a_macro_is_text_or_a_pair(macro):
    code = Program(SOURCE, "c++", ProgramOptions(arch="sm_90", define_macro=macro)).compile("ptx")
    assert b", 7;" in code.code


def test_time_may_be_true_for_ptx(device):
    arch = f"sm_{device.arch}"
    code = Program(PLAIN, "c++", ProgramOptions(arch=arch)).compile("ptx").code
    assert Program(code, "ptx", ProgramOptions(arch=arch, time=True)).compile("cubin").get_kernel("f")
    assert Program(code, "ptx", ProgramOptions(arch=arch, time=False)).compile("cubin")


def test_numba_debug_is_ignored_by_linkers():
    text = ptx().code
    with pytest.warns(UserWarning, match="numba_debug"):
        Program(text, "ptx", ProgramOptions(arch="sm_90", numba_debug=True))
    for value in (False, True):
        with pytest.warns(DeprecationWarning, match="numba_debug"):
            options = LinkerOptions(arch="sm_90", numba_debug=value)
        assert options.as_bytes() == [b"-arch=sm_90"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinkerOptions(arch="sm_90")


def test_invalid_nvvm_code_raises_what_cuda_bindings_raises():
    with pytest.raises(nvvm.nvvmError) as caught:
        Program(b"nonsense", "nvvm", ProgramOptions(arch="sm_90")).compile("ptx")
    assert isinstance(caught.value, CUDAError) and "compilation log" in str(caught.value)
    assert caught.value.status == nvvm.Result(caught.value.code) and caught.value.name.startswith("NVVM_ERROR")
    import pickle

    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and again.status == caught.value.status


def test_ptx_that_the_driver_cannot_load_is_warned_of(device, monkeypatch):
    monkeypatch.setattr(_core, "_warn_if_too_new", functools.partial(_core._warn_if_too_new, known=11080))
    cache = InMemoryProgramCache()
    program = Program(PLAIN, "c++", ProgramOptions(arch="sm_75"))
    for _ in range(2):  # the second time from the cache
        with pytest.warns(RuntimeWarning, match=r"11\.8"):
            program.compile("ptx", cache=cache)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.compile("cubin")


@pytest.mark.parametrize(
    "option",
    [{"ptxas_options": "-v"}, {"split_compile": 2}, {"split_compile_extended": 2}, {"kernels_used": "f"},
     {"variables_used": "v", "kernels_used": "f"}, {"optimize_unused_variables": True}],
    ids=lambda option: next(iter(option)),
)  # fmt: skip
def test_options_that_change_no_meaning_are_taken(device, option):
    if Linker.which_backend() != "nvJitLink":
        pytest.skip("the driver has not all of them")
    arch = f"sm_{device.arch}"
    code = Program(PLAIN, "c++", ProgramOptions(arch=arch)).compile("ptx")
    assert Linker(code, options=LinkerOptions(arch=arch, **option)).link("cubin").get_kernel("f")


def test_what_is_yes_or_no_of_a_kernel_is_a_bool(device):
    attributes = ptx_kernel(device).attributes
    for name in ("cache_mode_ca", "cluster_size_must_be_set", "non_portable_cluster_size_allowed"):
        assert isinstance(getattr(attributes, name), bool)
    assert attributes.num_regs() == attributes.num_regs


def ptx_kernel(device):
    return Program(PLAIN, "c++", ProgramOptions(arch=f"compute_{device.arch}")).compile("ptx").get_kernel("f")


def test_objects_that_come_from_others_cannot_be_made_directly(device):
    kernel = ptx_kernel(device)
    for cls in (type(kernel.attributes), type(kernel.occupancy), type(device.context)):
        with pytest.raises(RuntimeError, match="cannot be instantiated directly"):
            cls()


def test_a_kernel_handle_is_an_int():
    from cuda.core import Kernel

    with pytest.raises(TypeError, match="float"):
        Kernel.from_handle(1.5)
    with pytest.raises(RuntimeError, match="link it first"):
        ObjectCode.from_object(b"machine code").get_kernel("f")


@pytest.mark.parametrize("cls", [InMemoryProgramCache, FileStreamProgramCache])
def test_a_cache_keeps_bytes_and_has_room(cls, tmp_path):
    arguments = (tmp_path / "cache",) if cls is FileStreamProgramCache else ()
    with pytest.raises(ValueError, match="max_size_bytes"):
        cls(*arguments, max_size_bytes=0)
    cache = cls(*arguments)
    with pytest.raises(TypeError, match="str"):
        cache[b"key"] = "text"
    gone = tmp_path / "gone.cubin"
    gone.write_bytes(b"x")
    code = ObjectCode.from_cubin(str(gone))
    gone.unlink()
    with pytest.raises(FileNotFoundError, match=r"gone\.cubin"):
        cache[b"key"] = code
