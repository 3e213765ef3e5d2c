# SPDX-License-Identifier: Apache-2.0
"""The generator renders one row per function and one row per parameter."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "codegen"))

import bindings as renderer
import bindings_stubs
import facts


@pytest.fixture(scope="module")
def rows() -> Any:
    libraries = {name: facts.load(name) for name in ("driver", "runtime", "nvrtc", "nvml")}
    types = renderer.all_types(libraries)
    return {name: renderer.Renderer(library, types[name], types) for name, library in libraries.items()}


@functools.lru_cache(maxsize=8)
def rendered_text(renderer_: Any) -> list[str]:
    return renderer_.render().splitlines()


def rendered(rows: Any, library: str) -> list[str]:
    return rendered_text(rows[library])


def roles(rows: Any, library: str, function: str) -> list[str]:
    row = next(r for r in rows[library].functions if r.function.name == function)
    return [f"{p.name}:{p.role}" for p in row.params]


# Examples that together use every role.
ONE_OF_EACH = [
    ("driver", "cuMemAlloc", ["dptr:out", "bytesize:in"]),
    ("driver", "cuDeviceGetName", ["name:out_chars", "length:in", "dev:in"]),
    ("driver", "cuMemcpyHtoD", ["dstDevice:in", "srcHost:in_void", "ByteCount:in"]),
    ("driver", "cuMemcpyDtoH", ["dstHost:out_void", "srcDevice:in", "ByteCount:in"]),
    ("driver", "cuMemcpy3D", ["pCopy:in_pointer"]),
    ("driver", "cuThreadExchangeStreamCaptureMode", ["mode:in_out"]),
    ("driver", "cuTexRefGetBorderColor", ["pBorderColor:out_array", "hTexRef:in"]),
    ("driver", "cuGraphGetNodes", ["hGraph:in", "nodes:out_counted", "numNodes:count"]),
    ("driver", "cuPointerGetAttribute", ["data:attribute_out", "attribute:in", "ptr:in"]),
    ("driver", "cuPointerGetAttributes", ["numAttributes:in", "attributes:in_array", "data:attributes_out", "ptr:in"]),
    ("driver", "cuCoredumpSetAttribute", ["attrib:in", "value:attribute_in", "size:size_of"]),
    ("driver", "cuDeviceGetByPCIBusId", ["dev:out", "pciBusId:text"]),
    ("driver", "cuModuleLoadData", ["module:out", "image:image"]),
    ("driver", "cuLinkCreate", ["numOptions:in", "options:in_array", "optionValues:options", "stateOut:out"]),
    ("driver", "cuLaunchHostFunc", ["hStream:in", "fn:callback", "userData:user_data"]),
    ("driver", "cuStreamGetCaptureInfo", [
        "hStream:in", "captureStatus_out:out", "id_out:out", "graph_out:out", "dependencies_out:out_owned",
        "edgeData_out:out_owned", "numDependencies_out:out",
    ]),
    ("runtime", "cudaLaunchKernelExC", ["config:in_pointer", "func:in_void", "args:kernel"]),
    ("nvrtc", "nvrtcCompileProgram", ["prog:in", "numOptions:in", "options:text_array"]),
    ("nvrtc", "nvrtcGetPTX", ["prog:in", "ptx:fill"]),
    ("nvrtc", "nvrtcGetSupportedArchs", ["supportedArchs:out_asked"]),
    ("nvml", "nvmlDeviceGetName", ["device:in", "name:out_chars", "length:constant"]),
    ("nvml", "nvmlSystemGetHicVersion", ["hwbc_count:asked", "hwbc_entries:out_counted"]),
    ("nvml", "nvmlDeviceClearFieldValues", ["device:in", "values_count:elements", "values:in_void"]),
    ("nvml", "nvmlDeviceGetTemperatureV", [
        "device:in", "temperature:compose", "sensorType:field", "temperature:result_field",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("library", "function", "expected"), ONE_OF_EACH, ids=[row[1] for row in ONE_OF_EACH])
def test_each_parameter_has_one_role(rows: Any, library: str, function: str, expected: list[str]) -> None:
    assert roles(rows, library, function) == expected


def test_every_role_has_an_example(rows: Any) -> None:
    used = {str(p.role) for library in rows.values() for row in library.functions for p in row.params}
    shown = {parameter.split(":")[1] for _, _, parameters in ONE_OF_EACH for parameter in parameters}
    assert used - shown == set()


@pytest.mark.parametrize(("library", "function", "expected"), ONE_OF_EACH, ids=[row[1] for row in ONE_OF_EACH])
def test_rendered_rows_of_an_example_match_its_roles(
    rows: Any, library: str, function: str, expected: list[str]
) -> None:
    """A function has one row with its number of parameters, and one row per parameter that begins with the name's offset."""
    text = rendered(rows, library)
    lines = [line for line in text if re.search(rf"(SLOT\({function}\)|\b{function}\)>>::invoke)", line)]
    parameters = [line for line in text if f"// {function}." in line]
    assert len(lines) == 1 and len(parameters) == len(expected)
    assert all(len(line) < 300 for line in [*lines, *parameters])
    for line, wanted in zip(parameters, expected, strict=True):
        assert f"Role::{wanted.split(':')[1]}" in line


def shown(rows: Any, library: str, function: str) -> str:
    """The rendered output of a function with names instead of numbers: C function, stub, parameter rows."""
    row = next(r for r in rows[library].functions if r.function.name == function)
    stub = next(s for s in stubs(rows[library]) if s.startswith(f"def {row.function.python or function}("))
    lines = [rows[library].prototype(row.function), stub]
    for p in row.params:
        numbers = {"argument": p.argument, "link": p.link, "extra": p.extra or "0"}
        unused = {"argument": -1, "link": -1, "extra": "0"}
        more = " ".join(f"{name}={value}" for name, value in numbers.items() if value != unused[name])
        lines.append(f"    {p.name}: {p.role} {p.value.kind} {p.value.cls} {more}".rstrip())
    return "\n".join(re.sub(r"(?<=\S)  +", " ", line) for line in lines) + "\n"


@functools.lru_cache(maxsize=8)
def stubs(renderer_: Any) -> list[str]:
    return bindings_stubs.Stubs(renderer_).render().splitlines()


def test_rendered_rows_match_the_committed_file(rows: Any) -> None:
    """rendered.txt documents the rendered rows. After an intended change, replace it with the text of this test's failure."""
    found = "\n".join(shown(rows, library, function) for library, function, _ in ONE_OF_EACH)
    committed = Path(__file__).with_name("rendered.txt").read_text().partition("\n\n")[2]
    assert found == committed


def test_function_has_one_row_and_one_row_per_parameter(rows: Any) -> None:
    text = rows["driver"].render()
    lines = [line for line in text.splitlines() if "cuStreamWaitEvent" in line and '"' not in line]
    assert len(lines) == 1 + 3
    assert max(len(line) for line in text.splitlines() if '"' not in line) < 260


def test_rendered_names_are_sorted(rows: Any) -> None:
    text = rows["driver"].render()
    block = re.search(r"kText\[\] =\n(.*?);\n", text, re.S)
    assert block is not None
    joined = (
        "".join(re.findall(r'"(.*?)\\0"', block[1], re.S)[:0])
        or "\0".join(re.findall(r'  "(.*?)\\0"', block[1])) + "\0"
    )
    offsets = [int(n) for n in re.findall(r"\{(\d+), Entry::", text)]
    names = [joined[o : joined.index("\0", o)] for o in offsets]
    assert names == sorted(names, key=str.encode)


def test_rendered_stubs_are_valid_python(rows: Any) -> None:
    for library in rows.values():
        compile(bindings_stubs.Stubs(library).render(), f"{library.name}.pyi", "exec")
