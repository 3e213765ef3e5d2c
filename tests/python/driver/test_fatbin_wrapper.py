# SPDX-License-Identifier: Apache-2.0
"""Fat binary wrappers of relocatable code: version 2 lists the fat binaries to link."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest
from cuda.bindings import driver as d

pytestmark = (
    pytest.mark.cpu_only
)  # a GPU's driver uses the machine code that nvlink made, which these images do not have

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
CALLER = """
.extern .func (.param .b32 r) answer();
.visible .entry ask(.param .u64 out) {
  .reg .b64 %o; .reg .b32 %v;
  ld.param.u64 %o, [out];
  { .param .b32 r; call.uni (r), answer; ld.param.b32 %v, [r]; }
  st.global.u32 [%o], %v;
  ret; }
"""
CALLEE = ".visible .func (.param .b32 r) answer() { st.param.b32 [r], 42; ret; }\n"


def fatbin(text: str, kind: int = 1) -> Any:
    body = (HEAD + text).encode() + b"\0"
    body += b"\0" * (-len(body) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(body), 0, 0, 0, 8, 90, 0, 0, 0, 0, 0)
    image = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(body)) + entry + body
    return ctypes.create_string_buffer(image, len(image))


def wrapper(version: int, data: Any, parts: list[Any]) -> Any:
    listed = (ctypes.c_void_p * (len(parts) + 1))(*(ctypes.addressof(part) for part in parts), None)
    made = ctypes.create_string_buffer(
        struct.pack("<IIQQ", 0x466243B1, version, ctypes.addressof(data), ctypes.addressof(listed)), 24
    )
    made.keep = (data, parts, listed)
    return made


def test_wrapper_of_relocatable_code_links_all_its_fat_binaries(context: Any, check: Any) -> None:
    linked = fatbin("", kind=2)  # machine code only
    image = wrapper(2, linked, [fatbin(CALLER), fatbin(CALLEE)])
    library = check(d.cuLibraryLoadData(ctypes.addressof(image), [], [], 0, [], [], 0))
    kernel = check(d.cuLibraryGetKernel(library, b"ask"))
    memory = check(d.cuMemAlloc(4))
    check(d.cuLaunchKernel(d.CUfunction(int(kernel)), 1, 1, 1, 1, 1, 1, 0, 0, ((memory,), (None,)), 0))
    out = ctypes.c_uint()
    check(d.cuMemcpyDtoH(ctypes.addressof(out), memory, 4))
    assert out.value == 42
    check(d.cuMemFree(memory))
    check(d.cuLibraryUnload(library))


def test_list_of_version_1_is_ignored(context: Any, check: Any) -> None:
    image = wrapper(1, fatbin(".visible .entry other() { ret; }"), [fatbin(CALLER), fatbin(CALLEE)])
    library = check(d.cuLibraryLoadData(ctypes.addressof(image), [], [], 0, [], [], 0))
    assert check(d.cuLibraryGetKernelCount(library)) == 1
    check(d.cuLibraryUnload(library))


def test_list_that_names_something_else_is_an_invalid_image(context: Any) -> None:
    image = wrapper(2, fatbin(CALLEE), [ctypes.create_string_buffer(b"nothing of the kind", 64)])
    code = d.cuLibraryLoadData(ctypes.addressof(image), [], [], 0, [], [], 0)[0]
    assert code == d.CUresult.CUDA_ERROR_INVALID_IMAGE


def machine_code(note: bytes) -> bytes:
    """An ELF file for GPUs with one note and no PTX."""
    names = b"\0.shstrtab\0.note.nv.tkinfo\0"
    body = 64 + len(names)
    table = body + len(note)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 190, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 1
    )  # fmt: skip
    sections = struct.pack("<IIQQQQIIQQ", *[0] * 10)
    sections += struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 11, 7, 0, 0, body, len(note), 0, 0, 4, 0)
    return header + names + note + sections


def test_error_of_machine_code_names_its_maker_and_what_to_do(context: Any) -> None:
    note = b"NVIDIA Corp\0\2\0\0\0\0ptxas\0Cuda compilation tools, release 13.4, V13.4.92\0Build x\0"
    log = ctypes.create_string_buffer(2048)
    options = [d.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, d.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    image = machine_code(note)
    code = d.cuModuleLoadDataEx(image, 2, options, [ctypes.addressof(log), len(log)])[0]
    assert code == d.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
    text = log.value.decode()
    assert "made by ptxas, Cuda compilation tools, release 13.4, V13.4.92" in text and "cucore run --cpu" in text
    for damaged in (b"", b"\0", b"Cuda compilation tools", b"\xff\0Cuda compilation tools\1\0"):
        assert d.cuModuleLoadData(machine_code(damaged))[0] == d.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
