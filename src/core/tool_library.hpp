// SPDX-License-Identifier: Apache-2.0
// tool_library.hpp: function tables of the compiler libraries (NVRTC, nvJitLink, libNVVM), filled
// on first use.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "core/device_code.hpp"
#include "cucore/pathfinder.hpp"

namespace cucore::detail {

/// Looks up functions of one library. Older releases may lack some of them.
class ToolLibrary {
 public:
  explicit ToolLibrary(const char* name) : library_{pathfinder::load_nvidia_dynamic_lib(name)} {}

  template <typename Function>
  void optional(Function& slot, const char* symbol) const {
    slot = reinterpret_cast<Function>(without_replacement(dlsym(library_.handle, symbol)));
  }
  template <typename Function>
  void required(Function& slot, const char* symbol) const {
    optional(slot, symbol);
    if (slot == nullptr)
      throw std::runtime_error{std::string{symbol} + " is missing in " + library_.abs_path +
                               ": the library is too old or not what its name says"};
  }

 private:
  const pathfinder::LoadedDL& library_;
};

}  // namespace cucore::detail

#define CUCORE_TOOL_MEMBER(name) decltype(&::name) name = nullptr;
