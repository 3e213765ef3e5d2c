// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/library.cpp: the version, results, time, and which devices are supported.
#include <utility>

#include "cpu/cupti/activity.hpp"
#include "cpu/cupti/callbacks.hpp"
#include "cpu/cupti/cupti.hpp"

namespace cucpu::cupti {
namespace {

thread_local CUptiResult t_last_error = CUPTI_SUCCESS;

struct Result {
  CUptiResult code;
  const char* name;
  const char* text;
};
constexpr Result kResults[] = {
#define CUCPU_RESULT(name, text) {name, #name, text},
#include "cupti_tables.inc"
#undef CUCPU_RESULT
};

const Result& result_of(CUptiResult code) {
  for (const Result& result : kResults)
    if (result.code == code) return result;
  fail(CUPTI_ERROR_INVALID_PARAMETER);
}

}  // namespace

void set_last_error(CUptiResult code) noexcept { t_last_error = code; }

}  // namespace cucpu::cupti

using namespace cucpu::cupti;

extern "C" {

CUptiResult cuptiGetVersion(std::uint32_t* version) {
  return guarded([&] {
    require(version != nullptr);
    constexpr std::uint32_t kVersion12 = 28;  // of CUDA 12.9
    *version = CUCPU_CUPTI_MAJOR == 12 ? kVersion12 : CUPTI_API_VERSION;
  });
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  return guarded([&] {
    require(text != nullptr);
    *text = result_of(result).name;
  });
}

CUptiResult cuptiGetErrorMessage(CUptiResult result, const char** text) {
  return guarded([&] {
    require(text != nullptr);
    *text = result_of(result).text;
  });
}

CUptiResult cuptiGetLastError(void) { return std::exchange(t_last_error, CUPTI_SUCCESS); }

CUptiResult cuptiGetTimestamp(std::uint64_t* time) {
  return guarded([&] {
    require(time != nullptr);
    *time = timestamp_now();
  });
}

CUptiResult cuptiDeviceSupported(CUdevice device, int* support) {
  return guarded([&] {
    require(support != nullptr);
    int count = 0;
    Driver::instance().cuDeviceGetCount(&count);
    require(device >= 0 && device < count, CUPTI_ERROR_INVALID_DEVICE);
    *support = 1;
  });
}

CUptiResult cuptiComputeCapabilitySupported(int major, int, int* support) {
  return guarded([&] {
    require(support != nullptr);
    *support = major >= 7;
  });
}

CUptiResult cuptiDeviceVirtualizationMode(CUdevice, CUpti_DeviceVirtualizationMode* mode) {
  return guarded([&] {
    require(mode != nullptr);
    *mode = CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE;
  });
}

CUptiResult cuptiIsTracingSessionRunning(std::uint8_t* running) {
  return guarded([&] {
    require(running != nullptr);
    *running = Activities::instance().any_enabled() || Subscriber::instance().is_there();
  });
}

/// Gives out what is left, and observes nothing more.
CUptiResult cuptiFinalize(void) {
  return guarded([&] {
    Activities& activities = Activities::instance();
    activities.deliver();
    for (int kind = CUPTI_ACTIVITY_KIND_INVALID + 1; kind < CUPTI_ACTIVITY_KIND_COUNT; ++kind)
      if (activities.is_enabled(static_cast<CUpti_ActivityKind>(kind)))
        activities.enable(static_cast<CUpti_ActivityKind>(kind), false);
    Subscriber::instance().clear();
    update_observation();
  });
}

}  // extern "C"
