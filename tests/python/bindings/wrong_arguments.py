# SPDX-License-Identifier: Apache-2.0
"""Passes invalid values to every parameter of every function of a module and to every field of its structs; runs in a
separate process for test_wrong_types.py.

    python wrong_arguments.py MODULE

All other arguments are empty (None, 0, []), and the error is detected before the C function is called. Prints a line for
each parameter or field whose error does not name it, then "done" and the number of attempts.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from types import ModuleType
from typing import Any

from cuda.bindings import _bindings

# Role and Kind of src/python/bindings/rows.hpp
IN, IN_POINTER, TEXT, TEXT_ARRAY, CALLBACK, KERNEL, COUNT, IN_OUT, FILL = 0, 1, 6, 7, 8, 10, 20, 21, 24
RECORD = 14
UNSIGNED = {2, 4, 6, 8}
BITS = {1: 8, 2: 8, 3: 16, 4: 16, 5: 32, 6: 32, 7: 64, 8: 64}


class Wrong:
    """A type that no parameter accepts."""


def nothing(module: ModuleType, function: Any, role: int, kind: int, name: str) -> object:
    if role == IN and kind == RECORD:  # by value: only the documentation names the struct
        match = re.search(rf"^  {name}: (\w+)$", function.__doc__, re.M)
        assert match, name
        return getattr(module, match[1])()
    if role == TEXT:
        return b""
    if role in (IN, COUNT, IN_OUT):
        return 0.0 if kind in (9, 10) else 0
    return None


def tries(role: int, kind: int) -> list[object]:
    made: list[object] = [Wrong()]
    if role == IN and kind in UNSIGNED:
        made += [-1, 1 << BITS[kind]]
    elif role == IN and kind in BITS:
        made += [1 << BITS[kind], -(1 << BITS[kind])]
    elif role in (TEXT, TEXT_ARRAY, KERNEL):
        made.append(1.5)
    return made


ODD = [
    None,
    -1,
    1 << 70,
    float("nan"),
    "text",
    b"x" * 70000,
    [],
    [None],
    ["a"] * 300,
    (),
    {},
    lambda *a: None,
    type,
    ((1,), (None,)),
]


def fields(module: ModuleType) -> int:
    """Assigns unusual values to every field: each is accepted or raises an error that names the field; repr() always works."""
    tried = 0
    for name in module.__all__:
        cls = getattr(module, name)
        if not (inspect.isclass(cls) and issubclass(cls, _bindings.Record)):
            continue
        names = [n for n in dir(cls) if not n.startswith("_") and inspect.isdatadescriptor(getattr(cls, n))]
        for field in names:
            record = cls()
            for odd in [Wrong(), *ODD]:
                tried += 1
                try:
                    setattr(record, field, odd)
                except (TypeError, ValueError, OverflowError, AttributeError) as error:
                    if field not in str(error):
                        print(f"{name}.{field} {type(error).__name__}: {error}")
                else:
                    if isinstance(odd, Wrong):
                        print(f"{name}.{field}: {odd!r} was taken")
                    getattr(record, field)
            str(record)
    return tried


def main() -> int:
    module = importlib.import_module(sys.argv[1])
    described = sys.argv[1].removesuffix(".raising")
    tried = fields(module)
    for name in sorted(module.__all__):
        function = getattr(module, name)
        if not inspect.isbuiltin(function):
            continue
        arguments = list(inspect.signature(function).parameters)
        rows = {row[3]: row for row in _bindings.describe(described, name) if row[3] >= 0}
        neutral = [
            nothing(module, function, rows[i][1], rows[i][2], a) if i in rows else 0 for i, a in enumerate(arguments)
        ]
        for i, argument in enumerate(arguments):
            for wrong in tries(*rows[i][1:3]) if i in rows else [Wrong()]:
                tried += 1
                given = [*neutral[:i], wrong, *neutral[i + 1 :]]
                try:
                    function(*given)
                except (TypeError, ValueError, OverflowError) as error:
                    if not str(error).startswith(f"{name}(): {argument}"):
                        print(f"{name} {argument} {type(error).__name__}: {error}")
                except Exception as error:
                    print(f"{name} {argument} {type(error).__name__}: {error}")
                else:
                    print(f"{name} {argument}: {wrong!r} was taken")
    print("done", tried)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
