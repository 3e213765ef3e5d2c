// SPDX-License-Identifier: Apache-2.0
// nvml_entry.hpp: resolution of NVML's functions.
#pragma once
#include "cucore/abi/nvml.h"
#include "library.hpp"

namespace cucore::bindings {
static void* resolve(const Api& api, const FunctionRow& row) {
  return library_symbol("nvml", api.text + row.symbol);
}
}  // namespace cucore::bindings
