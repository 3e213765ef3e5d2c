# SPDX-License-Identifier: Apache-2.0
"""Low-level bindings of CUDA's C APIs, rendered from the facts in `api/`. Modules are imported lazily, at first use."""

from __future__ import annotations

from os.path import exists as _exists

if (
    _exists(f"{__path__[0]}/../core/_resource_handles.pxd")
    or _exists(f"{__path__[0]}/../bindings/driver.pxd")
    or _exists(f"{__path__[0]}/../pathfinder/_dynamic_libs")
    or (
        _exists(__file__)
        and not (_exists(f"{__path__[0]}/../core/__init__.py") and _exists(f"{__path__[0]}/../pathfinder/__init__.py"))
    )
):  # files of NVIDIA's wheels are present, or files of this package are missing: both are installed in one directory
    from cucore.mixed import refuse

    refuse(__name__)

from cuda.bindings._version import __version__ as __version__

TYPE_CHECKING = False  # importing typing would take longer than everything else here
if TYPE_CHECKING:
    from typing import Any

_MODULES = frozenset({"driver", "runtime", "nvrtc", "nvjitlink", "nvvm", "nvfatbin", "nvml", "cufile", "cudla", "utils",
                      "cydriver", "cyruntime", "cynvrtc", "cynvjitlink", "cynvvm", "cynvml"})  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"cuda.bindings.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
