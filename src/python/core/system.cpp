// SPDX-License-Identifier: Apache-2.0
// system.cpp: what cuda.core.system converts: NVML's answers as Python's values.
#include "cucore/system.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "support.hpp"

namespace cucore::python {
namespace {

using SystemDevice = system::Device;
using Guard = nb::call_guard<WithoutGil>;

/// A version as Python has it: a tuple of numbers.
template <system::Version (*Get)()>
nb::object version() {
  system::Version numbers;
  {
    const WithoutGil release;
    numbers = Get();
  }
  nb::list list;
  for (const int number : numbers) list.append(number);
  return nb::tuple(list);
}

SystemDevice of_handle(std::size_t handle) {
  return SystemDevice{reinterpret_cast<system::NvmlDevice>(handle)};
}

void bind_devices(nb::class_<SystemDevice>& cls) {
  cls.def_static(
      "of_index", [](int index) { return SystemDevice{index}; }, Guard{});
  cls.def_static(
      "of_uuid", [](const std::string& u) { return SystemDevice::from_uuid(u); }, Guard{});
  cls.def_static("of_pci_bus_id", &SystemDevice::from_pci_bus_id, Guard{});
  cls.def_static(
      "of_cuda", [](int id) { return SystemDevice::from_cuda_device(Device{id}); }, Guard{});
  cls.def_static("of_handle", &of_handle);
  cls.def_static("all", &SystemDevice::get_all_devices, Guard{});
  cls.def_static("near_cpu", &SystemDevice::get_all_devices_with_cpu_affinity, Guard{});
  cls.def(
      "cuda_device_id", [](const SystemDevice& d) { return d.to_cuda_device().device_id(); },
      Guard{});
  cls.def_prop_ro("handle",
                  [](const SystemDevice& d) { return reinterpret_cast<std::size_t>(d.handle()); });
}

void bind_answers(nb::class_<SystemDevice>& cls) {
  cls.def_prop_ro("index", &SystemDevice::index, Guard{});
  cls.def_prop_ro("name", &SystemDevice::name, Guard{});
  cls.def_prop_ro("uuid", &SystemDevice::uuid, Guard{});
  cls.def_prop_ro("uuid_without_prefix", &SystemDevice::uuid_without_prefix, Guard{});
  cls.def_prop_ro("serial", &SystemDevice::serial, Guard{});
  cls.def_prop_ro("minor_number", &SystemDevice::minor_number, Guard{});
  cls.def_prop_ro("module_id", &SystemDevice::module_id, Guard{});
  cls.def_prop_ro("numa_node_id", &SystemDevice::numa_node_id, Guard{});
  cls.def_prop_ro("architecture", &SystemDevice::architecture, Guard{});
  cls.def_prop_ro("brand", &SystemDevice::brand, Guard{});
  cls.def_prop_ro(
      "cuda_compute_capability",
      [](const SystemDevice& d) {
        const ComputeCapability cc = d.compute_capability();
        return std::pair{cc.major, cc.minor};
      },
      Guard{});
  cls.def_prop_ro("pci_bus_id", &SystemDevice::pci_bus_id, Guard{});
  cls.def_prop_ro("performance_state", &SystemDevice::performance_state, Guard{});
  cls.def_prop_ro("supported_pstates", &SystemDevice::supported_pstates, Guard{});
  cls.def_prop_ro("current_clock_event_reasons", &SystemDevice::current_clock_event_reasons,
                  Guard{});
  cls.def_prop_ro("supported_clock_event_reasons", &SystemDevice::supported_clock_event_reasons,
                  Guard{});
  cls.def_prop_ro("is_auto_boosted_clocks_enabled", &SystemDevice::is_auto_boosted_clocks_enabled,
                  Guard{});
  cls.def_prop_ro("is_persistence_mode_enabled", &SystemDevice::is_persistence_mode_enabled,
                  Guard{});
  cls.def("set_persistence_mode", &SystemDevice::set_persistence_mode, Guard{});
  cls.def_prop_ro("is_c2c_enabled", &SystemDevice::is_c2c_enabled, Guard{});
  cls.def_prop_ro("is_display_active", &SystemDevice::is_display_active, Guard{});
  cls.def_prop_ro("is_display_connected", &SystemDevice::is_display_connected, Guard{});
  cls.def_prop_ro(
      "addressing_mode",
      [](const SystemDevice& d) { return static_cast<int>(d.addressing_mode()); }, Guard{});
  cls.def_prop_ro("num_fans", &SystemDevice::num_fans, Guard{});
  cls.def(
      "check_fan", [](const SystemDevice& d, int fan) { (void)d.get_fan(fan); }, Guard{});
  cls.def_prop_ro("nvlink_count", &SystemDevice::get_nvlink_count, Guard{});
  cls.def(
      "topology_nearest_gpus",
      [](const SystemDevice& d, int level) {
        return d.get_topology_nearest_gpus(static_cast<system::GpuTopologyLevel>(level));
      },
      Guard{});
  cls.def(
      "cpu_affinity",
      [](const SystemDevice& d, int scope) {
        return d.get_cpu_affinity(static_cast<system::AffinityScope>(scope));
      },
      Guard{});
  cls.def(
      "memory_affinity",
      [](const SystemDevice& d, int scope) {
        return d.get_memory_affinity(static_cast<system::AffinityScope>(scope));
      },
      Guard{});
  cls.def("set_cpu_affinity", &SystemDevice::set_cpu_affinity, Guard{});
  cls.def("clear_cpu_affinity", &SystemDevice::clear_cpu_affinity, Guard{});
  cls.def_prop_ro("is_mig_device", &SystemDevice::is_mig_device, Guard{});
  cls.def_prop_ro("mig_mode", &SystemDevice::mig_mode, Guard{});
  cls.def_prop_ro("mig_parent", &SystemDevice::mig_parent, Guard{});
  cls.def_prop_ro("mig_devices", &SystemDevice::mig_devices, Guard{});
  cls.def_prop_ro("supported_event_types", &SystemDevice::get_supported_event_types, Guard{});
  cls.def(
      "is_threshold_deprecated",
      [](const SystemDevice& d, int threshold) {
        return d.temperature().is_threshold_deprecated(
            static_cast<system::TemperatureThresholds>(threshold));
      },
      Guard{});
}

/// NVML's structures, with the fields that Python's classes show.
void bind_records(nb::module_& m) {
  using namespace system;
  nb::class_<MemoryInfo>(m, "_SystemMemory")
      .def_ro("total", &MemoryInfo::total)
      .def_ro("reserved", &MemoryInfo::reserved)
      .def_ro("free", &MemoryInfo::free)
      .def_ro("used", &MemoryInfo::used);
  nb::class_<Utilization>(m, "_SystemUtilization")
      .def_ro("gpu", &Utilization::gpu)
      .def_ro("memory", &Utilization::memory);
  nb::class_<ProcessInfo>(m, "_SystemProcess")
      .def_ro("pid", &ProcessInfo::pid)
      .def_ro("used_gpu_memory", &ProcessInfo::used_gpu_memory)
      .def_ro("gpu_instance_id", &ProcessInfo::gpu_instance_id)
      .def_ro("compute_instance_id", &ProcessInfo::compute_instance_id);
  nb::class_<ClockOffsets>(m, "_SystemClockOffsets")
      .def_ro("clock_offset_mhz", &ClockOffsets::clock_offset_mhz)
      .def_ro("max_offset_mhz", &ClockOffsets::max_offset_mhz)
      .def_ro("min_offset_mhz", &ClockOffsets::min_offset_mhz);
  nb::class_<FieldValue>(m, "_SystemFieldValue")
      .def_ro("field_id", &FieldValue::field_id)
      .def_ro("scope_id", &FieldValue::scope_id)
      .def_ro("timestamp", &FieldValue::timestamp)
      .def_ro("latency_usec", &FieldValue::latency_usec)
      .def_ro("status", &FieldValue::status)
      .def_ro("value", &FieldValue::value);
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
}

/// NVML says that nothing came by an error.
[[noreturn]] void nothing_came(const char* call) {
  constexpr int kTimeout = 10;  // NVML_ERROR_TIMEOUT
  throw NVMLError{kTimeout, "NVML_ERROR_TIMEOUT", "NVML_ERROR_TIMEOUT: no event came in time",
                  call};
}

/// Parts of a device that ask NVML when looked at, and events to wait for.
void bind_parts(nb::module_& m) {
  using namespace system;
  nb::class_<ClockInfo>(m, "_SystemClock")
      .def(
          "get_current_mhz",
          [](const ClockInfo& c, int id) { return c.get_current_mhz(static_cast<ClockId>(id)); },
          Guard{})
      .def("get_max_mhz", &ClockInfo::get_max_mhz, Guard{})
      .def("get_max_customer_boost_mhz", &ClockInfo::get_max_customer_boost_mhz, Guard{})
      .def("get_min_max_clock_of_pstate_mhz", &ClockInfo::get_min_max_clock_of_pstate_mhz, Guard{})
      .def("get_offsets", &ClockInfo::get_offsets, Guard{});
  nb::class_<FanInfo>(m, "_SystemFan")
      .def_prop_ro("speed", &FanInfo::speed, Guard{})
      .def("set_speed", &FanInfo::set_speed, Guard{})
      .def("set_default_speed", &FanInfo::set_default_speed, Guard{})
      .def_prop_ro("speed_rpm", &FanInfo::speed_rpm, Guard{})
      .def_prop_ro("target_speed", &FanInfo::target_speed, Guard{})
      .def_prop_ro("min_max_speed", &FanInfo::min_max_speed, Guard{})
      .def_prop_ro(
          "control_policy", [](const FanInfo& f) { return static_cast<int>(f.control_policy()); },
          Guard{});
  nb::class_<DeviceEvents>(m, "_SystemDeviceEvents")
      .def("__init__",
           [](DeviceEvents* self, SystemDevice device, std::uint64_t events) {
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

void bind_made(nb::class_<SystemDevice>& cls) {
  using namespace system;
  cls.def_prop_ro("memory_info", &SystemDevice::memory_info, Guard{});
  cls.def_prop_ro("bar1_memory_info", &SystemDevice::bar1_memory_info, Guard{});
  cls.def_prop_ro("utilization", &SystemDevice::utilization, Guard{});
  cls.def_prop_ro("compute_running_processes", &SystemDevice::compute_running_processes, Guard{});
  cls.def("get_clock", [](const SystemDevice& d, int type) {
    return d.get_clock(static_cast<ClockType>(type));
  });
  cls.def("get_fan", [](const SystemDevice& d, unsigned fan) { return FanInfo{d.handle(), fan}; });
  cls.def(
      "get_field_values",
      [](const SystemDevice& d, const std::vector<std::pair<unsigned, unsigned>>& fields) {
        std::vector<FieldId> ids;
        for (const auto& [field, scope] : fields) ids.push_back({field, scope});
        return d.get_field_values(ids);
      },
      Guard{});
  cls.def_prop_ro(
      "temperature", [](const SystemDevice& d) { return d.temperature().get_sensor(); }, Guard{});
  cls.def_prop_ro(
      "temperature_margin", [](const SystemDevice& d) { return d.temperature().margin(); },
      Guard{});
  cls.def(
      "temperature_threshold",
      [](const SystemDevice& d, int threshold) {
        return d.temperature().get_threshold(static_cast<TemperatureThresholds>(threshold));
      },
      Guard{});
}

}  // namespace

void bind_system(nb::module_& m) {
  bind_records(m);
  bind_parts(m);
  nb::class_<SystemDevice> cls(m, "_SystemDevice");
  bind_devices(cls);
  bind_answers(cls);
  bind_made(cls);
  m.def("_system_driver_version", &version<&system::get_kernel_mode_driver_version>);
  m.def("_system_nvml_version", &version<&system::get_nvml_version>);
  m.def("_system_driver_branch", &system::get_driver_branch, Guard{});
  m.def("_system_num_devices", &system::get_num_devices, Guard{});
  m.def("_system_process_name", &system::get_process_name, Guard{});
  m.def(
      "_system_p2p_status",
      [](SystemDevice a, SystemDevice b, int index) {
        return static_cast<int>(
            system::get_p2p_status(a, b, static_cast<system::GpuP2PCapsIndex>(index)));
      },
      Guard{});
  m.def(
      "_system_common_ancestor",
      [](SystemDevice a, SystemDevice b) {
        return static_cast<int>(system::get_topology_common_ancestor(a, b));
      },
      Guard{});
}
CUCORE_BIND(kBindRest, bind_system)

}  // namespace cucore::python
