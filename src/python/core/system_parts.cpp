// SPDX-License-Identifier: Apache-2.0
// system_parts.cpp: the result types of system::Device.
#include "cucore/system_parts.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "cucore/system_device.hpp"
#include "system.hpp"

namespace cucore::python {
namespace {

using namespace system;
using Guard = nb::call_guard<WithoutGil>;

/// Returns an instance ID. Throws NVML's "not supported" error if the device is not a MIG device.
unsigned instance(std::optional<unsigned> number) {
  constexpr int kNotSupported = 3;  // NVML_ERROR_NOT_SUPPORTED
  if (number) return *number;
  throw NVMLError{kNotSupported, "NVML_ERROR_NOT_SUPPORTED",
                  "NVML_ERROR_NOT_SUPPORTED: the device is not divided into instances"};
}

/// Binds NVML's structures with the fields of the Python classes.
void bind_records(nb::module_& m) {
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
      .def_prop_ro("gpu_instance_id",
                   [](const ProcessInfo& p) { return instance(p.gpu_instance_id); })
      .def_prop_ro("compute_instance_id",
                   [](const ProcessInfo& p) { return instance(p.compute_instance_id); });
  nb::class_<DeviceAttributes>(m, "_SystemAttributes")
      .def_ro("multiprocessor_count", &DeviceAttributes::multiprocessor_count)
      .def_ro("shared_copy_engine_count", &DeviceAttributes::shared_copy_engine_count)
      .def_ro("shared_decoder_count", &DeviceAttributes::shared_decoder_count)
      .def_ro("shared_encoder_count", &DeviceAttributes::shared_encoder_count)
      .def_ro("shared_jpeg_count", &DeviceAttributes::shared_jpeg_count)
      .def_ro("shared_ofa_count", &DeviceAttributes::shared_ofa_count)
      .def_ro("gpu_instance_slice_count", &DeviceAttributes::gpu_instance_slice_count)
      .def_ro("compute_instance_slice_count", &DeviceAttributes::compute_instance_slice_count)
      .def_ro("memory_size_mb", &DeviceAttributes::memory_size_mb);
  nb::class_<RepairStatus>(m, "_SystemRepairStatus")
      .def_ro("channel_repair_pending", &RepairStatus::channel_repair_pending)
      .def_ro("tpc_repair_pending", &RepairStatus::tpc_repair_pending);
  nb::class_<CoolerInfo>(m, "_SystemCooler")
      .def_ro("signal_type", &CoolerInfo::signal_type)
      .def_ro("target", &CoolerInfo::target);
  nb::class_<ThermalSensor>(m, "_SystemThermalSensor")
      .def_ro("controller", &ThermalSensor::controller)
      .def_ro("target", &ThermalSensor::target)
      .def_ro("current_temp", &ThermalSensor::current_temp)
      .def_ro("default_min_temp", &ThermalSensor::default_min_temp)
      .def_ro("default_max_temp", &ThermalSensor::default_max_temp);
  nb::class_<GpuDynamicPstatesUtilization>(m, "_SystemPstateUtilization")
      .def_ro("is_present", &GpuDynamicPstatesUtilization::is_present)
      .def_ro("percentage", &GpuDynamicPstatesUtilization::percentage)
      .def_ro("inc_threshold", &GpuDynamicPstatesUtilization::inc_threshold)
      .def_ro("dec_threshold", &GpuDynamicPstatesUtilization::dec_threshold);
  nb::class_<ClockOffsets>(m, "_SystemClockOffsets")
      .def_ro("clock_offset_mhz", &ClockOffsets::clock_offset_mhz)
      .def_ro("max_offset_mhz", &ClockOffsets::max_offset_mhz)
      .def_ro("min_offset_mhz", &ClockOffsets::min_offset_mhz);
  nb::class_<FieldValue>(m, "_SystemFieldValue")
      .def_ro("field_id", &FieldValue::field_id)
      .def_ro("scope_id", &FieldValue::scope_id)
      .def_ro("timestamp", &FieldValue::timestamp)
      .def_ro("latency_usec", &FieldValue::latency_usec)
      .def("validate", &FieldValue::validate)
      .def_prop_ro("value", [](const FieldValue& f) {
        f.validate();
        return f.value;
      });
}

/// Binds the parts of a device that query NVML on access.
void bind_views(nb::module_& m) {
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
  nb::class_<PciInfo>(m, "_SystemPci")
      .def_ro("bus", &PciInfo::bus)
      .def_ro("bus_id", &PciInfo::bus_id)
      .def_ro("device", &PciInfo::device)
      .def_ro("device_id", &PciInfo::device_id)
      .def_ro("vendor_id", &PciInfo::vendor_id)
      .def_ro("domain", &PciInfo::domain)
      .def_ro("subsystem_id", &PciInfo::subsystem_id)
      .def_ro("base_class", &PciInfo::base_class)
      .def_ro("sub_class", &PciInfo::sub_class)
      .def_prop_ro("max_link_generation", &PciInfo::max_link_generation, Guard{})
      .def_prop_ro("link_generation", &PciInfo::link_generation, Guard{})
      .def_prop_ro("max_link_width", &PciInfo::max_link_width, Guard{})
      .def_prop_ro("current_link_generation", &PciInfo::current_link_generation, Guard{})
      .def_prop_ro("current_link_width", &PciInfo::current_link_width, Guard{})
      .def_prop_ro("replay_counter", &PciInfo::replay_counter, Guard{})
      .def_prop_ro("tx_throughput", &PciInfo::tx_throughput, Guard{})
      .def_prop_ro("rx_throughput", &PciInfo::rx_throughput, Guard{});
  nb::class_<InforomInfo>(m, "_SystemInforom")
      .def_prop_ro("image_version", &InforomInfo::image_version, Guard{})
      .def_prop_ro("configuration_checksum", &InforomInfo::configuration_checksum, Guard{})
      .def_prop_ro("board_part_number", &InforomInfo::board_part_number, Guard{})
      .def_prop_ro("bbx_flush_time", &InforomInfo::bbx_flush_time, Guard{})
      .def(
          "get_version",
          [](const InforomInfo& i, int object) {
            return i.get_version(static_cast<InforomObject>(object));
          },
          Guard{})
      .def("validate", &InforomInfo::validate, Guard{});
  nb::class_<MigInfo>(m, "_SystemMig")
      .def_prop_ro("is_mig_device", &MigInfo::is_mig_device, Guard{})
      .def_prop_rw("mode", &MigInfo::mode, &MigInfo::set_mode, Guard{})
      .def_prop_ro("pending_mode", &MigInfo::pending_mode, Guard{})
      .def_prop_ro("device_count", &MigInfo::device_count, Guard{})
      .def_prop_ro("parent", &MigInfo::parent, Guard{})
      .def("get_device_by_index", &MigInfo::get_device_by_index, Guard{})
      .def("get_all_devices", &MigInfo::get_all_devices, Guard{});
  nb::class_<NvlinkInfo>(m, "_SystemNvlink")
      .def_prop_ro_static("max_links", [](nb::handle) { return NvlinkInfo::max_links; })
      .def_prop_ro("state", &NvlinkInfo::state, Guard{})
      .def_prop_ro("version", &NvlinkInfo::version, Guard{});
  nb::class_<Temperature>(m, "_SystemTemperature")
      .def("get_sensor", &Temperature::get_sensor, Guard{})
      .def(
          "get_threshold",
          [](const Temperature& t, int threshold) {
            return t.get_threshold(static_cast<TemperatureThresholds>(threshold));
          },
          Guard{})
      .def(
          "is_threshold_deprecated",
          [](const Temperature& t, int threshold) {
            return t.is_threshold_deprecated(static_cast<TemperatureThresholds>(threshold));
          },
          Guard{})
      .def("get_thermal_settings", &Temperature::get_thermal_settings, Guard{})
      .def_prop_ro("margin", &Temperature::margin, Guard{});
}

}  // namespace

void bind_system_parts(nb::module_& m) {
  bind_records(m);
  bind_views(m);
}

}  // namespace cucore::python
