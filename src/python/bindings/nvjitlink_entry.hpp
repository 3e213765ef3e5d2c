// SPDX-License-Identifier: Apache-2.0
// nvjitlink_entry.hpp: resolution of nvJitLink's functions.
#pragma once
#include "cucore/abi/nvjitlink.h"
#include "library.hpp"

namespace cucore::bindings {
static void* resolve(const Api& api, const FunctionRow& row) {
  return library_symbol("nvJitLink", api.text + row.symbol);
}
}  // namespace cucore::bindings
