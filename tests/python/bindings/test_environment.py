# SPDX-License-Identifier: Apache-2.0
"""Environment variables that select the default stream; warnings and errors with an older driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

STREAMS = """
import threading
from cuda.bindings import driver as d, runtime as r
def check(result):
    assert result[0] == 0, result
    return result[1] if len(result) > 1 else None
check(d.cuInit(0))
context = check(d.cuDevicePrimaryCtxRetain(0))
found = []
def look():
    check(d.cuCtxSetCurrent(context))
    found.append((check(d.cuStreamGetId(0)), check(r.cudaStreamGetId(0))))
threads = [threading.Thread(target=look) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:  # both alive until both have looked
    thread.join()
look()
assert all(a == b for a, b in found), found
legacy, own = check(d.cuStreamGetId(d.CU_STREAM_LEGACY)), check(d.cuStreamGetId(d.CU_STREAM_PER_THREAD))
print("own" if found[-1][0] == own != legacy else "legacy" if found[-1][0] == legacy != own else found)
"""


@pytest.mark.parametrize(("value", "expected"), [(None, "legacy"), ("0", "legacy"), ("1", "own")])
def test_default_stream_is_per_thread_if_configured(value: str | None, expected: str) -> None:
    environment = {**os.environ}
    environment.pop("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", None)
    if value is not None:
        environment["CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM"] = value
    done = subprocess.run([sys.executable, "-c", STREAMS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected


def with_driver(version: int, program: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a program on the null driver with the given driver version."""
    builds = [Path(os.environ["CUCORE_BUILD"])] if "CUCORE_BUILD" in os.environ else sorted(ROOT.glob("build/*"))
    library = next(
        (
            b / "bench/null_driver/libcucore_null.so"
            for b in builds
            if (b / "bench/null_driver/libcucore_null.so").exists()
        ),
        None,
    )
    if library is None:
        pytest.skip("the driver that does nothing is not built (CUCORE_TESTS)")
    environment = {
        **os.environ,
        "CUCORE_DEVICE": "cpu",
        "CUCORE_CPU_LIBRARY": str(library),
        "CUCORE_NULL_VERSION": str(version),
        **more,
    }
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


CALLS = "from cuda.bindings import driver as d\nprint(d.cuDeviceGetCount(), d.cuDeviceGetCount())"


def test_older_driver_warns_once() -> None:
    done = with_driver(12040, CALLS)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("CucoreWarning: cuda.bindings speaks CUDA 13, but the driver supports CUDA 12 only") == 1
    assert with_driver(13000, CALLS).stderr == ""
    assert with_driver(12040, CALLS, CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING="1").stderr == ""


def test_older_driver_warning_can_be_an_error() -> None:
    done = with_driver(12040, "import warnings; warnings.simplefilter('error')\n" + CALLS)
    assert done.returncode == 1 and "CucoreWarning: cuda.bindings speaks CUDA 13" in done.stderr


def test_function_missing_in_an_older_driver_raises_an_error_that_names_it() -> None:
    program = "from cuda.bindings import driver as d\nd.cuLogicalEndpointDestroy(1)"
    done = with_driver(13000, program)
    assert (
        done.returncode == 1 and 'FunctionNotFoundError: Function "cuLogicalEndpointDestroy" not found' in done.stderr
    )
