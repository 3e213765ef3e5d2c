// SPDX-License-Identifier: Apache-2.0
// Exceptions of the driver.
#include "cpu/base/error.hpp"

#include "cpu/base/log.hpp"

namespace cucpu::driver {

void fail(CUresult code) { throw Error{code}; }

void fail(CUresult code, std::string_view text) {
  log_message(CU_LOG_LEVEL_ERROR, text);
  throw Error{code};
}

}  // namespace cucpu::driver
