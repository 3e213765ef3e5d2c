# SPDX-License-Identifier: Apache-2.0
"""Renders cucore/abi/<library>.h: the C ABI of a CUDA library, declared from the facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from c_types import declare, record_lines, sort_by_dependency
from facts import Constant, Enum, Function, Library, Record, Typedef


def prototype(symbol: str, function: Function) -> str:
    params = ", ".join(declare(p.type, p.name) for p in function.params)
    return f"{declare(function.returns, symbol)}({params or 'void'})"


def render_type(item: Record | Enum | Typedef) -> Iterator[str]:
    if isinstance(item, Typedef):
        yield f"typedef {declare(item.type, item.name)};"
    elif isinstance(item, Enum):
        wide = "__extension__ " if any(value > 0x7FFFFFFF for _, value in item.values) else ""  # for -Wpedantic in C
        yield wide + ("typedef enum {" if item.typedef_only else f"enum {item.name} {{")
        yield from (f"  {name} = {enumerator(value)}," for name, value in item.values)
        yield f"}} {item.name};" if item.typedef_only else "};"
    else:
        kind = f"{item.kind} CUCORE_ABI_PACKED({item.align})" if item.packed else item.kind
        yield f"typedef {kind} {{" if item.typedef_only else f"{kind} {item.name} {{"
        yield from record_lines(item)
        yield f"}} {item.name};" if item.typedef_only else "};"


def enumerator(value: int) -> str:
    if value == -(1 << 31):
        return "-2147483647 - 1"
    if value > 0xFFFFFFFF:
        return f"{value}ull"
    return f"{value}u" if value > 0x7FFFFFFF else str(value)


def render_constant(constant: Constant) -> str:
    if isinstance(constant.value, str):
        return f'#define {constant.name} "{constant.value}"'
    value = enumerator(constant.value)
    if constant.type:
        return f"#define {constant.name} (({constant.type}){value})"
    return f"#define {constant.name} {f'({value})' if value.startswith('-') else value}"


def render_guarded_types(library: Library, group: str) -> Iterator[str]:
    """Types in dependency order. A type that another CUDA header also defines is rendered under that header's guard."""
    for item in sort_by_dependency(library):
        if item.group != group:
            continue
        guard = library.guards.get(item.name)
        if guard:
            yield f"#ifndef {guard}"
        yield from render_type(item)
        if guard and isinstance(item, Typedef):
            yield f"#define {guard}"
        if guard:
            yield "#endif"


def render_mapping(library: Library, group: str) -> Iterator[str]:
    """Maps names to symbols as cuda.h does; CUDA_API_PER_THREAD_DEFAULT_STREAM selects the per-thread variants."""
    functions = [f for f in library.functions.values() if f.group == group]
    both = [f for f in functions if f.per_thread]
    lines = [f"#define {f.name} {f.symbol}" for f in functions if not f.per_thread and f.symbol != f.name]
    if both:
        lines += ["#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)"]
        lines += [f"#define {f.name} {f.per_thread}" for f in both]
        lines += ["#else"]
        lines += [f"#define {f.name} {f.symbol}" for f in both if f.symbol != f.name]
        lines += ["#endif"]
    if lines:
        yield "#if !defined(CUCORE_ABI_ALL_VERSIONS)"
        yield from lines
        yield "#endif"


def render_functions(library: Library, group: str) -> Iterator[str]:
    """Prototypes of all symbols. A first version whose name maps to a newer symbol requires CUCORE_ABI_ALL_VERSIONS."""
    mapped = {f.name for f in library.functions.values() if f.symbol != f.name}
    hidden: list[str] = []
    for symbol, function in library.symbols().items():
        if function.group != group:
            continue
        lines = [f"{prototype(s, function)};" for s in (symbol, function.per_thread) if s]
        if symbol in mapped:
            hidden += lines
        else:
            yield from lines
    if hidden:
        yield "#if defined(CUCORE_ABI_ALL_VERSIONS)"
        yield from hidden
        yield "#endif"


def push_visibility(library: Library) -> Iterator[str]:
    """Driver functions are exported by the CPU device; runtime functions are hidden in libcucore (CUCORE_ABI_HIDDEN)."""
    if library.name == "runtime":
        yield "#ifdef CUCORE_ABI_HIDDEN"
        yield "#pragma GCC visibility push(hidden)"
        yield "#else"
    else:
        yield "#ifdef __GNUC__"
    yield "#pragma GCC visibility push(default)"
    yield "#endif"


def render_part(library: Library, group: str, guards: tuple[str, ...], extra: tuple[str, ...]) -> Iterator[str]:
    """The declarations of one NVIDIA header under its include guard: the header that is included first takes effect."""
    yield f"#ifndef {guards[0]}  // else the real header came first and has declared all this"
    yield from (f"#define {g}" for g in guards)
    yield from extra
    yield from (render_constant(c) for c in library.constants.values() if c.group == group)
    yield from render_mapping(library, group)
    yield "#ifdef __cplusplus"
    yield 'extern "C" {'
    yield "#endif"
    yield from render_guarded_types(library, group)
    yield from push_visibility(library)
    yield from render_functions(library, group)
    yield "#ifdef __GNUC__"
    yield "#pragma GCC visibility pop"
    yield "#endif"
    yield "#ifdef __cplusplus"
    yield "}"
    yield "#endif"
    yield f"#endif  // {guards[0]}"


@dataclass(frozen=True)
class Header:
    """The structure of one library's header."""

    guards: tuple[str, ...]  # include guards of NVIDIA's headers; the first one is tested
    includes: tuple[str, ...]
    extra: tuple[str, ...] = ()
    group_guards: tuple[tuple[str, str], ...] = ()  # (group, include guard of NVIDIA's header)


HEADERS = {
    "driver": Header(
        guards=("__cuda_cuda_h__",),
        includes=("<stddef.h>", "<stdint.h>", "<stdlib.h>"),
        extra=("#define CUDAAPI", "#define CUDA_CB"),
        group_guards=(
            ("egl", "CUDAEGL_H"),
            ("gl", "CUDAGL_H"),
            ("profiler", "cuda_profiler_H"),
            ("vdpau", "CUDAVDPAU_H"),
        ),
    ),
    "runtime": Header(
        guards=(
            "__CUDA_RUNTIME_API_H__",
            "__DRIVER_TYPES_H__",
            "__VECTOR_TYPES_H__",
            "__SURFACE_TYPES_H__",
            "__TEXTURE_TYPES_H__",
            "__LIBRARY_TYPES_H__",
            "__DEVICE_TYPES_H__",
        ),
        includes=("<stddef.h>", "<stdint.h>"),
        group_guards=(
            ("egl", "__CUDA_EGL_INTEROP_H__"),
            ("gl", "__CUDA_GL_INTEROP_H__"),
            ("profiler", "__CUDA_PROFILER_API_H__"),
            ("vdpau", "__CUDA_VDPAU_INTEROP_H__"),
        ),
    ),
    "cupti": Header(
        guards=(
            "_CUPTI_ACTIVITY_H_",
            "_CUPTI_RESULT_H_",
            "_CUPTI_VERSION_H_",
            "__CUPTI_CALLBACKS_H__",
            "_CUPTI_EVENTS_H_",
            "_CUPTI_METRIC_H_",
            "_CUPTI_DRIVER_CBID_H_",
            "_CUPTI_RUNTIME_CBID_H_",
            "_CUPTI_PROFILER_TARGET_H_",
            "_CUPTI_PROFILER_HOST_H_",
            "_CUPTI_RANGE_PROFILER_H_",
            "_CUPTI_PMSAMPLING_H_",
            "_CUPTI_PCSAMPLING_H_",
            "_CUPTI_SASS_METRICS_H_",
            "_CUPTI_TARGET_H_",
            "__CUPTI_COMMON_H__",
        ),
        includes=("<stddef.h>", "<stdint.h>", '"cucore/abi/driver.h"'),
        extra=("#define CUCORE_ABI_PACKED(n) __attribute__((packed, aligned(n)))", "#define CUPTIAPI"),
    ),
    "nvrtc": Header(guards=("__NVRTC_H__",), includes=("<stddef.h>",)),
    "nvjitlink": Header(guards=("nvJitLink_INCLUDED",), includes=("<stddef.h>", "<stdint.h>")),
    "nvvm": Header(guards=("NVVM_H",), includes=("<stddef.h>",)),
    "nvfatbin": Header(guards=("nvFatbin_INCLUDED",), includes=("<stddef.h>",)),
    "nvml": Header(guards=("__nvml_nvml_h__",), includes=()),
    "cufile": Header(
        guards=("__CUFILE_H_",),
        includes=("<stdbool.h>", "<stdint.h>", "<sys/socket.h>", "<sys/types.h>", "<time.h>", '"cucore/abi/driver.h"'),
    ),
}


def render_header(library: Library) -> str:
    header = HEADERS[library.name]
    own = f"CUCORE_ABI_{library.name.upper()}_H"
    lines = [
        f"// cucore/abi/{library.name}.h: the C ABI of the {library.name} library. Rendered from api/{library.name}.json.",
        f"#ifndef {own}",
        f"#define {own}",
        *(f"#include {i}" for i in header.includes),
        "#ifndef CUCORE_ABI_ALIGNAS",
        "#ifdef __cplusplus",
        "#define CUCORE_ABI_ALIGNAS(n) alignas(n)",
        "#else",
        "#define CUCORE_ABI_ALIGNAS(n) _Alignas(n)",
        "#endif",
        "#endif",
        *render_part(library, "", header.guards, header.extra),
    ]
    for group, guard in header.group_guards:
        lines += render_part(library, group, (guard,), ())
    lines.append(f"#endif  // {own}")
    return "\n".join(lines) + "\n"
