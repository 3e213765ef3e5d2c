// SPDX-License-Identifier: Apache-2.0
// system.cpp: what cuda.core.system converts: NVML's answers as Python's values.
#include "cucore/system.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
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

}  // namespace

void bind_system(nb::module_& m) {
  nb::class_<SystemDevice> cls(m, "_SystemDevice");
  bind_devices(cls);
  bind_answers(cls);
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
