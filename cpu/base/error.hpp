// SPDX-License-Identifier: Apache-2.0
// cpu/base/error.hpp: how a failure inside the driver becomes a CUresult.
#pragma once

#include <string_view>

#include "cpu/base/abi.hpp"

namespace cucpu::driver {

/// Thrown anywhere below an entry point; guarded() turns it into the returned code.
struct Error {
  CUresult code;
};

[[noreturn]] void fail(CUresult code);

/// Fails and writes a message for readers of cuLogs*: what is wrong with the call.
[[noreturn]] void fail(CUresult code, std::string_view text);

inline void require(bool ok, CUresult code = CUDA_ERROR_INVALID_VALUE) {
  if (!ok) [[unlikely]]
    fail(code);
}

}  // namespace cucpu::driver
