# SPDX-License-Identifier: Apache-2.0
"""NumPy dtypes of the structs: `nvml.memory_v2_dtype` has the layout of `nvml.Memory_v2`. Requires NumPy."""

from __future__ import annotations

from cuda.bindings import _bindings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Kind (rows.hpp) -> NumPy type
_NUMBERS = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "i8",
    8: "u8",
    9: "f4",
    10: "f8",
    11: "i4",
    12: "i4",
}
_RECORD, _BYTES, _TEXTS = 14, 18, (17, 19)


def find(module: str, name: str) -> Any:
    """Returns the dtype called `name`: that of the class with the same name, ignoring case and underscores."""
    wanted = name.removesuffix("_dtype").replace("_", "")
    for candidate in _bindings.names(module):
        if candidate[0].isupper() and candidate.replace("_", "").lower() == wanted:
            cls = _bindings.attribute(module, candidate)
            if isinstance(cls, type) and issubclass(cls, _bindings.Record):
                return dtype_of(cls)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def dtype_of(cls: Any) -> Any:
    import numpy

    size, fields = _bindings.layout(cls)
    names, formats, offsets = [], [], []
    for name, offset, kind, inner, length in fields:
        if kind == _RECORD:
            part = dtype_of(inner)
        elif kind in _TEXTS or kind == _BYTES:
            part = numpy.dtype("i1" if kind in _TEXTS else "u1")
        else:
            part = numpy.dtype(_NUMBERS.get(kind, "i8"))  # pointers
        names.append(name)
        formats.append((part, (length,)) if length else part)
        offsets.append(offset)
    return numpy.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
