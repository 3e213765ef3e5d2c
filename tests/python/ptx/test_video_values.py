# SPDX-License-Identifier: Apache-2.0
"""Scalar video instructions with a merge or a second operation match the recording of an H200 (tests/ptx/h200/video_values.xz):
the forms of video_parts.forms whose results differ from the manual.

The file is LZMA of a line of JSON (form -> seed of its operands) and the results, one 32-bit word per case and form."""

from __future__ import annotations

import ctypes
import json
import lzma

import numpy as np
import pytest
from ptxsuite import reference
from ptxsuite.device import Device
from ptxsuite.forms import FORMS, load, module
from ptxsuite.values import Random

CASES = 256
HEAD, _, RESULTS = lzma.decompress((FORMS / "h200" / "video_values.xz").read_bytes()).partition(b"\n")
SEEDS: dict[str, int] = json.loads(HEAD)
RECORDED = dict(zip(SEEDS, np.frombuffer(RESULTS, "<u4").reshape(len(SEEDS), CASES), strict=True))
KERNELS = {form.id: form for form in load(FORMS / "video_parts.forms")}
EDGES = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF]
EDGES += [0x55555555, 0xAAAAAAAA, 0x80008000, 0x7FFF7FFF, 0x12345678, 0xFEDCBA98]
OPERATIONS = sorted({name.partition(".")[0] for name in SEEDS})


def operands(seed: int) -> np.ndarray:
    """The three recorded operands: three of four are edge values."""
    random = Random(seed)
    columns = []
    for _ in range(3):
        edge = np.array(EDGES, np.uint64)[random.bits(CASES) % np.uint64(len(EDGES))]
        other, how = random.bits(CASES) >> np.uint64(32), random.bits(CASES) % np.uint64(100)
        columns.append(np.where(how < 75, edge, other))
    return np.array(columns)


def differing(name: str, got: np.ndarray) -> str:
    wrong = np.flatnonzero(got != RECORDED[name])
    if not len(wrong):
        return ""
    given = " ".join(hex(int(x)) for x in operands(SEEDS[name])[:, wrong[0]])
    return f"{name}: {len(wrong)} of {CASES}: {given} -> {got[wrong[0]]:#x}, H200 {RECORDED[name][wrong[0]]:#x}"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_video_instructions_match_the_recording(operation: str) -> None:
    names = [name for name in SEEDS if name.startswith(operation + ".")]
    kernels = [f"form{k}" for k in range(len(names))]
    device = Device()
    code = device.load(module([KERNELS[name] for name in names], kernels).encode())
    wrong = []
    for name, kernel in zip(names, kernels, strict=True):
        given, out = device.memory(operands(SEEDS[name])), device.memory(8 * CASES)
        arguments = [given.address, out.address, out.address, ctypes.c_uint32(CASES)]
        device.launch(device.function(code, kernel), CASES // 128, 128, arguments)
        device.sync()
        wrong.append(differing(name, out.read(np.uint64, CASES).astype(np.uint32)))
        given.free(), out.free()
    device.unload(code)
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_video_model_matches_the_recording(operation: str) -> None:
    wrong = []
    for name in SEEDS:
        if name.startswith(operation + "."):
            rows = [reference.case(name, [int(x) for x in row])[0] for row in operands(SEEDS[name]).T]
            wrong.append(differing(name, np.array([row & 0xFFFFFFFF for row in rows], np.uint32)))
    assert not any(wrong), "\n".join(filter(None, wrong))
