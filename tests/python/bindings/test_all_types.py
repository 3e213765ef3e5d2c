# SPDX-License-Identifier: Apache-2.0
"""Every function, struct, handle and enum of every module: docstrings, and the values that fields accept and return."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import _bindings

ROOT = Path(__file__).resolve().parents[3]
C_STYLE = ["driver", "runtime", "nvrtc"]
MODULES = [*C_STYLE, "nvjitlink", "nvvm", "nvfatbin", "nvml", "cufile", *(f"{name}.raising" for name in C_STYLE)]


def loaded(module: str) -> Any:
    return importlib.import_module(f"cuda.bindings.{module}")


def classes(module: str, base: type) -> Iterator[type]:
    made = loaded(module)
    for name in made.__all__:
        value = getattr(made, name)
        if isinstance(value, type) and issubclass(value, base):
            yield value


@pytest.mark.parametrize("module", MODULES)
def test_docstring_of_every_function_has_the_c_signature_and_parameter_roles(module: str) -> None:
    made = loaded(module)
    functions = [getattr(made, name) for name in made.__all__ if inspect.isroutine(getattr(made, name))]
    assert all(f.__doc__ for f in functions)
    functions = [f for f in functions if inspect.isbuiltin(f)]  # the others are implemented in Python
    assert len(functions) > 10
    for function in functions:
        prototype, *lines = function.__doc__.splitlines()
        assert re.fullmatch(r"[\w *]+ \**\w+\(.*\)", prototype), (function.__name__, prototype)
        if module in C_STYLE:
            assert re.search(rf"\b{function.__name__}\(", prototype), prototype
        roles = dict(line.strip().split(": ", 1) for line in lines if line.startswith("  ") and ": " in line)
        for parameter in inspect.signature(function).parameters:
            assert roles.get(parameter), f"{function.__name__}: nothing is said of {parameter}"
        assert all(": " in line for line in lines if line.startswith("  ")), function.__doc__


class Wrong:
    """A type that no field accepts."""


@pytest.mark.parametrize("module", ["driver", "runtime", "nvrtc", "nvml", "cufile"])
def test_every_field_accepts_its_value_and_names_itself_in_errors(module: str) -> None:
    count = 0
    for cls in classes(module, _bindings.Record):
        record = cls()
        for name in dir(cls):
            if name.startswith("_") or not inspect.isdatadescriptor(getattr(cls, name)):
                continue
            count += 1
            value = getattr(record, name)
            with pytest.raises((TypeError, ValueError, OverflowError, AttributeError)) as caught:
                setattr(record, name, Wrong())
            assert name in str(caught.value), f"{cls.__name__}.{name}: {caught.value}"
            if isinstance(caught.value, AttributeError):
                continue  # a read-only field
            setattr(record, name, value)
            assert str(getattr(record, name)) == str(value), f"{cls.__name__}.{name}"
        assert isinstance(repr(record), str) and isinstance(str(record), str)
    assert count > (5 if module in ("nvrtc", "cufile") else 300), count


@pytest.mark.parametrize("module", ["nvml", "cufile"])
def test_dtypes_have_the_layout_of_their_structs(module: str) -> None:
    """For every dtype with a struct: NumPy reads the same values from the struct's memory as its fields."""
    numpy = pytest.importorskip("numpy")
    made = loaded(module)
    facts = json.loads((ROOT / f"tests/compat/facts/cuda.bindings.{module}.json").read_text())
    names = sorted(name for name in re.findall(r"\w+_dtype", json.dumps(facts)) if hasattr(made, name))
    assert len(names) > (100 if module == "nvml" else 5)
    structs = {cls.__name__.lower().replace("_", ""): cls for cls in classes(module, _bindings.Record)}
    for name in names:
        dtype, cls = getattr(made, name), structs[name.removesuffix("_dtype").replace("_", "")]
        record = cls()
        assert isinstance(dtype, numpy.dtype) and dtype.itemsize == memoryview(record).nbytes, name
        view = numpy.frombuffer(memoryview(record), dtype=dtype)[0]
        for field in dtype.names:
            if not hasattr(record, field):
                continue  # how many elements of an array are in use: the array's length tells
            if dtype[field].kind in "iu" and not isinstance(getattr(record, field), (str, bytes)):
                assert int(view[field]) == int(getattr(record, field) or 0), f"{name}.{field}"
            if isinstance(getattr(record, field), bytes):
                assert dtype[field].subdtype[0] == numpy.dtype("u1"), f"{name}.{field}"


def test_binary_fields_are_bytes_and_pointers_are_signed_in_dtypes() -> None:
    nvml, numpy = loaded("nvml"), pytest.importorskip("numpy")
    report = nvml.ConfComputeGpuAttestationReport()
    report.nonce = bytes(range(200, 232))
    assert report.nonce == bytes(range(200, 232)) and report.attestation_report == b""
    with pytest.raises(ValueError, match="nonce holds 32 bytes, got 33"):
        report.nonce = bytes(33)
    assert nvml.PciInfo().bus_id == "" and nvml.gpu_instance_info_dtype["device_"] == numpy.dtype("i8")


@pytest.mark.parametrize("module", C_STYLE)
def test_every_handle_has_a_number_and_an_address(module: str) -> None:
    for cls in classes(module, _bindings.Handle):
        handle = cls(5)
        assert int(handle) == 5 and handle == cls(5) and handle != cls() and int(cls()) == 0
        assert handle.getPtr() and isinstance(repr(handle), str) and hash(handle) == hash(cls(5))
        with pytest.raises((TypeError, ValueError)):
            cls(Wrong())


@pytest.mark.parametrize("module", MODULES[:8])
def test_every_enum_member_has_a_number_and_a_name(module: str) -> None:
    enums = [cls for cls in classes(module, int) if hasattr(cls, "__members__")]
    assert enums
    for cls in enums:
        for name, member in cls.__members__.items():
            assert cls(int(member)) == member and isinstance(member, int) and getattr(cls, name) == member
            assert member.name in cls.__members__ and cls[name] is member
