// SPDX-License-Identifier: Apache-2.0
// nvjitlink.hpp: the function table of nvJitLink, NVIDIA's link-time optimizing linker.
#pragma once

#include "core/tool_library.hpp"
#include "cucore/abi/nvjitlink.h"

namespace cucore::detail {

struct NvJitLink {
  // clang-format off
#define CUCORE_NVJITLINK(X) \
  X(nvJitLinkCreate) X(nvJitLinkDestroy) X(nvJitLinkAddData) X(nvJitLinkComplete) \
  X(nvJitLinkGetLinkedCubinSize) X(nvJitLinkGetLinkedCubin) X(nvJitLinkGetLinkedPtxSize) \
  X(nvJitLinkGetLinkedPtx) X(nvJitLinkGetErrorLogSize) X(nvJitLinkGetErrorLog) \
  X(nvJitLinkGetInfoLogSize) X(nvJitLinkGetInfoLog)
  // clang-format on
  CUCORE_NVJITLINK(CUCORE_TOOL_MEMBER)
  CUCORE_TOOL_MEMBER(nvJitLinkVersion)  // null in older releases

  /// Loads the library on the first call. Throws pathfinder::NotFoundError; the next call then
  /// retries.
  static const NvJitLink& get();
  /// Returns whether the library is installed. The result is cached.
  static bool is_available();
};

}  // namespace cucore::detail
