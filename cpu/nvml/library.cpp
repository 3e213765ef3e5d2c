// SPDX-License-Identifier: Apache-2.0
// nvmlInit, nvmlShutdown, nvmlSystem*: the library and the system.
#include <atomic>
#include <cstring>
#include <mutex>

#include "cpu/base/error.hpp"
#include "cpu/nvml/nvml.hpp"

// base/settings.cpp reports invalid settings through these two functions; here they make nvmlInit
// fail.
namespace cucpu::driver {
void fail(CUresult) { throw nvml::Failure{NVML_ERROR_DRIVER_NOT_LOADED}; }
void fail(CUresult code, std::string_view) { fail(code); }
}  // namespace cucpu::driver

namespace cucpu::nvml {
namespace {

struct State {
  std::mutex mutex;
  std::atomic<int> uses{0};
  driver::Settings settings;
  std::vector<nvmlDevice_st> devices;
};
State& state() {
  static State& s = *new State;
  return s;
}

}  // namespace

bool is_initialized() noexcept { return state().uses.load(std::memory_order_acquire) > 0; }
const driver::Settings& settings() { return state().settings; }
std::vector<nvmlDevice_st>& devices() { return state().devices; }

nvmlDevice_st& device_of(nvmlDevice_t handle) {
  for (nvmlDevice_st& device : devices())
    if (&device == handle) return device;
  fail(NVML_ERROR_INVALID_ARGUMENT);
}

void put_text(char* out, unsigned room, const std::string& text) {
  require(out != nullptr);
  require(text.size() < room, NVML_ERROR_INSUFFICIENT_SIZE);
  std::memcpy(out, text.c_str(), text.size() + 1);
}

}  // namespace cucpu::nvml

using namespace cucpu::nvml;

nvmlReturn_t cucpu_nvml_unsupported() noexcept {
  return is_initialized() ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED;
}

extern "C" {

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
  if (flags &
      ~unsigned{NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH | NVML_INIT_FLAG_FORCE_INIT})
    return NVML_ERROR_INVALID_ARGUMENT;
  State& s = state();
  const std::lock_guard lock{s.mutex};
  try {
    if (s.devices.empty()) {
      s.settings = cucpu::driver::read_settings();
      for (int i = 0; i < s.settings.devices; ++i)
        s.devices.push_back({i, cucpu::driver::device_uuid_text(i)});
    }
  } catch (const Failure& failure) {
    return failure.code;
  } catch (...) {
    return NVML_ERROR_UNKNOWN;
  }
  s.uses.fetch_add(1, std::memory_order_release);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
  State& s = state();
  const std::lock_guard lock{s.mutex};
  if (s.uses.load() == 0) return NVML_ERROR_UNINITIALIZED;
  s.uses.fetch_sub(1);
  return NVML_SUCCESS;
}

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "The operation was successful";
    case NVML_ERROR_UNINITIALIZED:
      return "NVML was not first initialized with nvmlInit()";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "A supplied argument is invalid";
    case NVML_ERROR_NOT_SUPPORTED:
      return "The requested operation is not available on the CPU device";
    case NVML_ERROR_NO_PERMISSION:
      return "The current user does not have permission for the operation";
    case NVML_ERROR_ALREADY_INITIALIZED:
      return "NVML has already been initialized";
    case NVML_ERROR_NOT_FOUND:
      return "A query to find an object was unsuccessful";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "An input argument is not large enough";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "The CPU device's settings cannot be read";
    case NVML_ERROR_TIMEOUT:
      return "The user provided timeout passed";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "The local version of NVML does not implement this function";
    case NVML_ERROR_OPERATING_SYSTEM:
      return "The operating system has blocked the request";
    case NVML_ERROR_MEMORY:
      return "Insufficient memory";
    case NVML_ERROR_NO_DATA:
      return "No data";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "The version of an argument is invalid or not supported";
    case NVML_ERROR_GPU_NOT_FOUND:
      return "There is no such device";
    default:
      return "Unknown error";
  }
}

// Programs gate on the branch of the kernel's driver (at least 525, 580). This one is a real
// release whose branch runs every CUDA 13; nvmlSystemGetDriverBranch and the name of the device
// identify this library.
constexpr const char* kKernelDriver = "580.65.06";

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return guarded([&] { put_text(version, length, kKernelDriver); });
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  return guarded([&] {
    const int cuda = cucpu::driver::kDriverVersion;
    put_text(version, length, std::to_string(cuda / 1000) + "." + kKernelDriver);
  });
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return guarded([&] {
    require(version != nullptr);
    *version = cucpu::driver::kDriverVersion;
  });
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t* info, unsigned int length) {
  return guarded([&] {
    require(info != nullptr);
    require(info->version == (sizeof *info | 1u << 24), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    put_text(info->branch, length < sizeof info->branch ? length : sizeof info->branch, "cucore");
  });
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int length) {
  return guarded([&] {
    require(name && length > 0);
    const std::string text = process_name(pid);
    const std::size_t count =
        text.size() < length ? text.size() : length - 1;  // truncated, as NVML does
    std::memcpy(name, text.data(), count);
    name[count] = '\0';
  });
}

nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int, unsigned int* count, nvmlDevice_t* out) {
  return guarded([&] {
    require(count != nullptr);
    const auto there =
        static_cast<unsigned>(devices().size());  // all CPUs are local to all devices
    const unsigned room = *count;
    *count = there;
    if (!out) return;
    require(room >= there, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned i = 0; i < there; ++i) out[i] = &devices()[i];
  });
}

nvmlReturn_t nvmlUnitGetCount(unsigned int* count) {
  return guarded([&] {
    require(count != nullptr);
    *count = 0;
  });
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int* count) {
  return guarded([&] {
    require(count != nullptr);
    *count = 0;
  });
}

}  // extern "C"
