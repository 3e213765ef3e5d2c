// SPDX-License-Identifier: Apache-2.0
// nvjitlink.cpp: the function table of nvJitLink.
#include "core/nvjitlink.hpp"

namespace cucore::detail {

const NvJitLink& NvJitLink::get() {
  static const NvJitLink table = [] {
    const ToolLibrary library{"nvJitLink"};
    NvJitLink t;
#define CUCORE_LOAD(name) library.required(t.name, #name);
    CUCORE_NVJITLINK(CUCORE_LOAD)
#undef CUCORE_LOAD
    library.optional(t.nvJitLinkVersion, "nvJitLinkVersion");
    return t;
  }();
  return table;
}

bool NvJitLink::is_available() {
  static const bool available = [] {
    try {
      get();
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }();
  return available;
}

}  // namespace cucore::detail
