# SPDX-License-Identifier: Apache-2.0
"""Deprecated module names and helper functions."""

from __future__ import annotations

import importlib
import sys

import pytest
from cuda.bindings import driver, nvvm, utils


@pytest.mark.parametrize(("old", "new"), [("cuda", "driver"), ("cudart", "runtime"), ("nvrtc", "nvrtc")])
def test_deprecated_module_warns_and_has_the_new_names(old: str, new: str) -> None:
    sys.modules.pop(f"cuda.{old}", None)
    with pytest.warns(DeprecationWarning, match=f"import cuda.bindings.{new} instead"):
        module = importlib.import_module(f"cuda.{old}")
    current = importlib.import_module(f"cuda.bindings.{new}")
    name = current.__all__[0]
    assert getattr(module, name) is getattr(current, name)
    assert name in dir(module)


@pytest.mark.parametrize("name", ["cydriver", "cyruntime", "cynvrtc", "cynvjitlink", "cynvvm", "cynvml"])
def test_the_cython_modules_can_be_imported(name: str) -> None:
    assert importlib.import_module(f"cuda.bindings.{name}")


def test_ptx_version_is_read_and_mapped_to_a_cuda_version() -> None:
    assert utils.get_ptx_ver("//\n.version 8.4\n.target sm_90\n") == "8.4"
    assert utils.get_minimal_required_cuda_ver_from_ptx_ver("8.4") == 12040
    with pytest.raises(ValueError, match=r"no \.version line"):
        utils.get_ptx_ver("int main() {}")
    with pytest.raises(ValueError, match=r"99\.9 is not known"):
        utils.get_minimal_required_cuda_ver_from_ptx_ver("99.9")


def test_environment_flag_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUCORE_TEST_FLAG", raising=False)
    assert utils.envvar_bool("CUCORE_TEST_FLAG", True) is True
    monkeypatch.setenv("CUCORE_TEST_FLAG", "0")
    assert utils.envvar_bool("CUCORE_TEST_FLAG", True) is False
    monkeypatch.setenv("CUCORE_TEST_FLAG", "maybe")
    with pytest.raises(ValueError, match="neither yes"):
        utils.envvar_bool("CUCORE_TEST_FLAG")


def test_nvvm_options_are_checked() -> None:
    try:
        nvvm.version()
    except RuntimeError as error:
        pytest.skip(str(error).splitlines()[0])
    assert utils.check_nvvm_compiler_options(["-arch=compute_90"]) is True
    assert utils.check_nvvm_compiler_options(["-no-such-option"]) is False


def test_current_driver_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    utils.warn_if_cuda_major_version_mismatch()
    assert [w for w in recwarn.list if "cuda.bindings speaks" in str(w.message)] == []


def test_native_handle_is_an_integer() -> None:
    assert utils.get_cuda_native_handle(driver.CUstream(4)) == 4
    with pytest.raises(TypeError):
        utils.get_cuda_native_handle(4)
