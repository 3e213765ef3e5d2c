"""A device and a stream on it, on whatever CUCORE_DEVICE selects. Suites below cuda.core have fixtures of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# Vector code that does not verify would quietly be replaced by scalar code: here it is an error, in child processes too.
os.environ.setdefault("CUCORE_CPU_STRICT", "1")

if TYPE_CHECKING:  # suites that do without cuda.core must not import it by way of this file
    from cuda.core import Device, Stream


@pytest.fixture
def device() -> Device:
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    return device


@pytest.fixture
def stream(device: Device) -> Iterator[Stream]:
    stream = device.create_stream()
    yield stream
    if not stream.is_closed:
        stream.sync()
    stream.close()
