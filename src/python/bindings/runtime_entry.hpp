// SPDX-License-Identifier: Apache-2.0
// runtime_entry.hpp: resolution of the runtime's functions, which libcucore.so defines.
#pragma once
#include "cucore/runtime.hpp"
#include "rows.hpp"

#define SLOT(name) static_cast<std::uint16_t>(offsetof(cucore::RuntimeTable, name) / sizeof(void*))

namespace cucore::bindings {
static void* resolve(const Api&, const FunctionRow& row) {
  return reinterpret_cast<void* const*>(&runtime())[row.slot];
}
}  // namespace cucore::bindings
