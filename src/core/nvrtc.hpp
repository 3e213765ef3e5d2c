// SPDX-License-Identifier: Apache-2.0
// nvrtc.hpp: the function table of NVRTC, NVIDIA's runtime compiler for C++.
#pragma once

#include <string>

#include "core/tool_library.hpp"
#include "cucore/abi/nvrtc.h"

namespace cucore::detail {

struct Nvrtc {
  // clang-format off
#define CUCORE_NVRTC(X) \
  X(nvrtcVersion) X(nvrtcGetErrorString) X(nvrtcCreateProgram) X(nvrtcDestroyProgram) \
  X(nvrtcCompileProgram) X(nvrtcAddNameExpression) X(nvrtcGetLoweredName) X(nvrtcGetPTXSize) \
  X(nvrtcGetPTX) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) X(nvrtcGetLTOIRSize) X(nvrtcGetLTOIR) \
  X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog)
  // clang-format on
#define CUCORE_NVRTC_NEW(X)      \
  X(nvrtcGetPCHCreateStatus)     \
  X(nvrtcGetPCHHeapSizeRequired) \
  X(nvrtcSetPCHHeapSize)         \
  X(nvrtcInstallBundledHeaders) X(nvrtcGetNumSupportedArchs) X(nvrtcGetSupportedArchs)
  CUCORE_NVRTC(CUCORE_TOOL_MEMBER)
  CUCORE_NVRTC_NEW(CUCORE_TOOL_MEMBER)
  int major = 0;
  int minor = 0;

  /// Loads the library on the first call. Throws pathfinder::NotFoundError; the next call then
  /// retries.
  static const Nvrtc& get();
};

/// Returns, for example, "NVRTC_ERROR_COMPILATION". Does not load the library.
const char* nvrtc_result_name(nvrtcResult code) noexcept;
/// Throws NVRTCError, with the log if there is one.
[[noreturn]] void fail_nvrtc(nvrtcResult code, const char* call, const std::string& log = {});
inline void check_nvrtc(nvrtcResult code, const char* call) {
  if (code != NVRTC_SUCCESS) fail_nvrtc(code, call);
}
/// Returns the compilation log so far.
std::string nvrtc_log(nvrtcProgram program);
/// Returns the folders of the headers that NVRTC 13.3 and later bundle, unpacked once per user. For
/// older releases, returns the folders of the toolkit's headers.
std::vector<std::string> bundled_header_folders();

}  // namespace cucore::detail
