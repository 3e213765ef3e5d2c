# SPDX-License-Identifier: Apache-2.0
"""NVML functions with arrays, counts and sizes, with a test double that follows the manual (tests/doubles/nvml.cpp)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import doubles

SEVEN = [100, 101, 102, 103, 104, 105, 106]
# call: expected result; for arrays of structs the first field of each
NUMBERS = {
    "device_get_accounting_pids(1)": SEVEN,
    "device_get_active_vgpus(1)": SEVEN,
    "device_get_creatable_vgpus(1)": SEVEN,
    "device_get_supported_vgpus(1)": SEVEN,
    "vgpu_instance_get_accounting_pids(1)": SEVEN,
    "device_get_gpu_instances(1, 0)": SEVEN,
    "gpu_instance_get_compute_instances(1, 0)": SEVEN,
    "device_get_topology_nearest_gpus(1, 0)": SEVEN,
    "system_get_topology_gpu_set(0)": SEVEN,
    "unit_get_devices(1)": SEVEN,
    "device_get_supported_memory_clocks(1)": SEVEN,
    "device_get_supported_graphics_clocks(1, 100)": SEVEN,
    "device_get_retired_pages(1, 0)": SEVEN,
    "device_get_supported_performance_states(1)": [0, 4, 8] + [32] * 13,
    "device_get_cpu_affinity(1, 3)": [1, 2, 4],
    "device_get_cpu_affinity_within_scope(1, 3, 0)": [1, 2, 4],
    "device_get_memory_affinity(1, 3, 0)": [1, 2, 4],
}
STRUCTS = {
    "device_get_compute_running_processes_v3(1)": "pid",
    "device_get_graphics_running_processes_v3(1)": "pid",
    "device_get_mps_compute_running_processes_v3(1)": "pid",
    "device_get_encoder_sessions(1)": "session_id",
    "device_get_fbc_sessions(1)": "session_id",
    "vgpu_instance_get_encoder_sessions(1)": "session_id",
    "vgpu_instance_get_fbc_sessions(1)": "session_id",
    "device_get_gpu_instance_possible_placements_v2(1, 0)": "start",
    "gpu_instance_get_compute_instance_possible_placements(1, 0)": "start",
    "device_get_vgpu_process_utilization(1, 0)": "vgpu_instance",
    "device_get_process_utilization(1, 0)": "pid",
    "system_get_hic_version()": "hwbc_id",
}
TEXTS = {
    "device_get_name(1)": "a device",
    "device_get_uuid(1)": "GPU-1",
    "system_get_driver_version()": "999.1",
    "vgpu_type_get_class(1)": "a class",
    "vgpu_type_get_name(1)": "a type",
    "vgpu_instance_get_gpu_pci_id(1)": "0000:01",
    "device_get_pgpu_metadata_string(1)": "metadata",
}
OTHERS = """
kind, samples = nvml.device_get_samples(1, 0, 0)
assert (kind, [int(s.time_stamp) for s in samples]) == (nvml.ValueType.UNSIGNED_INT, SEVEN), (kind, samples)
assert [[int(x) for x in part] for part in nvml.device_get_retired_pages_v2(1, 0)] == [SEVEN, SEVEN]
kind, samples = nvml.device_get_vgpu_utilization(1, 0)
assert [int(s.vgpu_instance) for s in samples] == SEVEN
assert nvml.device_get_encoder_stats(1) == (1, 2, 3)
assert nvml.device_get_vgpu_metadata(1).version == 5 and nvml.vgpu_instance_get_metadata(1).version == 6
fields = nvml.device_get_field_values(1, [12, (13, 4), 5000])
assert [int(f.field_id) for f in fields] == [12, 13, 5000] and [f.value.ui_val for f in fields][:2] == [120, 134]
assert [int(f.nvml_return) for f in fields] == [0, 0, int(nvml.Return.ERROR_NOT_SUPPORTED)]
one = nvml.FieldValue(1)
one.field_id = 7
assert nvml.device_get_field_values(1, one) is one and one.value.ui_val == 70
assert len(nvml.device_get_field_values(1, [91])) == 1 and list(nvml.device_get_field_values(1, [])) == []
assert [int(f.nvml_return) for f in nvml.device_clear_field_values(1, [1, 2])] == [0, 0]
for wrong in ("text", [None], 3, [(1, 2, 3)]):
    try:
        nvml.device_get_field_values(1, wrong)
    except (TypeError, ValueError):
        continue
    raise AssertionError(wrong)
"""


def run(program: str) -> str:
    # The dynamic linker finds NVML; CUCORE_DEVICE must not select that of the CPU device.
    environment = {name: value for name, value in os.environ.items() if name != "CUCORE_DEVICE"}
    environment["LD_LIBRARY_PATH"] = doubles.path()
    text = f"from cuda.bindings import nvml\nSEVEN = {SEVEN}\n" + program
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """Runs all calls in one process: the result or exception of each."""
    lines = ["def said(call):", "    try: return call()", "    except Exception as error: return repr(error)"]
    lines += [f"print({call!r}, '|', said(lambda: [int(x) for x in nvml.{call}]))" for call in NUMBERS]
    lines += [f"print({c!r}, '|', said(lambda: [int(x.{field}) for x in nvml.{c}]))" for c, field in STRUCTS.items()]
    lines += [f"print({call!r}, '|', said(lambda: nvml.{call}))" for call in TEXTS]
    return dict(line.split(" | ") for line in run("\n".join(lines)).splitlines())


@pytest.mark.parametrize("call", [*NUMBERS, *STRUCTS, *TEXTS])
def test_array_query_returns_the_values_of_the_library(answers: dict[str, str], call: str) -> None:
    assert answers[call] == str(NUMBERS.get(call, TEXTS.get(call, SEVEN)))


def test_samples_structs_and_field_values_are_returned() -> None:
    run(OTHERS)
