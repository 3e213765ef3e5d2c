# SPDX-License-Identifier: Apache-2.0
"""CUCORE_CPU_ARCH: attributes, compilers and the targets of PTX follow the compute capability that the device reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.cpu_only

# Capability: threads and blocks per multiprocessor, shared memory per block (opt-in) and per multiprocessor in KiB.
LIMITS = {
    "7.5": (1024, 16, 64, 64),
    "8.0": (2048, 32, 163, 164),
    "8.6": (1536, 16, 99, 100),
    "8.9": (1536, 24, 99, 100),
    "9.0": (2048, 32, 227, 228),
    "10.0": (2048, 32, 227, 228),
    "10.3": (2048, 32, 227, 228),
    "11.0": (1536, 24, 227, 228),
    "12.0": (1536, 24, 99, 100),
    "12.1": (1536, 24, 99, 100),
}

FACTS = """
import json
import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch, system
device = Device()
device.set_current()
properties = device.properties
source = "extern \\"C\\" __global__ void arch(int* out) { *out = __CUDA_ARCH__; }"
program = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
kernel = program.compile("cubin").get_kernel("arch")
stream = device.create_stream()
buffer = device.allocate(4, stream=stream)
launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer)
out = np.zeros(1, np.int32)
buffer.copy_to(out, stream=stream)
stream.sync()
occupancy = kernel.occupancy.max_active_blocks_per_multiprocessor(1024, 0)
print(json.dumps({
    "capability": ".".join(map(str, device.compute_capability)),
    "nvml": ".".join(map(str, system.Device(index=0).cuda_compute_capability)),
    "limits": [properties.max_threads_per_multiprocessor, properties.max_blocks_per_multiprocessor,
               properties.max_shared_memory_per_block_optin // 1024,
               properties.max_shared_memory_per_multiprocessor // 1024],
    "clusters": bool(properties.cluster_launch),
    "compiled for": int(out[0]),
    "blocks of 1024 threads": occupancy,
}))
"""

LOAD = """
import sys
from cuda.bindings import driver
driver.cuInit(0)
_, context = driver.cuDevicePrimaryCtxRetain(0)
driver.cuCtxSetCurrent(context)
log = b" " * 4096
options = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
text = sys.argv[1].encode() + b"\\n.address_size 64\\n.visible .entry k() { ret; }\\n\\0"
code, _ = driver.cuModuleLoadDataEx(text, 2, options, [log, len(log)])
print(int(code), log.split(b"\\0")[0].decode().strip())
"""


def run(arch: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUCORE_DEVICE": "cpu", "CUCORE_CPU_ARCH": arch}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("arch", LIMITS)
def test_device_reports_the_capability_and_kernels_are_compiled_for_it(arch: str) -> None:
    result = run(arch, FACTS)
    assert result.returncode == 0, result.stderr
    facts: dict[str, Any] = json.loads(result.stdout)
    number = int(arch.replace(".", "")) * 10
    assert facts == {
        "capability": arch,
        "nvml": arch,
        "limits": list(LIMITS[arch]),
        "clusters": number >= 900,
        "compiled for": number,
        "blocks of 1024 threads": LIMITS[arch][0] // 1024,
    }


ACCEPTED = [
    ("10.0", "sm_50"), ("10.0", "sm_90"), ("10.0", "sm_100"), ("10.0", "sm_100a"), ("10.0", "sm_100f"),
    ("10.3", "sm_100"), ("10.3", "sm_100f"), ("10.3", "sm_103a"), ("11.0", "sm_100"), ("11.0", "sm_110a"),
    ("12.1", "sm_120f"), ("12.0", "sm_103"), ("8.6", "sm_80"),
]  # fmt: skip
REFUSED = [
    ("10.0", "sm_90a", "9.0"), ("10.3", "sm_100a", "10.0"), ("10.0", "sm_103", "10.3"), ("10.0", "sm_103f", "10.3"),
    ("12.0", "sm_100f", "10.0"), ("11.0", "sm_100f", "10.0"), ("12.0", "sm_121", "12.1"), ("8.6", "sm_89", "8.9"),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "target"), ACCEPTED)
def test_target_that_the_capability_runs_is_accepted(arch: str, target: str) -> None:
    result = run(arch, LOAD, f".version 9.0\n.target {target}")
    assert result.stdout.split() == ["0"], result.stdout + result.stderr


@pytest.mark.parametrize(("arch", "target", "wanted"), REFUSED)
def test_target_of_another_capability_is_error_218_that_names_the_setting(arch: str, target: str, wanted: str) -> None:
    result = run(arch, LOAD, f".version 9.0\n.target {target}")
    assert result.stdout.startswith("218 "), result.stdout + result.stderr
    assert f"the code is for {target} and this device is an sm_{arch.replace('.', '')}" in result.stdout
    assert f"CUCORE_CPU_ARCH={wanted}" in result.stdout


def test_unknown_capability_is_an_error_that_lists_the_known_ones() -> None:
    result = run("13.0", FACTS)
    assert result.returncode != 0
    assert 'CUCORE_CPU_ARCH="13.0" cannot be read; expected one of 7.5, 8.0, 8.6' in result.stderr
