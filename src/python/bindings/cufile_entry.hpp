// SPDX-License-Identifier: Apache-2.0
// cufile_entry.hpp: resolution of cuFile's functions.
#pragma once
#include <unistd.h>

#include <stdexcept>
#include <string_view>

#include "cucore/abi/cufile.h"
#include "library.hpp"

namespace cucore::bindings {

/// Returns whether a function would never return. libcufile up to 1.19 reads /proc/modules to the
/// end of the file; if the file does not exist (in some sandboxes), any function that opens the
/// cuFile driver loops forever and ignores Ctrl-C. Later versions are assumed to be fixed.
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
