# SPDX-License-Identifier: Apache-2.0
"""The report of a search: every place searched, in order, with its outcome."""

from __future__ import annotations

from . import _environment, _pathfinder


class SearchAttempt(tuple):  # type: ignore[type-arg]
    """One attempt of a search: its ``step``, the ``place`` searched and the ``outcome``."""

    __module__ = "cuda.pathfinder"
    __slots__ = ()

    @property
    def step(self) -> str:
        return self[0]  # type: ignore[no-any-return]

    @property
    def place(self) -> str:
        return self[1]  # type: ignore[no-any-return]

    @property
    def outcome(self) -> str:
        return self[2]  # type: ignore[no-any-return]


class SearchReport:
    """The attempts and the result of a search. ``abs_path`` and ``found_via`` are None if nothing was found."""

    __module__ = "cuda.pathfinder"
    __slots__ = ("abs_path", "attempts", "found_via", "kind", "name")

    def __init__(
        self,
        kind: str,
        name: str,
        abs_path: str | None,
        found_via: str | None,
        attempts: tuple[tuple[str, str, str], ...],
    ) -> None:
        self.kind = kind
        self.name = name
        self.abs_path = abs_path
        self.found_via = found_via
        self.attempts = tuple(SearchAttempt(attempt) for attempt in attempts)

    def __str__(self) -> str:
        answer = "not found" if self.abs_path is None else f"{self.abs_path}, found via {self.found_via}"
        lines = [f"{self.name} ({self.kind}): {answer}"]
        lines += [f"  {attempt.step}: {attempt.place}: {attempt.outcome}" for attempt in self.attempts]
        return "\n".join(lines)

    __repr__ = __str__


def explain(name: str, kind: str | None = None) -> SearchReport:
    """Return every place searched for a component, in order, with its outcome. Loads nothing.

    ``kind`` is ``"library"``, ``"headers"``, ``"static"``, ``"bitcode"`` or ``"binary"``; the default is the first of
    these that has a component of this name.
    """
    _environment.refresh()
    return SearchReport(*_pathfinder.explain(name, kind))
