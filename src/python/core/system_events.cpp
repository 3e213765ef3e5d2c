// SPDX-License-Identifier: Apache-2.0
// system_events.cpp: NVML events for cuda.core.system.
#include "cucore/system_events.hpp"

#include <nanobind/stl/vector.h>

#include "system.hpp"

namespace cucore::python {
namespace {

using namespace system;
using Guard = nb::call_guard<WithoutGil>;

/// Throws NVML's timeout error.
[[noreturn]] void nothing_came(const char* call) {
  constexpr int kTimeout = 10;  // NVML_ERROR_TIMEOUT
  throw NVMLError{kTimeout, "NVML_ERROR_TIMEOUT", "NVML_ERROR_TIMEOUT: no event came in time",
                  call};
}

}  // namespace

void bind_system_events(nb::module_& m) {
  nb::class_<EventData>(m, "_SystemEventData")
      .def_ro("device", &EventData::device)
      .def_ro("event_type", &EventData::event_type)
      .def_ro("event_data", &EventData::event_data)
      .def_ro("gpu_instance_id", &EventData::gpu_instance_id)
      .def_ro("compute_instance_id", &EventData::compute_instance_id);
  nb::class_<SystemEvent>(m, "_SystemEvent")
      .def_prop_ro("event_type",
                   [](const SystemEvent& e) { return static_cast<int>(e.event_type); })
      .def_ro("gpu_id", &SystemEvent::gpu_id)
      .def_prop_ro("device", &SystemEvent::device, Guard{});
  nb::class_<DeviceEvents>(m, "_SystemDeviceEvents")
      .def("__init__",
           [](DeviceEvents* self, system::Device device, std::uint64_t events) {
             new (self) DeviceEvents{device, events};
           })
      .def(
          "wait",
          [](const DeviceEvents& events, unsigned timeout_ms) {
            auto found = events.wait(timeout_ms);
            if (!found) nothing_came("nvmlEventSetWait_v2");
            return *found;
          },
          Guard{});
  nb::class_<SystemEvents>(m, "_SystemEvents")
      .def("__init__",
           [](SystemEvents* self, const std::vector<int>& events) {
             std::vector<SystemEventType> kinds;
             for (const int event : events) kinds.push_back(static_cast<SystemEventType>(event));
             new (self) SystemEvents{kinds};
           })
      .def(
          "wait",
          [](const SystemEvents& events, unsigned timeout_ms, unsigned most) {
            auto found = events.wait(timeout_ms, most);
            if (found.empty()) nothing_came("nvmlSystemEventSetWait");
            return found;
          },
          Guard{});
}

}  // namespace cucore::python
