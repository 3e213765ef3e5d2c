# SPDX-License-Identifier: Apache-2.0
"""Atomic adds of 16-bit floats and pairs in every state space: both halves of a word, edge values, contention."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import pytest
from ptxsuite import softfloat as sf
from ptxsuite.device import Device
from ptxsuite.softfloat import FORMATS, decode, encode
from ptxsuite.values import Random, edges_of

COUNT = 1500  # not a multiple of any width
BLOCK = 250
SPACES = ("shared", "shared::cta", "shared::cluster", "global", "generic shared", "generic global")


@functools.cache
def device() -> Device:
    return Device()


def kernel(op: str, space: str, type_: str, shared_cell: bool) -> bytes:
    """Thread i writes a[i] to its cell (or thread 0 to the block's cell), adds b[i], and returns the old value and the cell."""
    bits = 32 if type_.endswith("x2") else 16
    size, register = bits // 8, "%w" if bits == 32 else "%h"
    in_global = space.endswith("global")
    memory = "global" if in_global else "shared"
    word = "" if space.startswith("generic") else f".{space}"
    generic = "cvta.shared.u64 %at, %cell;" if space == "generic shared" else "mov.u64 %at, %cell;"
    base = "add.u64 %cell, %scratch, %first;" if in_global else "mov.u64 %cell, cells;"
    add = (
        f"atom{word}.add.noftz.{type_} {register}3, [%at], {register}2;"
        if op == "atom"
        else f"red{word}.add.noftz.{type_} [%at], {register}2;"
    )
    return f"""
.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 scratch, .param .u32 n) {{
  .reg .b64 %in, %out, %scratch, %cell, %at, %first, %own, %place; .reg .b32 %w<4>, %t, %b, %d, %i, %n, %c;
  .reg .b16 %h<4>; .reg .pred %p;
  .shared .align 16 .b8 cells[{4 * BLOCK}];
  ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %scratch, [scratch]; ld.param.u32 %n, [n];
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;
  setp.ge.u32 %p, %i, %n; @%p exit;
  mul.wide.u32 %place, %i, {2 * size}; add.u64 %in, %in, %place; add.u64 %out, %out, %place;
  mul.lo.u32 %c, %b, {4 * BLOCK}; cvt.u64.u32 %first, %c;
  {base}
  mul.wide.u32 %own, %t, {0 if shared_cell else size}; add.u64 %cell, %cell, %own;
  {generic}
  ld.global.b{bits} {register}1, [%in]; ld.global.b{bits} {register}2, [%in+{size}];
  mov.b{bits} {register}3, {register}1;
  setp.eq.u32 %p, %t, 0;
  {"@%p" if shared_cell else ""} st.{memory}.b{bits} [%cell], {register}1;
  bar.sync 0;
  {add}
  bar.sync 0;
  st.global.b{bits} [%out], {register}3;
  ld.{memory}.b{bits} {register}1, [%cell];
  st.global.b{bits} [%out+{size}], {register}1;
  ret;
}}
""".encode()


def run(op: str, space: str, type_: str, halves: np.ndarray, shared_cell: bool) -> np.ndarray:
    """halves[i]: the halves of a, then of b. Returns the halves of the old value, then of the cell."""
    module = device().load(kernel(op, space, type_, shared_cell))
    given, out, scratch = device().memory(halves), device().memory(halves.nbytes), device().memory(4 * (COUNT + BLOCK))
    arguments = [given.address, out.address, scratch.address, ctypes.c_uint32(len(halves))]
    device().launch(device().function(module, "k"), -(-len(halves) // BLOCK), BLOCK, arguments)
    device().sync()
    answer = out.read(np.uint16, halves.size).reshape(halves.shape)
    for memory in (given, out, scratch):
        memory.free()
    device().unload(module)
    return answer


@functools.cache
def edge_case(type_: str) -> tuple[np.ndarray, np.ndarray]:
    """Operands and the sums of the exact model."""
    form = FORMATS[type_.removesuffix("x2")]
    parts = 2 if type_.endswith("x2") else 1
    rng = Random(7)
    edges = np.array(edges_of(type_.removesuffix("x2")), np.uint16)[rng.integers(0, 90, COUNT * 2 * parts) % 90]
    random = rng.bits(COUNT * 2 * parts, 16).astype(np.uint16)
    halves = np.where(rng.random(COUNT * 2 * parts) < 0.6, edges, random).reshape(COUNT, 2 * parts)
    pairs = zip(halves[:, :parts].ravel().tolist(), halves[:, parts:].ravel().tolist(), strict=True)
    sums = [encode(sf.add(decode(a, form), decode(b, form), "rn"), form) for a, b in pairs]
    return np.ascontiguousarray(halves), np.array(sums, np.uint16).reshape(COUNT, parts)


@pytest.mark.parametrize("type_", ["f16", "bf16", "f16x2", "bf16x2"])
@pytest.mark.parametrize("space", SPACES)
def test_half_atomic_add_matches_the_model(type_: str, space: str, any_width: str) -> None:
    halves, sums = edge_case(type_)
    parts = sums.shape[1]
    for op in ("atom", "red"):
        answer = run(op, space, type_, halves, shared_cell=False)
        assert (answer[:, :parts] == halves[:, :parts]).all()
        assert (answer[:, parts:] == sums).all()


@pytest.mark.parametrize("type_", ["f16", "bf16", "f16x2", "bf16x2"])
@pytest.mark.parametrize("space", SPACES)
def test_contended_half_atomic_add_loses_no_update(type_: str, space: str, any_width: str) -> None:
    parts = 2 if type_.endswith("x2") else 1
    # Integer block sums that fit the format, different for each half; bf16 has 8 significant bits.
    numbers = np.zeros((COUNT, 2 * parts), np.float32)
    numbers[:, parts] = np.arange(COUNT) % 50 == 1
    numbers[:, 2 * parts - 1] += (np.arange(COUNT) % 25 == 2) * 4.0
    numbers[:, :parts] = np.arange(parts) + 1
    if type_.startswith("bf16"):
        halves = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    else:
        halves = numbers.astype(np.float16).view(np.uint16)
    totals = np.arange(1, parts + 1) + numbers[:BLOCK, parts:].sum(axis=0)
    for op in ("atom", "red"):
        answer = run(op, space, type_, np.ascontiguousarray(halves), shared_cell=True)[:, parts:]
        if type_.startswith("bf16"):
            found = (answer.astype(np.uint32) << 16).view(np.float32)
        else:
            found = answer.view(np.float16).astype(np.float32)
        assert (found == totals).all()
