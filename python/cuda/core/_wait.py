"""Waiting for device work in asyncio code, without a thread per wait."""

from __future__ import annotations

import asyncio
from typing import Any


async def wait(thing: Any) -> None:
    """Give the event loop back until ``thing.is_done``; pauses grow with the time waited, up to a millisecond."""
    pause = 0.0
    while not thing.is_done:
        await asyncio.sleep(pause)
        pause = min(pause + 2e-5, 1e-3)
