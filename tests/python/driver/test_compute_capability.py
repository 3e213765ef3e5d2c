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


def run(arch: str, program: str, *arguments: str, devices: int = 1) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "CUCORE_DEVICE": "cpu",
        "CUCORE_CPU_ARCH": arch,
        "CUCORE_CPU_DEVICES": str(devices),
    }
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


EACH_DEVICE = """
import json
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, Program, ProgramOptions, launch, system
texts = {}
for name in ("sm_80", "sm_90a", "sm_120a"):
    source = f"extern \\"C\\" __global__ void which(int* out) {{ *out = __CUDA_ARCH__; }}"
    texts[name] = Program(source, "c++", ProgramOptions(arch=name)).compile("ptx").code
rows = []
for n, nvml in enumerate(system.Device.get_all_devices()):
    device = Device(n)
    device.set_current()
    properties = device.properties
    row = {
        "capability": ".".join(map(str, device.compute_capability)),
        "nvml": [".".join(map(str, nvml.cuda_compute_capability)), nvml.arch.name],
        "threads": properties.max_threads_per_multiprocessor,
        "shared": properties.max_shared_memory_per_block_optin // 1024,
        "runs": [],
    }
    for name, text in texts.items():
        code, _ = driver.cuModuleLoadData(text + b"\\0")
        if code == 0:
            row["runs"].append(name)
    kernel = ObjectCode.from_ptx(texts["sm_80"]).get_kernel("which")  # a library: usable on both devices
    row["binary"] = kernel.attributes.binary_version()
    row["blocks of 1024 threads"] = kernel.occupancy.max_active_blocks_per_multiprocessor(1024, 0)
    rows.append(row)
print(json.dumps(rows))
"""


def test_each_device_of_a_list_has_its_own_capability() -> None:
    result = run("9.0, sm_120", EACH_DEVICE, devices=2)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [
        {
            "capability": "9.0",
            "nvml": ["9.0", "HOPPER"],
            "threads": 2048,
            "shared": 227,
            "runs": ["sm_80", "sm_90a"],
            "binary": 90,
            "blocks of 1024 threads": 2,
        },
        {
            "capability": "12.0",
            "nvml": ["12.0", "BLACKWELL"],
            "threads": 1536,
            "shared": 99,
            "runs": ["sm_80", "sm_120a"],
            "binary": 120,
            "blocks of 1024 threads": 1,
        },
    ]


LIBRARY = """
import sys
from cuda.bindings import driver, nvfatbin
from cuda.core import Program, ProgramOptions
driver.cuInit(0)
code = {}
for number in ("90", "120"):
    source = "__device__ int number = " + number + "; extern \\"C\\" __global__ void k() {}"
    code[number] = Program(source, "c++", ProgramOptions(arch="sm_" + number)).compile("ptx").code
if sys.argv[1] == "120":
    image = code["120"] + b"\\0"
else:
    fatbin = nvfatbin.create([], 0)
    for number, text in code.items():
        nvfatbin.add_ptx(fatbin, text, len(text), number, "k", "")
    image = bytearray(nvfatbin.size(fatbin))
    nvfatbin.get(fatbin, image)
    image = bytes(image)
error, library = driver.cuLibraryLoadData(image, [], [], 0, [], [], 0)
print(int(error), end=" ")
for n in range(2):
    _, context = driver.cuDevicePrimaryCtxRetain(n)
    driver.cuCtxSetCurrent(context)
    error, module = driver.cuLibraryGetModule(library)
    print(int(error), end=" ")
    if error == 0:
        _, name, attribute = 0, b"k", driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PTX_VERSION
        _, function = driver.cuModuleGetFunction(module, b"k")
        print(int(driver.cuFuncGetAttribute(attribute, function)[1]), end=" ")
"""


@pytest.mark.parametrize(("image", "expected"), [("120", "0 218 0 120"), ("fatbin", "0 0 90 0 120")])
def test_library_uses_the_code_for_each_device(image: str, expected: str) -> None:
    result = run("9.0,12.0", LIBRARY, image, devices=2)
    assert result.stdout.strip() == expected, result.stdout + result.stderr


@pytest.mark.parametrize(("given", "devices"), [("9.0,12.0", 1), ("9.0,12.0", 3), ("9.0,10.0,12.0", 2)])
def test_list_of_another_length_than_the_devices_is_an_error_that_says_so(given: str, devices: int) -> None:
    result = run(given, FACTS, devices=devices)
    assert result.returncode != 0
    assert f'CUCORE_CPU_ARCH="{given}" cannot be read; expected one capability, or a list of {devices}' in result.stderr
    assert f"the list has {given.count(',') + 1}" in result.stderr


AFTER_INIT = """
import os
from cuda.core import Device, LaunchConfig, Program, launch
device = Device(1)
device.set_current()
os.environ["CUCORE_CPU_DEVICES"] = "1"  # for processes that the program starts
code = Program('extern "C" __global__ void k() {}', "c++").compile("cubin")
stream = device.create_stream()
launch(stream, LaunchConfig(grid=1, block=1), code.get_kernel("k"))
stream.sync()
print("ran")
"""


def test_number_of_devices_may_change_in_the_environment_after_the_start() -> None:
    result = run("9.0", AFTER_INIT, devices=2)
    assert result.stdout == "ran\n", result.stdout + result.stderr
