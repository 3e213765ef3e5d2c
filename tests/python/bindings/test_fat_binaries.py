# SPDX-License-Identifier: Apache-2.0
"""Fat binaries of nvFatbin: the driver selects the code for the device."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import pytest
from cuda.bindings import driver, nvfatbin

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 p)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [p];
  cvta.to.global.u64 %rd0, %rd0;
  ld.global.u32 %r0, [%rd0];
  add.u32 %r0, %r0, %r0;
  st.global.u32 [%rd0], %r0;
  ret;
}
"""


def fat_binary(options: list[str], entries: list[tuple[bytes, str]]) -> bytes:
    handle = nvfatbin.create([*options], len(options))
    for text, arch in entries:
        nvfatbin.add_ptx(handle, text, len(text) + 1, arch, "k", "")
    out = bytearray(nvfatbin.size(handle))
    nvfatbin.get(handle, out)
    nvfatbin.destroy(handle)
    return bytes(out)


def run(module: Any, check: Any, stream: Any) -> int:
    function = check(driver.cuModuleGetFunction(module, b"twice"))
    memory = check(driver.cuMemAlloc(4))
    check(driver.cuMemsetD32(memory, 21, 1))
    check(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, ((memory,), (ctypes.c_void_p,)), 0))
    check(driver.cuStreamSynchronize(stream))
    value = ctypes.c_int()
    check(driver.cuMemcpyDtoH(value, memory, 4))
    check(driver.cuMemFree(memory))
    check(driver.cuModuleUnload(module))
    return value.value


@pytest.mark.parametrize("options", [["-64"], ["-64", "-compress=false"], ["-64", "-compress-all"]], ids=" ".join)
def test_code_of_a_fat_binary_runs(options: list[str], check: Any, stream: Any) -> None:
    image = fat_binary(options, [(PTX, "90")])
    assert run(check(driver.cuModuleLoadFatBinary(image)), check, stream) == 42
    assert run(check(driver.cuModuleLoadData(image)), check, stream) == 42


def test_code_for_another_device_in_a_fat_binary_is_ignored(check: Any, stream: Any) -> None:
    newer = PTX.replace(b"sm_90", b"sm_120").replace(b".version 8.0", b".version 8.7").replace(b"add.u32", b"sub.u32")
    image = fat_binary(["-64"], [(newer, "120"), (PTX, "90")])
    assert run(check(driver.cuModuleLoadFatBinary(image)), check, stream) == 42


@pytest.mark.skipif(
    os.environ.get("CUCORE_DEVICE") == "gpu", reason="a GPU's driver reads past a damaged header and crashes"
)
def test_damaged_fat_binary_returns_an_error(check: Any, context: Any) -> None:
    image = bytearray(fat_binary(["-64"], [(PTX, "90")]))
    image[20:40] = b"\xff" * 20
    code, _ = driver.cuModuleLoadData(bytes(image))
    assert code != 0
