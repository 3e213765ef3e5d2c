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
