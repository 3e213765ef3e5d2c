# SPDX-License-Identifier: Apache-2.0
"""UUID, LUID and PCI address of a device are unique and equal in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cpu_only

PROGRAM = r"""
import json
from cuda.bindings import driver as d, nvml

def check(result):
    code, *values = result
    assert code == 0, code
    return values[0] if len(values) == 1 else values

check(d.cuInit(0))
devices = []
for device in range(check(d.cuDeviceGetCount())):
    luid = check(d.cuDeviceGetLuid(device))
    bus = check(d.cuDeviceGetPCIBusId(32, device)).decode().rstrip("\0")
    assert int(check(d.cuDeviceGetByPCIBusId(bus.encode()))) == device
    devices.append({"uuid": bytes(check(d.cuDeviceGetUuid(device)).bytes).hex(), "luid": repr(luid), "bus": bus,
                    "name": check(d.cuDeviceGetName(128, device)).decode().rstrip("\0")})
nvml.init_v2()
for device in devices:
    handle = nvml.device_get_handle_by_pci_bus_id_v2(device["bus"])
    device["nvml"] = nvml.device_get_uuid(handle).removeprefix("GPU-").replace("-", "")
print(json.dumps(devices))
"""


def devices(**settings: str) -> list[dict[str, str]]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=os.environ | {"CUCORE_DEVICE": "cpu"} | settings, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_device_identifiers_are_unique_and_equal_in_every_process() -> None:
    first = devices(CUCORE_CPU_DEVICES="3")
    assert devices(CUCORE_CPU_DEVICES="3") == first
    for key in ("uuid", "luid", "bus"):
        assert len({device[key] for device in first}) == 3
    assert all(device["nvml"] == device["uuid"] for device in first)


def test_visible_devices_keep_their_identifiers() -> None:
    first = devices(CUCORE_CPU_DEVICES="3")
    assert devices(CUCORE_CPU_DEVICES="3", CUDA_VISIBLE_DEVICES="2,0") == [first[2], first[0]]
    assert devices() == first[:1]
