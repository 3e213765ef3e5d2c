// SPDX-License-Identifier: Apache-2.0
// nvvm_entry.hpp: resolution of NVVM's functions.
#pragma once
#include "cucore/abi/nvvm.h"
#include "library.hpp"

namespace cucore::bindings {
static void* resolve(const Api& api, const FunctionRow& row) {
  return library_symbol("nvvm", api.text + row.symbol);
}
}  // namespace cucore::bindings
