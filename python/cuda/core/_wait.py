# SPDX-License-Identifier: Apache-2.0
"""Awaiting streams and events in asyncio code, without a thread per wait."""

from __future__ import annotations

import asyncio
from typing import Any


async def wait(thing: Any) -> None:
    """Polls ``thing`` until it is complete. The interval between polls grows by 20 microseconds, up to a millisecond.

    A host callback of the driver is not an alternative: it would need the GIL in a thread of the driver, and would
    block the stream until the event loop, which may be closed by then, had processed it.
    """
    pause = 0.0
    while not thing._poll():
        await asyncio.sleep(pause)
        pause = min(pause + 2e-5, 1e-3)
