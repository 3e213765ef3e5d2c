# SPDX-License-Identifier: Apache-2.0
"""Modules that create their names on first access behave like other modules."""

from __future__ import annotations

import importlib
import inspect
import pickle
import subprocess
import sys
from types import ModuleType

import pytest
from cuda.bindings import cufile, driver, nvml, nvrtc, runtime
from cuda.bindings.driver import raising

MODULES = [driver, runtime, nvrtc, nvml, cufile, raising]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_lazy_module_has_no_module_getattr(module: ModuleType) -> None:
    assert isinstance(module, ModuleType) and inspect.ismodule(module)
    assert "__getattr__" not in module.__dict__  # with it CPython would not use the specialized attribute lookup
    assert module.__name__ in repr(module)
    assert sys.modules[module.__name__] is module


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_unknown_name_raises_an_attribute_error_that_names_the_module(module: ModuleType) -> None:
    for name in ("no_such_name", "__no_such_name__"):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute '{name}'") as caught:
            getattr(module, name)
        assert caught.value.name == name and caught.value.obj is module
    assert not hasattr(module, "no_such_name")


def test_name_is_created_once() -> None:
    assert driver.cuDeviceGetCount is driver.cuDeviceGetCount
    assert driver.CUresult is driver.__dict__["CUresult"]


def test_a_name_can_be_replaced_and_restored_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> object:
        return driver.cuDeviceGetCount  # one code location, so that its inline cache is used

    original = count()
    for _ in range(100):
        assert count() is original
    monkeypatch.setattr(driver, "cuDeviceGetCount", "patched")
    assert count() == "patched"
    monkeypatch.undo()
    assert count() is original
    driver.__dict__["cuDeviceGetCount"] = "written"  # bypasses all attribute hooks
    assert count() == "written"
    driver.__dict__["cuDeviceGetCount"] = original
    assert count() is original
    del driver.cuDeviceGetCount
    assert callable(count())  # created again
    driver.cuDeviceGetCount = original


def test_equal_names_of_two_modules_are_separate_objects() -> None:
    for _ in range(50):
        assert driver.sizeof is runtime.sizeof and driver.__name__ != runtime.__name__
        assert driver.cuInit is not raising.cuInit and raising.cuInit is raising.cuInit


def test_computed_name_finds_the_same_object() -> None:
    for name in ("cuInit", "CUresult", "CUDA_VERSION"):
        computed = "".join(list(name))  # not interned
        assert getattr(driver, computed) is getattr(driver, name)


def test_a_module_can_be_reloaded() -> None:
    before = driver.CUresult
    assert importlib.reload(driver) is driver
    assert driver.CUresult is before and driver.cuInit is not None


def test_dir_and_star_import_contain_all_names() -> None:
    names: dict[str, object] = {}
    exec("from cuda.bindings.nvrtc import *", names)
    assert {"nvrtcVersion", "nvrtcResult"} <= names.keys()
    assert {"cuInit", "CUresult"} <= set(dir(driver))
    assert "no_such_name" not in dir(driver)


def test_functions_and_classes_pickle_by_name() -> None:
    for value in (driver.cuInit, driver.CUstream, driver.CUresult.CUDA_SUCCESS):
        assert pickle.loads(pickle.dumps(value)) == value


def test_import_creates_no_names() -> None:
    code = (
        "import sys; from cuda.bindings import driver; print(sum(n.startswith(('cu', 'CU')) for n in driver.__dict__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
