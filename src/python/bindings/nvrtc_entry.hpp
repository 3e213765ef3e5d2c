// SPDX-License-Identifier: Apache-2.0
// nvrtc_entry.hpp: resolution of NVRTC's functions.
#pragma once
#include "cucore/abi/nvrtc.h"
#include "library.hpp"

namespace cucore::bindings {
static void* resolve(const Api& api, const FunctionRow& row) {
  return library_symbol("nvrtc", api.text + row.symbol);
}
}  // namespace cucore::bindings
