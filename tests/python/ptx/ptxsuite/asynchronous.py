# SPDX-License-Identifier: Apache-2.0
"""Combinations of qualifiers and operands of barriers, asynchronous copies, matrix instructions and others of 9.0 and later.

Some combinations that ptxas accepts are not included because they are undocumented: `st.async` and `red.async` to other spaces or without an
order, `st.async` of 128 bits, `st.bulk` with a size of 32 bits, `cp.reduce.async.bulk.tensor` with `.tile::scatter4`, `mma.m8n8k4` of bf16 and tf32.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

SHARED = ["", "shared", "shared::cta", "shared::cluster", "global"]
ORDERS = ["", "relaxed", "acquire", "release", "acq_rel"]
SCOPES = ["", "cta", "cluster", "gpu", "sys"]
MBAR = "mbarrier::complete_tx::bytes"


def _name(*words: str) -> str:
    return ".".join(word for word in words if word)


def _vector(register: str, count: int) -> str:
    return "{" + ", ".join(f"{register}{k}" for k in range(count)) + "}"


def _address(space: str, k: int = 8) -> str:
    return f"[%r{k}]" if space.startswith("shared") else f"[%rd{k}]"


def _barriers() -> Iterator[str]:
    for space, layout, count in itertools.product(
        SHARED, ["", "layout::v0", "layout::v1", "layout::v2"], ["%r1", "4", "%rd1", "%h1", ""]
    ):
        at = _address(space)
        yield f"{_name('mbarrier.init', layout, space)}.b64 {at}{', ' if count else ''}{count};"
        if count in ("", "%r1"):
            yield f"{_name('mbarrier.inval', layout, space)}.b64 {at}{', ' if count else ''}{count};"
            yield f"{_name('mbarrier.check_layout', layout, space)}.b64 %p, {at};"
    for op, sem, scope, space, value in itertools.product(
        ["expect_tx", "complete_tx"], ORDERS, SCOPES, SHARED, ["%r1", "16", "%rd1", ""]
    ):
        yield f"{_name('mbarrier', op, sem, scope, space)}.b64 {_address(space)}{', ' if value else ''}{value};"
    for op, sem, scope, space, extra, result, value in itertools.product(
        ["arrive", "arrive_drop"], ORDERS, SCOPES, SHARED, ["", "noComplete", "expect_tx", "noComplete.expect_tx"],
        ["%rd0", "_", ""], ["%r1", "2", "", "%rd1"],
    ):  # fmt: skip
        operands = ", ".join(part for part in (result, _address(space), value) if part)
        yield f"{_name('mbarrier', op, extra, sem, scope, space)}.b64 {operands};"
    for op, parity, phase, sem, scope, space, state in itertools.product(
        ["test_wait", "try_wait"], ["", "parity"], ["", "phase_type::primary", "phase_type::conditional"], ORDERS, SCOPES,
        SHARED, ["%rd1", "%r1", "%r1, %r2", "%rd1, %r2", "%rd1, %rd2"],
    ):  # fmt: skip
        yield f"{_name('mbarrier', op, parity, phase, sem, scope, space)}.b64 %p, {_address(space)}, {state};"
    for result, state in itertools.product(["%r0", "%rd0", "_"], ["%rd1", "%r1", "5"]):
        yield f"mbarrier.pending_count.b64 {result}, {state};"


def _stores() -> Iterator[str]:
    types = ["b16", "b32", "b64", "u32", "u64", "s32", "s64", "f16", "f32", "f64"]

    def register(type_: str, k: int = 0) -> str:
        bits = int(type_[1:])
        return (
            f"%f{k}"
            if type_ == "f32"
            else f"%fd{k}"
            if type_ == "f64"
            else {8: "%h", 16: "%h", 32: "%r", 64: "%rd", 128: "%q"}[bits] + str(k)
        )

    for weak, space, bar, count, type_ in itertools.product(
        ["", "weak"], ["", "shared::cluster"], ["", MBAR], [1, 2, 4, 8], types
    ):
        value = register(type_) if count == 1 else "{" + ", ".join(register(type_, k) for k in range(count)) + "}"
        vector = f"v{count}" if count > 1 else ""
        yield f"{_name('st.async', weak, space, bar, vector, type_)} {_address(space)}, {value}, {_address(space, 9)};"
    for mmio, sem, scope, space, type_ in itertools.product(
        ["", "mmio"], ["release", "relaxed"], SCOPES, ["", "global", "shared::cluster"], types
    ):
        yield f"{_name('st.async', mmio, sem, scope, space, type_)} {_address(space)}, {register(type_)};"
    ops = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch"]
    for sem, scope, space, bar, op, type_ in itertools.product(
        ["", "relaxed"], ["", "cluster", "gpu"], ["", "shared::cluster"], ["", MBAR], ops, types
    ):
        yield f"{_name('red.async', sem, scope, space, bar, op, type_)} {_address(space)}, {register(type_)}, {_address(space, 9)};"
    for mmio, sem, scope, space, op, type_ in itertools.product(
        ["", "mmio"], ["release", "acquire"], ["", "cta", "gpu", "sys"], ["", "global"], ops, types
    ):
        yield f"{_name('red.async', mmio, sem, scope, space, op, type_)} {_address(space)}, {register(type_)};"
    for weak, space, value in itertools.product(["", "weak"], SHARED, ["%rd1, 0", "64, 0", "%rd1, 1", "%rd1"]):
        yield f"{_name('st.bulk', weak, space)} {_address(space)}, {value};"


def _copies() -> Iterator[str]:
    spaces = ["shared", "shared::cta", "shared::cluster", "global", ""]
    for cache, to, source, hint, ahead, size in itertools.product(
        ["", "ca", "cg"],
        spaces,
        spaces,
        ["", "L2::cache_hint"],
        ["", "L2::128B"],
        ["4", "8", "16", "12", "%r1", "16, 8", "16, %r1", "4, %p"],
    ):
        last = ", %rd7" if hint else ""
        yield f"{_name('cp.async', cache, to, source, hint, ahead)} {_address(to)}, {_address(source, 9)}, {size}{last};"
    for noinc, space in itertools.product(["", "noinc"], SHARED):
        yield f"{_name('cp.async.mbarrier.arrive', noinc, space)}.b64 {_address(space)};"
    for sem, scope, to, source, how, multicast, hint, type_ in itertools.product(
        ["", "relaxed", "weak"], ["", "cta", "cluster", "gpu"], ["shared::cluster", "shared::cta", "shared", "global"],
        ["global", "shared::cta", "shared::cluster"], [MBAR, "bulk_group", ""], ["", "multicast::cluster"], ["", "L2::cache_hint"], ["", "b128"],
    ):  # fmt: skip
        tail = ("" if how != MBAR else ", [%r7]") + (", %h1" if multicast else "") + (", %rd7" if hint else "")
        yield f"{_name('cp.async.bulk', sem, scope, to, source, how, multicast, hint, type_)} {_address(to)}, {_address(source, 9)}, 64{tail};"
    types = ["u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64", "f16x2"]
    ops = ["add", "min", "max", "inc", "dec", "and", "or", "xor"]
    for to, how, op, flush, type_ in itertools.product(
        ["shared::cluster", "global"], [MBAR, "bulk_group"], ops, ["", "noftz"], types
    ):
        tail = ", [%r7]" if how == MBAR else ""
        yield f"{_name('cp.reduce.async.bulk', to, 'shared::cta', how, op, flush, type_)} {_address(to)}, [%r9], 64{tail};"
    for how, value in itertools.product(["", "read"], ["0", "7", "%r1", ""]):
        yield f"{_name('cp.async.bulk.wait_group', how)} {value};"
        yield f"cp.async.wait_group {value};"
    for hint, size in itertools.product(["", "L2::cache_hint"], ["64", "%r1", "%rd1"]):
        yield f"{_name('cp.async.bulk.prefetch.L2.global', hint)} [%rd1], {size}{', %rd7' if hint else ''};"


def _tensors() -> Iterator[str]:
    modes = ["", "tile", "im2col", "im2col::w", "im2col::w::128", "tile::gather4", "tile::scatter4", "im2col_no_offs"]
    for rank, count, to, mode, group, multicast, offsets in itertools.product(
        range(1, 6),
        range(1, 6),
        ["shared::cluster", "shared::cta"],
        modes,
        ["", "cta_group::1", "cta_group::2"],
        ["", "multicast::cluster"],
        [0, 1, 2, 3],
    ):
        if count != rank and not (rank == 2 and count == 5):
            continue
        tail = (f", {_vector('%h', offsets)}" if offsets else "") + (", %h5" if multicast else "")
        yield f"{_name(f'cp.async.bulk.tensor.{rank}d', to, 'global', mode, MBAR, multicast, group)} [%r9], [%rd1, {_vector('%r', count)}], [%r7]{tail};"
    for rank, count, mode, op in itertools.product(range(1, 6), range(1, 6), modes, ["", "add", "xor", "exch"]):
        if count != rank and not (rank == 2 and count == 5):
            continue
        if op and mode == "tile::scatter4":
            continue
        head = "cp.reduce.async.bulk.tensor" if op else "cp.async.bulk.tensor"
        yield f"{_name(f'{head}.{rank}d', 'global.shared::cta', op, mode, 'bulk_group')} [%rd1, {_vector('%r', count)}], [%r9];"
        if not op:
            for offsets in range(4):
                tail = f", {_vector('%h', offsets)}" if offsets else ""
                yield f"{_name(f'cp.async.bulk.prefetch.tensor.{rank}d', 'L2.global', mode)} [%rd1, {_vector('%r', count)}]{tail};"
    fields = ["global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype", "interleave_layout",
              "swizzle_mode", "swizzle_atomicity", "fill_mode"]  # fmt: skip
    for field, space, type_, value in itertools.product(
        fields,
        ["", "global", "shared::cta", "shared"],
        ["b32", "b64"],
        ["%r1", "%rd1", "0", "1", "0, %r1", "0, %rd1", "4, %r1", "5, %r1", "%r2, %r1"],
    ):
        yield f"{_name('tensormap.replace.tile', field, space)}.b1024.{type_} {_address(space)}, {value};"
    for sem, scope, size in itertools.product(["", "release", "acquire"], SCOPES, ["128", "64"]):
        yield f"{_name('tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic', sem, scope)}.sync.aligned [%rd1], [%r1], {size};"


def _matrices() -> Iterator[str]:
    for shape, times, trans, space, type_, count in itertools.product(
        ["m8n8", "m8n16", "m16n16", "m16n8"], ["x1", "x2", "x4"], ["", "trans"], ["", "shared", "shared::cta", "shared::cluster"],
        ["b16", "b8", "b8x16.b6x16_p32", "b8x16.b4x16_p64", "s8.s4"], [1, 2, 4],
    ):  # fmt: skip
        yield f"{_name('ldmatrix.sync.aligned', shape, times, trans, space, type_)} {_vector('%r', count)}, {_address(space)};"
        if "x" not in type_:
            yield f"{_name('stmatrix.sync.aligned', shape, times, trans, space, type_)} {_address(space)}, {_vector('%r', count)};"
    for trans, type_ in itertools.product(["", "trans"], ["b16", "b8", "b32"]):
        yield f"{_name('movmatrix.sync.aligned.m8n8', trans, type_)} %r0, %r1;"


def _products() -> Iterator[str]:
    """mma.sync: a line for each shape and types, with every plausible number of registers."""
    small = ["e4m3", "e5m2", "e2m1", "e2m3", "e3m2"]
    groups: list[tuple[Sequence[str], Sequence[str], Sequence[str]]] = [
        (["f16", "f32"], ["f16"], ["f16"]), (["f32"], ["bf16", "tf32"], ["bf16", "tf32"]), (["f64"], ["f64"], ["f64"]),
        (["s32"], ["s8", "u8", "s4", "u4"], ["s8", "u8", "s4", "u4"]), (["f16", "f32"], small[:2], small[:2]),
    ]  # fmt: skip
    shapes = ["m8n8k4", "m8n8k16", "m8n8k32", "m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m16n8k64", "m16n8k128"]
    for (results, left, right), shape, layout, sat in itertools.product(
        groups, shapes, ["row.col", "row.row", "col.col"], ["", "satfinite"]
    ):
        if layout != "row.col" and shape != "m8n8k4":
            continue
        for d, a, b in itertools.product(results, left, right):
            if shape == "m8n8k4" and a in ("bf16", "tf32"):
                continue
            register = {"f16": "%r", "f32": "%f", "f64": "%fd", "s32": "%r"}[d]
            own = "%fd" if a == "f64" else "%r"
            for nd, na, nb in itertools.product([2, 4, 8], [1, 2, 4, 8], [1, 2, 4]):
                vectors = f"{_vector(register, nd)}, {_vector(own, na)}, {_vector(own, nb)}, {_vector(register, nd)}"
                yield f"{_name('mma.sync.aligned', shape, layout, sat, d, a, b, d)} {vectors};"
                if sat == "" and layout == "row.col":
                    for word in ("sp", "sp::ordered_metadata"):
                        yield f"{_name('mma', word, 'sync.aligned', shape, layout, d, a, b, d)} {vectors}, %r9, 0x0;"


def _others() -> Iterator[str]:
    for space, type_, first in itertools.product(SHARED, ["u32", "u64", "b32"], ["%r1", "%rd1", "5"]):
        result = "%rd0" if type_ == "u64" else "%r0"
        yield f"{_name('mapa', space, type_)} {result}, {first}, %r2;"
        yield f"{_name('getctarank', space, type_)} %r0, {first};"
        yield f"{_name('getctarank', space, type_)} %rd0, {first};"
    for op, cta, aligned, operands in itertools.product(
        ["bar", "barrier"], ["", "cta"], ["", "aligned"], ["0", "%r1", "0, 64", "0, %r1", "16", "0, 33", ""]
    ):
        for word in ("sync", "arrive"):
            yield f"{_name(op, cta, word, aligned)} {operands};"
        for word, type_, result in itertools.product(["popc", "and", "or", "xor"], ["u32", "pred"], ["%r0", "%p"]):
            if operands:
                yield f"{_name(op, cta, 'red', word, aligned, type_)} {result}, {operands}, %p;"
    for word, sem, aligned in itertools.product(
        ["arrive", "wait"], ["", "relaxed", "release", "acquire"], ["", "aligned"]
    ):
        yield f"{_name('barrier.cluster', word, sem, aligned)};"
    for way, count in itertools.product(["inc", "dec"], ["24", "32", "256", "264", "20", "16", "%r1"]):
        yield f"setmaxnreg.{way}.sync.aligned.u32 {count};"
    for kind, space in itertools.product(["try_cancel.async", "query_cancel"], ["", "shared::cta"]):
        if kind == "query_cancel":
            for word, result, type_ in itertools.product(
                ["is_canceled", "get_first_ctaid.v4", "get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid"],
                ["%p", "%r0", "{%r0, %r1, %r2, %r3}", "{%r0, %r1, %r2, _}"], ["pred", "b32"],
            ):  # fmt: skip
                yield f"clusterlaunchcontrol.query_cancel.{word}.{type_}.b128 {result}, %q1;"
        for multicast in ("", "multicast::cluster::all"):
            yield f"{_name('clusterlaunchcontrol.try_cancel.async', space, MBAR, multicast)}.b128 {_address(space)}, {_address(space, 9)};"
    ops = ["add", "min", "max", "and", "or", "xor"]
    types = [
        "b32",
        "b64",
        "u32",
        "u64",
        "s32",
        "s64",
        "f16",
        "f16x2",
        "bf16",
        "bf16x2",
        "f32",
        "f64",
        "e4m3",
        "e5m2x2",
        "e4m3x4",
    ]
    registers = {"f32": "%f", "f64": "%fd", "f16": "%h", "bf16": "%h", "e4m3": "%c", "e5m2x2": "%h"}
    for op, sem, scope, space, type_, count in itertools.product(
        ["ld_reduce", "st", "red"],
        ["", "weak", "relaxed", "acquire", "release"],
        ["", "gpu"],
        ["", "global", "shared"],
        types,
        [1, 2, 4, 8],
    ):
        register = registers.get(type_, "%rd" if "64" in type_ else "%r")
        value = f"{register}0" if count == 1 else _vector(register, count)
        for what in [""] if op == "st" else ops if sem in ("", "relaxed") else ["add"]:
            name = _name("multimem", op, sem, scope, space, what, f"v{count}" if count > 1 else "", type_)
            yield f"{name} {value}, {_address(space)};" if op == "ld_reduce" else f"{name} {_address(space)}, {value};"
    yield from [
        "ld.u32 %r1, [%r2];",
        "ld.global.u32 %r1, [%r2];",
        "st.u32 [%r2], %r1;",
        "st.global.u32 [%r2], %r1;",
        "prefetch.L1 [%r2];",
        "atom.add.u32 %r1, [%r2], %r3;",
        "atom.global.add.u32 %r1, [%r2], %r3;",
        "red.global.add.u32 [%r2], %r3;",
        "ld.local.u32 %r1, [%r2];",
        "ld.const.u32 %r1, [%r2];",
        "ld.shared.u32 %r1, [%rd2];",
        "ld.shared.u32 %r1, [%r2];",
        "ldu.global.u32 %r1, [%r2];",
        "prefetchu.L1 [%r2];",
        "discard.global.L2 [%r2], 128;",
        "isspacep.global %p, %r2;",
        "cvta.to.global.u64 %rd1, %r2;",
        "add.u64 %rd1, {%r1, %r2}, %rd2;",
        "add.u64 {%r1, %r2}, %rd1, %rd2;",
        "and.b64 %rd1, {%r1, %r2}, %rd2;",
        "neg.s64 %rd1, {%r1, %r2};",
        "setp.eq.u64 %p, {%r1, %r2}, %rd2;",
        "selp.b64 %rd1, {%r1, %r2}, %rd2, %p;",
        "shl.b64 %rd1, {%r1, %r2}, 3;",
        "mov.b64 %rd1, {%r1, %r2};",
        "mov.b64 {%r1, %r2}, %rd1;",
        "popc.b64 %r1, {%r1, %r2};",
        "cvt.u32.u64 %r1, {%r1, %r2};",
        "mad.wide.u32 %rd1, %r1, %r2, {%r1, %r2};",
        "fma.rn.f64 %fd1, {%r1, %r2}, %fd2, %fd3;",
        "nanosleep.u32 {%r1, %r2};",
        "ld.global.u32 %r1, [%rd1, {%r1, %r2}];",
        "st.global.u32 [%rd1, {%r1}], %r2;",
        "atom.global.add.u32 %r1, [%rd1, {%r1}], %r2;",
        "mbarrier.init.shared.b64 [%r1, {%r2}], 1;",
        "prefetch.global.L1 [%rd1, {%r1}];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2, {%r3}];",
        "cp.async.ca.shared.global [%r1, {%r2}], [%rd1], 16;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1, {%r2}], [%r1], 64;",
    ]


def lines() -> list[str]:
    groups = (_barriers(), _stores(), _copies(), _tensors(), _matrices(), _products(), _others())
    return list(dict.fromkeys(itertools.chain(*groups)))
