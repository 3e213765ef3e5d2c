# SPDX-License-Identifier: Apache-2.0
"""Format and consistency of the tables in api/."""

from __future__ import annotations

import re

import abi_header
import facts
import pytest
from factfile import dump_facts, read_facts

LIBRARIES = sorted(abi_header.HEADERS)
BASIC = {
    "void", "char", "signed", "unsigned", "short", "int", "long", "float", "double", "const", "struct", "union", "enum",
    "bool", "size_t", "ssize_t", "off_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "int8_t", "int32_t", "int64_t",
    "uintptr_t", "timespec", "sockaddr", "volatile",
}  # fmt: skip
ROLES = {
    "in", "in_string", "in_buffer", "fill_buffer", "in_struct", "inout_struct", "in_array", "in_ref", "in_attribute",
    "out_attribute", "out_attributes", "option_values", "kernel_params", "callback", "user_data", "out", "out_string",
    "out_buffer", "out_array", "inout", "inout_count", "inout_size", "implied", "address", "struct_address",
}  # fmt: skip


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> facts.Library:
    return facts.load(request.param)


@pytest.mark.parametrize("path", sorted([*facts.API.glob("*.json"), *(facts.API / "overlay").glob("*.json")]), ids=str)
def test_table_has_the_format_of_the_scanner(path: facts.Path) -> None:
    """One fact per line, sorted: otherwise the next scan would change every line."""
    if path.name in ("cpu_device.json", "ptx.json"):
        pytest.skip("has a form of its own")
    assert dump_facts(read_facts(path)) == path.read_text(encoding="utf-8")


def test_every_role_is_defined(library: facts.Library) -> None:
    assert {p.role for f in library.functions.values() for p in f.params} <= ROLES


def test_every_count_is_a_parameter_or_a_number(library: facts.Library) -> None:
    for function in library.functions.values():
        names = {p.name for p in function.params}
        for param in function.params:
            count = param.count.split("-")[0]
            assert not count or count.isdigit() or count in names, f"{function.name}({param.name})"


def test_every_type_is_defined(library: facts.Library) -> None:
    driver = facts.load("driver")  # cuFile uses its types
    known = BASIC | tags(library) | set(library.typedefs) | set(driver.typedefs)
    for function in library.symbols().values():
        for type_ in (function.returns, *(p.type for p in function.params)):
            unknown = set(re.findall(r"[A-Za-z_]\w*", type_)) - known
            assert not unknown, f"{function.name}: {type_}"


def tags(library: facts.Library) -> set[str]:
    handles = {m for t in library.typedefs.values() for m in re.findall(r"struct (\w+)", t.type)}
    return set(library.records) | set(library.enums) | handles


def test_fields_lie_inside_their_record(library: facts.Library) -> None:
    for record in library.records.values():
        for item in record.fields:
            assert 0 <= item.offset < max(record.size, 1), f"{record.name}.{item.name}"


def test_driver_functions_have_their_first_version() -> None:
    driver = facts.load("driver")
    for function in driver.symbols().values():
        assert 2000 <= function.since <= driver.version, function.name


def test_waiting_functions_block_and_queries_do_not() -> None:
    driver = facts.load("driver").functions
    for name in ("cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoH", "cuModuleLoadData", "cuLaunchKernel"):
        assert driver[name].blocks, name
    for name in ("cuDeviceGetCount", "cuStreamQuery", "cuEventRecord", "cuCtxGetCurrent"):
        assert not driver[name].blocks, name


def test_overlay_role_replaces_the_scanned_one() -> None:
    function = facts.load("driver").functions["cuMemPoolGetAttribute"]
    assert [(p.name, p.role, p.count) for p in function.params] == [
        ("pool", "in", ""),
        ("attr", "in", ""),
        ("value", "out_attribute", "attr"),
    ]


def test_overlay_of_an_unknown_function_raises() -> None:
    with pytest.raises(KeyError):
        facts.merge({"functions": {}}, {"roles": {"cuMadeUp": {"x": "out"}}})


def test_functions_of_other_libraries_have_their_first_release() -> None:
    runtime = facts.load("runtime").functions
    assert runtime["cudaGetKernel"].since == 12010
    assert runtime["cudaGraphConditionalHandleCreate"].since == 12030
    assert runtime["cudaMalloc"].since == 0  # older than all scanned headers
