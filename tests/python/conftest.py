# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a device (selected by CUCORE_DEVICE) and a stream. Suites below cuda.core have their own fixtures."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Vector code that does not verify is an error in tests and their child processes, instead of a fallback to scalar code.
os.environ.setdefault("CUCORE_CPU_STRICT", "1")

# A compile cache for this run, so that tests do not get results of earlier runs.
if "CUCORE_COMPILE_CACHE" not in os.environ:
    os.environ["CUCORE_COMPILE_CACHE"] = tempfile.mkdtemp(prefix="cucore-tests-")
    atexit.register(shutil.rmtree, os.environ["CUCORE_COMPILE_CACHE"], ignore_errors=True)

if TYPE_CHECKING:  # not imported at module level: suites below cuda.core must not import it
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
    """An environment without user settings; variables of sanitizers are kept."""
    sanitizer = {k: v for k, v in os.environ.items() if k == "LD_PRELOAD" or k.endswith("SAN_OPTIONS")}
    return {"PATH": "/nonexistent", "HOME": str(tmp_path), **sanitizer}
