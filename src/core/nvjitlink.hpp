// SPDX-License-Identifier: Apache-2.0
// nvJitLink, NVIDIA's link-time optimizing linker.
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
  CUCORE_TOOL_MEMBER(nvJitLinkVersion)  // null in old releases

  /// Loads the library at the first call. Throws pathfinder::NotFoundError; a later call tries
  /// again.
  static const NvJitLink& get();
  /// False where it is not installed; asked once.
  static bool is_available();
};

}  // namespace cucore::detail
