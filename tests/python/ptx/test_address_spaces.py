# SPDX-License-Identifier: Apache-2.0
"""isspacep: the state space of a generic address, as on an H200."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from ptxsuite.device import Device

SPACES = ("const", "global", "shared", "shared::cta", "shared::cluster", "local", "param")
# The generic address of each kind of variable, and the spaces it belongs to.
ADDRESSES = {
    "a constant variable": ("cvta.const.u64 %a, table;", {"const"}),
    "the last byte of a constant variable": ("cvta.const.u64 %a, table; add.u64 %a, %a, 15;", {"const"}),
    "a global variable": ("cvta.global.u64 %a, cell;", {"global"}),
    "device memory": ("mov.u64 %a, %memory;", {"global"}),
    "shared memory": (
        "mov.u64 %a, space; cvta.shared.u64 %a, %a;",
        {"shared", "shared::cta", "shared::cluster"},
    ),
    "local memory": ("mov.u64 %a, own; cvta.local.u64 %a, %a;", {"local"}),
}
KERNEL = """.version 8.3
.target sm_90
.address_size 64
.const .align 4 .b32 table[4] = {1, 2, 3, 4};
.global .align 4 .b32 cell[4];
.visible .entry ask(.param .u64 memory, .param .align 8 .b8 block[16]) {
  .reg .b64 %a, %memory, %out; .reg .b32 %r<9>; .reg .pred %p;
  .shared .align 8 .b8 space[64];
  .local .align 8 .b8 own[64];
  ld.param.u64 %memory, [memory];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %out, %r1, 4;
  add.u64 %out, %out, %memory;
  mov.u32 %r2, 0;
  st.shared.u32 [space], %r2;
  st.local.u32 [own], %r1;
  ADDRESS
  ASK
  st.global.u32 [%out], %r2;
  ret;
}
"""


@pytest.mark.parametrize("address", ADDRESSES)
def test_generic_address_belongs_to_the_state_space_of_its_variable(address: str, any_width: str) -> None:
    text, expected = ADDRESSES[address]
    ask = "".join(
        f"isspacep.{space} %p, %a; selp.u32 %r3, {1 << k}, 0, %p; or.b32 %r2, %r2, %r3;\n"
        for k, space in enumerate(SPACES)
    )
    device = Device()
    module = device.load(KERNEL.replace("ADDRESS", text).replace("ASK", ask).encode())
    memory = device.memory(64 * 4)
    device.launch(device.function(module, "ask"), 1, 64, [memory.address, (ctypes.c_uint64 * 2)()])
    device.sync()
    answers = memory.read(np.uint32, 64)
    found = [{space for k, space in enumerate(SPACES) if answer >> k & 1} for answer in answers]
    memory.free()
    device.unload(module)
    assert found == [expected] * 64


def test_memory_of_an_unloaded_module_is_not_constant() -> None:
    device = Device()
    text = KERNEL.replace("ADDRESS", "mov.u64 %a, %memory;").replace(
        "ASK", "isspacep.const %p, %a; selp.u32 %r2, 1, 0, %p;"
    )
    for _ in range(4):  # the memory of unloaded variables is reused soon
        module = device.load(text.encode())
        device.unload(module)
        module = device.load(text.encode())
        memory = device.memory(64 * 4)
        device.launch(device.function(module, "ask"), 1, 64, [memory.address, (ctypes.c_uint64 * 2)()])
        device.sync()
        assert not memory.read(np.uint32, 64).any()
        memory.free()
        device.unload(module)
