# SPDX-License-Identifier: Apache-2.0
"""Combinations of qualifiers of loads, stores, atomics, fences and similar instructions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

MEMORY = ["b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64"]
SPACES = [
    "",
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "const",
    "param",
    "param::entry",
    "param::func",
]
SOME_SPACES = ["", "global", "shared", "shared::cluster", "local", "const", "param"]
SCOPES = ["", "cta", "cluster", "gpu", "sys"]
FIRST_LEVEL = ["", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"]
SECOND_LEVEL = ["", "L2::evict_normal", "L2::evict_first", "L2::evict_last"]
AHEAD = ["", "L2::64B", "L2::128B", "L2::256B"]
HINT = ["", "L2::cache_hint"]
ATOMIC = [
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "u16",
    "u32",
    "u64",
    "s16",
    "s32",
    "s64",
    "f32",
    "f64",
    "f16",
    "bf16",
    "f16x2",
    "bf16x2",
]
OPERATIONS = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"]


def _register(type_: str, k: int = 0) -> str:
    if type_ in ("f32", "f64"):
        return f"%{'f' if type_ == 'f32' else 'fd'}{k}"
    bits = 32 if type_.endswith("x2") else int(re.sub(r"\D", "", type_))
    return {8: "%h", 16: "%h", 32: "%r", 64: "%rd", 128: "%q"}[bits] + str(k)


def _registers(type_: str, count: int) -> str:
    return _register(type_) if count == 1 else "{" + ", ".join(_register(type_, k) for k in range(count)) + "}"


def _address(space: str) -> str:
    return "[pp]" if space.startswith("param") else "[%r18]" if space.startswith("shared") else "[%rd18]"


def _name(*words: str) -> str:
    return ".".join(word for word in words if word)


def _access(op: str, words: Sequence[str], space: str, type_: str = "u32", count: int = 1) -> str:
    """`words`: all of them but vector and type."""
    value, last = _registers(type_, count), ", %rd17" if "L2::cache_hint" in words else ""
    name = _name(op, *words, f"v{count}" if count > 1 else "", type_)
    return f"{name} {value}, {_address(space)}{last};" if op != "st" else f"{name} {_address(space)}, {value}{last};"


def _loads_and_stores() -> Iterator[str]:
    for op, order, caches in (("ld", "acquire", "ca cg cs lu cv"), ("st", "release", "wb cg cs wt")):
        nc = ["", "nc"] if op == "ld" else [""]
        ahead = AHEAD if op == "ld" else [""]
        orders = [("", ""), ("weak", ""), ("volatile", ""), ("relaxed", "gpu"), (order, "sys")]
        cache = ["", *caches.split()]
        for words in itertools.product(
            ["", "mmio"], ["", "weak", "volatile", "relaxed", order], SCOPES, SPACES, nc, cache
        ):
            yield _access(op, words, words[3])
        for (sem, scope), *words in itertools.product(
            orders, SOME_SPACES, nc, cache[:3], ["", "L1::evict_first"], ["", "L2::evict_last"], HINT, ahead[::2]
        ):
            yield _access(op, [sem, scope, *words], words[0])
        for words in itertools.product(["", "global"], nc, FIRST_LEVEL, SECOND_LEVEL, HINT, ahead):
            yield _access(op, words, words[0])
        for (sem, scope), space, n, count, type_ in itertools.product(
            orders, SPACES, nc, [1, 2, 4, 8], [*MEMORY, "f16", "bf16", "f16x2"]
        ):
            yield _access(op, [sem, scope, space, n], space, type_, count)
        for space, count, type_ in itertools.product(["", "global"], [1, 2, 4], MEMORY):
            yield _access(op, ["mmio", "relaxed", "sys", space], space, type_, count)
    for space, count, type_ in itertools.product(SOME_SPACES, [1, 2, 4], [*MEMORY, "f16", "bf16"]):
        yield _access("ldu", [space], space, type_, count)
    for space, type_ in itertools.product(SPACES, ["u32", "f64"]):
        yield _access("ld", [space], space, type_).replace("]", "].unified")


def _atomics() -> Iterator[str]:
    def line(op: str, words: Sequence[str], space: str, type_: str, count: int = 1, more: str = "") -> str:
        result = f"{_registers(type_, count)}, " if op == "atom" else ""
        value = _register(type_, 1) if count == 1 else _registers(type_, count)
        return f"{_name(op, *words, type_)} {result}{_address(space)}, {value}{more};"

    for op in ("atom", "red"):
        for space, what, flush, type_ in itertools.product(
            [*SOME_SPACES[:-1], "shared::cta"], OPERATIONS, ["", "noftz"], ATOMIC
        ):
            more = f", {_register(type_, 2)}" if what == "cas" else ""
            yield line(op, [space, what, flush], space, type_, more=more)
        for words in itertools.product(
            ["", "relaxed", "acquire", "release", "acq_rel", "weak", "volatile", "sc"],
            SCOPES,
            SOME_SPACES[:4],
            ["add", "exch"],
        ):
            yield line(op, words, words[2], "u32" if words[3] == "add" else "b32")
        for space, what, flush, count, type_ in itertools.product(
            SOME_SPACES[:3], ["add", "min", "max", "exch"], ["", "noftz"], [2, 4, 8], ATOMIC
        ):
            yield line(op, [space, what, flush, f"v{count}"], space, type_, count)
        for space, what, flush, type_ in itertools.product(
            SOME_SPACES[:3], ["add", "exch", "and", "min"], ["", "noftz"], ["u32", "b32", "f32", "f16x2"]
        ):
            yield line(op, [space, what, flush, "L2::cache_hint"], space, type_, more=", %rd17")


def _others() -> Iterator[str]:
    for space, map_, level in itertools.product(
        SPACES, ["", "tensormap"], ["", "L1", "L2", "L2::evict_last", "L2::evict_normal", "L1::evict_last"]
    ):
        yield f"{_name('prefetch', space, map_, level)} {_address(space)};"
    for space, level in itertools.product(SPACES, ["", "L1", "L2"]):
        yield f"{_name('prefetchu', space, level)} {_address(space)};"
    for op, space, level, size in itertools.product(
        ["applypriority", "discard"],
        SPACES,
        ["", "L2", "L1", "L2::evict_normal", "L2::evict_last"],
        ["128", "64", "%r1"],
    ):
        yield f"{_name(op, space, level)} {_address(space)}, {size};"
    for to, space, type_ in itertools.product(["", "to"], SPACES, ["u64", "b64", "s64"]):
        yield f"{_name('cvta', to, space, type_)} %rd0, %rd1;"
    for space, register in itertools.product(SPACES, ["%rd1", "%r1"]):
        yield f"{_name('isspacep', space)} %p, {register};"
    for sem, scope, limit in itertools.product(
        ["", "sc", "acq_rel", "acquire", "release", "relaxed", "weak"],
        SCOPES,
        ["", "sync_restrict::shared::cta", "sync_restrict::shared::cluster"],
    ):
        yield f"{_name('fence', sem, limit, scope)};"
        yield f"{_name('fence.proxy.async::generic', sem, limit, scope)};"
    for sem, scope, operands in itertools.product(
        ["", "acquire", "release"], SCOPES, ["", " [%rd1], 128", " [%rd1], 64"]
    ):
        yield f"{_name('fence.proxy.tensormap::generic', sem, scope)}{operands};"
    for proxy in ["alias", "async", "async.global", "async.shared::cta", "async.shared::cluster", "alias.global"]:
        yield f"fence.proxy.{proxy};"
    for word in ["cta", "gl", "sys", "gpu", "cluster", "", "proxy.alias", "proxy.async"]:
        yield f"{_name('membar', word)};"


def lines() -> list[str]:
    return list(dict.fromkeys(itertools.chain(_loads_and_stores(), _atomics(), _others())))
