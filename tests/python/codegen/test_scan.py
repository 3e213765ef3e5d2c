# SPDX-License-Identifier: Apache-2.0
"""A scan of the headers equals the committed tables, which must not be edited manually."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import facts
import pytest
from factfile import read_facts

INCLUDE = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "include"


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
@pytest.mark.parametrize(
    "library", ["driver", "runtime", "nvrtc", "nvjitlink", "nvvm", "nvfatbin", "nvml", "cufile", "cupti"]
)
def test_scan_equals_the_committed_table_on_every_architecture(library: str, target: str) -> None:
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    committed = read_facts(facts.API / f"{library}.json")
    from scan import libraries

    wanted = ["cuda.h", "cudaProfiler.h", *libraries.LIBRARIES[library].headers]
    if not all((INCLUDE / header).exists() for header in wanted):
        pytest.skip("the CUDA header wheels are not installed")
    if f"CUDA_VERSION {read_facts(facts.API / 'driver.json')['version']}" not in (INCLUDE / "cuda.h").read_text():
        pytest.skip("the installed CUDA headers are of another version than the tables")
    scanned = json.loads(json.dumps(libraries.scan_library(library, INCLUDE, f"--target={target}")))
    for section in committed:
        assert scanned[section] == committed[section], section


def test_scan_reads_no_header_of_the_host() -> None:
    """Host headers are specific to an architecture, and some do not exist on others."""
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    from scan import libraries
    from scan.clang_reader import Reader

    if not (INCLUDE / "cuda.h").exists():
        pytest.skip("the CUDA header wheels are not installed")
    for name, library in libraries.LIBRARIES.items():
        if all((INCLUDE / header).exists() for header in library.headers):
            reader = Reader(library.source(), library.all_arguments(INCLUDE), library.wanted())
            read = {Path(str(included.include)) for included in reader.tu.get_includes()}
            known = (INCLUDE, libraries.foreign_headers())
            assert [path for path in read if not any(path.is_relative_to(folder) for folder in known)] == [], name


def test_versions_are_matched_from_the_newest_symbol() -> None:
    from scan import versions

    symbols = {"cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuStreamQuery", "cuStreamQuery_ptsz"}
    typedefs = {
        "PFN_cuCtxCreate_v2000",
        "PFN_cuCtxCreate_v3020",
        "PFN_cuCtxCreate_v11040",
        "PFN_cuStreamQuery_v2000",
        "PFN_cuStreamQuery_v7000_ptsz",
    }
    assert versions.versions_of_symbols(symbols, typedefs) == {
        "cuCtxCreate": 2000,
        "cuCtxCreate_v2": 3020,
        "cuCtxCreate_v3": 11040,
        "cuStreamQuery": 2000,
        "cuStreamQuery_ptsz": 7000,
    }


def test_macro_maps_a_name_to_a_symbol() -> None:
    from scan import versions

    macros = {"cuMemAlloc": ["cuMemAlloc_v2"], "cuMemcpy": ["__CUDA_API_PTDS", "(", "cuMemcpy", ")"], "OTHER": ["1"]}
    assert versions.name_of_symbol(macros, {"cuMemAlloc_v2", "cuMemcpy"}) == {"cuMemAlloc_v2": "cuMemAlloc"}


@pytest.mark.parametrize(
    ("signature", "roles"),
    [
        ("(hGraph, numNodes=0)", ["", "out_array numNodes", "inout_count"]),
        (
            "(hGraph, nodes: 'Optional[tuple[CUgraphNode] | list[CUgraphNode]]', numNodes)",
            ["", "in_array numNodes", "inout"],
        ),
        ("(hGraph)", ["", "out_array numNodes", "inout_count"]),
    ],
)
def test_roles_are_derived_from_the_python_signature(signature: str, roles: list[str]) -> None:
    from scan.roles import Assigner

    row = {"params": [["hGraph", "CUgraph"], ["nodes", "CUgraphNode *"], ["numNodes", "size_t *"]]}
    assert Assigner({"typedefs": {}, "structs": {}}, addresses=False).assign(row, signature)
    assert [" ".join(p[2:]) for p in row["params"]] == roles


def test_mismatched_signature_is_reported() -> None:
    from scan.roles import Assigner

    row = {"params": [["hGraph", "CUgraph"]]}
    assert not Assigner({"typedefs": {}, "structs": {}}, addresses=False).assign(row, "(hGraph, somethingElse)")
