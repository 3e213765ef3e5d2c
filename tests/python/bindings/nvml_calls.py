# SPDX-License-Identifier: Apache-2.0
"""Calls every function of cuda.bindings.nvml in a process whose NVML records its arguments; see test_nvml_calls.py.

    python nvml_calls.py LIBRARY

Prints a line for each function: its name, and "ok", "own" (the double implements it) or the error.
"""

from __future__ import annotations

import ctypes
import inspect
import sys

from cuda.bindings import _bindings, nvml

# Role and Kind of src/python/bindings/rows.hpp
IN, IN_ARRAY, IN_VOID, TEXT = 0, 2, 3, 6
POINTERS = {IN_VOID, TEXT, 15, 16, 17, 29}  # out, out_chars, out_array, compose; out_counted first calls with null
BYTES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 8, 8: 8}


def functions() -> list[str]:
    made = ((name, getattr(nvml, name)) for name in nvml.__all__)
    return [name for name, f in made if inspect.isbuiltin(f)]


def called(name: str, library: ctypes.CDLL) -> str:
    rows = _bindings.describe("cuda.bindings.nvml", name)
    arguments = list(inspect.signature(getattr(nvml, name)).parameters)
    values: list[object] = [3 + position for position in range(len(arguments))]  # numbers, and fields of structs
    for _, role, _, argument, _ in rows:
        if argument >= 0 and role == TEXT:
            values[argument] = "text"
        elif argument >= 0 and role in (IN_VOID, IN_ARRAY):
            values[argument] = bytearray(1 << 16)
    library.double_forget()
    try:
        getattr(nvml, name)(*values)
    except TypeError as error:  # fields that are text or bytes
        wrong = next(i for i, argument in enumerate(arguments) if f"{argument} must be bytes" in str(error))
        values[wrong] = "text" if "or str" in str(error) else b"bytes"
        getattr(nvml, name)(*values)
    given = library.double_last_arguments()
    symbol = library.double_last_name().decode()
    if not symbol:
        return "own"
    if name.replace("_", "") not in symbol.lower().replace("_", ""):
        return f"{symbol} was called"
    for position, (parameter, role, kind, argument, _) in enumerate(rows):
        word = given[position]
        if role == IN and argument >= 0:
            mask = (1 << 8 * BYTES.get(kind, 4)) - 1
            if word & mask != values[argument]:
                return f"{parameter} was {word:#x} instead of {values[argument]}"
        elif role in POINTERS and word == 0:
            return f"{parameter} was null"
    return "ok"


def main() -> int:
    library = ctypes.CDLL(sys.argv[1])
    library.double_last_name.restype = ctypes.c_char_p
    library.double_last_arguments.restype = ctypes.POINTER(ctypes.c_uint64)
    for name in functions():
        try:
            said = called(name, library)
        except Exception as error:
            said = repr(error)
        print(name, said, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
