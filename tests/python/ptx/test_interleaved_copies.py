# SPDX-License-Identifier: Apache-2.0
"""Copies of interleaved tensors match the recording of an H200 (tests/ptx/h200/interleaved.xz): 16- and 32-byte slices, all
ranks, boxes across every edge, strides, swizzles, types, im2col, stores.

A row is a copy (direction, map, position) and the destination of its 16-bit words: runs of [byte, first number, count] of consecutive
numbers or zeros. The tensor's memory contains consecutive numbers from 1 and starts 16 KiB before the tensor; so does stored data."""

from __future__ import annotations

import ctypes
import json
import lzma

import numpy as np
import pytest
from ptxsuite.forms import FORMS
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program, device
from ptxsuite.tensor_maps import HEAD, IM2COL, LOAD, Five, Map, array, encoded, filled, tiled

skip_module_without_nvrtc()

ROWS = json.loads(lzma.decompress((FORMS / "h200" / "interleaved.xz").read_bytes()))
ROOM, SIZE, BEFORE, UNTOUCHED = 16384, 130000, 16384, 0xEEEE


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(HEAD + "".join(filled(LOAD, rank) + filled(IM2COL, rank) for rank in (3, 4, 5)))


def runs(words: np.ndarray) -> list[list[int]]:
    found: list[list[int]] = []
    for at, value in enumerate(words.tolist()):
        if value == UNTOUCHED:
            continue
        last = found[-1] if found else [0, 0, 0]
        if last[2] and last[0] + 2 * last[2] == 2 * at and value == (last[1] + last[2] if last[1] else 0):
            last[2] += 1
        else:
            found.append([2 * at, value, 1])
    return found


def copied(program: Program, row: list, map_: Map, rank: int) -> np.ndarray:
    """The contents of shared memory after a load, as far as recorded."""
    size = max(at + 2 * count for at, _, count in row[-1])
    out = np.full(size, UNTOUCHED & 0xFF, np.uint8)
    at = Five(*row[9])
    if row[0] == "load":
        program.run(f"load{rank}", 1, 32, map_, out, at, size, shared=ROOM)
    else:
        program.run(f"im2col{rank}", 1, 32, map_, out, at, Five(*row[11]), size, shared=ROOM)
    return out.view(np.uint16)


@pytest.mark.parametrize("way", ["load", "store", "im2col"])
def test_interleaved_tensor_copies_match_the_recording(program: Program, way: str) -> None:
    numbers = (np.arange(SIZE // 2) + 1).astype(np.uint16)
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    memory = device().memory(numbers)
    wrong = []
    for row in (row for row in ROWS if row[0] == way):
        _, interleave, swizzle, fill, type_, dims, strides, box, steps, start, pixels, _, lower, upper, wanted = row
        rank, address = len(dims), memory.address.value + BEFORE
        if way == "im2col":
            map_ = encoded(
                "cuTensorMapEncodeIm2col", type_, u32(rank), ctypes.c_void_p(address), array(u64, dims), array(u64, strides),
                array(ctypes.c_int, lower), array(ctypes.c_int, upper), u32(box[0]), u32(pixels), array(u32, steps),
                interleave, swizzle, 0, fill,
            )  # fmt: skip
        else:
            map_ = tiled(
                address, type_, dims, strides, box, steps=steps, swizzle=swizzle, fill=fill, interleave=interleave
            )
        if way == "store":
            device().call("cuMemsetD16_v2", memory.address, UNTOUCHED, ctypes.c_size_t(SIZE // 2))
            given = numbers[: ROOM // 2].view(np.uint8).copy()
            program.run(f"store{rank}", 1, 32, map_, given, Five(*start), ROOM, shared=ROOM)
            got = [[at - BEFORE, *rest] for at, *rest in runs(memory.read(np.uint16, SIZE // 2))]
        else:
            got = runs(copied(program, row, map_, rank))
        if got != wanted:
            wrong.append((row[:-1], got[:4], wanted[:4]))
    memory.free()
    assert not wrong, f"{len(wrong)} differ: {wrong[:3]}"
