// SPDX-License-Identifier: Apache-2.0
// stream.cpp: streams and events with default flags, entry points of the driver.
#include "runtime/state.hpp"

namespace cucore::rt {
namespace {

cudaError_t create_stream(cudaStream_t* stream) {
  return call_with_context(
      [=](const DriverTable& d) { return d.cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}

cudaError_t create_event(cudaEvent_t* event) {
  return call_with_context(
      [=](const DriverTable& d) { return d.cuEventCreate(event, CU_EVENT_DEFAULT); });
}

cudaError_t entry_point_by_version(const char* symbol, void** function, unsigned version,
                                   unsigned long long flags,
                                   cudaDriverEntryPointQueryResult* status) {
  return call_driver([=](const DriverTable& d) {
    if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult found{};
    const CUresult code =
        d.cuGetProcAddress(symbol, function, static_cast<int>(version), flags, &found);
    if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    return code == CUDA_ERROR_NOT_FOUND && status != nullptr ? CUDA_SUCCESS : code;
  });
}

cudaError_t entry_point(const char* symbol, void** function, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status) {
  int driver_version = 0;  // a driver rejects versions later than its own
  (void)call_driver([&](const DriverTable& d) { return d.cuDriverGetVersion(&driver_version); });
  const int version =
      driver_version > 0 && driver_version < CUDART_VERSION ? driver_version : CUDART_VERSION;
  return entry_point_by_version(symbol, function, static_cast<unsigned>(version), flags, status);
}

}  // namespace

void install_streams(RuntimeTable& t) {
  t.cudaStreamCreate = create_stream;
  t.cudaEventCreate = create_event;
  t.cudaGetDriverEntryPoint = entry_point;
  t.cudaGetDriverEntryPointByVersion = entry_point_by_version;
}

}  // namespace cucore::rt
