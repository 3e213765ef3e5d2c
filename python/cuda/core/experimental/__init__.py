# SPDX-License-Identifier: Apache-2.0
"""The older name of cuda.core, up to 0.7: the same objects, including names that have moved since."""

from __future__ import annotations

import cuda.core as _core_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Names of 0.2 to 0.7 and their present modules.
_MOVED = {
    "Graph": "cuda.core.graph",
    "GraphBuilder": "cuda.core.graph",
    "GraphCompleteOptions": "cuda.core.graph",
    "GraphDebugPrintOptions": "cuda.core.graph",
    "system": "",
    "utils": "",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MOVED:
        home = _MOVED[name]
        value = getattr(importlib.import_module(home), name) if home else importlib.import_module(f"{__name__}.{name}")
    elif name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        value = getattr(_core_package, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*dir(_core_package), *_MOVED})
