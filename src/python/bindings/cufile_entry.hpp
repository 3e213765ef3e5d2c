// SPDX-License-Identifier: Apache-2.0
// cufile_entry.hpp: where cuFile's functions come from.
#pragma once
#include <unistd.h>

#include <stdexcept>
#include <string_view>

#include "cucore/abi/cufile.h"
#include "library.hpp"

namespace cucore::bindings {

/// libcufile up to 1.19 reads /proc/modules to the end, and where there is none (a sandbox without
/// it) never finds the end: any function that opens its driver would spin for good, out of reach of
/// Ctrl-C. Later versions are believed to have mended it.
static bool would_never_return(std::string_view function) {
  for (const std::string_view harmless :
       {"cuFileGetVersion", "cuFileGetParameter", "cuFileSetParameter", "cuFileUseCount"}) {
    if (function.starts_with(harmless)) return false;
  }
  if (access("/proc/modules", R_OK) == 0) return false;
  int version = 0;
  if (void* ask = library_symbol("cufile", "cuFileGetVersion"))
    (void)reinterpret_cast<decltype(&::cuFileGetVersion)>(ask)(&version);
  return version <= 1190;
}

static void* resolve(const Api& api, const FunctionRow& row) {
  const char* symbol = api.text + row.symbol;
  void* function = library_symbol("cufile", symbol);
  if (would_never_return(symbol)) {
    throw std::runtime_error{
        std::string{symbol} +
        ": cuFile cannot run here: it reads /proc/modules, which this system does not have, and "
        "would never return; run where /proc is complete"};
  }
  return function;
}
}  // namespace cucore::bindings
