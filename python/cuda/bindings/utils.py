# SPDX-License-Identifier: Apache-2.0
"""Utilities for the bindings: native handles, PTX versions, checks of the environment."""

from __future__ import annotations

import os
import re

from cuda.bindings import _bindings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_warned = False

# PTX version -> the first CUDA version (in the format of cuDriverGetVersion) whose driver supports it.
_PTX = {
    "1.0": 1000, "1.1": 1010, "1.2": 2000, "1.3": 2010, "1.4": 2020, "2.0": 3000, "2.1": 3010, "2.2": 3020, "2.3": 4000,
    "3.0": 4010, "3.1": 5000, "3.2": 5050, "4.0": 6000, "4.1": 6050, "4.2": 7000, "4.3": 7050, "5.0": 8000, "6.0": 9000,
    "6.1": 9010, "6.2": 9020, "6.3": 10000, "6.4": 10010, "6.5": 10020, "7.0": 11000, "7.1": 11010, "7.2": 11020,
    "7.3": 11030, "7.4": 11040, "7.5": 11050, "7.6": 11060, "7.7": 11070, "7.8": 11080, "8.0": 12000, "8.1": 12010,
    "8.2": 12020, "8.3": 12030, "8.4": 12040, "8.5": 12050, "8.6": 12070, "8.7": 12080, "8.8": 12090, "9.0": 13000,
    "9.1": 13010, "9.2": 13020, "9.3": 13030, "9.4": 13040, "9.5": 13050,
}  # fmt: skip


def envvar_bool(name: str, default: bool = False) -> bool:
    """Returns whether the environment variable has a value that means true; `default` if it is not set."""
    value = os.environ.get(name)
    if value is None:
        return default
    text = value.strip().lower()
    if text in ("1", "true", "yes", "on", "y", "t"):
        return True
    if text in ("", "0", "false", "no", "off", "n", "f"):
        return False
    raise ValueError(f"{name}={value!r} is neither yes (1, true, yes, on) nor no (0, false, no, off)")


def get_cuda_native_handle(obj: Any) -> int:
    """Returns the native handle of an object of cuda.bindings as an int."""
    if not isinstance(obj, _bindings.Handle):
        raise TypeError(f"{obj!r} is not a handle of cuda.bindings")
    return int(obj)


def get_ptx_ver(ptx: str) -> str:
    """Returns the version that a PTX module declares, for example "8.4"."""
    match = re.search(r"^\s*\.version\s+([0-9]+\.[0-9]+)", ptx, re.MULTILINE)
    if match is None:
        raise ValueError("the text has no .version line: it is not PTX")
    return match[1]


def get_minimal_required_cuda_ver_from_ptx_ver(ptx_version: str) -> int:
    """Returns the minimum CUDA version (12040 for 12.4) of a driver that supports this PTX version."""
    try:
        return _PTX[ptx_version]
    except KeyError:
        first, *_, last = _PTX
        raise ValueError(f"PTX version {ptx_version} is not known: {first} to {last} are") from None


def check_nvvm_compiler_options(options: Sequence[str]) -> bool:
    """Returns whether the installed libNVVM accepts these options; False if it is not installed."""
    from cuda.bindings import nvvm

    source = (
        'target triple = "nvptx64-unknown-cuda"\n'
        'target datalayout = "e-p:64:64:64-p3:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-'
        'f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"\n'
        "define void @cucore_probe() { ret void }\n"
    )
    try:
        major, minor, debug_major, debug_minor = nvvm.ir_version()
    except RuntimeError:
        return False
    source += f"!nvvmir.version = !{{!0}}\n!0 = !{{i32 {major}, i32 {minor}, i32 {debug_major}, i32 {debug_minor}}}\n"
    program = nvvm.create_program()
    try:
        nvvm.add_module_to_program(program, source, len(source), "probe")
        nvvm.compile_program(program, len(options), list(options))
    except nvvm.nvvmError as error:
        if error.status == nvvm.Result.ERROR_INVALID_OPTION:
            return False
        raise
    finally:
        nvvm.destroy_program(program)
    return True


def warn_if_cuda_major_version_mismatch() -> None:
    """Warns, once per process, if the driver is older than the CUDA version of this interface."""
    from cucore.warning import warn
    from cuda.bindings import driver

    global _warned
    if _warned or envvar_bool("CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING"):
        return
    _warned = True
    error, version = driver.cuDriverGetVersion()
    if error:
        raise RuntimeError(f"cuDriverGetVersion returned {error.name}")
    wanted = driver.CUDA_VERSION // 1000
    if version // 1000 < wanted:
        warn(
            f"cuda.bindings speaks CUDA {wanted}, but the driver supports CUDA {version // 1000} only: newer functions will "
            "not be found. Set CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING=1 to silence this warning."
        )
