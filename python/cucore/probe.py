# SPDX-License-Identifier: Apache-2.0
"""Checks that `cucore doctor` runs in a separate process, so that a crash or hang of the driver does not affect it.

python -m cucore.probe devices        # prints JSON
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from typing import Any

SECONDS = 120


def ask(subject: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the result of `answer(subject)` in a new process. On failure, `error` has the reason."""
    command = [sys.executable, "-m", "cucore.probe", subject]
    variables = dict(os.environ if environment is None else environment, PYTHONDONTWRITEBYTECODE="1")
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer after {SECONDS} seconds"}
    if done.returncode < 0:
        return {"error": f"the process was ended by signal {-done.returncode}", "stderr": done.stderr[-2000:]}
    try:
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return {"error": f"exit status {done.returncode}: {last}", "stderr": done.stderr[-2000:]}
    return answer


def use(device: Any) -> str | None:
    """Returns why a device is unusable; None if memory can be allocated, filled and read back on it."""
    try:
        device.set_current()
        stream = device.create_stream()
        buffer = device.allocate(4096, stream=stream)
        buffer.fill(7, stream=stream)
        back = bytearray(4096)
        buffer.copy_to(back, stream=stream)
        stream.sync()
        buffer.close(stream)
        stream.close()
    except Exception as error:  # the result contains the reason
        return f"{type(error).__name__}: {error}"
    return None if back == b"\x07" * 4096 else "memory that was filled reads back as something else"


def devices() -> dict[str, Any]:
    from cuda.core import Device, _core

    result: dict[str, Any] = {"driver": dict(_core.driver_info()), "devices": []}
    for device in Device.get_all_devices():
        result["devices"].append({"id": device.device_id, "name": device.name, "problem": use(device)})
    return result


def count() -> dict[str, Any]:
    from cuda.core import Device

    return {"count": len(Device.get_all_devices())}


def library(name: str) -> dict[str, Any]:
    from cuda import pathfinder

    from . import info

    try:
        loaded = pathfinder.load_nvidia_dynamic_lib(name)
    except RuntimeError as error:
        return {"error": str(error).splitlines()[0], "missing": True}
    return {"path": loaded.abs_path, "version": info.version_of(name)}


KERNEL = 'extern "C" __global__ void answer(int* out) { *out = 42; }'


def kernel() -> dict[str, Any]:
    """Compiles a kernel and runs it."""
    from cuda.core import Device, LaunchConfig, Program, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    function = Program(KERNEL, "c++").compile("cubin").get_kernel("answer")
    buffer = device.allocate(4, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=1), function, buffer)
    back = bytearray(4)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    value = int.from_bytes(back, sys.byteorder)
    return {"value": value} if value == 42 else {"error": f"the kernel wrote {value} instead of 42"}


def answer(subject: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")  # the result contains the chosen device
    try:
        if subject.startswith("library:"):
            return library(subject.partition(":")[2])
        return {"devices": devices, "count": count, "kernel": kernel}[subject]()
    except Exception as error:  # the result contains the reason
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1])))
