# SPDX-License-Identifier: Apache-2.0
"""The CPU device supports every opcode, with modifiers, that occurs in a corpus of kernels."""

from __future__ import annotations

import os

import pytest
from ptxsuite.device import DriverError
from ptxsuite.forms import FORMS
from ptxsuite.program import device

pytestmark = pytest.mark.skipif(
    os.environ.get("CUCORE_DEVICE", "cpu") == "gpu", reason="about the messages of the CPU device"
)
HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
OPCODES = [line for line in (FORMS / "opcodes.txt").read_text().splitlines() if not line.startswith("#")]


def refusal(opcode: str) -> str:
    """The device's error for an opcode without operands; "" if the opcode needs none."""
    try:
        device().unload(device().load(f"{HEAD}{opcode};\n}}\n".encode()))
    except DriverError as error:
        return error.log.strip()
    return ""


def test_unknown_opcode_and_missing_operands_have_different_errors() -> None:
    assert refusal("add.u32").endswith("'add' needs more operands: d a b")
    assert refusal("add.u33").endswith("'add' does not take '.u33' here")
    assert refusal("sub.sat.u32").endswith("'sub' does not take '.u32' here, expected one of .s32 .f32 .f16 .f16x2")
    assert refusal("bogus.u32").endswith("unknown instruction 'bogus'")


def test_every_opcode_of_the_corpus_is_known() -> None:
    said = {opcode: refusal(opcode) for opcode in OPCODES}
    assert len(said) == 783
    missing = ("needs more operands", "expected the function to call")
    assert not {opcode: text for opcode, text in said.items() if text and not any(word in text for word in missing)}
