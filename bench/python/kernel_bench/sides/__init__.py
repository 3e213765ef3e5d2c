# SPDX-License-Identifier: Apache-2.0
"""The compared implementations (sides), one per file: CPU device, native C++, PoCL, Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..case import Case

Run = Callable[[], Any]
Arrays = dict[str, np.ndarray]
Launches = Callable[[int, bool], None]


class NotHere(Exception):
    """A side is not installed. The message explains how to install it."""


class Side(Protocol):
    name: str

    def prepare(self, case: Case, arrays: Arrays) -> Run | None:
        """A function that runs the case (case.repeat times) on the arrays, or None if the side has no such kernel."""

    def finish(self) -> None:
        """Frees the resources of the last case."""

    def launches(self) -> Launches | None:
        """Launches an empty kernel `count` times and waits for each or for all; None if the side has no launches."""
