# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: runs CUDA tests on the CPU device, on a GPU, or on both, and reports leaks of device memory.

    pytest --cuda-device=cpu          # no GPU needed, for CI
    pytest --cuda-device=gpu
    pytest --cuda-device=both         # the suite once per device, each in a separate process
    pytest --cuda-check=race,memory   # check mode: races and invalid accesses fail their tests
    pytest --cuda-coverage            # the lines and branches of kernels that tests have executed
    pytest --cuda-leaks=error         # a test that leaves device memory allocated fails the run
    pytest --cuda-schedules=100       # every test with 100 random schedules of its kernels' threads, until one fails

A fault in a kernel fails the test that launched it. Subsequent tests run in a new context or in a new process.

Fixtures: `cuda_device` (the current `cuda.core.Device`) and `cuda_stream` (a new stream, closed after the test).
Markers: `gpu_only` for tests that require NVIDIA hardware, `cpu_only` for tests of the CPU device itself.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from . import pytest_coverage, pytest_process, stand_ins

if TYPE_CHECKING:
    from cuda.core import CUDAError, Device, Stream

_LEAKS = pytest.StashKey[list[tuple[str, int]]]()
_FAILED = pytest.StashKey[bool]()
_CHECKS = ("memory", "race", "init", "sync", "leak", "all", "continue")


def _checks(text: str) -> str:
    unknown = [kind for kind in text.split(",") if kind not in _CHECKS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown check {unknown[0]!r}: give a list of {', '.join(_CHECKS)}")
    return text


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cucore", "CUDA devices")
    group.addoption(
        "--cuda-device",
        choices=("auto", "cpu", "gpu", "both"),
        help="where device code runs: the CPU device, a GPU, both in turn, or what is there (default: CUCORE_DEVICE, else auto)",
    )
    group.addoption(
        "--cuda-leaks",
        choices=("ignore", "report", "error"),
        default="report",
        help="device memory that a test leaves allocated: name the test at the end (default), and fail the run",
    )
    group.addoption(
        "--cuda-schedules",
        type=int,
        metavar="N",
        help="run each test with N random orders of the threads of its kernels, until one fails (CPU device)",
    )
    group.addoption(
        "--cuda-check",
        type=_checks,
        metavar="KINDS",
        help="check kernels while they run on the CPU device: a list of memory, race, init, sync, leak, or all",
    )
    group.addoption(
        "--cuda-after-fault",
        choices=("auto", "reset", "process", "stop"),
        default="auto",
        help="after a fault in a kernel: reset the device, run the other tests in a new process, or stop "
        "(default: reset the CPU device; a new process on a GPU)",
    )
    pytest_coverage.add_options(group)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu_only: needs NVIDIA hardware")
    config.addinivalue_line("markers", "cpu_only: about the CPU device itself")
    config.addinivalue_line(
        "markers", "cuda_schedules(n): the number of random schedules of this test, with --cuda-schedules"
    )
    if schedules := config.getoption("--cuda-schedules"):
        from .pytest_schedules import EverySeed

        config.pluginmanager.register(EverySeed(schedules))
    device = config.getoption("--cuda-device")
    if device in ("auto", "cpu", "gpu"):
        os.environ["CUCORE_DEVICE"] = device  # read at the first use of the driver, which is later
    if checks := config.getoption("--cuda-check"):
        _require_cpu_device("--cuda-check", device)
        os.environ["CUCORE_CHECK"] = checks
    if config.getoption("--cuda-coverage"):
        _require_cpu_device("--cuda-coverage", device)
        if not hasattr(config, "workerinput") and not pytest_process.is_running():
            config.pluginmanager.register(pytest_coverage.KernelCoverage(config), "cucore-kernel-coverage")
    config.pluginmanager.register(_FaultRecovery(config), "cucore-fault-recovery")
    if _wanted() == "cpu":
        os.environ.update(stand_ins.variables(os.environ))  # for compilers that tests start
        stand_ins.into_this_process()  # for compilers that tests load


def _require_cpu_device(option: str, device: str | None) -> None:
    """Selects the CPU device, which instrumented kernels require. Raises UsageError if a GPU is requested."""
    if device == "both" or _wanted() == "gpu":
        raise pytest.UsageError(f"{option} works on the CPU device only: give --cuda-device=cpu")
    os.environ["CUCORE_DEVICE"] = "cpu"


def pytest_report_header(config: pytest.Config) -> str:
    return f"cuda device: {_wanted()}"


def _wanted() -> str:
    return os.environ.get("CUCORE_DEVICE") or "auto"


# ---- both devices


def without_device_option(arguments: Sequence[str]) -> list[str]:
    """Returns the command line without --cuda-device=X and --cuda-device X."""
    result: list[str] = []
    skip_value = False
    for argument in arguments:
        if skip_value:
            skip_value = False
        elif argument == "--cuda-device":
            skip_value = True
        elif not argument.startswith("--cuda-device="):
            result.append(argument)
    return result


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if config.getoption("--cuda-device") != "both":
        return None
    arguments = without_device_option([str(argument) for argument in config.invocation_params.args])
    codes = []
    for device in ("cpu", "gpu"):
        print(f"==== cuda device: {device} ====", flush=True)
        command = [sys.executable, "-m", "pytest", *arguments, f"--cuda-device={device}"]
        codes.append(subprocess.run(command, cwd=config.invocation_params.dir, check=False).returncode)
    print(f"==== cuda device: cpu ended with {codes[0]}, gpu with {codes[1]} ====", flush=True)
    return max(codes)


# ---- markers


def pytest_runtest_setup(item: pytest.Item) -> None:
    gpu_only, cpu_only = item.get_closest_marker("gpu_only"), item.get_closest_marker("cpu_only")
    if gpu_only is None and cpu_only is None:
        return
    device = _wanted()
    if device == "auto":
        from cuda.core import _core

        device = "cpu" if _core.is_cpu_device() else "gpu"
    if device == "cpu" and gpu_only is not None:
        pytest.skip("needs NVIDIA hardware; this run is on the CPU device")
    if device == "gpu" and cpu_only is not None:
        pytest.skip("about the CPU device; this run is on a GPU")


# ---- fixtures


@pytest.fixture
def cuda_device() -> Iterator[Device]:
    """The default device, current on the test's thread for the duration of the test."""
    from cuda.core import Device

    device = Device()
    device.set_current()
    yield device
    _wait(device.sync)


@pytest.fixture
def cuda_stream(cuda_device: Device) -> Iterator[Stream]:
    """A new stream, synchronized and closed at the end of the test."""
    stream = cuda_device.create_stream()
    yield stream
    if not stream.is_closed:
        _wait(stream.sync)
        stream.close()


# ---- faults

# Result codes that leave a context unusable: those of faults in kernels.
_BREAKS_CONTEXT = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719})


def _was_seen(error: CUDAError) -> bool:
    """Returns whether an earlier call has already raised this fault."""
    return "this context was broken by" in str(error)


def _wait(sync: Callable[[], None]) -> None:
    """Waits for the work that a test has enqueued. A fault that no call of the test has raised fails the test; a fault
    that one has raised (`pytest.raises`) does not fail it again."""
    from cuda.core import CUDAError

    try:
        sync()
    except CUDAError as error:
        if error.code not in _BREAKS_CONTEXT or not _was_seen(error):
            raise


def _driver_is_loaded() -> bool:
    """Returns whether a driver is loaded, without loading one."""
    core = sys.modules.get("cuda.core._core")
    return core is not None and bool(core.driver_is_loaded())


def _fault_of(index: int) -> CUDAError | None:
    """Waits for the work of a device's primary context. Returns the sticky fault of the context, if any."""
    from cuda.bindings import driver
    from cuda.core import CUDAError, Device

    code, _, active = driver.cuDevicePrimaryCtxGetState(index)
    if code or not active:
        return None
    code, context = driver.cuDevicePrimaryCtxRetain(index)
    if code:
        return None
    driver.cuCtxPushCurrent(context)
    try:
        Device(index).sync()
    except CUDAError as error:
        if error.code in _BREAKS_CONTEXT:
            return error
    finally:
        driver.cuCtxPopCurrent()
        driver.cuDevicePrimaryCtxRelease(index)
    return None


def _reset_devices(broken: Sequence[int]) -> None:
    """Resets the primary contexts of these devices and sets the first one current: the current context may be lost."""
    from cuda.bindings import driver
    from cuda.core import Device

    for index in broken:
        driver.cuDevicePrimaryCtxReset(index)
    Device(broken[0]).set_current()


class _FaultRecovery:
    """After a test: fails it for a fault that no call has raised, and recovers the device for the subsequent tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.needs_process = False
        self.reports: dict[str, list[Any]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        try:
            result = yield
        except BaseException:
            self.recover(item)
            raise
        unseen = self.recover(item)
        if unseen is not None:
            raise unseen
        return result

    def recover(self, item: pytest.Item) -> CUDAError | None:
        """Recovers from a fault. Returns it if no call has raised it yet."""
        if self.needs_process or not _driver_is_loaded():
            return None
        from cuda.core import Device, _core

        faults = {d.device_id: fault for d in Device.get_all_devices() if (fault := _fault_of(d.device_id)) is not None}
        if not faults:
            return None
        item.stash[_FAILED] = True  # its memory was freed with its context
        how = self.config.getoption("--cuda-after-fault")
        if how == "auto":
            how = "reset" if _core.is_cpu_device() else "process"
        if how == "reset":
            _reset_devices(list(faults))
        elif how == "process":
            self.needs_process = True
        else:
            item.session.shouldstop = "a fault in a kernel has broken the context of this process"
        return next((fault for fault in faults.values() if not _was_seen(fault)), None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Runs the tests after a fault in a new process, until the next fault."""
        if not self.needs_process:
            return None
        if item.nodeid not in self.reports:
            items = item.session.items
            others = (
                [item] if hasattr(self.config, "workerinput") else items[items.index(item) :]
            )  # xdist schedules them
            self.reports |= pytest_process.remaining_reports(self.config, [other.nodeid for other in others])
        reports = self.reports.pop(item.nodeid, [])
        if not any(report.when == "teardown" for report in reports):
            reports.append(_crash_report(item))
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def _crash_report(item: pytest.Item) -> pytest.TestReport:
    text = "the new process, started after a fault in a kernel, ended in this test"
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")


# ---- leaks


def _allocated() -> int:
    """Returns the number of bytes in use in the devices' pools; 0 if no driver is loaded."""
    if not _driver_is_loaded():
        return 0
    from cuda.core import CUDAError, Device, DeviceMemoryResource

    try:
        pools = (DeviceMemoryResource(d) for d in Device.get_all_devices() if d.properties.memory_pools_supported)
        return sum(int(pool.attributes.used_mem_current) for pool in pools)
    except CUDAError:  # a fault, which the test reports, has made the context unusable: nothing can be counted
        return 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True  # its traceback keeps the test's variables alive: their memory is not leaked
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """Wraps the whole protocol of a test, because the values of its fixtures are released only at the end."""
    if item.config.getoption("--cuda-leaks") == "ignore":
        return (yield)
    before = _allocated()
    result = yield
    leaked = _allocated() - before
    if leaked > 0:
        gc.collect()  # memory held by a reference cycle is not leaked
        leaked = _allocated() - before
    if leaked > 0 and not item.stash.get(_FAILED, False):
        item.config.stash.setdefault(_LEAKS, []).append((item.nodeid, leaked))
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Collects the results of a worker of pytest-xdist when it ends."""
    found = getattr(node, "workeroutput", {}).get("cuda_leaks", [])
    node.config.stash.setdefault(_LEAKS, []).extend((test, size) for test, size in found)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cuda_leaks"] = session.config.stash.get(_LEAKS, [])
        return
    fails = session.config.getoption("--cuda-leaks") == "error" and bool(session.config.stash.get(_LEAKS, []))
    if fails and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    leaks = config.stash.get(_LEAKS, [])
    if not leaks:
        return
    failing = config.getoption("--cuda-leaks") == "error"
    terminalreporter.section("device memory left allocated", red=failing)
    for test, size in leaks:
        terminalreporter.line(f"{size:>14,} bytes  {test}")
    advice = "this fails the run" if failing else "--cuda-leaks=error fails the run for it, =ignore is silent"
    terminalreporter.line(f"close() buffers, or drop the last reference to them; {advice}")
