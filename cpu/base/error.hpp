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

/// Fails and leaves a sentence for cuLogs* readers: what was wrong with the call.
[[noreturn]] void fail(CUresult code, std::string_view text);

inline void require(bool ok, CUresult code = CUDA_ERROR_INVALID_VALUE) {
  if (!ok) [[unlikely]]
    fail(code);
}

/// The code of the exception in flight. Call only inside a catch block.
CUresult code_of_current_exception() noexcept;

}  // namespace cucpu::driver
