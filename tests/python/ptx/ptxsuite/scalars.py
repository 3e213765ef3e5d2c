# SPDX-License-Identifier: Apache-2.0
"""Combinations of modifiers, types and register sizes of arithmetic instructions.

Some combinations that ptxas accepts are not included because they are undocumented: `addc`, `subc` and `madc` of 16 bits or with `.sat`, `fma`
of bf16 with a rounding other than `.rn`, a second type `.pred`, any modifier after `elect.sync`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

INTEGER = ["u16", "u32", "u64", "s16", "s32", "s64"]
BITS = ["b16", "b32", "b64"]
FLOAT = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"]
TYPES = [*INTEGER, *BITS, *FLOAT, "u8", "s8", "b8", "b128", "u16x2", "s16x2", "f32x2", "tf32", "pred"]
ROUNDING = ["", "rn", "rz", "rm", "rp"]
TO_INTEGER = ["rni", "rzi", "rmi", "rpi"]
COMPARISONS = ["eq", "lt", "lo", "hs", "equ", "ltu", "num", "nan"]
SIZES = [16, 32, 64, 128]


def bits(type_: str) -> int:
    if type_ == "pred":
        return 1
    if type_.endswith("x2"):
        return 2 * bits(type_[:-2])
    if type_[0] == "e" or type_ == "ue8m0":
        return 8 if "4m3" in type_ or "5m2" in type_ or "8m0" in type_ else 4 if type_ == "e2m1" else 8
    return 32 if type_ == "tf32" else int(re.sub(r"\D", "", type_.removeprefix("b")))


def _register(size: int, k: int) -> str:
    return {1: "%t", 4: "%h", 8: "%h", 16: "%h", 32: "%r", 64: "%rd", 128: "%q"}[size] + str(k)


def _lines(op: str, slots: Sequence[Sequence[str]], types: Sequence[Sequence[str]], shape: str) -> Iterator[str]:
    """Every combination. Each element of `shape` is an operand: its size in bits, `0` or `1` for the size of that type, `w` for twice that of the
    first, `pred`, `|` for an additional predicate, `#` for a constant. Each line also exists with the next larger and smaller result."""
    for words, named in itertools.product(itertools.product(*slots), itertools.product(*types)):
        name = ".".join(word for word in (op, *words, *named) if word)
        sizes = [bits(t) for t in named]

        def size(word: str, sizes: list[int] = sizes) -> int:
            if word == "pred":
                return 1
            number = sizes[int(word)] if word in ("0", "1") else 2 * sizes[0] if word == "w" else int(word)
            return min(max(number, 16), 128) if number > 1 else number

        operands = shape.split()
        first = size(operands[0].rstrip("|"))
        near = {first} | ({s for s in SIZES if s in (first // 2, 2 * first)} if first > 1 else set())
        for result in sorted(near):
            texts = [_register(result, 0) + ("|%t8" if operands[0].endswith("|") else "")]
            texts += ["4" if word == "#" else _register(size(word), k) for k, word in enumerate(operands[1:], 1)]
            yield f"{name} {', '.join(texts)};"


def _integers() -> Iterator[str]:
    sat = ["", "sat"]
    for op in ("add", "sub"):
        yield from _lines(op, [["", "sat", "cc", "cc.sat"]], [TYPES], "0 0 0")
        yield from _lines(op + "c", [["", "cc"]], [[t for t in TYPES if t not in ("u16", "s16")]], "0 0 0")
    yield from _lines("mul", [["", "lo", "hi"], sat], [TYPES], "0 0 0")
    yield from _lines("mul", [["wide"], sat], [[t for t in TYPES if t not in ("b128", "pred")]], "w 0 0")
    yield from _lines("mad", [["", "lo", "hi"], ["", "sat", "cc"]], [TYPES], "0 0 0 0")
    yield from _lines(
        "mad", [["wide"], ["", "sat", "cc"]], [[t for t in TYPES if t not in ("b128", "pred")]], "w 0 0 w"
    )
    yield from _lines("madc", [["lo", "hi"], ["", "cc"]], [[t for t in TYPES if t not in ("u16", "s16")]], "0 0 0 0")
    yield from _lines("mul24", [["", "lo", "hi"], sat], [TYPES], "0 0 0")
    yield from _lines("mad24", [["", "lo", "hi"], sat], [TYPES], "0 0 0 0")
    yield from _lines("sad", [sat], [TYPES], "0 0 0 0")
    for op in ("popc", "clz", "bfind", "bfind.shiftamt"):
        yield from _lines(op, [], [TYPES], "32 0")
    yield from _lines("brev", [], [TYPES], "0 0")
    yield from _lines("rem", [], [TYPES], "0 0 0")
    yield from _lines("fns", [], [TYPES], "32 32 32 32")
    yield from _lines("bfe", [], [TYPES], "0 0 32 32")
    yield from _lines("bfi", [], [TYPES], "0 0 0 32 32")
    for op in ("szext", "bmsk"):
        yield from _lines(op, [["", "clamp", "wrap"]], [TYPES], "0 0 0")
    yield from _lines("dp4a", [], [["u32", "s32", "b32", "u64"]] * 2, "32 32 32 32")
    yield from _lines("dp2a", [["", "lo", "hi"]], [["u32", "s32", "b32"]] * 2, "32 32 32 32")


def _logic() -> Iterator[str]:
    for op in ("and", "or", "xor"):
        yield from _lines(op, [], [TYPES], "0 0 0")
    for op in ("not", "cnot"):
        yield from _lines(op, [], [TYPES], "0 0")
    yield from _lines("lop3", [], [TYPES], "0 0 0 0 #")
    yield from _lines("lop3", [["", "and", "or", "xor"]], [["b32"]], "32| 32 32 32 # pred")
    for op in ("shl", "shr"):
        yield from _lines(op, [], [TYPES], "0 0 32")
    yield from _lines("shf", [["l", "r"], ["", "clamp", "wrap"]], [["b32", "b64", "u32"]], "0 0 0 32")
    yield from _lines("prmt", [["", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]], [["b32", "u32"]], "0 0 0 32")
    yield from _lines("mov", [], [TYPES], "0 0")


def _choices() -> Iterator[str]:
    flush = ["", "ftz"]
    for comparison in COMPARISONS:
        for op in ("setp", "setp.ftz"):
            yield from _lines(op, [[comparison]], [TYPES], "pred 0 0")
            yield from _lines(op, [[comparison]], [TYPES], "pred| 0 0")
            yield from _lines(op, [[comparison], ["and"]], [TYPES], "pred 0 0 pred")
            yield from _lines(op, [[comparison], ["", "xor"]], [TYPES], "pred| 0 0 pred")
        results = ["u16", "s16", "u32", "s32", "b32", "u64", "f16", "f16x2", "bf16", "bf16x2", "f32", "f64"]
        yield from _lines("set", [[comparison], flush], [results, TYPES[:15]], "0 1 1")
        yield from _lines("set", [[comparison], ["and"], flush[:1]], [results, TYPES[:15]], "0 1 1 pred")
    yield from _lines("selp", [], [TYPES], "0 0 0 pred")
    yield from _lines("slct", [flush], [TYPES, ["s32", "f32", "u32"]], "0 0 0 32")


def _floats() -> Iterator[str]:
    flush, sat = ["", "ftz"], ["", "sat"]
    for op in ("add", "sub", "mul"):
        yield from _lines(op, [ROUNDING, flush, sat], [[*FLOAT, "f32x2"]], "0 0 0")
        yield from _lines(op, [ROUNDING, flush, sat], [["f32"], ["f16", "bf16"]], "32 16 32")
    for op in ("fma", "mad"):
        float_ = [*(t for t in FLOAT if not t.startswith("bf16")), "f32x2"]
        yield from _lines(op, [ROUNDING, flush, sat, ["", "relu"]], [float_], "0 0 0 0")
        yield from _lines(op, [["rn"], flush, sat, ["", "relu"], ["", "oob"]], [FLOAT], "0 0 0 0")
        yield from _lines(op, [ROUNDING, flush, sat], [["f32"], ["f16", "bf16"]], "32 16 16 32")
    yield from _lines("div", [[*ROUNDING, "approx", "full"], flush, sat], [TYPES], "0 0 0")
    for op in ("abs", "neg"):
        yield from _lines(op, [flush, sat], [TYPES], "0 0")
    for op in ("min", "max"):
        words = [flush, ["", "NaN"], ["", "xorsign.abs", "xorsign", "abs"], ["", "relu"]]
        yield from _lines(op, words, [TYPES], "0 0 0")
        yield from _lines(op, words, [FLOAT], "0 0 0 0")
    yield from _lines("copysign", [flush], [TYPES], "0 0 0")
    for op in ("rcp", "sqrt", "rsqrt"):
        yield from _lines(op, [[*ROUNDING, "approx"], flush, sat], [FLOAT], "0 0")
    for op in ("sin", "cos", "lg2", "ex2", "tanh"):
        yield from _lines(op, [["", "approx"], flush, sat], [FLOAT], "0 0")
    for kind in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        yield from _lines("testp", [[kind], flush], [FLOAT], "pred 0")


def _conversions() -> Iterator[str]:
    plain = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "bf16", "f32", "f64"]
    for source in ("1", "32", "64"):
        yield from _lines("cvt", [[*ROUNDING, *TO_INTEGER], ["", "ftz"], ["", "sat"]], [plain, plain], f"0 {source}")
    for words, byte, other in itertools.product([*ROUNDING, *TO_INTEGER], ["u8", "s8"], plain):
        register = _register(max(bits(other), 16), 1)
        yield f"{'.'.join(word for word in ('cvt', words, byte, other) if word)} %c0, {register};"
        yield f"{'.'.join(word for word in ('cvt', words, other, byte) if word)} {register}, %c0;"
    small = ["e4m3x2", "e5m2x2", "e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2"]
    words = [["", "rn", "rz", "rp", "rna", "rs"], ["", "relu"], ["", "satfinite", "sat"]]
    yield from _lines("cvt", words, [["f16", "bf16", "tf32"], ["f32", "f64"]], "0 1")
    yield from _lines("cvt", words, [["f16x2", "bf16x2", *small], ["f32"]], "0 32 32")
    yield from _lines("cvt", words, [["f16x2", "bf16x2"], ["f32"]], "0 32 32 32")
    yield from _lines("cvt", words, [small, ["f16x2", "bf16x2"]], "0 32")
    yield from _lines("cvt", words, [["f16x2", "bf16x2"], small], "0 16")
    yield from _lines("cvt.pack", [["", "sat"]], [["u16", "s16", "u8", "s8"], ["s32", "u32"]], "32 32 32")
    yield from _lines(
        "cvt.pack", [["", "sat"]], [["u2", "s2", "u4", "s4", "u8", "s8", "u16"], ["s32"], ["b32"]], "32 32 32 32"
    )


def _warps() -> Iterator[str]:
    words = ["add", "min", "max", "and", "or", "xor"]
    yield from _lines("redux.sync", [words, ["", "abs"], ["", "NaN"]], [TYPES], "0 0 32")
    yield from _lines("match", [["any", "all"], ["sync"]], [TYPES], "32 0 32")
    yield from _lines("match", [["any", "all"], ["sync"]], [TYPES], "32| 0 32")
    yield from _lines("shfl.sync", [["up", "down", "bfly", "idx"]], [TYPES], "0 0 32 32 32")
    yield from _lines("vote.sync", [["all", "any", "uni", "ballot"]], [["pred", "b32", "u32"]], "0 pred 32")
    yield from _lines("activemask", [], [TYPES], "32")
    yield from _lines("nanosleep", [], [["u32", "b32", "u64"]], "32")


def lines() -> list[str]:
    groups = (_integers(), _logic(), _choices(), _floats(), _conversions(), _warps())
    return list(dict.fromkeys(itertools.chain(*groups)))
