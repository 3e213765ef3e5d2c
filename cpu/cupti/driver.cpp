// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/driver.cpp: the driver that this library observes.
#include <dlfcn.h>
#include <time.h>

#include <cstring>
#include <string>

#include "cpu/cupti/cupti.hpp"

namespace cucpu::cupti {
namespace {

/// The driver that the process has; else the one in the folder of this library.
void* driver_library() {
  if (void* loaded = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) return loaded;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&driver_library), &here) != 0 && here.dli_fname) {
    const std::string name = here.dli_fname;
    const std::string beside = name.substr(0, name.rfind('/') + 1) + "libcuda.so.1";
    if (void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

std::int64_t nanoseconds(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

const Driver& Driver::instance() {
  static const Driver driver = [] {
    void* const library = driver_library();
    require(library != nullptr, CUPTI_ERROR_NOT_INITIALIZED);
    Driver made{};
    const auto find = [&](auto& function, const char* name) {
      void* const symbol = dlsym(library, name);
      require(symbol != nullptr, CUPTI_ERROR_NOT_INITIALIZED);
      std::memcpy(&function, &symbol, sizeof symbol);
    };
    find(made.cucoreObserve, "cucoreObserve");
    find(made.cuInit, "cuInit");
    find(made.cuCtxGetCurrent, "cuCtxGetCurrent");
    find(made.cuCtxPushCurrent, "cuCtxPushCurrent_v2");
    find(made.cuCtxPopCurrent, "cuCtxPopCurrent_v2");
    find(made.cuCtxGetId, "cuCtxGetId");
    find(made.cuCtxGetDevice, "cuCtxGetDevice");
    find(made.cuStreamGetId, "cuStreamGetId");
    find(made.cuFuncGetName, "cuFuncGetName");
    find(made.cuDeviceGetCount, "cuDeviceGetCount");
    find(made.cuDeviceGetName, "cuDeviceGetName");
    find(made.cuDeviceGetUuid, "cuDeviceGetUuid_v2");
    find(made.cuDeviceGetAttribute, "cuDeviceGetAttribute");
    find(made.cuDeviceTotalMem, "cuDeviceTotalMem_v2");
    require(made.cuInit(0) == CUDA_SUCCESS, CUPTI_ERROR_NOT_INITIALIZED);
    return made;
  }();
  return driver;
}

std::uint64_t timestamp(std::int64_t driver_time) noexcept {
  static const std::int64_t offset = nanoseconds(CLOCK_REALTIME) - nanoseconds(CLOCK_MONOTONIC);
  return static_cast<std::uint64_t>(driver_time + offset);
}

std::uint64_t timestamp_now() noexcept { return timestamp(nanoseconds(CLOCK_MONOTONIC)); }

CurrentContext current_context() {
  const Driver& driver = Driver::instance();
  CurrentContext current;
  unsigned long long id = 0;
  CUdevice device = 0;
  if (driver.cuCtxGetCurrent(&current.handle) != CUDA_SUCCESS || !current.handle ||
      driver.cuCtxGetId(current.handle, &id) != CUDA_SUCCESS ||
      driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
    return {};
  current.id = static_cast<std::uint32_t>(id);
  current.device = static_cast<std::uint32_t>(device);
  return current;
}

std::uint32_t stream_id(CUstream stream) {
  unsigned long long id = CUPTI_INVALID_STREAM_ID;
  if (Driver::instance().cuStreamGetId(stream, &id) != CUDA_SUCCESS) return CUPTI_INVALID_STREAM_ID;
  return static_cast<std::uint32_t>(id);
}

}  // namespace cucpu::cupti
