# SPDX-License-Identifier: Apache-2.0
"""The headers of each library, and the conversion of their declarations to the tables of api/."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from scan import pythonic, roles, surface, versions
from scan.clang_reader import Reader, Row, Unit, evaluate_macros

Facts = dict[str, Any]
NOT_CONSTANTS = re.compile(
    r"__.*|.*_H_?|.*_H_INCLUDED|CUDAAPI|CUDA_CB|.*_HAS_BEEN_DEFINED|PFN_.*|DECLDIR|NVML_INTERNAL.*|GL_VERSION"
)


@dataclass(frozen=True)
class Library:
    """Headers of one library. A group is a separate interop header (GL, EGL ...) that may not be installed."""

    headers: tuple[str, ...]
    returns: str = "CUresult"
    version_macro: str = ""
    types: tuple[str, ...] = ()  # further headers whose declarations are included
    arguments: tuple[str, ...] = ()
    groups: dict[str, str] = field(default_factory=dict)  # header -> group
    prefix: str = ""  # prefixes that the Python module removes from C names, if it renames
    has_bindings: bool = True  # cuda.bindings has a module for it

    def source(self) -> str:
        headers = [*self.headers, *(h for h in self.groups if "/" not in h)]
        return "".join(f"#include <{h}>\n" for h in headers)

    def wanted(self) -> set[str]:
        return {Path(h).name for h in (*self.headers, *self.types, *self.groups)}

    def read(self, include: Path, *extra: str) -> Unit:
        return Reader(self.source(), self.all_arguments(include, *extra), self.wanted()).read()

    def all_arguments(self, include: Path, *extra: str) -> list[str]:
        return ["-std=c11", "-nostdinc", f"-I{include}", f"-I{foreign_headers()}", *self.arguments, *extra]

    def group_of(self, header: str) -> str:
        return next((g for h, g in self.groups.items() if Path(h).name == header), "")


def scan_library(name: str, include: Path, *extra: str) -> Facts:
    """All facts of one library. `extra` holds compiler arguments, for example another target."""
    library = replace(LIBRARIES[name], arguments=(*LIBRARIES[name].arguments, *extra))
    unit = library.read(include)
    facts: Facts = {
        "library": name,
        "version": 0,
        "headers": " ".join([*library.headers, *library.types]),
        "returns": library.returns,
        "functions": {n: function_facts(library, row) for n, row in unit.functions.items() if n[0] != "_"},
        "structs": unit.structs,
        "enums": {n: row for n, row in unit.enums.items() if n},
        "typedefs": {n: row for n, row in unit.typedefs.items() if not n.startswith("PFN_")},
        "constants": constants(library, include, unit),
    }
    add_type_macros(unit, facts)
    if library.version_macro:
        facts["version"] = facts["constants"][library.version_macro]["value"]
    if name == "driver":
        add_driver_versions(library, include, unit, facts)
    elif name == "runtime":
        add_runtime_variants(library, include, facts)
    elif name == "nvml":
        add_nvml_versions(library, include, unit, facts)
    add_groups(library, unit, facts)
    if library.has_bindings:
        add_roles(name, library, facts)
    return facts


def add_roles(name: str, library: Library, facts: Facts) -> None:
    """Adds roles from the Python signatures; functions without a signature get roles from their types."""
    python = surface.read_surface(name)
    symbols = [row.get("symbol", n) for n, row in facts["functions"].items()]
    renamed = surface.python_names(symbols, library.prefix, python) if library.prefix else {}
    assigner = roles.Assigner(facts, addresses=bool(library.prefix))
    for function, row in facts["functions"].items():
        symbol = row.get("symbol", function)
        python_name = renamed.get(symbol, symbol if symbol in python["functions"] else function)
        signature = python["functions"].get(python_name)
        if library.prefix and signature is not None:
            row["python"] = python_name
        if not assigner.assign(row, signature):
            row["python_args"] = [a.name for a in surface.parse_signature(signature or "()")]
    if library.prefix:
        facts["python_enums"] = pythonic.python_enums(facts, python, library.prefix)
        facts["python_structs"] = pythonic.python_structs(facts, python, library.prefix)
    else:
        facts["anonymous"] = pythonic.anonymous_classes(facts, python)


def add_groups(library: Library, unit: Unit, facts: Facts) -> None:
    for section in ("functions", "older", "structs", "enums", "typedefs", "constants"):
        for name, row in facts.get(section, {}).items():
            group = library.group_of(unit.header_of.get(name, "") or unit.header_of.get(row.get("symbol", ""), ""))
            if group:
                row["group"] = group


def add_type_macros(unit: Unit, facts: Facts) -> None:
    """Converts macros that name a type to typedefs: '#define cudaStreamAttrID cudaLaunchAttributeID'."""
    for name, tokens in unit.macros.items():
        if len(tokens) != 1 or name in facts["typedefs"]:
            continue
        target = tokens[0]
        if target in facts["typedefs"] or facts["structs"].get(target, facts["enums"].get(target, {})).get(
            "typedef_only"
        ):
            facts["typedefs"][name] = {"type": target}
        elif target in facts["enums"]:
            facts["typedefs"][name] = {"type": f"enum {target}"}
        elif target in facts["structs"]:
            facts["typedefs"][name] = {"type": f"{facts['structs'][target]['kind']} {target}"}


def add_runtime_variants(library: Library, include: Path, facts: Facts) -> None:
    per_thread = library.read(include, "-DCUDA_API_PER_THREAD_DEFAULT_STREAM")
    for symbol in per_thread.functions:
        base, number, flavour = versions.split_symbol(symbol)
        name = base if number == 1 else f"{base}_v{number}"
        if flavour:
            facts["functions"][name]["per_thread"] = [flavour, 0]


def add_nvml_versions(library: Library, include: Path, unit: Unit, facts: Facts) -> None:
    """Maps names to versioned symbols (nvmlInit to nvmlInit_v2); first versions are moved to the section 'older'."""
    every = library.read(include, "-DNVML_NO_UNVERSIONED_FUNC_DEFS")
    names = {
        symbol: name
        for symbol, name in versions.name_of_symbol(unit.macros, set(unit.functions)).items()
        if versions.split_symbol(symbol)[0] == name
    }
    facts["functions"] = {
        names.get(symbol, symbol): {"symbol": symbol, **row} if symbol in names else row
        for symbol, row in facts["functions"].items()
    }
    facts["older"] = {n: function_facts(library, row) for n, row in every.functions.items() if n not in unit.functions}


# Minimal replacements, from public facts, of the foreign headers that CUDA's headers include. The C library's headers are
# replaced too: those of the host are specific to its architecture, and a scan must not depend on it.
FOREIGN_HEADERS = {
    "GL/gl.h": "#define GL_VERSION 0x1F02\ntypedef unsigned int GLuint; typedef unsigned int GLenum;",
    "EGL/egl.h": "typedef int EGLint;",
    "EGL/eglext.h": "typedef void *EGLStreamKHR; typedef void *EGLImageKHR; typedef void *EGLSyncKHR;",
    "vdpau/vdpau.h": "#include <stdint.h>\ntypedef uint32_t VdpDevice; typedef uint32_t VdpVideoSurface;"
    "typedef uint32_t VdpOutputSurface; typedef int VdpStatus; typedef uint32_t VdpFuncId;"
    "typedef VdpStatus VdpGetProcAddress(VdpDevice device, VdpFuncId function_id, void **function_pointer);",
    "stddef.h": "typedef __SIZE_TYPE__ size_t; typedef __PTRDIFF_TYPE__ ptrdiff_t; typedef __WCHAR_TYPE__ wchar_t;\n"
    "#define NULL ((void *)0)\n#define offsetof(type, member) __builtin_offsetof(type, member)",
    "stdint.h": "".join(
        f"typedef __{kind.upper()}{bits}_TYPE__ {kind}{bits}_t;\n"
        for kind in ("int", "uint")
        for bits in (8, 16, 32, 64)
    )
    + "typedef __INTPTR_TYPE__ intptr_t; typedef __UINTPTR_TYPE__ uintptr_t;",
    "stdbool.h": "#define bool _Bool\n#define true 1\n#define false 0",
    "limits.h": "#define CHAR_BIT __CHAR_BIT__\n"
    + "".join(
        f"#define {name}_MAX __{of}_MAX__\n#define {name}_MIN (-__{of}_MAX__ - 1)\n#define U{name}_MAX {unsigned}\n"
        for name, of, unsigned in (
            ("INT", "INT", "(__INT_MAX__ * 2U + 1U)"),
            ("LONG", "LONG", "(__LONG_MAX__ * 2UL + 1UL)"),
            ("LLONG", "LONG_LONG", "(__LONG_LONG_MAX__ * 2ULL + 1ULL)"),
        )
    ),
    "stdlib.h": "#include <stddef.h>\nvoid *malloc(size_t); void free(void *); void abort(void);",
    "string.h": "#include <stddef.h>",
    "sys/types.h": "#include <stddef.h>\ntypedef long off_t; typedef __PTRDIFF_TYPE__ ssize_t;"
    "typedef long loff_t; typedef long time_t;",
    "sys/socket.h": "#include <sys/types.h>\nstruct sockaddr;",
    "arpa/inet.h": "#include <stdint.h>\n#include <sys/socket.h>",
}


@lru_cache
def foreign_headers() -> Path:
    """A folder with FOREIGN_HEADERS as files."""
    folder = Path(tempfile.mkdtemp(prefix="cucore-scan-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, text in FOREIGN_HEADERS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"#pragma once\n{text}\n")
    return folder


def function_facts(library: Library, row: Row) -> Row:
    result = dict(row)
    if result.get("returns") == library.returns:
        del result["returns"]
    return result


def constants(library: Library, include: Path, unit: Unit) -> dict[str, Row]:
    names = [
        n
        for n, tokens in unit.macros.items()
        if not NOT_CONSTANTS.fullmatch(n) and not is_function_alias(tokens, set(unit.functions))
    ]
    values = evaluate_macros(names, library.source(), library.all_arguments(include))
    result: dict[str, Row] = {}
    for name in names:
        tokens = unit.macros[name]
        if name in values:
            result[name] = {"value": values[name]}
            if len(tokens) >= 5 and tokens[0] == "(" and tokens[1] == "(":
                result[name]["type"] = " ".join(tokens[2 : tokens.index(")")])
        elif len(tokens) == 1 and tokens[0].startswith('"'):
            result[name] = {"text": tokens[0][1:-1]}
    for value_name, value in unit.enums.get("", {"values": []})["values"]:
        result[value_name] = {"value": value}
    return result


def is_function_alias(tokens: list[str], functions: set[str]) -> bool:
    return any(t in functions or re.match(r"__CUDA(RT)?_API_PT", t) for t in tokens)


def add_driver_versions(library: Library, include: Path, unit: Unit, facts: Facts) -> None:
    """Adds names, versions and per-thread variants of driver symbols; older symbols are moved to the section 'older'."""
    internal = library.read(include, "-D__CUDA_API_VERSION_INTERNAL", "-D__CUDA_API_VERSION_INTERNAL_ODR")
    symbols = set(unit.functions) | set(internal.functions)
    since = versions.versions_of_symbols(symbols, set(unit.typedefs) | set(internal.typedefs))
    names = versions.name_of_symbol(unit.macros, set(unit.functions))
    functions: dict[str, Row] = {}
    older: dict[str, Row] = {}
    for symbol in symbols:
        base, _, flavour = versions.split_symbol(symbol)
        if flavour:
            continue
        row = function_facts(library, unit.functions.get(symbol) or internal.functions[symbol])
        row = {"since": since[symbol], **row}
        for variant in ("ptds", "ptsz"):
            if f"{symbol}_{variant}" in symbols:
                row["per_thread"] = [variant, since[f"{symbol}_{variant}"]]
        current = symbol in unit.functions
        name = names.get(symbol, symbol)
        if current and name != symbol:
            row = {"symbol": symbol, **row}
        if base != name:
            row["entry"] = base  # name for cuGetProcAddress
        if current:
            functions[name] = row
        else:
            older[symbol] = row
    missing = {s for s in symbols if versions.split_symbol(s)[2]} - {
        f"{r.get('symbol', n)}_{r['per_thread'][0]}"
        for n, r in [*functions.items(), *older.items()]
        if "per_thread" in r
    }
    if missing:
        raise RuntimeError(f"per-thread symbols without a base: {sorted(missing)}")
    facts["functions"] = functions
    facts["older"] = older
    unit.header_of = {**internal.header_of, **unit.header_of}
    for section in ("structs", "typedefs"):
        theirs = getattr(internal, section)
        mine = facts[section]
        for key, row in theirs.items():
            if key not in mine and not key.startswith("PFN_"):
                mine[key] = {**row, "older": True}


RUNTIME_TYPES = (
    "driver_types.h",
    "vector_types.h",
    "surface_types.h",
    "texture_types.h",
    "library_types.h",
    "device_types.h",
)
INTEROP_TYPES = {
    "GL/gl.h": "gl",
    "EGL/egl.h": "egl",
    "EGL/eglext.h": "egl",
    "vdpau/vdpau.h": "vdpau",
}

LIBRARIES = {
    "driver": Library(
        headers=("cuda.h", "cudaTypedefs.h"),
        version_macro="CUDA_VERSION",
        arguments=("-include", "vdpau/vdpau.h"),
        groups={
            **INTEROP_TYPES,
            "cudaGL.h": "gl",
            "cudaEGL.h": "egl",
            "cudaVDPAU.h": "vdpau",
            "cudaProfiler.h": "profiler",
            "cudaGLTypedefs.h": "gl",
            "cudaEGLTypedefs.h": "egl",
            "cudaVDPAUTypedefs.h": "vdpau",
            "cudaProfilerTypedefs.h": "profiler",
        },
    ),
    "runtime": Library(
        headers=("cuda_runtime_api.h",),
        returns="cudaError_t",
        version_macro="CUDART_VERSION",
        types=RUNTIME_TYPES,
        arguments=("-include", "GL/gl.h"),
        groups={
            **INTEROP_TYPES,
            "cuda_gl_interop.h": "gl",
            "cuda_egl_interop.h": "egl",
            "cuda_vdpau_interop.h": "vdpau",
            "cuda_profiler_api.h": "profiler",
        },
    ),
    "nvrtc": Library(headers=("nvrtc.h",), returns="nvrtcResult"),
    "nvjitlink": Library(
        prefix="nvJitLink", headers=("nvJitLink.h",), returns="nvJitLinkResult", arguments=("-DNVJITLINK_NO_INLINE",)
    ),
    "nvvm": Library(prefix="nvvm", headers=("nvvm.h",), returns="nvvmResult"),
    "nvfatbin": Library(prefix="nvFatbin", headers=("nvFatbin.h",), returns="nvFatbinResult"),
    "nvml": Library(prefix="nvml", headers=("nvml.h",), returns="nvmlReturn_t", version_macro="NVML_API_VERSION"),
    "cupti": Library(
        headers=(
            "cupti_result.h",
            "cupti_version.h",
            "cupti_callbacks.h",
            "cupti_activity.h",
            "cupti_driver_cbid.h",
            "cupti_runtime_cbid.h",
            "cupti_events.h",
            "cupti_metrics.h",
            "cupti_profiler_target.h",
            "cupti_profiler_host.h",
            "cupti_range_profiler.h",
            "cupti_pmsampling.h",
            "cupti_pcsampling.h",
            "cupti_sass_metrics.h",
            "cupti_target.h",
        ),
        types=("cupti_common.h",),
        returns="CUptiResult",
        version_macro="CUPTI_API_VERSION",
        has_bindings=False,
    ),
    "cufile": Library(prefix="cuFile", headers=("cufile.h",), returns="CUfileError_t", arguments=("-D_GNU_SOURCE",)),
}
