# SPDX-License-Identifier: Apache-2.0
"""Waiting for device work in asyncio code, without a thread per wait."""

from __future__ import annotations

import asyncio
from typing import Any


async def wait(thing: Any) -> None:
    """Give the event loop back until ``thing`` is done; pauses grow with the time waited, up to a millisecond.

    The loop asks, the driver does not call: a callback of the driver's would need the interpreter's lock in a thread of the
    driver's, and would hold up the stream until the loop, which may be closed by then, had taken it.
    """
    pause = 0.0
    while not thing._poll():
        await asyncio.sleep(pause)
        pause = min(pause + 2e-5, 1e-3)
