"""A device and a stream on it, on whatever CUCORE_DEVICE selects. Suites below cuda.core have fixtures of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
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


@pytest.fixture
def bare_environment(tmp_path: Path) -> dict[str, str]:
    """The variables of a user who has set nothing and installed nothing; what a sanitizer needs stays."""
    sanitizer = {k: v for k, v in os.environ.items() if k == "LD_PRELOAD" or k.endswith("SAN_OPTIONS")}
    return {"PATH": "/nonexistent", "HOME": str(tmp_path), **sanitizer}
