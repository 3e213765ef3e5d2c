// SPDX-License-Identifier: Apache-2.0
// Settings and events of NVML. The CPU device has no settings: changing one returns
// NVML_ERROR_NO_PERMISSION, as on a GPU without the rights to do so. Events never occur.
#include <chrono>
#include <thread>

#include "cpu/nvml/nvml.hpp"

using namespace cucpu::nvml;

/// An event set, which stays empty.
struct nvmlEventSet_st {};

extern "C" {

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t handle,
                                             nvmlGpuVirtualizationMode_t* mode) {
  return guarded([&] {
    device_of(handle);
    require(mode != nullptr);
    *mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;
  });
}

nvmlReturn_t nvmlDeviceGetCapabilities(nvmlDevice_t handle, nvmlDeviceCapabilities_t* caps) {
  return guarded([&] {
    device_of(handle);
    require(caps != nullptr);
    require(caps->version == nvmlDeviceCapabilities_v1, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    caps->capMask = 0;
  });
}

/// Nothing of it needs a license.
nvmlReturn_t nvmlDeviceGetGridLicensableFeatures_v4(nvmlDevice_t handle,
                                                    nvmlGridLicensableFeatures_t* features) {
  return guarded([&] {
    device_of(handle);
    require(features != nullptr);
    *features = {};
  });
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t handle, nvmlComputeMode_t mode) {
  return guarded([&] {
    device_of(handle);
    require(mode >= 0 && mode < NVML_COMPUTEMODE_COUNT);
    require(mode == NVML_COMPUTEMODE_DEFAULT, NVML_ERROR_NO_PERMISSION);
  });
}

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t handle, nvmlEnableState_t mode) {
  return guarded([&] {
    device_of(handle);
    require(mode == NVML_FEATURE_ENABLED, NVML_ERROR_NO_PERMISSION);  // it is on, and stays on
  });
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  return guarded([&] {
    require(set != nullptr);
    *set = new nvmlEventSet_st;
  });
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  return guarded([&] {
    require(set != nullptr);
    delete set;
  });
}

/// Only no events at all are supported: nvmlDeviceGetSupportedEventTypes says none.
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long types,
                                      nvmlEventSet_t set) {
  return guarded([&] {
    device_of(handle);
    require(set != nullptr);
    require(types == 0, NVML_ERROR_NOT_SUPPORTED);
  });
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int timeout) {
  const nvmlReturn_t code = guarded([&] { require(set != nullptr && data != nullptr); });
  if (code != NVML_SUCCESS) return code;
  std::this_thread::sleep_for(std::chrono::milliseconds{timeout});
  return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int timeout) {
  return nvmlEventSetWait_v2(set, data, timeout);
}

}  // extern "C"
