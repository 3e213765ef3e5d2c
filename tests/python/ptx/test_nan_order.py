# SPDX-License-Identifier: Apache-2.0
"""Of two f64 NaN operands, an instruction returns the one that comes first in PTX's operand order: in long programs with branches
and loops, with any number of lanes. On a GPU ptxas may exchange operands, so any input NaN is accepted there."""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from ptxsuite.program import device

ON_GPU = os.environ.get("CUCORE_DEVICE") == "gpu"
REGISTERS, THREADS = 6, 64
QUIET = 0x0008000000000000

# Operands of each instruction in the order in which a GPU checks for a NaN (recorded in tests/ptx/nan.forms).
ORDER = {"add.f64": (1, 0), "sub.f64": (1, 0), "mul.f64": (1, 0), "div.rn.f64": (0, 1), "fma.rn.f64": (1, 2, 0)}


@dataclass
class Step:
    """`op` on registers; or, without one, `body` three times or where a bit of the thread's index is set, else `other`."""

    op: str = ""
    to: int = 0
    sources: tuple[int, ...] = ()
    as_bits: bool = False  # the first operand comes from an integer register
    body: list[Step] = field(default_factory=list)
    other: list[Step] = field(default_factory=list)
    bit: int | None = None


def make(choose: random.Random, length: int, depth: int = 2) -> list[Step]:
    steps = []
    for _ in range(length):
        kind = choose.random()
        if depth and kind < 0.15:
            steps.append(Step(body=make(choose, 3, depth - 1)))
        elif depth and kind < 0.35:
            both = make(choose, 3, depth - 1), make(choose, 2, depth - 1)
            steps.append(Step(body=both[0], other=both[1], bit=choose.randrange(6)))
        else:
            op = choose.choice(list(ORDER))
            sources = tuple(choose.randrange(REGISTERS) for _ in ORDER[op])
            steps.append(Step(op, choose.randrange(REGISTERS), sources, choose.random() < 0.2))
            if choose.random() < 0.3:  # the same operation with exchanged operands
                steps.append(Step(op, choose.randrange(REGISTERS), (sources[1], sources[0], *sources[2:])))
    return steps


def text(steps: list[Step], names: Iterator[int], depth: int = 0) -> Iterator[str]:
    for step in steps:
        if step.op:
            operands = [f"%d{s}" for s in step.sources]
            if step.as_bits:
                yield f"mov.b64 %rd4, {operands[0]}; xor.b64 %rd4, %rd4, %rd5; mov.b64 %dd, %rd4;"
                operands[0] = "%dd"
            yield f"{step.op} %d{step.to}, {', '.join(operands)};"
        elif step.bit is None:
            name = next(names)
            yield f"mov.u32 %n{depth}, 0;\nL{name}:"
            yield from text(step.body, names, depth + 1)
            yield f"add.u32 %n{depth}, %n{depth}, 1; setp.lt.u32 %p, %n{depth}, 3; @%p bra L{name};"
        else:
            name = next(names)
            yield f"and.b32 %r1, %r0, {1 << step.bit}; setp.eq.u32 %p, %r1, 0; @%p bra E{name};"
            yield from text(step.body, names, depth)
            yield f"bra J{name};\nE{name}:"
            yield from text(step.other, names, depth)
            yield f"J{name}:"


def module(steps: list[Step]) -> bytes:
    lines = [
        ".version 8.0\n.target sm_90\n.address_size 64",
        ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 zero) {",
        f".reg .f64 %d<{REGISTERS}>; .reg .f64 %dd; .reg .b64 %rd<6>; .reg .b32 %r<2>, %n<3>; .reg .pred %p;",
        "ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out]; ld.param.u64 %rd5, [zero]; mov.u32 %r0, %tid.x;",
        f"mul.wide.u32 %rd2, %r0, {8 * REGISTERS}; add.u64 %rd0, %rd0, %rd2; add.u64 %rd1, %rd1, %rd2;",
        *(f"ld.global.f64 %d{k}, [%rd0+{8 * k}];" for k in range(REGISTERS)),
        *text(steps, itertools.count()),
        *(f"st.global.f64 [%rd1+{8 * k}], %d{k};" for k in range(REGISTERS)),
        "ret; }",
    ]
    return "\n".join(lines).encode() + b"\0"


def as_number(bits: int) -> float:
    return float(np.uint64(bits).view(np.float64))


def run(steps: list[Step], thread: int, values: list[int]) -> None:
    """Executes the steps on a thread's registers. Numbers are not exact; only the NaNs matter."""
    for step in steps:
        if step.op:
            operands = [values[s] for s in step.sources]
            found = [operands[k] for k in ORDER[step.op] if math.isnan(as_number(operands[k]))]
            if found:
                values[step.to] = found[0] | QUIET
            else:
                assert not any(math.isnan(as_number(x)) for x in operands)
                values[step.to] = operands[0]
        elif step.bit is None:
            for _ in range(3):
                run(step.body, thread, values)
        else:
            run(step.body if thread >> step.bit & 1 else step.other, thread, values)


def given(choose: random.Random) -> np.ndarray:
    """Registers of every thread: three in four are distinct NaNs; the others are numbers that stay far from infinity."""
    rows = np.full((THREADS, REGISTERS), 0x3FF0000000000000, np.uint64)
    for thread, register in itertools.product(range(THREADS), range(REGISTERS)):
        if choose.random() < 0.75:
            sign, quiet = choose.choice((0, 1 << 63)), choose.choice((0, QUIET))
            rows[thread, register] = 0x7FF0000000000000 | sign | quiet | (1 + thread * REGISTERS + register)
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_nan_operand_order_selects_the_result(seed: int, any_width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_NAN", "exact")
    choose = random.Random(seed)
    steps = make(choose, 12)
    rows = given(choose)
    memory, out = device().memory(rows), device().memory(np.zeros_like(rows))
    loaded = device().load(module(steps))
    device().launch(device().function(loaded, "k"), 1, THREADS, [memory.address, out.address, ctypes.c_uint64(0)])
    device().sync()
    results = out.read(np.dtype(np.uint64), rows.size).reshape(rows.shape)
    memory.free()
    out.free()
    device().unload(loaded)
    for thread in range(THREADS):
        came = {int(x) | QUIET for x in rows[thread]} | {int(x) for x in rows[thread]}
        expected = [int(x) for x in rows[thread]]
        run(steps, thread, expected)
        for register, (is_, due) in enumerate(zip(results[thread], expected, strict=True)):
            where = f"thread {thread}, %d{register}: {int(is_):#x}, due {due:#x}"
            if math.isnan(as_number(due)):
                assert int(is_) in came if ON_GPU else int(is_) == due, where
