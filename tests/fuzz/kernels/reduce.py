# SPDX-License-Identifier: Apache-2.0
"""Reduces a program while it still shows a defect."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

from .tree import BOOL, Expr, Kernel, Stmt, cast, literal, parts, size_of, walk


def _bodies(k: Kernel) -> list[list[Stmt]]:
    """Every list of statements, outer ones first."""
    found = [k.body, *(f.body for f in k.functions)]
    for top in tuple(found):
        for s in walk(top):
            found += s.bodies
    return found


def _slots(k: Kernel) -> list[tuple[list[Expr], int]]:
    """Every position of an expression, outer ones first."""
    found: list[tuple[list[Expr], int]] = []

    def visit(holder: list[Expr], i: int) -> None:
        found.append((holder, i))
        for j in range(len(holder[i].kids)):
            visit(holder[i].kids, j)

    for top in (k.body, *(f.body for f in k.functions)):
        for s in walk(top):
            for i in range(len(s.exprs)):
                visit(s.exprs, i)
    for i in range(len(k.outs)):
        visit(k.outs, i)
    return found


def _copy(k: Kernel) -> Kernel:
    return pickle.loads(pickle.dumps(k))  # type: ignore[no-any-return]


def _without(k: Kernel, body: int, start: int, count: int) -> Kernel:
    new = _copy(k)
    del _bodies(new)[body][start : start + count]
    return new


def _removals(k: Kernel) -> Iterator[Kernel]:
    for b, stmts in enumerate(_bodies(k)):
        size = len(stmts)
        while size:
            for start in range(0, len(stmts), size):
                yield _without(k, b, start, size)
            size //= 2


def _unwrapped(k: Kernel) -> Iterator[Kernel]:
    """Replaces branches and loops with their bodies."""
    for b, stmts in enumerate(_bodies(k)):
        for i, s in enumerate(stmts):
            for side in range(len(s.bodies)):
                if s.bodies[side]:
                    new = _copy(k)
                    body = _bodies(new)[b]
                    body[i : i + 1] = body[i].bodies[side]
                    yield new
                if s.op == "if" and side == 1 and s.bodies[1]:
                    new = _copy(k)
                    _bodies(new)[b][i].bodies[1].clear()
                    yield new


def _simpler(k: Kernel) -> Iterator[Kernel]:
    for n, (holder, i) in enumerate(_slots(k)):
        e = holder[i]
        if e.op in ("lit", "special") and e.type is not BOOL and (e.op != "lit" or e.data in (0, 1)):
            continue
        options: list[Callable[[Expr], Expr]] = []
        if e.type is not BOOL or e.op != "lit":
            options.append(lambda old: literal(old.type, 0))
            options.append(lambda old: literal(old.type, 1))
        for j, kid in enumerate(e.kids):
            if kid.type is e.type:
                options.append(lambda old, j=j: old.kids[j])  # type: ignore[misc]
            elif not kid.type.floating and kid.type is not BOOL and e.type is not BOOL and e.op != "cast":
                options.append(lambda old, j=j: cast(old.type, old.kids[j]))  # type: ignore[misc]
        for option in options:
            new = _copy(k)
            where, at = _slots(new)[n]
            where[at] = option(where[at])
            yield new


def _shapes(k: Kernel) -> Iterator[Kernel]:
    if k.blocks > 1:
        for grid in ((1, 1, 1), (2, 1, 1)):
            if grid != k.grid:
                new = _copy(k)
                new.grid = grid
                yield new
    for block in ((4, 1, 1), (8, 1, 1), (16, 1, 1), (32, 1, 1), (48, 1, 1), (64, 1, 1), (k.threads, 1, 1)):
        if block != k.block and block[0] <= k.threads:
            new = _copy(k)
            new.block = block
            yield new
    for j in range(len(k.outs)):
        if len(k.outs) > 1:
            new = _copy(k)
            del new.outs[j]
            yield new
    for j in range(len(k.arrays)):
        new = _copy(k)
        gone = new.arrays.pop(j)
        exprs = [
            e
            for s in (s for top in (new.body, *(f.body for f in new.functions)) for s in walk(top))
            for x in s.exprs
            for e in parts(x)
        ]
        exprs += [e for x in (*new.outs, *(f.result for f in new.functions)) for e in parts(x)]
        used = any(e.data is gone or (isinstance(e.data, tuple) and any(d is gone for d in e.data)) for e in exprs)
        stored = any(
            s.data is gone or (isinstance(s.data, tuple) and any(d is gone for d in s.data)) for s in walk(new.body)
        )
        if not used and not stored:
            yield new
    for j in range(len(k.functions)):
        new = _copy(k)
        gone_f = new.functions.pop(j)
        exprs = [
            e
            for top in (new.body, *(f.body for f in new.functions))
            for s in walk(top)
            for x in s.exprs
            for e in parts(x)
        ]
        exprs += [e for x in (*new.outs, *(f.result for f in new.functions)) for e in parts(x)]
        if not any(e.data is gone_f for e in exprs):
            yield new


def reduce_kernel(k: Kernel, fails: Callable[[Any], bool], seconds: float) -> Kernel:
    """Tries every edit until none reduces the program further or the time is up. `fails`: whether a program shows the defect."""
    end = time.monotonic() + seconds
    again = True
    while again and time.monotonic() < end:
        again = False
        for edits in (_removals, _unwrapped, _shapes, _simpler):
            progress = True
            while progress and time.monotonic() < end:
                progress = False
                for candidate in edits(k):
                    if time.monotonic() > end:
                        break
                    if size_of(candidate) < size_of(k) and fails(candidate):
                        k, progress, again = candidate, True, True
                        break
    return k


def reduce_lines(
    lines: list[str], keep: Callable[[str], bool], fails: Callable[[list[str]], bool], seconds: float
) -> list[str]:
    """The same for a list of lines; lines in `keep` are not removed."""
    end = time.monotonic() + seconds
    size = max(1, len(lines) // 2)
    while time.monotonic() < end:
        start, removed = 0, False
        while start < len(lines) and time.monotonic() < end:
            kept = [line for line in lines[start : start + size] if keep(line)]
            candidate = lines[:start] + kept + lines[start + size :]
            if len(candidate) < len(lines) and fails(candidate):
                lines, removed = candidate, True
            else:
                start += size
        if size == 1 and not removed:
            break
        size = max(1, size // 2)
    return lines
