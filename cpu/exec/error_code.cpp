// SPDX-License-Identifier: Apache-2.0
// Maps exceptions to CUresult codes.
#include "cpu/exec/error_code.hpp"

#include <exception>
#include <new>
#include <system_error>

#include "cpu/base/log.hpp"
#include "cpu/engine/engine.hpp"

namespace cucpu::driver {

CUresult code_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return e.code;
  } catch (const LoadError& e) {
    log_message(CU_LOG_LEVEL_ERROR, e.what());
    return static_cast<CUresult>(e.code);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::system_error&) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  } catch (const std::exception& e) {
    log_message(CU_LOG_LEVEL_ERROR, e.what());
    return CUDA_ERROR_UNKNOWN;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

}  // namespace cucpu::driver
