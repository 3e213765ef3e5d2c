# SPDX-License-Identifier: Apache-2.0
"""The rendered C headers: one test per kind of declaration."""

from __future__ import annotations

import abi_header
import c_types
import facts
import pytest


@pytest.fixture(scope="module")
def driver() -> facts.Library:
    return facts.load("driver")


@pytest.fixture(scope="module")
def driver_h(driver: facts.Library) -> list[str]:
    return abi_header.render_header(driver).splitlines()


@pytest.mark.parametrize(
    ("type_", "declaration"),
    [
        ("int", "int x"),
        ("CUdeviceptr *", "CUdeviceptr *x"),
        ("char[16]", "char x[16]"),
        ("unsigned char[2][3]", "unsigned char x[2][3]"),
        ("void (*)(void *)", "void (*x)(void *)"),
        ("const char *const *", "const char *const *x"),
        ("VdpStatus (VdpDevice, void **)", "VdpStatus x(VdpDevice, void **)"),
    ],
)
def test_type_spelling_becomes_a_c_declaration(type_: str, declaration: str) -> None:
    assert c_types.declare(type_, "x") == declaration


def test_function_is_declared_under_its_symbol(driver_h: list[str]) -> None:
    assert "CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);" in driver_h
    assert "CUresult cuStreamQuery(CUstream hStream);" in driver_h
    assert "CUresult cuCtxSynchronize(void);" in driver_h


def test_name_is_mapped_to_its_symbol(driver_h: list[str]) -> None:
    assert "#define cuMemAlloc cuMemAlloc_v2" in driver_h
    assert "#define cuGraphInstantiate cuGraphInstantiateWithFlags" in driver_h
    assert not any(line.startswith("#define cuStreamGetCtx_v2 cuStreamGetCtx_v2 ") for line in driver_h)


def test_per_thread_macro_selects_the_per_thread_symbols(driver_h: list[str]) -> None:
    start = driver_h.index("#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)")
    end = driver_h.index("#else", start)
    assert "#define cuStreamQuery cuStreamQuery_ptsz" in driver_h[start:end]
    assert "#define cuMemcpyHtoD cuMemcpyHtoD_v2_ptds" in driver_h[start:end]
    assert "#define cuMemcpyHtoD cuMemcpyHtoD_v2" in driver_h[end:]


def test_first_version_is_declared_only_with_all_versions(driver_h: list[str]) -> None:
    start = driver_h.index("#if defined(CUCORE_ABI_ALL_VERSIONS)")
    end = driver_h.index("#endif", start)
    assert "CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize);" in driver_h[start:end]
    assert "CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);" not in driver_h[start:end]
    assert "CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);" in driver_h


def test_each_type_follows_the_types_it_contains(driver_h: list[str]) -> None:
    def line(text: str) -> int:
        return driver_h.index(text)

    assert line("struct CUmemcpy3DOperand_st {") < line("struct CUDA_MEMCPY3D_BATCH_OP_st {")
    assert line("typedef struct CUstream_st *CUstream;") < line("struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {")


def test_records_have_unions_alignment_and_anonymous_members(driver: facts.Library) -> None:
    text = "\n".join(abi_header.render_type(driver.records["CUDA_RESOURCE_DESC_st"]))
    assert "  union {\n    struct {\n      CUarray hArray;\n    } array;" in text
    assert "  } res;" in text
    tensor_map = "\n".join(abi_header.render_type(driver.records["CUtensorMap_st"]))
    assert "CUCORE_ABI_ALIGNAS(128) cuuint64_t opaque[16];" in tensor_map
    location = "\n".join(abi_header.render_type(driver.records["CUmemLocation_st"]))
    assert "  union {\n    int id;" in location
    assert "\n  };" in location


def test_enumerators_beyond_int_are_valid_in_c_and_cpp() -> None:
    assert abi_header.enumerator(-(1 << 31)) == "-2147483647 - 1"
    assert abi_header.enumerator(0xFFFFFFFF) == "4294967295u"
    assert abi_header.enumerator(1 << 32) == "4294967296ull"


def test_constant_has_its_type(driver_h: list[str]) -> None:
    assert "#define CU_STREAM_PER_THREAD ((CUstream)2)" in driver_h
    assert "#define CU_IPC_HANDLE_SIZE 64" in driver_h
    assert "#define CU_DEVICE_CPU ((CUdevice)-1)" in driver_h


def test_interop_function_is_under_the_guard_of_its_header(driver_h: list[str]) -> None:
    start = next(i for i, line in enumerate(driver_h) if line.startswith("#ifndef CUDAGL_H"))
    end = driver_h.index("#endif  // CUDAGL_H")
    here = next(i for i, line in enumerate(driver_h) if "cuGraphicsGLRegisterBuffer(" in line)
    assert start < here < end


def test_type_of_two_headers_is_guarded(driver_h: list[str]) -> None:
    at = driver_h.index("struct CUuuid_st {")
    assert driver_h[at - 1] == "#ifndef CU_UUID_HAS_BEEN_DEFINED"


def test_rendered_header_contains_no_text_of_nvidias() -> None:
    """Facts contain no sentences: a copied comment would be a long text with spaces."""
    for library in abi_header.HEADERS:
        text = (facts.API / f"{library}.json").read_text(encoding="utf-8")
        assert "/*" not in text
        assert "\\brief" not in text
        assert "NVIDIA CORPORATION" not in text.upper()
