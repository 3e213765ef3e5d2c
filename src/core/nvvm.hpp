// SPDX-License-Identifier: Apache-2.0
// nvvm.hpp: the function table of libNVVM, NVIDIA's compiler for LLVM IR.
#pragma once

#include "core/tool_library.hpp"
#include "cucore/abi/nvvm.h"

namespace cucore::detail {

struct Nvvm {
  // clang-format off
#define CUCORE_NVVM(X) \
  X(nvvmVersion) X(nvvmGetErrorString) X(nvvmCreateProgram) X(nvvmDestroyProgram) \
  X(nvvmAddModuleToProgram) X(nvvmLazyAddModuleToProgram) X(nvvmCompileProgram) \
  X(nvvmVerifyProgram) X(nvvmGetCompiledResultSize) X(nvvmGetCompiledResult) \
  X(nvvmGetProgramLogSize) X(nvvmGetProgramLog)
  // clang-format on
  CUCORE_NVVM(CUCORE_TOOL_MEMBER)

  /// Loads the library on the first call. Throws pathfinder::NotFoundError; the next call then
  /// retries.
  static const Nvvm& get();
};

}  // namespace cucore::detail
