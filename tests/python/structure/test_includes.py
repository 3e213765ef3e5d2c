# SPDX-License-Identifier: Apache-2.0
"""Includes inside cpu/ point one way: api -> graph, image -> device -> exec -> engine -> ptx, with base and mem below all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
SOURCES = (".hpp", ".cpp", ".def", ".S")
RENDERED = re.compile(r"[a-z_]+\.inc|cucore/abi/[a-z]+\.h|cucpu/exports\.hpp|protection\.hpp")  # in the build folder
SHARED = "cucore/container.hpp"  # what the library puts into containers, and the device reads

# folder: the folders that its files may include
ALLOWED = {
    "trace": set(),
    "mem": {"trace"},
    "base": {"mem"},
    "ptx": set(),
    "engine": {"base", "mem", "ptx", "trace"},
    "exec": {"base", "engine", "mem", "trace"},
    "device": {"base", "engine", "exec", "mem", "trace"},
    "graph": {"base", "device", "engine", "exec", "mem", "trace"},
    "image": {"base", "engine", "mem"},
    "api": {"base", "device", "engine", "exec", "graph", "image", "mem", "trace"},
    "cupti": {"trace"},
    "nccl": set(),
    "nvml": {"base", "mem"},
    "ptxas": {"base", "image", "ptx"},
}

# The interface of the engine: what the folders above it may include of it.
ENGINE_INTERFACE = {
    "engine/engine.hpp": "modules, kernels, launches and hooks",
    "engine/device_heap.hpp": "malloc in kernels, implemented by contexts",
    "engine/graph_launch.hpp": "graph launches by kernels, implemented by cpu/graph",
    "engine/explain.hpp": "how a kernel is compiled, for `cucore explain`",
    "engine/peer_access.hpp": "peer access checks, implemented by cpu/device",
    "engine/check/kinds.hpp": "which checks the environment switches on",
    "engine/check/operations.hpp": "what orders operations of streams, for race checks between them",
    "engine/check/routine_access.hpp": "checks of textures, whose memory cpu/device knows",
    "engine/run/detached_thread.hpp": "named host threads with all signals blocked",
    "engine/run/try_access.hpp": "memory accesses that report a fault",
    "engine/schedule/options.hpp": "whether the environment asks for random schedules",
    "engine/runtime/tensor_map.hpp": "layout of the opaque bytes of a tensor map",
    "engine/runtime/texture.hpp": "state of a texture object that device code reads",
}


def includes() -> Iterator[tuple[str, str]]:
    """Each (file below cpu/, spelling of an include with quotes)."""
    for file in sorted((ROOT / "cpu").rglob("*")):
        if file.suffix in SOURCES:
            for name in INCLUDE.findall(file.read_text()):
                yield str(file.relative_to(ROOT / "cpu")), name


def folder_edges() -> Iterator[tuple[str, str, str, str]]:
    """Each (file, included file, folder, included folder) between two folders, all relative to cpu/."""
    for file, name in includes():
        if name.startswith("cpu/"):
            included = name.removeprefix("cpu/")
            folder, target = str(Path(file).parent), str(Path(included).parent)
            if folder != target:
                yield file, included, folder, target


def reachable(edges: set[tuple[str, str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        at = waiting.pop()
        for source, target in edges:
            if source == at and target not in found:
                found.add(target)
                waiting.append(target)
    return found


def test_every_include_is_spelled_from_the_project_root() -> None:
    wrong = [
        (file, name)
        for file, name in includes()
        if name != SHARED and not RENDERED.fullmatch(name) and not (name.startswith("cpu/") and (ROOT / name).is_file())
    ]
    assert wrong == []


def test_every_folder_of_cpu_has_a_row() -> None:
    folders = {p.name for p in (ROOT / "cpu").iterdir() if p.is_dir() and any(p.rglob("*.[ch]pp"))}
    assert folders == set(ALLOWED)


def test_the_table_of_folders_has_no_cycle() -> None:
    edges = {(source, target) for source, targets in ALLOWED.items() for target in targets}
    assert [folder for folder in ALLOWED if folder in reachable(edges, folder)] == []


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_includes_only_folders_below_it(folder: str) -> None:
    wrong = [
        (file, included)
        for file, included, source, target in folder_edges()
        if source.split("/")[0] == folder and target.split("/")[0] not in ALLOWED[folder] | {folder}
    ]
    assert wrong == []


def test_folders_above_the_engine_include_only_its_interface() -> None:
    wrong = [
        (file, included)
        for file, included, source, target in folder_edges()
        if target.split("/")[0] == "engine" and source.split("/")[0] != "engine" and included not in ENGINE_INTERFACE
    ]
    assert wrong == []


def engine_node(file: str) -> str:
    """The sub-folder of a file of the engine. Interface headers in its root are below all of it, other files there above."""
    folder = str(Path(file).parent)
    return "engine interface" if folder == "engine" and file in ENGINE_INTERFACE else folder


def test_the_folders_of_the_engine_have_no_include_cycle() -> None:
    edges = {
        (engine_node(file), engine_node(included))
        for file, included, source, target in folder_edges()
        if source.startswith("engine") and target.startswith("engine")
    }
    cyclic = {(source, target) for source, target in edges if source in reachable(edges, target)}
    assert cyclic == set()
