// cufile_entry.hpp: where cuFile's functions come from.
#pragma once
#include "cucore/abi/cufile.h"
#include "library.hpp"

namespace cucore::bindings {
static void* resolve(const Api& api, const FunctionRow& row) {
  return library_symbol("cufile", api.text + row.symbol);
}
}  // namespace cucore::bindings
