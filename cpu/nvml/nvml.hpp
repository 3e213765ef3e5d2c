// SPDX-License-Identifier: Apache-2.0
// cpu/nvml/nvml.hpp: the devices, and guarded(), which every entry point calls.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
#define CUCORE_ABI_ALL_VERSIONS
#include "cucore/abi/nvml.h"
#pragma GCC visibility pop

#include "cpu/base/settings.hpp"

/// A device: nvmlDevice_t is its address. NVML's indices are physical: CUDA_VISIBLE_DEVICES has no
/// effect.
struct nvmlDevice_st {
  int index;
  std::string uuid;
};

namespace cucpu::nvml {

struct Failure {
  nvmlReturn_t code;
};

[[noreturn]] inline void fail(nvmlReturn_t code) { throw Failure{code}; }
inline void require(bool ok, nvmlReturn_t code = NVML_ERROR_INVALID_ARGUMENT) {
  if (!ok) fail(code);
}

bool is_initialized() noexcept;
const driver::Settings& settings();
std::vector<nvmlDevice_st>& devices();
nvmlDevice_st& device_of(nvmlDevice_t handle);  ///< fails with INVALID_ARGUMENT

/// Copies a text into the caller's buffer; INSUFFICIENT_SIZE when it does not fit with its
/// terminator.
void put_text(char* out, unsigned room, const std::string& text);

/// Checks that the library is initialized, and turns exceptions into return codes.
template <class F>
nvmlReturn_t guarded(F&& f) noexcept {
  if (!is_initialized()) return NVML_ERROR_UNINITIALIZED;
  try {
    f();
    return NVML_SUCCESS;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    return NVML_ERROR_MEMORY;
  } catch (const std::exception&) {
    return NVML_ERROR_UNKNOWN;
  }
}

/// The use of a device by one process.
struct ProcessUse {
  unsigned pid;
  unsigned long long bytes;
};
std::vector<ProcessUse> processes_on(const nvmlDevice_st& device);

/// Percentage of the device's threads that processes kept busy since the last query.
unsigned utilization(const nvmlDevice_st& device);

/// Temperature of the host in degrees Celsius; fails with NOT_SUPPORTED without a sensor.
int temperature();
std::string process_name(unsigned pid);  ///< fails with NOT_FOUND

}  // namespace cucpu::nvml
