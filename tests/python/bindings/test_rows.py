"""What the generator renders is data, and little of it: one row for a function, one for each parameter."""

from __future__ import annotations

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
    libraries = {name: facts.load(name) for name in ("driver", "nvrtc", "nvml")}
    types = renderer.all_types(libraries)
    return {name: renderer.Renderer(library, types[name], types) for name, library in libraries.items()}


def roles(rows: Any, library: str, function: str) -> list[str]:
    row = next(r for r in rows[library].functions if r.function.name == function)
    return [f"{p.name}:{p.role}" for p in row.params]


@pytest.mark.parametrize(
    ("library", "function", "expected"),
    [
        ("driver", "cuMemAlloc", ["dptr:out", "bytesize:in"]),
        ("driver", "cuDeviceGetName", ["name:out_chars", "length:in", "dev:in"]),
        ("driver", "cuMemcpyHtoD", ["dstDevice:in", "srcHost:in_void", "ByteCount:in"]),
        ("driver", "cuGraphGetNodes", ["hGraph:in", "nodes:out_counted", "numNodes:count"]),
        ("driver", "cuPointerGetAttribute", ["data:attribute_out", "attribute:in", "ptr:in"]),
        ("driver", "cuLaunchHostFunc", ["hStream:in", "fn:callback", "userData:user_data"]),
        ("nvrtc", "nvrtcGetPTX", ["prog:in", "ptx:fill"]),
        ("nvml", "nvmlDeviceGetName", ["device:in", "name:out_chars", "length:constant"]),
        ("nvml", "nvmlDeviceGetTemperatureV", ["device:in", "temperature:compose", "sensorType:field", "temperature:result_field"]),
    ],
)  # fmt: skip
def test_each_parameter_has_one_role(rows: Any, library: str, function: str, expected: list[str]) -> None:
    assert roles(rows, library, function) == expected


def test_a_function_is_one_line_and_a_line_per_parameter(rows: Any) -> None:
    text = rows["driver"].render()
    lines = [line for line in text.splitlines() if "cuStreamWaitEvent" in line and '"' not in line]
    assert len(lines) == 1 + 3
    assert max(len(line) for line in text.splitlines() if '"' not in line) < 260


def test_names_are_sorted_for_the_search(rows: Any) -> None:
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


def test_stubs_are_python(rows: Any) -> None:
    for library in rows.values():
        compile(bindings_stubs.Stubs(library).render(), f"{library.name}.pyi", "exec")
