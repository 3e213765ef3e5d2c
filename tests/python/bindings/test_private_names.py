# SPDX-License-Identifier: Apache-2.0
"""Private names of NVIDIA's cuda.bindings that released packages import."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cuda.bindings import driver, nvjitlink, nvvm
from cuda.bindings._internal import _fast_enum
from cuda.bindings._internal import nvjitlink as nvjitlink_internal
from cuda.bindings._internal import nvvm as nvvm_internal
from cuda.bindings._internal.utils import FunctionNotFoundError, NotSupportedError


def test_enum_classes_are_found_where_numba_cuda_looks() -> None:
    assert issubclass(driver.CUresult, _fast_enum.FastEnum)
    assert isinstance(driver.CUresult, _fast_enum.FastEnumMetaclass)


def test_functions_of_a_library_have_addresses() -> None:
    nvjitlink.version()
    assert nvjitlink_internal._inspect_function_pointer("__nvJitLinkVersion") != 0
    assert nvvm_internal._inspect_function_pointer("__nvvmCreateProgram") != 0
    pointers = nvvm_internal._inspect_function_pointers()
    assert pointers["__nvvmVersion"] and len(pointers) >= 14
    assert nvvm.version()


def test_a_name_that_is_no_function_is_refused() -> None:
    for name in ("__nvvmNonsense", "nvvmVersion"):
        with pytest.raises(ValueError, match="__"):
            nvvm_internal._inspect_function_pointer(name)


def test_the_exceptions_are_runtime_errors() -> None:
    assert issubclass(FunctionNotFoundError, RuntimeError) and issubclass(NotSupportedError, RuntimeError)


def test_a_library_that_is_not_installed_says_where_it_was_looked_for() -> None:
    """In a process that finds no packages: the exception of cuda.pathfinder, with its reason."""
    code = """
import sys
import cuda.pathfinder as pathfinder
from cuda.bindings import cudla, nvfatbin
from cuda.bindings._internal import nvvm
for call in (nvfatbin.version, lambda: nvvm._inspect_function_pointer("__nvvmVersion"), cudla.get_version):
    try:
        call()
    except pathfinder.DynamicLibNotFoundError as error:
        assert isinstance(error, RuntimeError) and len(str(error)) > 40, error
    else:
        print("found:", call)
"""
    environment = {"PATH": "/usr/bin:/bin", "CUCORE_SITE_PACKAGES": "/nowhere", "HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
