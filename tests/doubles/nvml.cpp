// SPDX-License-Identifier: Apache-2.0
// nvml.cpp: a test double of the NVML functions with arrays, counts and sizes, following the
// manual: a too small array is an error that returns the required size, and sizes are in bytes if
// the manual says so. Elements are 100, 101, ...
#include "cucore/abi/nvml.h"

#include <cstring>
#include <type_traits>

namespace {

constexpr unsigned kMany = 7;  // elements of every array

/// Fills `n` elements; the first field of each is 100 plus its index.
template <class T>
nvmlReturn_t fill(unsigned* count, T* array) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (*count < kMany || array == nullptr) return *count = kMany, NVML_ERROR_INSUFFICIENT_SIZE;
  *count = kMany;
  for (unsigned i = 0; i < kMany; ++i) {
    std::memset(&array[i], 0, sizeof array[i]);
    if constexpr (std::is_pointer_v<T>) {
      array[i] = reinterpret_cast<T>(static_cast<std::size_t>(100 + i));
    } else if constexpr (std::is_integral_v<T>) {
      array[i] = static_cast<T>(100 + i);
    } else {
      const unsigned value = 100 + i;
      std::memcpy(&array[i], &value, sizeof value);
    }
  }
  return NVML_SUCCESS;
}

nvmlReturn_t text(const char* value, char* room, unsigned length) {
  if (length < std::strlen(value) + 1) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::strcpy(room, value);
  return NVML_SUCCESS;
}
nvmlReturn_t text(const char* value, char* room, unsigned* length) {
  const auto needed = static_cast<unsigned>(std::strlen(value) + 1);
  if (*length < needed) return *length = needed, NVML_ERROR_INSUFFICIENT_SIZE;
  *length = needed;
  std::strcpy(room, value);
  return NVML_SUCCESS;
}
nvmlReturn_t bits(unsigned words, unsigned long* set) {
  for (unsigned i = 0; i < words; ++i) set[i] = 1ul << i;
  return NVML_SUCCESS;
}

}  // namespace

extern "C" {
#define DOUBLE __attribute__((visibility("default"))) nvmlReturn_t
DOUBLE nvmlInit_v2(void) { return NVML_SUCCESS; }
DOUBLE nvmlShutdown(void) { return NVML_SUCCESS; }

DOUBLE nvmlDeviceGetAccountingPids(nvmlDevice_t, unsigned* n, unsigned* pids) {
  return fill(n, pids);
}
DOUBLE nvmlDeviceGetActiveVgpus(nvmlDevice_t, unsigned* n, nvmlVgpuInstance_t* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetCreatableVgpus(nvmlDevice_t, unsigned* n, nvmlVgpuTypeId_t* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetSupportedVgpus(nvmlDevice_t, unsigned* n, nvmlVgpuTypeId_t* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned* n, nvmlProcessInfo_t* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t, unsigned* n, nvmlProcessInfo_t* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t, unsigned* n, nvmlProcessInfo_t* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetEncoderSessions(nvmlDevice_t, unsigned* n, nvmlEncoderSessionInfo_t* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetFBCSessions(nvmlDevice_t, unsigned* n, nvmlFBCSessionInfo_t* v) {
  return fill(n, v);
}
DOUBLE nvmlVgpuInstanceGetEncoderSessions(nvmlVgpuInstance_t, unsigned* n,
                                          nvmlEncoderSessionInfo_t* v) {
  return fill(n, v);
}
DOUBLE nvmlVgpuInstanceGetFBCSessions(nvmlVgpuInstance_t, unsigned* n, nvmlFBCSessionInfo_t* v) {
  return fill(n, v);
}
DOUBLE nvmlVgpuInstanceGetAccountingPids(nvmlVgpuInstance_t, unsigned* n, unsigned* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t, unsigned,
                                                     nvmlGpuInstancePlacement_t* v, unsigned* n) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetGpuInstances(nvmlDevice_t, unsigned, nvmlGpuInstance_t* v, unsigned* n) {
  return fill(n, v);
}
DOUBLE nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t, unsigned,
                                                           nvmlComputeInstancePlacement_t* v,
                                                           unsigned* n) {
  return fill(n, v);
}
DOUBLE nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t, unsigned, nvmlComputeInstance_t* v,
                                          unsigned* n) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetRetiredPages(nvmlDevice_t, nvmlPageRetirementCause_t, unsigned* n,
                                 unsigned long long* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetRetiredPages_v2(nvmlDevice_t, nvmlPageRetirementCause_t, unsigned* n,
                                    unsigned long long* v, unsigned long long* times) {
  const nvmlReturn_t code = fill(n, v);
  return code != NVML_SUCCESS ? code : fill(n, times);
}
DOUBLE nvmlDeviceGetSamples(nvmlDevice_t, nvmlSamplingType_t, unsigned long long,
                            nvmlValueType_t* type, unsigned* n, nvmlSample_t* v) {
  return *type = NVML_VALUE_TYPE_UNSIGNED_INT, fill(n, v);
}
DOUBLE nvmlDeviceGetVgpuUtilization(nvmlDevice_t, unsigned long long, nvmlValueType_t* type,
                                    unsigned* n, nvmlVgpuInstanceUtilizationSample_t* v) {
  return *type = NVML_VALUE_TYPE_UNSIGNED_INT, fill(n, v);
}
DOUBLE nvmlDeviceGetVgpuProcessUtilization(nvmlDevice_t, unsigned long long, unsigned* n,
                                           nvmlVgpuProcessUtilizationSample_t* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetProcessUtilization(nvmlDevice_t, nvmlProcessUtilizationSample_t* v, unsigned* n,
                                       unsigned long long) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t, nvmlGpuTopologyLevel_t, unsigned* n,
                                        nvmlDevice_t* v) {
  return fill(n, v);
}
DOUBLE nvmlSystemGetTopologyGpuSet(unsigned, unsigned* n, nvmlDevice_t* v) { return fill(n, v); }
DOUBLE nvmlUnitGetDevices(nvmlUnit_t, unsigned* n, nvmlDevice_t* v) { return fill(n, v); }
DOUBLE nvmlSystemGetHicVersion(unsigned* n, nvmlHwbcEntry_t* v) { return fill(n, v); }
DOUBLE nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t, unsigned* n, unsigned* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t, unsigned, unsigned* n, unsigned* v) {
  return fill(n, v);
}
DOUBLE nvmlDeviceGetEncoderStats(nvmlDevice_t, unsigned* a, unsigned* b, unsigned* c) {
  return *a = 1, *b = 2, *c = 3, NVML_SUCCESS;
}

DOUBLE nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t, nvmlPstates_t* states,
                                               unsigned bytes) {
  const unsigned room = bytes / sizeof *states;  // the manual: size of the array in bytes
  for (unsigned i = 0; i < room; ++i)
    states[i] = i < 3 ? static_cast<nvmlPstates_t>(4 * i) : NVML_PSTATE_UNKNOWN;
  return room < 3 ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
DOUBLE nvmlDeviceGetCpuAffinity(nvmlDevice_t, unsigned words, unsigned long* set) {
  return bits(words, set);
}
DOUBLE nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t, unsigned words, unsigned long* set,
                                           nvmlAffinityScope_t) {
  return bits(words, set);
}
DOUBLE nvmlDeviceGetMemoryAffinity(nvmlDevice_t, unsigned words, unsigned long* set,
                                   nvmlAffinityScope_t) {
  return bits(words, set);
}

DOUBLE nvmlDeviceGetFieldValues(nvmlDevice_t, int n, nvmlFieldValue_t* values) {
  if (n < 1) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < n; ++i) {
    values[i].nvmlReturn = values[i].fieldId < 1000 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    values[i].value.uiVal = values[i].fieldId * 10 + values[i].scopeId;
  }
  return NVML_SUCCESS;
}
DOUBLE nvmlDeviceClearFieldValues(nvmlDevice_t, int n, nvmlFieldValue_t* values) {
  if (n < 1) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < n; ++i) values[i].nvmlReturn = NVML_SUCCESS;
  return NVML_SUCCESS;
}

DOUBLE nvmlDeviceGetName(nvmlDevice_t, char* room, unsigned n) { return text("a device", room, n); }
DOUBLE nvmlDeviceGetUUID(nvmlDevice_t, char* room, unsigned n) { return text("GPU-1", room, n); }
DOUBLE nvmlSystemGetDriverVersion(char* room, unsigned n) { return text("999.1", room, n); }
DOUBLE nvmlVgpuTypeGetClass(nvmlVgpuTypeId_t, char* room, unsigned* n) {
  return text("a class", room, n);
}
DOUBLE nvmlVgpuTypeGetName(nvmlVgpuTypeId_t, char* room, unsigned* n) {
  return text("a type", room, n);
}
DOUBLE nvmlVgpuInstanceGetGpuPciId(nvmlVgpuInstance_t, char* room, unsigned* n) {
  return text("0000:01", room, n);
}
DOUBLE nvmlDeviceGetPgpuMetadataString(nvmlDevice_t, char* room, unsigned* n) {
  return text("metadata", room, n);
}
DOUBLE nvmlDeviceGetVgpuMetadata(nvmlDevice_t, nvmlVgpuPgpuMetadata_t* data, unsigned* size) {
  if (*size < sizeof *data) return *size = sizeof *data, NVML_ERROR_INSUFFICIENT_SIZE;
  return data->version = 5, NVML_SUCCESS;
}
DOUBLE nvmlVgpuInstanceGetMetadata(nvmlVgpuInstance_t, nvmlVgpuMetadata_t* data, unsigned* size) {
  if (*size < sizeof *data) return *size = sizeof *data, NVML_ERROR_INSUFFICIENT_SIZE;
  return data->version = 6, NVML_SUCCESS;
}
}  // extern "C"
