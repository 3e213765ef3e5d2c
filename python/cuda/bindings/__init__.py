"""Low-level bindings to CUDA's C APIs, rendered from the facts in `api/`. Each module is loaded when it is first named."""

from __future__ import annotations

from os.path import exists as _exists

from cuda.bindings._version import __version__ as __version__

if _exists(f"{__path__[0]}/driver.pxd"):  # a file of NVIDIA's wheel: both were installed into one folder
    from cucore.mixed import refuse

    refuse(__name__)

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
