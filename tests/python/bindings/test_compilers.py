# SPDX-License-Identifier: Apache-2.0
"""The main functions of NVRTC, nvJitLink, NVVM and nvFatbin. No test needs a device."""

from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings import nvfatbin, nvjitlink, nvrtc, nvvm

SOURCE = b"template <class T> __global__ void scale(T* p, T f) { *p *= f; }\n__constant__ int table[4];\n"
KERNEL = b'extern "C" __global__ void put(int* p) { *p = 42; }'


def compiled(check: Any, source: bytes, *options: str, names: tuple[bytes, ...] = ()) -> Any:
    program = check(nvrtc.nvrtcCreateProgram(source, b"source.cu", 0, [], []))
    for name in names:
        check(nvrtc.nvrtcAddNameExpression(program, name))
    check(nvrtc.nvrtcCompileProgram(program, len(options), list(options)))
    return program


def test_nvrtc_returns_lowered_names_and_every_kind_of_code(check: Any) -> None:
    names = (b"scale<float>", b"&table")
    program = compiled(check, SOURCE, "--gpu-architecture=sm_90", names=names)
    assert check(nvrtc.nvrtcGetLoweredName(program, names[0])) == b"_Z5scaleIfEvPT_S0_"
    assert check(nvrtc.nvrtcGetLoweredName(program, names[1])) == b"table"
    cubin = check(nvrtc.nvrtcGetCUBIN(program, check(nvrtc.nvrtcGetCUBINSize(program))))
    assert bytes(cubin)[:4] == b"\x7fELF"
    check(nvrtc.nvrtcDestroyProgram(program))
    program = compiled(check, KERNEL, "--gpu-architecture=compute_90", "-dlto")
    assert len(check(nvrtc.nvrtcGetLTOIR(program, check(nvrtc.nvrtcGetLTOIRSize(program))))) > 100
    check(nvrtc.nvrtcDestroyProgram(program))
    assert check(nvrtc.nvrtcGetNumSupportedArchs()) == len(check(nvrtc.nvrtcGetSupportedArchs()))
    assert check(nvrtc.nvrtcGetPCHHeapSize()) >= 0
    assert check(nvrtc.nvrtcVersion())[0] >= 12


def test_nvrtc_log_contains_the_compilation_error(check: Any) -> None:
    program = check(nvrtc.nvrtcCreateProgram(b"nonsense", b"bad.cu", 0, [], []))
    assert nvrtc.nvrtcCompileProgram(program, 0, [])[0] == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION
    log = check(nvrtc.nvrtcGetProgramLog(program, check(nvrtc.nvrtcGetProgramLogSize(program))))
    assert b"bad.cu" in bytes(log)
    check(nvrtc.nvrtcDestroyProgram(program))
    assert b"NVRTC_ERROR_COMPILATION" in nvrtc.nvrtcGetErrorString(nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION)[1]


def test_nvjitlink_returns_ptx_cubin_and_logs(check: Any, tmp_path: Any) -> None:
    program = compiled(check, KERNEL, "--gpu-architecture=compute_90", "-dlto")
    lto = bytes(check(nvrtc.nvrtcGetLTOIR(program, check(nvrtc.nvrtcGetLTOIRSize(program)))))
    check(nvrtc.nvrtcDestroyProgram(program))
    options = ["-arch=sm_90", "-lto", "-ptx"]
    handle = nvjitlink.create(len(options), options)
    nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, lto, len(lto), "one")
    nvjitlink.complete(handle)
    text = bytearray(nvjitlink.get_linked_ptx_size(handle))
    nvjitlink.get_linked_ptx(handle, text)
    assert b".entry put" in text
    assert nvjitlink.get_info_log_size(handle) >= 0 and nvjitlink.get_error_log_size(handle) >= 0
    nvjitlink.destroy(handle)
    file = tmp_path / "code.ptx"
    file.write_bytes(bytes(text).rstrip(b"\0"))
    handle = nvjitlink.create(1, ["-arch=sm_90"])
    nvjitlink.add_file(handle, nvjitlink.InputType.PTX, str(file))
    nvjitlink.complete(handle)
    cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, cubin)
    assert cubin[:4] == b"\x7fELF"
    nvjitlink.destroy(handle)


IR = b"""
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
define void @nothing() { ret void }
!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
!nvvm.annotations = !{!1}
!1 = !{void ()* @nothing, !"kernel", i32 1}
"""


def test_nvvm_compiles_and_returns_a_log() -> None:
    assert len(nvvm.ir_version()) == 4 and len(nvvm.version()) == 2
    program = nvvm.create_program()
    nvvm.add_module_to_program(program, IR, len(IR), "one")
    nvvm.verify_program(program, 0, [])
    nvvm.compile_program(program, 1, ["-arch=compute_90"])
    text = bytearray(nvvm.get_compiled_result_size(program))
    nvvm.get_compiled_result(program, text)
    assert b".entry nothing" in text
    assert nvvm.get_program_log_size(program) >= 0
    nvvm.destroy_program(program)
    assert "NVVM_ERROR" in nvvm.get_error_string(nvvm.Result.ERROR_COMPILATION)


def test_nvfatbin_contains_ptx_cubin_and_lto(check: Any) -> None:
    program = compiled(check, KERNEL, "--gpu-architecture=sm_90")
    cubin = bytes(check(nvrtc.nvrtcGetCUBIN(program, check(nvrtc.nvrtcGetCUBINSize(program)))))
    ptx = bytes(check(nvrtc.nvrtcGetPTX(program, check(nvrtc.nvrtcGetPTXSize(program)))))
    check(nvrtc.nvrtcDestroyProgram(program))
    program = compiled(check, KERNEL, "--gpu-architecture=compute_90", "-dlto")
    lto = bytes(check(nvrtc.nvrtcGetLTOIR(program, check(nvrtc.nvrtcGetLTOIRSize(program)))))
    check(nvrtc.nvrtcDestroyProgram(program))
    handle = nvfatbin.create([], 0)
    nvfatbin.add_cubin(handle, cubin, len(cubin), "90", "one")
    nvfatbin.add_ptx(handle, ptx, len(ptx), "90", "two", "")
    nvfatbin.add_ltoir(handle, lto, len(lto), "90", "three", "")
    image = bytearray(nvfatbin.size(handle))
    nvfatbin.get(handle, image)
    assert image[:4] == b"\x50\xed\x55\xba"
    nvfatbin.destroy(handle)
    assert nvfatbin.get_error_string(nvfatbin.Result.ERROR_INTERNAL)
    with pytest.raises(nvfatbin.nvFatbinError):
        nvfatbin.create(["-no-such-option"], 1)
