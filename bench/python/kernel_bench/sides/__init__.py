"""The ways to run a case that are compared, one per file: ours, native C++, PoCL, Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..case import Case

Run = Callable[[], Any]
Arrays = dict[str, np.ndarray]
Launches = Callable[[int, bool], None]


class NotHere(Exception):
    """A side that is not installed. The text says how to install it."""


class Side(Protocol):
    name: str

    def prepare(self, case: Case, arrays: Arrays) -> Run | None:
        """What runs the case once (case.repeat times) in these arrays; None: the side has no such kernel."""

    def finish(self) -> None:
        """Gives back what the last case took."""

    def launches(self) -> Launches | None:
        """Launches a kernel that does nothing so many times, waiting for each or for all; None: the side has no launches."""
