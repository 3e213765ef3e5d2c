# SPDX-License-Identifier: Apache-2.0
"""Rarely used functions of NVRTC, nvJitLink, NVVM and nvFatbin, which older libraries may lack."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import nvfatbin, nvjitlink, nvrtc, nvvm

KERNEL = b'extern "C" __global__ void put(int* p) { *p = 42; }'
RESULT = nvrtc.nvrtcResult


@pytest.fixture
def program(check: Any) -> Any:
    made = check(nvrtc.nvrtcCreateProgram(KERNEL, b"source.cu", 0, [], []))
    yield made
    check(nvrtc.nvrtcDestroyProgram(made))


def known(function: Any, *arguments: Any) -> Any:
    """Calls a function of a newer version; skips the test if the library lacks it."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        if "not found" not in str(error):
            raise
        pytest.skip(str(error))


def test_nvrtc_returns_optix_ir(program: Any, check: Any) -> None:
    check(nvrtc.nvrtcCompileProgram(program, 2, ["--gpu-architecture=compute_75", "--optix-ir"]))
    size = check(nvrtc.nvrtcGetOptiXIRSize(program))
    assert size > 100 and len(check(nvrtc.nvrtcGetOptiXIR(program, size))) == size
    with pytest.raises(ValueError, match="optixir has 4 bytes, but the call uses"):
        nvrtc.nvrtcGetOptiXIR(program, bytearray(4))


def test_nvrtc_returns_tile_code_only_if_requested(program: Any, check: Any) -> None:
    check(nvrtc.nvrtcCompileProgram(program, 1, ["--gpu-architecture=compute_90"]))
    code, size = known(nvrtc.nvrtcGetTileIRSize, program)
    assert code != 0 or size == 0
    room = bytearray(16)
    nvrtc.nvrtcGetTileIR(program, room)
    assert room == bytes(16)


def test_nvrtc_reports_the_state_of_precompiled_headers(program: Any, check: Any) -> None:
    before = known(nvrtc.nvrtcGetPCHHeapSize)[1]
    check(nvrtc.nvrtcSetPCHHeapSize(before))
    assert check(nvrtc.nvrtcGetPCHHeapSize()) == before
    check(nvrtc.nvrtcCompileProgram(program, 1, ["--gpu-architecture=compute_75"]))
    assert nvrtc.nvrtcGetPCHCreateStatus(program)[0] == RESULT.NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED
    code, needed = nvrtc.nvrtcGetPCHHeapSizeRequired(program)
    assert code == RESULT.NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED or needed >= 0


def test_nvrtc_flow_callback_cancels_a_compilation(check: Any) -> None:
    program = check(nvrtc.nvrtcCreateProgram(KERNEL, b"source.cu", 0, [], []))
    seen: list[Any] = []

    def stop(payload: Any, reserved: Any) -> bool:
        seen.append(payload)
        return True

    assert known(nvrtc.nvrtcSetFlowCallback, program, stop, "mine")[0] == 0
    code = nvrtc.nvrtcCompileProgram(program, 1, ["--gpu-architecture=compute_75"])[0]
    assert seen and set(seen) == {"mine"}
    assert code == RESULT.NVRTC_ERROR_CANCELLED
    gone = weakref.ref(stop)
    del stop
    assert gone() is not None
    check(nvrtc.nvrtcDestroyProgram(program))
    assert gone() is None


def test_nvrtc_installs_and_removes_bundled_headers(tmp_path: Path) -> None:
    code, info, _ = known(nvrtc.nvrtcGetBundledHeadersInfo)
    if code != 0:
        assert info is None
        pytest.skip(f"this library brings no headers: {code!r}")
    place = tmp_path / "headers"
    code, _ = nvrtc.nvrtcInstallBundledHeaders(str(place), 0)
    assert code == 0 and any(place.rglob("*.h"))
    assert nvrtc.nvrtcRemoveBundledHeaders(str(place))[0] == 0


def linked_code(check: Any) -> bytes:
    made = check(nvrtc.nvrtcCreateProgram(KERNEL, b"source.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(made, 2, ["--gpu-architecture=compute_90", "-dlto"]))
    code = bytes(check(nvrtc.nvrtcGetLTOIR(made, check(nvrtc.nvrtcGetLTOIRSize(made)))))
    check(nvrtc.nvrtcDestroyProgram(made))
    return code


def test_nvjitlink_returns_linked_ltoir_and_logs(check: Any) -> None:
    code = linked_code(check)
    handle = nvjitlink.create(2, ["-arch=sm_90", "-lto"])
    nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), "one")
    nvjitlink.complete(handle)
    for size, log in (
        (nvjitlink.get_info_log_size, nvjitlink.get_info_log),
        (nvjitlink.get_error_log_size, nvjitlink.get_error_log),
    ):
        room = size(handle)
        assert len(log(handle, room)) == room
    try:
        size = known(nvjitlink.get_linked_ltoir_size, handle)
        assert len(nvjitlink.get_linked_ltoir(handle, size)) == size
    except nvjitlink.nvJitLinkError as error:  # kept only if requested
        assert isinstance(error.status, nvjitlink.Result)
        with pytest.raises(nvjitlink.nvJitLinkError):
            nvjitlink.get_linked_ltoir(handle, bytearray(1 << 20))
    finally:
        nvjitlink.destroy(handle)


def test_nvvm_adds_modules_lazily() -> None:
    program = nvvm.create_program()
    nvvm.lazy_add_module_to_program(program, "not a module", 12, "lazy")
    with pytest.raises(nvvm.nvvmError):
        nvvm.compile_program(program, 0, [])
    with pytest.raises(ValueError, match="buffer has 1 bytes, but the call uses 50"):
        nvvm.lazy_add_module_to_program(program, "x", 50, "short")
    nvvm.destroy_program(program)
    assert known(nvvm.llvm_version, "compute_90") >= 7
    with pytest.raises(nvvm.nvvmError):
        nvvm.llvm_version("compute_none")


def test_nvfatbin_adds_entries_of_every_kind() -> None:
    handle = nvfatbin.create(["-64"], 1)
    for add, arguments in (
        (nvfatbin.add_index, (b"index", 5, "one")),
        (nvfatbin.add_reloc, (b"\x7fELF no code", 12)),
        (nvfatbin.add_tile_ir, (b"tile", 4, "one", "")),
    ):
        try:
            known(add, handle, *arguments)
        except nvfatbin.nvFatbinError as error:  # the library validates its input
            assert isinstance(error.status, nvfatbin.Result)
        with pytest.raises(ValueError, match="code has 2 bytes, but the call uses 50"):
            add(handle, b"xy", 50, *arguments[2:])
    assert nvfatbin.size(handle) >= 0
    nvfatbin.destroy(handle)
