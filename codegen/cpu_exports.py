# SPDX-License-Identifier: Apache-2.0
"""Renders the exports of the CPU device: a weak definition of every driver symbol, and the table of cuGetProcAddress.

A strong definition in cpu/api replaces the weak one at link time, so implementing a function needs no registration.
`body` and `per_thread_body` describe the kinds of weak definitions.
"""

from __future__ import annotations

from c_types import declare
from facts import Function, Library

HPP = """\
// cucpu/exports.hpp: the driver symbols that the CPU device exports. Rendered by codegen/cpu_exports.py.
#pragma once
#include <span>
#include <string_view>

namespace cucpu {

/// One version of a driver function. Sorted by name, then by version.
struct Export {
  const char* name;        ///< name for cuGetProcAddress: "cuMemAlloc"
  int since;               ///< CUDA version of this signature: 3020
  void (*address)();       ///< the entry point (the weak stub if the function is not implemented)
  int per_thread_since;    ///< 0 if there is no per-thread default stream variant
  void (*per_thread)();    ///< its address, or null
};

std::span<const Export> exports() noexcept;

/// The newest version of `name` that is not newer than `cuda_version`, or null. `name_known` (optional) is set to
/// true for a function that was introduced later, and to false for an unknown one.
const Export* find_export(std::string_view name, int cuda_version, bool* name_known = nullptr) noexcept;

/// True while this thread executes the per-thread default stream variant of an entry point: an explicit or implicit
/// null stream then means CU_STREAM_PER_THREAD.
bool null_stream_is_per_thread() noexcept;

/// Called on the first call of each stub, with the function's name. cpu/api may define it, for example to log.
void on_unsupported(const char* function) noexcept;

}  // namespace cucpu
"""

CPP_HEAD = """\
// exports.cpp: weak definitions of every driver symbol. Rendered from api/driver.json by codegen/cpu_exports.py.
#define CUCORE_ABI_ALL_VERSIONS
#include "cucore/abi/driver.h"
#include "cucpu/exports.hpp"

#include <algorithm>

namespace {

thread_local bool per_thread_default = false;

// Scope of a per-thread variant. It restores the previous value, because a callback may call another entry point.
class PerThreadScope {
 public:
  PerThreadScope() noexcept : before_{per_thread_default} { per_thread_default = true; }
  ~PerThreadScope() { per_thread_default = before_; }
  PerThreadScope(const PerThreadScope&) = delete;
  PerThreadScope& operator=(const PerThreadScope&) = delete;

 private:
  bool before_;
};

CUresult unsupported(const char* function) noexcept {
  cucpu::on_unsupported(function);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

bool cucpu::null_stream_is_per_thread() noexcept { return per_thread_default; }
__attribute__((weak)) void cucpu::on_unsupported(const char*) noexcept {}

#define CUCPU_WEAK extern "C" __attribute__((weak, visibility("default"))) CUresult

"""

CPP_TAIL = """\
};

std::span<const cucpu::Export> cucpu::exports() noexcept { return kExports; }

const cucpu::Export* cucpu::find_export(std::string_view name, int cuda_version, bool* name_known) noexcept {
  const auto family = std::ranges::equal_range(kExports, name, {}, [](const Export& e) { return std::string_view{e.name}; });
  if (name_known != nullptr) *name_known = !family.empty();
  const Export* best = nullptr;
  for (const Export& candidate : family) {
    if (candidate.since <= cuda_version) best = &candidate;
  }
  return best;
}
"""


def newer_symbol(library: Library, symbol: str, function: Function) -> str:
    """The next newer symbol of a function with the same parameters, to which an old version forwards; else None."""
    family = sorted((f.since, s) for s, f in library.symbols().items() if f.entry == function.entry)
    later = [s for since, s in family if since > function.since]
    if not later:
        return ""
    twin = library.symbols()[later[0]]
    return later[0] if [p.type for p in twin.params] == [p.type for p in function.params] else ""


def weak(symbol: str, function: Function, statement: str, *, named: bool) -> str:
    params = ", ".join(declare(p.type, p.name if named else "") for p in function.params)
    return f"CUCPU_WEAK {symbol}({params}) {{ {statement} }}\n"


def arguments(function: Function) -> str:
    return ", ".join(p.name for p in function.params)


def body(library: Library, symbol: str, function: Function) -> str:
    """The weak definition: an old version forwards to the newer symbol, any other function reports that it is missing."""
    twin = newer_symbol(library, symbol, function)
    if twin:
        return weak(symbol, function, f"return {twin}({arguments(function)});", named=True)
    return weak(symbol, function, f'return unsupported("{symbol}");', named=False)


def per_thread_body(symbol: str, function: Function) -> str:
    """The per-thread variant: calls the base function while the null stream is the per-thread default stream."""
    statement = f"const PerThreadScope scope; return {symbol}({arguments(function)});"
    return weak(function.per_thread, function, statement, named=True)


def table_rows(library: Library) -> list[str]:
    rows: list[tuple[str, int, str]] = []
    names = {(f.entry, f.since) for f in library.symbols().values()}
    for symbol, f in library.symbols().items():
        address = f"reinterpret_cast<void (*)()>(&{symbol})"
        variant = f"reinterpret_cast<void (*)()>(&{f.per_thread})" if f.per_thread else "nullptr"
        entries = [(f.entry, f.since)]
        if f.name != f.entry and f.name == f.name.split("_v")[0] and (f.name, f.since) not in names:
            entries.append((f.name, f.since))  # cuGraphInstantiate is cuGraphInstantiateWithFlags today
        for entry, since in entries:
            rows.append((entry, since, f'    {{"{entry}", {since}, {address}, {f.per_thread_since}, {variant}}},\n'))
    return [row for _, _, row in sorted(rows)]


def render_exports_cpp(library: Library) -> str:
    symbols = library.symbols()
    parts = [CPP_HEAD]
    for symbol, function in sorted(symbols.items()):
        parts.append(body(library, symbol, function))
        if function.per_thread:
            parts.append(per_thread_body(symbol, function))
    parts.append("\nstatic const cucpu::Export kExports[] = {\n")
    parts += table_rows(library)
    parts.append(CPP_TAIL)
    return "".join(parts)


def render_exports_hpp(_library: Library) -> str:
    return HPP
