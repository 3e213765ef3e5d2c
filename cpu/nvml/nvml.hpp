// cpu/nvml/nvml.hpp: what the files of this library share: the devices, and the gate every entry
// point goes through.
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

/// A device: nvmlDevice_t is its address. NVML's numbers are physical: CUDA_VISIBLE_DEVICES changes
/// nothing.
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

/// Copies a text out as NVML does: INSUFFICIENT_SIZE when it does not fit with its end.
void put_text(char* out, unsigned room, const std::string& text);

/// The one gate: not initialized, and exceptions, become codes.
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

/// What one process uses of a device.
struct ProcessUse {
  unsigned pid;
  unsigned long long bytes;
};
std::vector<ProcessUse> processes_on(const nvmlDevice_st& device);

/// Percent of the device's threads that those processes kept busy since the last question.
unsigned utilization(const nvmlDevice_st& device);

/// The host's sensor in degrees Celsius; fails with NOT_SUPPORTED where it has none.
int temperature();
std::string process_name(unsigned pid);  ///< fails with NOT_FOUND

}  // namespace cucpu::nvml
