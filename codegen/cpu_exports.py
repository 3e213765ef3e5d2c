"""Renders the CPU device's exports: a weak definition of every driver symbol, and the table for cuGetProcAddress.

A strong definition in cpu/api replaces the weak one at link time, so a function is implemented by writing it and by
nothing else. The weak definitions come in three kinds, see `body`.
"""

from __future__ import annotations

from c_types import declare
from facts import Function, Library

HPP = """\
// cucpu/exports.hpp: the driver symbols the CPU device exports. Rendered by codegen/cpu_exports.py.
#pragma once
#include <span>
#include <string_view>

namespace cucpu {

/// One version of a driver function. Sorted by name, then by version.
struct Export {
  const char* name;        ///< as cuGetProcAddress spells it: "cuMemAlloc"
  int since;               ///< CUDA version of this signature: 3020
  void (*address)();       ///< the entry point (the weak stub when nobody has written it)
  int per_thread_since;    ///< 0 when there is no per-thread default stream variant
  void (*per_thread)();    ///< its address, or null
};

std::span<const Export> exports() noexcept;

/// The newest version of `name` that is not newer than `cuda_version`, or null. `name_known`, when given, tells a
/// function that appeared later (true) from one that does not exist (false).
const Export* find_export(std::string_view name, int cuda_version, bool* name_known = nullptr) noexcept;

/// True while this thread is inside the per-thread default stream variant of an entry point: a null stream, given or
/// implied, then means CU_STREAM_PER_THREAD. Entry points ask this in the one place where they resolve a stream.
bool null_stream_is_per_thread() noexcept;

/// Called once per stub that a program reaches, with the function's name. cpu/api may define it (to log, say).
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

// Around the call of a per-thread variant. Saved and restored, for a callback may call another entry point.
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


def newer_twin(library: Library, symbol: str, function: Function) -> str:
    """The next newer symbol of the same function, when its parameters are the same: an old version forwards to it."""
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
    """The weak definition: an old version forwards to a newer twin, anything else reports that it is missing."""
    twin = newer_twin(library, symbol, function)
    if twin:
        return weak(symbol, function, f"return {twin}({arguments(function)});", named=True)
    return weak(symbol, function, f'return unsupported("{symbol}");', named=False)


def per_thread_body(symbol: str, function: Function) -> str:
    """The per-thread variant: the base function, called while a null stream means the thread's own."""
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
