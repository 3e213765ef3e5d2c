// SPDX-License-Identifier: Apache-2.0
// system_device.cpp: the NVML device of cuda.core.system.Device.
#include "cucore/system_device.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "system.hpp"

namespace cucore::python {
namespace {

using SystemDevice = system::Device;
using Guard = nb::call_guard<WithoutGil>;
using FieldPairs = std::vector<std::pair<unsigned, unsigned>>;  // (field, scope)

std::vector<system::FieldId> fields_of(const FieldPairs& pairs) {
  std::vector<system::FieldId> ids;
  for (const auto& [field, scope] : pairs) ids.push_back({field, scope});
  return ids;
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
  cls.def_prop_ro("supported_event_types", &SystemDevice::get_supported_event_types, Guard{});
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
  cls.def("get_fan", &SystemDevice::get_fan, Guard{});
  cls.def(
      "get_field_values",
      [](const SystemDevice& d, const FieldPairs& fields) {
        return d.get_field_values(fields_of(fields));
      },
      Guard{});
  cls.def(
      "clear_field_values",
      [](const SystemDevice& d, const FieldPairs& fields) {
        d.clear_field_values(fields_of(fields));
      },
      Guard{});
  cls.def_prop_ro("attributes", &SystemDevice::attributes, Guard{});
  cls.def_prop_ro("dynamic_pstates_info", &SystemDevice::dynamic_pstates_info, Guard{});
  cls.def_prop_ro("cooler", &SystemDevice::cooler, Guard{});
  cls.def_prop_ro("repair_status", &SystemDevice::repair_status, Guard{});
  cls.def_prop_ro("pci_info", &SystemDevice::pci_info, Guard{});
  cls.def_prop_ro("temperature", &SystemDevice::temperature);
  cls.def_prop_ro("inforom", &SystemDevice::inforom);
  cls.def_prop_ro("mig", &SystemDevice::mig);
  cls.def("get_nvlink", &SystemDevice::get_nvlink, Guard{});
  cls.def("get_nvlinks", &SystemDevice::get_nvlinks, Guard{});
  // Parts created from the handle alone, without an NVML call.
  cls.def("fan", [](const SystemDevice& d, unsigned fan) { return FanInfo{d.handle(), fan}; });
  cls.def("nvlink", [](const SystemDevice& d, unsigned n) { return NvlinkInfo{d.handle(), n}; });
}

}  // namespace

void bind_system_device(nb::module_& m) {
  nb::class_<SystemDevice> cls(m, "_SystemDevice");
  bind_devices(cls);
  bind_answers(cls);
  bind_made(cls);
}

}  // namespace cucore::python
