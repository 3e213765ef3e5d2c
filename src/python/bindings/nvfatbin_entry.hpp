// SPDX-License-Identifier: Apache-2.0
// nvfatbin_entry.hpp: resolution of nvFatbin's functions.
#pragma once
#include "cucore/abi/nvfatbin.h"
#include "library.hpp"

namespace cucore::bindings {
static void* resolve(const Api& api, const FunctionRow& row) {
  return library_symbol("nvfatbin", api.text + row.symbol);
}
}  // namespace cucore::bindings
