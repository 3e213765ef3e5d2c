// SPDX-License-Identifier: Apache-2.0
// cucore/system_device.hpp: a GPU as an NVML device.
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

/// A GPU, identified by its NVML handle. Indices are NVML's: CUDA_VISIBLE_DEVICES does not change
/// them. A value type: copies refer to the same GPU.
class CUCORE_EXPORT Device {
 public:
  explicit Device(int index = 0);                                   ///< The GPU of an NVML index.
  explicit Device(NvmlDevice handle) noexcept : handle_{handle} {}  ///< The GPU of an NVML handle.
  /// Returns the GPU with this UUID. The prefix GPU- or MIG- is optional; the default is GPU-.
  static Device from_uuid(std::string_view uuid);
  /// Returns the GPU with this PCI bus ID (domain:bus:device.function).
  static Device from_pci_bus_id(const std::string& bus_id);
  /// Returns the GPU or MIG device of a CUDA device.
  static Device from_cuda_device(cucore::Device device);
  /// Returns all GPUs of the system.
  static std::vector<Device> get_all_devices();
  /// Returns the GPUs with affinity to a CPU.
  static std::vector<Device> get_all_devices_with_cpu_affinity(unsigned cpu_index);
  /// Returns the CUDA device of the GPU. Throws InvalidStateError if the GPU is not visible to
  /// CUDA.
  [[nodiscard]] cucore::Device to_cuda_device() const;
  /// Returns the NVML handle.
  [[nodiscard]] NvmlDevice handle() const noexcept { return handle_; }

  // ---- identification
  [[nodiscard]] int index() const;                        ///< NVML index
  [[nodiscard]] std::string name() const;                 ///< product name, such as "NVIDIA H200"
  [[nodiscard]] std::string uuid() const;                 ///< UUID with the prefix GPU- or MIG-
  [[nodiscard]] std::string uuid_without_prefix() const;  ///< UUID as in cucore::Device::uuid()
  [[nodiscard]] std::string serial() const;               ///< serial number of the board
  [[nodiscard]] int minor_number() const;                 ///< minor number n of /dev/nvidia<n>
  [[nodiscard]] int module_id() const;                    ///< position of the module on a baseboard
  [[nodiscard]] int numa_node_id() const;                 ///< NUMA node of the device memory
  [[nodiscard]] unsigned architecture() const;            ///< architecture: NVML_DEVICE_ARCH_...
  [[nodiscard]] std::string brand() const;                ///< brand, such as "Tesla"
  [[nodiscard]] ComputeCapability compute_capability() const;  ///< compute capability
  [[nodiscard]] PciInfo pci_info() const;                      ///< PCI identifiers and link
  /// PCI bus ID (domain:bus:device.function).
  [[nodiscard]] std::string pci_bus_id() const { return pci_info().bus_id; }

  // ---- memory, utilization, state
  [[nodiscard]] MemoryInfo memory_info() const;       ///< device memory
  [[nodiscard]] MemoryInfo bar1_memory_info() const;  ///< BAR1 memory; `reserved` is 0
  [[nodiscard]] Utilization utilization() const;      ///< utilization of the GPU and its memory
  [[nodiscard]] DeviceAttributes attributes() const;  ///< resources of a MIG device
  /// Utilization by domain: GPU, frame buffer, video engine, bus and further domains, in NVML's
  /// order.
  [[nodiscard]] std::vector<GpuDynamicPstatesUtilization> dynamic_pstates_info() const;
  [[nodiscard]] CoolerInfo cooler() const;           ///< control and target of the cooler
  [[nodiscard]] RepairStatus repair_status() const;  ///< repairs that are pending until a reset
  /// Processes with a compute context on the GPU.
  [[nodiscard]] std::vector<ProcessInfo> compute_running_processes() const;
  /// Performance state (P-state); 0 is maximum performance.
  [[nodiscard]] int performance_state() const;
  [[nodiscard]] std::vector<int> supported_pstates() const;  ///< supported performance states
  /// Mask of the reasons for reduced clocks (nvmlClocksEventReason...).
  [[nodiscard]] std::uint64_t current_clock_event_reasons() const;
  /// Mask of the reasons that the GPU can report.
  [[nodiscard]] std::uint64_t supported_clock_event_reasons() const;
  /// Whether auto-boosted clocks are enabled: (current state, default state).
  [[nodiscard]] std::pair<bool, bool> is_auto_boosted_clocks_enabled() const;
  /// Whether persistence mode is enabled: the driver stays loaded without clients.
  [[nodiscard]] bool is_persistence_mode_enabled() const;
  void set_persistence_mode(bool enabled) const;         ///< Enables or disables persistence mode.
  [[nodiscard]] bool is_c2c_enabled() const;             ///< whether chip-to-chip mode is enabled
  [[nodiscard]] bool is_display_active() const;          ///< whether a display is active
  [[nodiscard]] bool is_display_connected() const;       ///< whether a display is connected
  [[nodiscard]] AddressingMode addressing_mode() const;  ///< addressing mode for host memory

  // ---- clocks, temperatures, power, fans, InfoROM, MIG
  /// Returns a view of a clock.
  [[nodiscard]] ClockInfo get_clock(ClockType type) const { return {handle_, type}; }
  /// Returns a view of the temperatures.
  [[nodiscard]] Temperature temperature() const { return Temperature{handle_}; }
  /// Returns a view of the power readings.
  [[nodiscard]] Power power() const { return Power{handle_}; }
  [[nodiscard]] int num_fans() const;  ///< number of fans
  /// Returns a view of the fan with this index. Throws std::invalid_argument if it does not exist.
  [[nodiscard]] FanInfo get_fan(int fan = 0) const;
  /// Returns a view of the InfoROM.
  [[nodiscard]] InforomInfo inforom() const { return InforomInfo{handle_}; }
  /// Returns a view of the MIG configuration.
  [[nodiscard]] MigInfo mig() const { return MigInfo{handle_}; }

  // ---- fields, NVLink, topology
  /// Returns the values of several NVML fields in one call.
  [[nodiscard]] std::vector<FieldValue> get_field_values(std::span<const FieldId> fields) const;
  /// Resets the counters of these fields. Throws NVMLError for the first one that fails.
  void clear_field_values(std::span<const FieldId> fields) const;
  [[nodiscard]] int get_nvlink_count() const;  ///< number of NVLinks
  /// Returns a view of the NVLink with this index. Throws std::invalid_argument if it does not
  /// exist.
  [[nodiscard]] NvlinkInfo get_nvlink(int link) const;
  /// Returns views of all NVLinks.
  [[nodiscard]] std::vector<NvlinkInfo> get_nvlinks() const;
  /// Returns the GPUs whose nearest common ancestor with this one is at `level` or closer.
  [[nodiscard]] std::vector<Device> get_topology_nearest_gpus(GpuTopologyLevel level) const;
  /// Returns the indices of the CPUs with affinity to the GPU.
  [[nodiscard]] std::vector<int> get_cpu_affinity(AffinityScope scope = AffinityScope::node) const;
  /// Returns the indices of the NUMA nodes with affinity to the GPU.
  [[nodiscard]] std::vector<int> get_memory_affinity(
      AffinityScope scope = AffinityScope::node) const;
  void set_cpu_affinity() const;    ///< Binds the calling thread to the CPUs near the GPU.
  void clear_cpu_affinity() const;  ///< Removes the binding of the calling thread.

  /// Returns the mask of events that the GPU can report (nvmlEventType...).
  [[nodiscard]] std::uint64_t get_supported_event_types() const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  NvmlDevice handle_;
};

}  // namespace cucore::system
