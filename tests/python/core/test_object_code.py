# SPDX-License-Identifier: Apache-2.0
"""ObjectCode: bytes, text and files; loading, unloading, pickling."""

import gc
import pathlib
import pickle
import struct
import threading
import warnings
import weakref

import pytest
from cuda.core import CUDAError, Device, Kernel, ObjectCode, Program, ProgramOptions

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry _Z11kernel_namePf(.param .u64 p) { ret; }
.visible .entry other(.param .u32 n, .param .u64 p) { ret; }
"""


@pytest.fixture(autouse=True)
def device():
    dev = Device()
    dev.set_current()
    return dev


def test_object_code_from_bytes_keeps_code_type_and_name():
    code = ObjectCode.from_ptx(PTX.encode(), name="mine")
    assert code.code == PTX.encode() and code.code is code.code
    assert code.code_type == "ptx"
    assert code.name == "mine"
    assert code.symbol_mapping == {}
    assert code.get_kernel("other").num_arguments == 2


def test_str_is_ptx_text_or_a_path(tmp_path):
    assert ObjectCode.from_ptx(PTX).get_kernel("other").num_arguments == 2
    file = tmp_path / "code.ptx"
    file.write_text(PTX)
    for path in (str(file), file):
        code = ObjectCode.from_ptx(path)
        assert code.code == str(file)
        assert code.get_kernel("other").num_arguments == 2
    with pytest.raises(FileNotFoundError, match=r"missing\.ptx"):
        ObjectCode.from_ptx(str(tmp_path / "missing.ptx"))
    with pytest.raises(FileNotFoundError):
        ObjectCode.from_cubin(pathlib.Path("missing.cubin"))


@pytest.mark.parametrize(
    "mapping",
    [
        {"kernel_name": "_Z11kernel_namePf"},
        {b"kernel_name": b"_Z11kernel_namePf"},
        {"kernel_name": b"_Z11kernel_namePf"},
    ],
)
def test_symbol_mapping_accepts_str_and_bytes(mapping):
    code = ObjectCode.from_ptx(PTX, symbol_mapping=mapping)
    kernel = code.get_kernel("kernel_name")
    assert kernel.name == "_Z11kernel_namePf"
    assert code.get_kernel(b"kernel_name") == kernel
    assert code.get_kernel("_Z11kernel_namePf") == kernel
    assert code.symbol_mapping == {"kernel_name": "_Z11kernel_namePf"}


def test_missing_kernel_error_lists_the_existing_kernels():
    with pytest.raises(CUDAError, match=r"no kernel 'absent'.*'other'") as caught:
        ObjectCode.from_ptx(PTX, name="mine").get_kernel("absent")
    assert "mine" in str(caught.value)
    assert caught.value.name == "CUDA_ERROR_NOT_FOUND"


def test_library_image_is_loaded():
    cubin = Program('extern "C" __global__ void k() {}', "c++", ProgramOptions()).compile("cubin")
    for image in (cubin.code, PTX.encode()):
        code = ObjectCode.from_library(image)
        assert code.code_type == "library"
    assert ObjectCode.from_library(cubin.code).get_kernel("k").num_arguments == 0


def test_loading_unlinked_code_raises():
    code = Program("__device__ int f() { return 1; }", "c++", ProgramOptions()).compile("ltoir")
    with pytest.raises(RuntimeError, match="link it first"):
        code.get_kernel("f")
    assert ObjectCode.from_ltoir(code.code).code_type == "ltoir"
    unlinked = ObjectCode.from_object(b"\x7fELF")
    assert unlinked.code_type == "object"
    with pytest.raises(RuntimeError, match="link it first"):
        unlinked.get_kernel("f")
    assert ObjectCode.from_fatbin(b"x").code_type == "fatbin"


def test_invalid_code_raises():
    for make, image in (
        (ObjectCode.from_cubin, b"not a cubin"),
        (ObjectCode.from_cubin, b"\x7fELF" + b"\xff" * 100),
        (ObjectCode.from_fatbin, b"\x50\xed\x55\xba" + b"\xff" * 60),
        (ObjectCode.from_ptx, b".version 8.0\n.target sm_90\n.address_size 64\n.entry k( { }"),
    ):
        with pytest.raises(CUDAError):
            make(image).get_kernel("k")


def test_ptx_compilation_error_contains_the_log():
    with pytest.raises(CUDAError, match="mine") as caught:
        ObjectCode.from_ptx(PTX.replace("ret;", "fly.s32 %r1;"), name="mine").get_kernel("other")
    assert "fly" in str(caught.value)


def test_argument_of_a_wrong_type_raises():
    with pytest.raises(TypeError, match="module"):
        ObjectCode.from_ptx(3)
    with pytest.raises(TypeError, match="symbol_mapping"):
        ObjectCode.from_ptx(PTX, symbol_mapping=[1])
    with pytest.raises(TypeError):
        ObjectCode.from_ptx(PTX, "positional name")


def test_pickled_object_code_keeps_all_properties(tmp_path):
    code = ObjectCode.from_ptx(PTX, name="mine", symbol_mapping={"a": "other"})
    code.get_kernel("a")
    copy = pickle.loads(pickle.dumps(code))
    assert (copy.code, copy.code_type, copy.name, copy.symbol_mapping) == (
        code.code,
        "ptx",
        "mine",
        {"a": "other"},
    )
    assert copy.get_kernel("a").num_arguments == 2
    assert copy != code
    file = tmp_path / "code.ptx"
    file.write_text(PTX)
    assert pickle.loads(pickle.dumps(ObjectCode.from_ptx(file))).code == str(file)


def test_equality_and_hash_follow_object_identity():
    one, two = ObjectCode.from_ptx(PTX), ObjectCode.from_ptx(PTX)
    assert one == one
    assert one != two
    assert one != None  # noqa: E711
    assert one != 3
    assert len({one, two, one}) == 2


def test_library_whose_handle_was_read_is_unloaded_by_the_reader():
    from cuda.bindings import driver

    code = ObjectCode.from_ptx(
        b".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry mine() { ret; }\n", name="mine"
    )
    handle = code.handle
    code.get_kernel("mine")
    del code
    gc.collect()
    assert driver.cuLibraryUnload(handle)[0] == driver.CUresult.CUDA_SUCCESS


def test_handle_and_module_are_not_null():
    code = ObjectCode.from_ptx(PTX)
    assert int(code.handle) != 0
    assert int(code.get_module()) != 0


def test_a_kernel_keeps_its_code_loaded():
    kernel = ObjectCode.from_ptx(PTX).get_kernel("other")
    gc.collect()
    assert kernel.num_arguments == 2
    assert kernel.attributes.max_threads_per_block > 0


@pytest.mark.cpu_only
def test_code_is_unloaded_with_its_last_user():
    kernel = ObjectCode.from_ptx(PTX).get_kernel("other")
    handle = int(kernel.handle)
    gc.collect()
    assert Kernel.from_handle(handle).num_arguments == 2
    del kernel
    gc.collect()
    with pytest.raises(CUDAError, match="INVALID_HANDLE"):  # a GPU's driver does not check
        _ = Kernel.from_handle(handle).num_arguments


def test_object_code_supports_weak_references():
    code = ObjectCode.from_ptx(PTX)
    reference = weakref.ref(code)
    del code
    gc.collect()
    assert reference() is None


def test_concurrent_loads_load_the_code_once():
    code = ObjectCode.from_ptx(PTX)
    kernels = []
    gate = threading.Barrier(8)

    def work():
        gate.wait()
        kernels.append(code.get_kernel("other"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({int(kernel.handle) for kernel in kernels}) == 1


@pytest.mark.parametrize(("machine", "name"), [(62, "x86-64"), (183, "AArch64"), (243, "another machine")])
@pytest.mark.parametrize("kind", ["cubin", "library"])
def test_elf_file_for_another_machine_raises_an_error_that_names_it(machine, name, kind):
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    names = b"\0.shstrtab\0"
    header = struct.pack("<16sHHIQQQIHHHHHH", ident, 1, machine, 1, 0, 0, 64 + 16, 0, 64, 0, 0, 64, 2, 1)
    table = struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    file = header + names.ljust(16, b"\0") + bytes(64) + table
    make = ObjectCode.from_cubin if kind == "cubin" else ObjectCode.from_library
    with pytest.raises(CUDAError, match=f"ELF file for {name}.*not for a GPU") as caught:
        make(file).get_kernel("k")
    assert caught.value.code == 200


def test_ptx_of_a_newer_compiler_than_the_driver_knows_warns():
    from cuda.bindings.utils import get_minimal_required_cuda_ver_from_ptx_ver
    from cuda.core import _core

    major, minor = _core.driver_version()
    for version in ("7.0", "8.4", "9.0", "9.5", "99.0"):
        code = ObjectCode.from_ptx(f"// .version 1.0\n.version {version}\n.target sm_70\n")
        try:
            needed = get_minimal_required_cuda_ver_from_ptx_ver(version)
        except ValueError:
            needed = 0  # loading it will tell
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            _core._warn_if_too_new(code)
        assert bool(said) == (needed > major * 1000 + minor * 10), version
        assert all(f"for CUDA {needed // 1000}.{needed % 1000 // 10}," in str(w.message) for w in said)
