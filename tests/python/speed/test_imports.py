# SPDX-License-Identifier: Apache-2.0
"""Import cost in numbers of modules and shared libraries. Times are not tested, because machines differ."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROBE = """
import json, sys

def libraries():
    with open("/proc/self/maps") as maps:
        return {line.split()[-1] for line in maps if ".so" in line}

before = set(sys.modules), libraries()
import MODULE
print(json.dumps([sorted(set(sys.modules) - before[0]), sorted(libraries() - before[1])]))
"""

# Maximum of each import. cuda.core resolves names on first use; the others load one extension module, libcucore.so and the
# C++ runtime (three libraries on most systems).
LIMITS = {
    "cuda.core": (5, 0),
    "cuda.bindings.driver": (9, 6),
    "cuda.bindings.runtime": (9, 6),
    "cuda.bindings.nvrtc": (9, 6),
    "cuda.pathfinder": (12, 6),
}


def brought(module: str) -> tuple[list[str], list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.replace("MODULE", module)], capture_output=True, text=True, check=True
    )
    modules, libraries = json.loads(done.stdout)
    return modules, libraries


@pytest.mark.parametrize("module", LIMITS)
def test_import_loads_few_modules_and_libraries(module: str) -> None:
    modules, libraries = brought(module)
    most_modules, most_libraries = LIMITS[module]
    assert len(modules) <= most_modules, modules
    assert len(libraries) <= most_libraries, libraries


@pytest.mark.parametrize("module", LIMITS)
def test_import_loads_no_numpy_no_heavy_modules_and_no_driver(module: str) -> None:
    modules, libraries = brought(module)
    heavy = {"numpy", "typing", "dataclasses", "asyncio", "ctypes", "enum", "inspect", "logging", "re", "subprocess"}
    assert not heavy.intersection(modules)
    assert not [name for name in libraries if "libcuda." in name or "cucore_cpu" in name or "LLVM" in name]


def test_using_the_core_loads_one_extension_and_no_numpy() -> None:
    modules, libraries = brought(
        "cuda.core; cuda.core.Device, cuda.core.launch, cuda.core.Stream, cuda.core.LaunchConfig"
    )
    assert "numpy" not in modules and len(modules) <= 8, modules
    assert len(libraries) <= 6, libraries


def test_a_program_that_launches_a_kernel_imports_no_network_and_no_typing() -> None:
    modules, _ = brought(
        "cuda.core; cuda.core.Device, cuda.core.Program, cuda.core.DeviceMemoryResource, cuda.core.PinnedMemoryResource"
    )
    heavy = {"socket", "threading", "hashlib", "hmac", "typing", "enum", "multiprocessing", "numpy"}
    assert not heavy.intersection(modules)


def test_a_warning_imports_no_paths() -> None:
    """On a machine without a GPU, the first use of the driver warns."""
    modules, _ = brought("cucore.warning")
    assert not {"pathlib", "re", "urllib", "fnmatch"}.intersection(modules), modules


def test_folders_of_the_package_are_attributes() -> None:
    import cucore

    folders = {name for name in dir(cucore) if name.endswith("_FOLDER")}
    assert folders == {"LIBRARY_FOLDER", "CPU_DRIVER_FOLDER", "CUDART_FOLDER", "INCLUDE_FOLDER"}
    assert all(getattr(cucore, name).is_dir() for name in folders - {"CPU_DRIVER_FOLDER", "CUDART_FOLDER"})
    with pytest.raises(AttributeError, match="module 'cucore' has no attribute 'NO_FOLDER'"):
        _ = cucore.NO_FOLDER
