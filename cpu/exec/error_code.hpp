// SPDX-License-Identifier: Apache-2.0
// cpu/exec/error_code.hpp: the CUresult of an exception: of the driver, of the engine or of the
// standard library.
#pragma once

#include "cpu/base/error.hpp"

namespace cucpu::driver {

/// The code of the exception in flight. Call only inside a catch block.
CUresult code_of_current_exception() noexcept;

}  // namespace cucpu::driver
