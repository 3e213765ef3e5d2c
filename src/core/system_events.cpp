// SPDX-License-Identifier: Apache-2.0
// system_events.cpp: waits for GPU events.
#include "cucore/system_events.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "core/nvml.hpp"

namespace cucore::system {

void DeviceEvents::Destroy::operator()(void* set) const noexcept {
  try {
    (void)CUCORE_NVML_FUNCTION(nvmlEventSetFree)(static_cast<nvmlEventSet_t>(set));
  } catch (const std::exception&) {  // an NVML without the function cannot have created a set
  }
}

DeviceEvents::DeviceEvents(Device device, std::uint64_t events)
    : set_{CUCORE_ASK(nvmlEventSet_t, nvmlEventSetCreate)} {
  CUCORE_NVML(nvmlDeviceRegisterEvents, device.handle(), events,
              static_cast<nvmlEventSet_t>(set_.get()));
}

std::optional<EventData> DeviceEvents::wait(unsigned timeout_ms) const {
  nvmlEventData_t raw{};
  const nvmlReturn_t code = CUCORE_NVML_FUNCTION(nvmlEventSetWait_v2)(
      static_cast<nvmlEventSet_t>(set_.get()), &raw, timeout_ms);
  if (code == NVML_ERROR_TIMEOUT) return std::nullopt;
  detail::check_nvml(code, "nvmlEventSetWait_v2");
  return EventData{Device{raw.device}, raw.eventType, raw.eventData, raw.gpuInstanceId,
                   raw.computeInstanceId};
}

Device SystemEvent::device() const {
  char bus_id[32];
  std::snprintf(bus_id, sizeof bus_id, "%04x:%02x:%02x.0", gpu_id >> 16, gpu_id >> 8 & 0xFF,
                gpu_id & 0xFF);
  return Device::from_pci_bus_id(bus_id);
}

void SystemEvents::Destroy::operator()(void* set) const noexcept {
  try {
    nvmlSystemEventSetFreeRequest_t request{};
    request.version = nvmlSystemEventSetFreeRequest_v1;
    request.set = static_cast<nvmlSystemEventSet_t>(set);
    (void)CUCORE_NVML_FUNCTION(nvmlSystemEventSetFree)(&request);
  } catch (const std::exception&) {  // an NVML without the function cannot have created a set
  }
}

SystemEvents::SystemEvents(std::span<const SystemEventType> events) {
  nvmlSystemEventSetCreateRequest_t made{};
  made.version = nvmlSystemEventSetCreateRequest_v1;
  CUCORE_NVML(nvmlSystemEventSetCreate, &made);
  set_.reset(made.set);
  nvmlSystemRegisterEventRequest_t request{};
  request.version = nvmlSystemRegisterEventRequest_v1;
  request.set = made.set;
  for (const SystemEventType event : events)
    request.eventTypes |= static_cast<unsigned long long>(event);
  CUCORE_NVML(nvmlSystemRegisterEvents, &request);
}

std::vector<SystemEvent> SystemEvents::wait(unsigned timeout_ms, unsigned most) const {
  std::vector<nvmlSystemEventData_v1_t> raw(most);
  nvmlSystemEventSetWaitRequest_t request{};
  request.version = nvmlSystemEventSetWaitRequest_v1;
  request.timeoutms = timeout_ms;
  request.set = static_cast<nvmlSystemEventSet_t>(set_.get());
  request.data = raw.data();
  request.dataSize = most;
  const nvmlReturn_t code = CUCORE_NVML_FUNCTION(nvmlSystemEventSetWait)(&request);
  std::vector<SystemEvent> events;
  if (code == NVML_ERROR_TIMEOUT) return events;
  detail::check_nvml(code, "nvmlSystemEventSetWait");
  for (unsigned i = 0; i < std::min(request.numEvent, most); ++i)
    events.push_back({static_cast<SystemEventType>(raw[i].eventType), raw[i].gpuId});
  return events;
}

}  // namespace cucore::system
