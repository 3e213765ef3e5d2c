# SPDX-License-Identifier: Apache-2.0
"""The exports of the CPU device: weak definitions that strong ones replace, and the table of cuGetProcAddress."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import abi_header
import coverage
import cpu_exports
import driver_table
import elf_symbols
import facts
import pytest


@pytest.fixture(scope="module")
def driver() -> facts.Library:
    return facts.load("driver")


def line_of(text: str, symbol: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"CUCPU_WEAK {symbol}("))


@pytest.fixture(scope="module")
def source(driver: facts.Library) -> str:
    return cpu_exports.render_exports_cpp(driver)


def test_missing_function_reports_its_name(source: str) -> None:
    assert line_of(source, "cuMemAlloc_v2") == (
        'CUCPU_WEAK cuMemAlloc_v2(CUdeviceptr *, size_t) { return unsupported("cuMemAlloc_v2"); }'
    )


def test_old_version_with_equal_parameters_forwards(source: str) -> None:
    assert line_of(source, "cuEventDestroy") == (
        "CUCPU_WEAK cuEventDestroy(CUevent hEvent) { return cuEventDestroy_v2(hEvent); }"
    )
    assert 'unsupported("cuMemAlloc")' in line_of(source, "cuMemAlloc")  # 32-bit addresses: different parameters


def test_per_thread_variant_calls_the_base_function(source: str) -> None:
    assert line_of(source, "cuStreamQuery_ptsz") == (
        "CUCPU_WEAK cuStreamQuery_ptsz(CUstream hStream) { const PerThreadScope scope; return cuStreamQuery(hStream); }"
    )


def test_driver_table_has_one_row_per_function(driver: facts.Library) -> None:
    rows = driver_table.render_table(driver).splitlines()
    assert 'CUCORE_FN(cuMemAlloc, "cuMemAlloc", 3020, 0)' in rows
    assert 'CUCORE_FN(cuMemcpyHtoD, "cuMemcpyHtoD", 3020, 7000)' in rows
    assert 'CUCORE_FN(cuStreamGetCtx_v2, "cuStreamGetCtx", 12050, 12050)' in rows
    assert sum(row.startswith("CUCORE_FN(") for row in rows) == len(driver.functions)


HAND_WRITTEN = """
#include "cucore/abi/driver.h"
#include "cucpu/exports.hpp"
extern "C" CUresult cuMemAlloc(CUdeviceptr* p, size_t) { *p = 42; return CUDA_SUCCESS; }
extern "C" CUresult cuMemcpyDtoH(void*, CUdeviceptr, size_t) {
  return cucpu::null_stream_is_per_thread() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
extern "C" __attribute__((visibility("default"))) void* find(const char* name, int version) {
  const cucpu::Export* found = cucpu::find_export(name, version);
  return found ? reinterpret_cast<void*>(found->address) : nullptr;
}
"""


@pytest.fixture(scope="module")
def library(driver: facts.Library, source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("exports")
    (folder / "cucore" / "abi").mkdir(parents=True)
    (folder / "cucpu").mkdir()
    (folder / "cucore" / "abi" / "driver.h").write_text(abi_header.render_header(driver))
    (folder / "cucpu" / "exports.hpp").write_text(cpu_exports.render_exports_hpp(driver))
    (folder / "exports.cpp").write_text(source)
    (folder / "hand.cpp").write_text(HAND_WRITTEN)
    flags = ["-std=c++20", "-O0", "-fPIC", "-shared", "-fvisibility=hidden", "-I", str(folder)]
    subprocess.run([compiler, *flags, "-o", "libtest.so", "exports.cpp", "hand.cpp"], cwd=folder, check=True)
    return folder / "libtest.so"


def test_strong_definition_replaces_the_weak_one(library: Path) -> None:
    lib = ctypes.CDLL(str(library))
    pointer = ctypes.c_uint64()
    assert lib.cuMemAlloc_v2(ctypes.byref(pointer), 4) == 0
    assert pointer.value == 42
    assert lib.cuMemFree_v2(ctypes.c_uint64(1)) == 801  # CUDA_ERROR_NOT_SUPPORTED


def test_per_thread_variant_calls_the_strong_definition(library: Path) -> None:
    lib = ctypes.CDLL(str(library))
    arguments = (None, ctypes.c_uint64(0), ctypes.c_size_t(0))
    assert lib.cuMemcpyDtoH_v2(*arguments) == 0
    assert lib.cuMemcpyDtoH_v2_ptds(*arguments) == 600  # result of the test's function inside the scope
    assert lib.cuMemcpyDtoH_v2(*arguments) == 0  # and outside the scope


def test_find_export_returns_the_newest_version_up_to_the_requested_one(library: Path) -> None:
    lib = ctypes.CDLL(str(library))
    lib.find.restype = ctypes.c_void_p
    address = {n: ctypes.cast(getattr(lib, n), ctypes.c_void_p).value for n in ("cuCtxCreate_v2", "cuCtxCreate_v4")}
    assert lib.find(b"cuCtxCreate", 12000) != address["cuCtxCreate_v4"]
    assert lib.find(b"cuCtxCreate", 3020) == address["cuCtxCreate_v2"]
    assert lib.find(b"cuCtxCreate", 13040) == address["cuCtxCreate_v4"]
    assert lib.find(b"cuCtxCreate", 1000) is None
    assert lib.find(b"cuMadeUp", 13040) is None


def test_every_symbol_is_exported(driver: facts.Library, library: Path) -> None:
    defined = elf_symbols.defined_symbols(library)
    wanted = set(driver.symbols()) | {f.per_thread for f in driver.symbols().values() if f.per_thread}
    assert wanted <= set(defined)


def test_coverage_counts_strong_definitions_only(driver: facts.Library, library: Path) -> None:
    measured = coverage.measure(driver, elf_symbols.defined_symbols(library), {"cuGL*": "needs OpenGL"})
    assert measured.implemented == ("cuMemAlloc", "cuMemcpyDtoH")
    assert measured.missing["cuGLInit"] == "needs OpenGL"
    assert measured.missing["cuMemFree"] == ""
    assert measured.total == len(driver.functions)
    page = coverage.render_page({"driver": measured})
    assert f"| driver | {len(driver.functions)} | 2 |" in page


def test_coverage_counts_runtime_functions_in_the_sources(tmp_path: Path) -> None:
    (tmp_path / "memory.cpp").write_text(
        'extern "C" cudaError_t cudaMalloc(void** p, size_t n) {\n  return cudaFree(p);\n}\n'
        "cudaError_t cudaHostAlloc(\n    void** p, size_t n, unsigned f) noexcept {\n  return {};\n}\n"
        "cudaError_t cudaFree(void*);  // declared, not written\n"
    )
    names = ["cudaMalloc", "cudaHostAlloc", "cudaFree"]
    assert sorted(coverage.defined_in_sources(tmp_path, names)) == ["cudaHostAlloc", "cudaMalloc"]
