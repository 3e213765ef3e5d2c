# SPDX-License-Identifier: Apache-2.0
"""f32 min and max, and floats exchanged between lanes: numbers, zeros of both signs, quiet and signaling NaNs from memory, with any
number of lanes. A number takes precedence over a NaN, two NaNs and arithmetic give 0x7fffffff, and moved values keep their bits."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
from ptxsuite.program import device

NAN, THREADS = 0x7FFFFFFF, 64
VALUES = [
    0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x3F800000, 0xC0490FDB, 0x7F800000, 0xFF800000,
    0x7FC00000, 0xFFC00123, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF812345, 0x7FBFFFFF, 0x41200000,
]  # fmt: skip
# Every pair of values occurs within a warp; the second warp has mostly NaNs.
X = [VALUES[i % 16] for i in range(32)] + [VALUES[8 + i % 7] if i % 5 else VALUES[i % 8] for i in range(32)]
Y = [VALUES[(i * 7 + i // 16) % 16] for i in range(THREADS)]

Lanes = list[int]


def is_nan(a: int) -> bool:
    return a & 0x7FFFFFFF > 0x7F800000


def order(a: int) -> int:
    return -(a & 0x7FFFFFFF) - 1 if a >> 31 else a


def extreme(pick: Callable[..., int], a: int, b: int) -> int:
    if is_nan(a) or is_nan(b):
        return NAN if is_nan(a) and is_nan(b) else b if is_nan(a) else a
    return pick(a, b, key=order)


def largest(a: int, b: int) -> int:
    return extreme(max, a, b)


def least(a: int, b: int) -> int:
    return extreme(min, a, b)


def plus(a: int, b: int) -> int:
    with np.errstate(all="ignore"):
        r = int(
            (np.array([a], np.uint32).view(np.float32) + np.array([b], np.uint32).view(np.float32)).view(np.uint32)[0]
        )
    return NAN if is_nan(r) else r


def below(a: int, b: int) -> bool:
    p, q = np.array([a, b], np.uint32).view(np.float32)
    return bool(p < q)


def each(f: Callable[[int, int], int], a: Lanes, b: Lanes) -> Lanes:
    return [f(p, q) for p, q in zip(a, b, strict=True)]


def crossed(a: Lanes, by: int) -> Lanes:
    return [a[i ^ by] for i in range(THREADS)]


def folded(f: Callable[[int, int], int], a: Lanes) -> Lanes:
    for by in (16, 8, 4, 2, 1):
        a = each(f, a, crossed(a, by))
    return a


def where(even: Lanes, odd: Lanes) -> Lanes:
    return [odd[i] if i >> 2 & 1 else even[i] for i in range(THREADS)]


def shfl(to: str, source: str, by: int) -> str:
    return f"shfl.sync.bfly.b32 {to}, {source}, {by}, 31, -1;"


def fold(op: str) -> str:
    return "".join(f"{shfl('%g', '%f', by)} {op}.f32 %f, %f, %g;\n" for by in (16, 8, 4, 2, 1))


# From %x and %y to %f; %odd is bit 2 of the thread's index.
PROGRAMS: dict[str, tuple[str, Lanes]] = {
    "the larger": ("max.f32 %f, %x, %y;", each(largest, X, Y)),
    "the smaller": ("min.f32 %f, %x, %y;", each(least, X, Y)),
    "of itself": ("max.f32 %f, %x, %x;", each(largest, X, X)),
    "with a sum": ("add.f32 %g, %x, %y; max.f32 %f, %g, %x;", each(largest, each(plus, X, Y), X)),
    "of sums": (
        "add.f32 %f, %x, %y; add.f32 %g, %y, %y; min.f32 %f, %f, %g;",
        each(least, each(plus, X, Y), each(plus, Y, Y)),
    ),
    "between two": (
        "max.f32 %f, %x, 0f80000000; min.f32 %f, %f, 0f40000000;",
        [least(largest(x, 0x80000000), 0x40000000) for x in X],
    ),
    "without sign": (
        "neg.f32 %f, %x; neg.f32 %g, %y; max.f32 %f, %f, %g;",
        each(largest, [x ^ 1 << 31 for x in X], [y ^ 1 << 31 for y in Y]),
    ),
    "chosen": ("selp.f32 %f, %x, %y, %odd; max.f32 %f, %f, %x;", each(largest, where(Y, X), X)),
    "in one way of two": ("mov.f32 %f, %y;\n@!%odd bra L;\nmax.f32 %f, %x, %y;\nL:", where(Y, each(largest, X, Y))),
    "in a loop": (
        "mov.f32 %f, %x; mov.u32 %n, 0;\nL: max.f32 %f, %f, %y; add.f32 %y, %y, %y; add.u32 %n, %n, 1;\n"
        "setp.lt.u32 %p, %n, 2; @%p bra L;",
        each(largest, each(largest, X, Y), each(plus, Y, Y)),
    ),
    "chosen by a comparison with zero": (
        "setp.lt.f32 %p, %x, 0f00000000; selp.f32 %f, %x, 0f00000000, %p;",
        [x if below(x, 0) else 0 for x in X],
    ),
    "or less zero": (
        "setp.gtu.f32 %p, %x, 0f80000000; selp.f32 %f, 0f80000000, %x, %p;",
        [0x80000000 if is_nan(x) or below(0, x) else x for x in X],
    ),
    "chosen by a comparison with one": (
        "setp.lt.f32 %p, %x, 0f3F800000; selp.f32 %f, %x, 0f3F800000, %p;",
        [x if below(x, 0x3F800000) else 0x3F800000 for x in X],
    ),
    "a sum, one at most": (
        "add.f32 %g, %x, %y; setp.gt.f32 %p, %g, 0f3F800000; selp.f32 %f, 0f3F800000, %g, %p;",
        [0x3F800000 if below(0x3F800000, v) else v for v in each(plus, X, Y)],
    ),
    "of a warp": ("mov.f32 %f, %x;\n" + fold("max"), folded(largest, X)),
    "least of a warp's sums": ("add.f32 %f, %x, %y;\n" + fold("min"), folded(least, each(plus, X, Y))),
    "a sum of a warp": ("add.f32 %f, %x, %y;\n" + fold("add"), folded(plus, each(plus, X, Y))),
    "moved from memory": (shfl("%f", "%x", 3), crossed(X, 3)),
    "moved twice": ("add.f32 %g, %x, %y;" + shfl("%g", "%g", 3) + shfl("%f", "%g", 4), crossed(each(plus, X, Y), 7)),
    "a sum moved": ("add.f32 %g, %x, %y;" + shfl("%f", "%g", 5), crossed(each(plus, X, Y), 5)),
    "a sum moved as bits": (
        "add.f32 %g, %x, %y;" + shfl("%r", "%g", 5) + "xor.b32 %r, %r, 1; xor.b32 %r, %r, 1; mov.b32 %f, %r;",
        crossed(each(plus, X, Y), 5),
    ),
    "a sum moved and looked at": (
        "add.f32 %g, %x, %y;" + shfl("%f", "%g", 5) + "mov.b32 %r, %f; and.b32 %r, %r, 0x7FFFFFFF; mov.b32 %f, %r;",
        [v & 0x7FFFFFFF for v in crossed(each(plus, X, Y), 5)],
    ),
    "a sum or what was loaded, moved": (
        "add.f32 %g, %x, %y; selp.f32 %g, %x, %g, %odd;" + shfl("%f", "%g", 4),
        crossed(where(each(plus, X, Y), X), 4),
    ),
    "a larger one moved": ("max.f32 %g, %x, %y;" + shfl("%f", "%g", 1), crossed(each(largest, X, Y), 1)),
    "moved in one way of two": (
        "mov.f32 %f, %y;\n@!%odd bra L;\nadd.f32 %g, %x, %y;\nshfl.sync.bfly.b32 %g, %g, 3, 31, 0xF0F0F0F0;\n"
        "max.f32 %f, %g, %x;\nL:",
        where(Y, each(largest, crossed(each(plus, X, Y), 3), X)),
    ),
    "moved around a loop": (
        "mov.f32 %f, %x; mov.u32 %n, 0;\nL: add.f32 %f, %f, %y;" + shfl("%f", "%f", 1) + "add.u32 %n, %n, 1;\n"
        "setp.lt.u32 %p, %n, 2; @%p bra L;",
        crossed(each(plus, crossed(each(plus, X, Y), 1), Y), 1),
    ),
}  # fmt: skip


def network(place: int, between: bool) -> tuple[str, Lanes]:
    """Six values ordered by minimums and maximums of neighbours, many of the same few values: that at a place of the result. `between`:
    plus one from the middle of the computation."""
    values = [X, Y, [x ^ 1 << 31 for x in X], [y & 0x7FFFFFFF for y in Y], [0x3F000000] * THREADS, each(plus, X, Y)]
    body = "{\n.reg .f32 %v<6>, %l, %m;\nmov.f32 %v0, %x; mov.f32 %v1, %y; neg.f32 %v2, %x; abs.f32 %v3, %y;"
    body += "mov.f32 %v4, 0f3F000000; add.f32 %v5, %x, %y;\n"
    kept: Lanes = []
    for end in range(5, 0, -1):
        for i in range(end):
            body += f"min.f32 %l, %v{i}, %v{i + 1}; max.f32 %v{i + 1}, %v{i}, %v{i + 1}; mov.f32 %v{i}, %l;\n"
            values[i], values[i + 1] = each(least, *values[i : i + 2]), each(largest, *values[i : i + 2])
        if end == 4:
            kept = values[3]
            body += "mov.f32 %m, %v3;\n"
    if not between:
        return body + f"mov.f32 %f, %v{place};\n}}", values[place]
    return body + f"add.f32 %f, %v{place}, %m;\n}}", each(plus, values[place], kept)


for place in range(6):
    PROGRAMS[f"number {place} of six"] = network(place, False)
    PROGRAMS[f"number {place} of six and another"] = network(place, True)

GPU = os.environ.get("CUCORE_DEVICE") == "gpu"
if GPU:  # ptxas folds max(x, x) to x, including NaNs
    del PROGRAMS["of itself"]

SOURCE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .pred %p, %odd;
  .reg .b32 %t, %r, %n;
  .reg .f32 %x, %y, %f, %g;
  .reg .b64 %in, %out, %at;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %at, %t, 4;
  add.u64 %in, %in, %at;
  add.u64 %out, %out, %at;
  ld.global.f32 %x, [%in];
  ld.global.f32 %y, [%in+256];
  and.b32 %n, %t, 4;
  setp.ne.u32 %odd, %n, 0;
  BODY
  st.global.f32 [%out], %f;
  ret;
}
"""


@pytest.mark.parametrize("way", PROGRAMS)
def test_min_max_and_exchanged_floats_match_the_model(way: str, any_width: str) -> None:
    body, expected = PROGRAMS[way]
    module = device().load(SOURCE.replace("BODY", body).encode())
    given, out = device().memory(np.array(X + Y, np.uint32)), device().memory(np.zeros(THREADS, np.uint32))
    device().launch(device().function(module, "k"), 1, THREADS, [given.address, out.address])
    device().sync()
    found = out.read(np.uint32, THREADS).tolist()
    given.free()
    out.free()
    device().unload(module)
    assert [f"{v:08x}" for v in found] == [f"{v:08x}" for v in expected]
