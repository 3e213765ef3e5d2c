"""pytest plugin: run CUDA tests on the CPU device, on a GPU, or on both, and report device memory that tests left behind.

    pytest --cuda-device=cpu          # no GPU needed: what CI wants
    pytest --cuda-device=gpu
    pytest --cuda-device=both         # the suite once per device, each in a process of its own
    pytest --cuda-leaks=error         # a test that leaves device memory allocated fails

Fixtures: `cuda_device` (current, a `cuda.core.Device`) and `cuda_stream` (new, closed afterwards).
Markers: `gpu_only` for what needs NVIDIA hardware, `cpu_only` for what is about the CPU device itself.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cuda.core import Device, Stream


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cucore", "CUDA devices")
    group.addoption("--cuda-device", choices=("auto", "cpu", "gpu", "both"), help="where device code runs (default: CUCORE_DEVICE)")
    group.addoption("--cuda-leaks", choices=("ignore", "report", "error"), default="report", help="device memory left by a test")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu_only: needs NVIDIA hardware")
    config.addinivalue_line("markers", "cpu_only: about the CPU device itself")
    device = config.getoption("--cuda-device")
    if device in ("auto", "cpu", "gpu"):
        os.environ["CUCORE_DEVICE"] = device  # read when the driver is first used, which is after this


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if config.getoption("--cuda-device") != "both":
        return None
    arguments = [a for a in config.invocation_params.args if not str(a).startswith("--cuda-device")]
    worst = 0
    for device in ("cpu", "gpu"):
        print(f"==== cuda device: {device} ====", flush=True)
        command = [sys.executable, "-m", "pytest", f"--cuda-device={device}", *map(str, arguments)]
        worst = max(worst, subprocess.run(command, check=False).returncode)
    return worst


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    device = os.environ.get("CUCORE_DEVICE", "auto")
    for item in items:
        if device == "cpu" and item.get_closest_marker("gpu_only"):
            item.add_marker(pytest.mark.skip(reason="needs NVIDIA hardware; this run is on the CPU device"))
        if device == "gpu" and item.get_closest_marker("cpu_only"):
            item.add_marker(pytest.mark.skip(reason="about the CPU device; this run is on a GPU"))


@pytest.fixture
def cuda_device() -> Iterator[Device]:
    """The default device, current in this thread for the length of the test."""
    from cuda.core import Device

    device = Device()
    device.set_current()
    yield device
    device.sync()


@pytest.fixture
def cuda_stream(cuda_device: Device) -> Iterator[Stream]:
    """A stream of its own, waited for and closed at the end."""
    stream = cuda_device.create_stream()
    yield stream
    stream.sync()
    stream.close()


def _allocated() -> int | None:
    """Bytes that live buffers hold on device 0, or None while `cuda.core` is not in use: asking must not load a driver."""
    if "cuda.core" not in sys.modules:
        return None
    from cuda.core import Device, DeviceMemoryResource

    gc.collect()  # what a reference cycle holds is not leaked
    resource = Device(0).memory_resource
    return int(resource.attributes.used_mem_current) if isinstance(resource, DeviceMemoryResource) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Any:
    mode = item.config.getoption("--cuda-leaks")
    if mode == "ignore" or "cuda_device" not in getattr(item, "fixturenames", ()):
        return (yield)
    before = _allocated() or 0
    result = yield
    after = _allocated()
    if after is not None and after > before:
        leaks = item.config.stash.setdefault(_LEAKS, [])
        leaks.append((item.nodeid, after - before))
    return result


_LEAKS = pytest.StashKey[list[tuple[str, int]]]()


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    leaks = config.stash.get(_LEAKS, [])
    if not leaks:
        return
    terminalreporter.section("device memory left allocated")
    for test, size in leaks:
        terminalreporter.line(f"{size:>12,} bytes  {test}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.getoption("--cuda-leaks") == "error" and session.config.stash.get(_LEAKS, []):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
