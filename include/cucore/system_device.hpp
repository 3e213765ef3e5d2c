// SPDX-License-Identifier: Apache-2.0
// cucore/system_device.hpp: a GPU as NVML sees it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cucore/device.hpp"
#include "cucore/export.hpp"
#include "cucore/system_parts.hpp"  // IWYU pragma: export

namespace cucore::system {

/// A GPU by index, UUID or PCI bus id. Indices are NVML's: CUDA_VISIBLE_DEVICES does not change
/// them. A value: copies are the same GPU.
class CUCORE_EXPORT Device {
 public:
  explicit Device(int index = 0);                                   ///< NVML's number
  explicit Device(NvmlDevice handle) noexcept : handle_{handle} {}  ///< By NVML's handle.
  /// With or without the prefix GPU- or MIG-; without one GPU- is meant.
  static Device from_uuid(std::string_view uuid);
  static Device from_pci_bus_id(const std::string& bus_id);  ///< domain:bus:device.function
  static Device from_cuda_device(cucore::Device device);     ///< what CUDA runs on
  static std::vector<Device> get_all_devices();              ///< every one of them
  /// The GPUs near a CPU.
  static std::vector<Device> get_all_devices_with_cpu_affinity(unsigned cpu_index);
  /// The same GPU for CUDA. Throws InvalidStateError where CUDA does not see it.
  [[nodiscard]] cucore::Device to_cuda_device() const;
  [[nodiscard]] NvmlDevice handle() const noexcept { return handle_; }  ///< NVML's

  // ---- who it is
  [[nodiscard]] int index() const;                             ///< NVML's number
  [[nodiscard]] std::string name() const;                      ///< as its maker calls it
  [[nodiscard]] std::string uuid() const;                      ///< with its prefix GPU- or MIG-
  [[nodiscard]] std::string uuid_without_prefix() const;       ///< as cucore::Device has it
  [[nodiscard]] std::string serial() const;                    ///< of the board
  [[nodiscard]] int minor_number() const;                      ///< in /dev/nvidia<n>
  [[nodiscard]] int module_id() const;                         ///< its place on its baseboard
  [[nodiscard]] int numa_node_id() const;                      ///< of its memory
  [[nodiscard]] unsigned architecture() const;                 ///< NVML_DEVICE_ARCH_...
  [[nodiscard]] std::string brand() const;                     ///< "Tesla", "GeForce RTX"
  [[nodiscard]] ComputeCapability compute_capability() const;  ///< its generation for CUDA
  [[nodiscard]] PciInfo pci_info() const;                      ///< on the PCI bus
  [[nodiscard]] std::string pci_bus_id() const { return pci_info().bus_id; }  ///< its place

  // ---- memory, load, state
  [[nodiscard]] MemoryInfo memory_info() const;       ///< device memory
  [[nodiscard]] MemoryInfo bar1_memory_info() const;  ///< the host's window to it
  [[nodiscard]] Utilization utilization() const;      ///< how busy it is
  [[nodiscard]] DeviceAttributes attributes() const;  ///< what a MIG device has
  /// How busy its parts are: GPU, frame buffer, video engine, bus and what follows in NVML.
  [[nodiscard]] std::vector<GpuDynamicPstatesUtilization> dynamic_pstates_info() const;
  [[nodiscard]] CoolerInfo cooler() const;           ///< how it is cooled
  [[nodiscard]] RepairStatus repair_status() const;  ///< what waits for a reset
  /// The processes that run kernels on it.
  [[nodiscard]] std::vector<ProcessInfo> compute_running_processes() const;
  [[nodiscard]] int performance_state() const;               ///< 0 is the fastest
  [[nodiscard]] std::vector<int> supported_pstates() const;  ///< the performance states it has
  /// NVML's bits: why its clocks are not at their highest.
  [[nodiscard]] std::uint64_t current_clock_event_reasons() const;
  [[nodiscard]] std::uint64_t supported_clock_event_reasons() const;  ///< the bits it can give
  /// (now, by default)
  [[nodiscard]] std::pair<bool, bool> is_auto_boosted_clocks_enabled() const;
  [[nodiscard]] bool is_persistence_mode_enabled() const;  ///< the driver stays loaded unused
  void set_persistence_mode(bool enabled) const;           ///< changes that
  [[nodiscard]] bool is_c2c_enabled() const;               ///< a chip-to-chip link to the CPU
  [[nodiscard]] bool is_display_active() const;            ///< something is shown
  [[nodiscard]] bool is_display_connected() const;         ///< a display is there
  [[nodiscard]] AddressingMode addressing_mode() const;    ///< how it reaches host memory

  // ---- parts
  [[nodiscard]] ClockInfo get_clock(ClockType type) const { return {handle_, type}; }  ///< a clock
  [[nodiscard]] Temperature temperature() const { return Temperature{handle_}; }       ///< its heat
  [[nodiscard]] Power power() const { return Power{handle_}; }  ///< its power
  [[nodiscard]] int num_fans() const;                           ///< how many
  /// A fan by number. Throws std::invalid_argument where there is none.
  [[nodiscard]] FanInfo get_fan(int fan = 0) const;
  [[nodiscard]] InforomInfo inforom() const { return InforomInfo{handle_}; }  ///< its own record
  [[nodiscard]] MigInfo mig() const { return MigInfo{handle_}; }              ///< how it is divided

  // ---- fields, links, neighbours
  /// Asks several of NVML's fields at once.
  [[nodiscard]] std::vector<FieldValue> get_field_values(std::span<const FieldId> fields) const;
  /// Sets counters back; throws NVMLError with the first that cannot be.
  void clear_field_values(std::span<const FieldId> fields) const;
  [[nodiscard]] int get_nvlink_count() const;  ///< how many NVLinks it has
  /// An NVLink by number. Throws std::invalid_argument where there is none.
  [[nodiscard]] NvlinkInfo get_nvlink(int link) const;
  [[nodiscard]] std::vector<NvlinkInfo> get_nvlinks() const;  ///< all of them
  /// The GPUs with no more than this between them and this one.
  [[nodiscard]] std::vector<Device> get_topology_nearest_gpus(GpuTopologyLevel level) const;
  /// The numbers of the CPUs near it.
  [[nodiscard]] std::vector<int> get_cpu_affinity(AffinityScope scope = AffinityScope::node) const;
  /// The numbers of the NUMA nodes near it.
  [[nodiscard]] std::vector<int> get_memory_affinity(
      AffinityScope scope = AffinityScope::node) const;
  void set_cpu_affinity() const;    ///< Runs this thread near it.
  void clear_cpu_affinity() const;  ///< Runs this thread anywhere again.

  /// NVML's bits: the events it can report.
  [[nodiscard]] std::uint64_t get_supported_event_types() const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  NvmlDevice handle_;
};

}  // namespace cucore::system
