// SPDX-License-Identifier: Apache-2.0
// cucore/system_parts.hpp: results of NVML, and views of a GPU's clocks, fans and links.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cucore/error.hpp"
#include "cucore/export.hpp"

struct nvmlDevice_st;

namespace cucore {

/// NVML with the names of Python's cuda.core.system. The views (clocks, temperatures, fans, links)
/// query NVML in each call. Functions throw NVMLError if NVML returns an error, and
/// pathfinder::NotFoundError if the library is not found.
namespace system {

using NvmlDevice = nvmlDevice_st*;  ///< NVML handle of a GPU

/// Addressing mode: whether a GPU accesses host memory through the system's page tables, with
/// heterogeneous memory management (hmm) or address translation services (ats).
enum class AddressingMode { none = 0, hmm = 1, ats = 2 };
enum class AffinityScope { node = 0, socket = 1 };               ///< Scope of affinity.
enum class ClockId { current = 0, customer_boost_max = 3 };      ///< Value of a clock.
enum class ClockType { graphics = 0, sm, memory, video };        ///< Clock domain.
enum class CoolerControl { toggle = 1, variable = 2 };           ///< Control signal of a cooler.
enum class FanControlPolicy { temperature_controlled, manual };  ///< Control policy of a fan.
/// Topology level of the nearest common ancestor of two GPUs.
enum class GpuTopologyLevel {
  internal = 0,
  single = 10,
  multiple = 20,
  hostbridge = 30,
  node = 40,
  system = 50
};
enum class InforomObject { oem = 0, ecc, power, den };  ///< Object of the InfoROM.
/// Temperature thresholds, for example of slowdown and shutdown.
enum class TemperatureThresholds {
  shutdown = 0,
  slowdown,
  mem_max,
  gpu_max,
  acoustic_min,
  acoustic_curr,
  acoustic_max,
  gps_curr
};

/// Sizes of a memory, in bytes.
struct MemoryInfo {
  std::uint64_t total = 0;     ///< total size
  std::uint64_t reserved = 0;  ///< size reserved by the driver
  std::uint64_t free = 0;      ///< unallocated size
  std::uint64_t used = 0;      ///< allocated size
};
/// Utilization of a GPU and its memory, in percent of the time.
struct Utilization {
  unsigned gpu = 0;     ///< time in which a kernel was running
  unsigned memory = 0;  ///< time in which device memory was read or written
};
/// A process that uses a GPU.
struct ProcessInfo {
  unsigned pid = 0;                               ///< process ID
  std::uint64_t used_gpu_memory = 0;              ///< device memory in use, in bytes
  std::optional<unsigned> gpu_instance_id{};      ///< GPU instance of a MIG device
  std::optional<unsigned> compute_instance_id{};  ///< compute instance of a MIG device
};
/// PCI identifiers of a GPU, and its PCI Express link. The functions query NVML.
struct CUCORE_EXPORT PciInfo {
  unsigned domain = 0;          ///< PCI domain
  unsigned bus = 0;             ///< PCI bus
  unsigned device = 0;          ///< device number on the bus
  unsigned vendor_id = 0;       ///< PCI vendor ID
  unsigned device_id = 0;       ///< PCI device ID
  unsigned subsystem_id = 0;    ///< PCI subsystem ID (vendor and device)
  unsigned base_class = 0;      ///< PCI base class
  unsigned sub_class = 0;       ///< PCI subclass
  std::string bus_id{};         ///< PCI bus ID (domain:bus:device.function)
  NvmlDevice handle = nullptr;  ///< NVML handle that the functions use

  /// Maximum PCIe generation that both GPU and system support, for example 5.
  [[nodiscard]] unsigned max_link_generation() const;
  /// Maximum PCIe generation that the GPU supports.
  [[nodiscard]] unsigned link_generation() const;
  /// Maximum number of lanes that both GPU and system support.
  [[nodiscard]] unsigned max_link_width() const;
  [[nodiscard]] unsigned current_link_generation() const;  ///< current PCIe generation
  [[nodiscard]] unsigned current_link_width() const;       ///< current number of lanes
  [[nodiscard]] unsigned replay_counter() const;           ///< number of PCIe replays
  [[nodiscard]] unsigned tx_throughput() const;            ///< transmitted KB/s, over 20 ms
  [[nodiscard]] unsigned rx_throughput() const;            ///< received KB/s, over 20 ms
};
/// Control signal and target of a cooler, as values of NVML.
struct CoolerInfo {
  int signal_type = 0;  ///< a CoolerControl
  int target = 0;       ///< NVML_THERMAL_COOLER_TARGET_...
};
/// Repairs that are pending until a reset.
struct RepairStatus {
  bool channel_repair_pending = false;  ///< repair of a memory channel
  bool tpc_repair_pending = false;      ///< repair of a TPC (a group of multiprocessors)
};
/// Resources of a MIG device. Shared resources are shared with other MIG devices.
struct DeviceAttributes {
  unsigned multiprocessor_count = 0;          ///< number of multiprocessors
  unsigned shared_copy_engine_count = 0;      ///< number of shared copy engines
  unsigned shared_decoder_count = 0;          ///< number of shared video decoders
  unsigned shared_encoder_count = 0;          ///< number of shared video encoders
  unsigned shared_jpeg_count = 0;             ///< number of shared JPEG decoders
  unsigned shared_ofa_count = 0;              ///< number of shared optical flow accelerators
  unsigned gpu_instance_slice_count = 0;      ///< number of slices of the GPU instance
  unsigned compute_instance_slice_count = 0;  ///< number of slices of the compute instance
  std::uint64_t memory_size_mb = 0;           ///< size of device memory in MiB
};
/// Utilization of one domain of a GPU, and the thresholds that change its performance state.
struct GpuDynamicPstatesUtilization {
  bool is_present = false;     ///< true if the GPU has the domain
  unsigned percentage = 0;     ///< percent of the time in which the domain was busy
  unsigned inc_threshold = 0;  ///< percentage above which clocks are raised
  unsigned dec_threshold = 0;  ///< percentage below which clocks are lowered
};
/// Offset of a clock and its limits, in MHz.
struct ClockOffsets {
  int clock_offset_mhz = 0;  ///< current offset
  int min_offset_mhz = 0;    ///< minimum offset
  int max_offset_mhz = 0;    ///< maximum offset
};
/// A thermal sensor. Temperatures are in degrees Celsius.
struct ThermalSensor {
  int controller = 0;        ///< thermal controller, as a value of NVML
  int target = 0;            ///< thermal target, as a value of NVML
  int current_temp = 0;      ///< current temperature
  int default_min_temp = 0;  ///< minimum of the default range
  int default_max_temp = 0;  ///< maximum of the default range
};
/// Result of an NVML field query.
struct FieldValue {
  unsigned field_id = 0;          ///< queried field: NVML_FI_...
  unsigned scope_id = 0;          ///< queried scope of the field
  std::int64_t timestamp = 0;     ///< time of the query, in microseconds since 1970
  std::int64_t latency_usec = 0;  ///< duration of the query, in microseconds
  int status = 0;                 ///< an nvmlReturn_t; `value` is valid only if it is 0
  std::variant<std::uint64_t, std::int64_t, double> value{};  ///< value of the field
  CUCORE_EXPORT void validate() const;  ///< Throws NVMLError if the query failed.
};
/// A field to query.
struct FieldId {
  unsigned field_id = 0;  ///< NVML_FI_...
  unsigned scope_id = 0;  ///< scope of the field, for example the index of an NVLink
};

class Device;

/// A clock of a GPU, in MHz. A non-owning view.
class CUCORE_EXPORT ClockInfo {
 public:
  /// Creates a view of a clock.
  ClockInfo(NvmlDevice device, ClockType type) noexcept : device_{device}, type_{type} {}
  /// Returns the current clock, or the maximum customer boost clock.
  [[nodiscard]] unsigned get_current_mhz(ClockId id = ClockId::current) const;
  /// Returns the maximum clock.
  [[nodiscard]] unsigned get_max_mhz() const;
  /// Returns the maximum boost clock that a user can request.
  [[nodiscard]] unsigned get_max_customer_boost_mhz() const;
  /// Returns the minimum and maximum clock of a performance state.
  [[nodiscard]] std::pair<unsigned, unsigned> get_min_max_clock_of_pstate_mhz(int pstate) const;
  /// Returns the clock offsets of a performance state.
  [[nodiscard]] ClockOffsets get_offsets(int pstate) const;

 private:
  NvmlDevice device_;
  ClockType type_;
};

/// The temperatures of a GPU, in degrees Celsius. A non-owning view.
class CUCORE_EXPORT Temperature {
 public:
  /// Creates a view of the temperatures of a GPU.
  explicit Temperature(NvmlDevice device) noexcept : device_{device} {}
  /// Returns the temperature of the GPU die.
  [[nodiscard]] int get_sensor() const;
  /// Returns a temperature threshold.
  [[nodiscard]] unsigned get_threshold(TemperatureThresholds threshold) const;
  /// Returns whether get_threshold() is deprecated for a threshold: Ada and later GPUs have NVML
  /// fields instead.
  [[nodiscard]] bool is_threshold_deprecated(TemperatureThresholds threshold) const;
  /// Returns the sensors of a thermal target, which is a value of NVML: 1 is the GPU, 15 is all.
  [[nodiscard]] std::vector<ThermalSensor> get_thermal_settings(unsigned target) const;
  /// Returns the margin to the nearest slowdown threshold.
  [[nodiscard]] int margin() const;

 private:
  NvmlDevice device_;
};

/// The power of a GPU. A non-owning view.
class CUCORE_EXPORT Power {
 public:
  /// Creates a view of the power readings of a GPU.
  explicit Power(NvmlDevice device) noexcept : device_{device} {}
  [[nodiscard]] unsigned usage_mw() const;  ///< current power usage, in milliwatts
  [[nodiscard]] unsigned limit_mw() const;  ///< enforced power limit, in milliwatts
  /// Energy consumed since the driver was loaded, in millijoules.
  [[nodiscard]] std::uint64_t total_energy_mj() const;

 private:
  NvmlDevice device_;
};

/// A fan of a GPU. Speeds are in percent of the maximum. A non-owning view.
class CUCORE_EXPORT FanInfo {
 public:
  /// Creates a view of the fan with this index.
  FanInfo(NvmlDevice device, unsigned fan) noexcept : device_{device}, fan_{fan} {}
  [[nodiscard]] unsigned speed() const;      ///< current speed
  void set_speed(unsigned percent) const;    ///< Sets the speed; the control policy is then manual.
  void set_default_speed() const;            ///< Restores the default control policy.
  [[nodiscard]] unsigned speed_rpm() const;  ///< current speed in revolutions per minute
  [[nodiscard]] unsigned target_speed() const;  ///< target speed
  /// Minimum and maximum speed that can be set.
  [[nodiscard]] std::pair<unsigned, unsigned> min_max_speed() const;
  [[nodiscard]] FanControlPolicy control_policy()
      const;  ///< whether temperature or a user controls the speed

 private:
  NvmlDevice device_;
  unsigned fan_;
};

/// The InfoROM of a GPU, a non-volatile store of its configuration and state. A non-owning view.
class CUCORE_EXPORT InforomInfo {
 public:
  /// Creates a view of the InfoROM of a GPU.
  explicit InforomInfo(NvmlDevice device) noexcept : device_{device} {}
  /// Returns the version of an object of the InfoROM.
  [[nodiscard]] std::string get_version(InforomObject object) const;
  [[nodiscard]] std::string image_version() const;        ///< version of the InfoROM image
  [[nodiscard]] unsigned configuration_checksum() const;  ///< checksum of the configuration
  [[nodiscard]] std::string board_part_number() const;    ///< part number of the board
  /// Returns the time of the last flush of the black box (BBX), in microseconds since 1970, and its
  /// duration in microseconds.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> bbx_flush_time() const;
  void validate() const;  ///< Throws NVMLError if the InfoROM is corrupted.

 private:
  NvmlDevice device_;
};

/// The MIG configuration of a GPU. A non-owning view.
class CUCORE_EXPORT MigInfo {
 public:
  /// Creates a view of the MIG configuration of a GPU.
  explicit MigInfo(NvmlDevice device) noexcept : device_{device} {}
  [[nodiscard]] bool is_mig_device() const;  ///< whether the device is a MIG device
  [[nodiscard]] bool mode() const;           ///< whether MIG mode is enabled
  void set_mode(bool enabled) const;         ///< Sets the MIG mode; some GPUs require a reset.
  [[nodiscard]] bool pending_mode() const;   ///< MIG mode after the next reset
  [[nodiscard]] int device_count() const;    ///< maximum number of MIG devices
  [[nodiscard]] Device parent() const;       ///< the GPU of a MIG device
  /// Returns the MIG device with this index.
  [[nodiscard]] Device get_device_by_index(int index) const;
  /// Returns the existing MIG devices.
  [[nodiscard]] std::vector<Device> get_all_devices() const;

 private:
  [[nodiscard]] std::pair<bool, bool> modes() const;
  NvmlDevice device_;
};

/// An NVLink of a GPU. A non-owning view.
class CUCORE_EXPORT NvlinkInfo {
 public:
  static constexpr int max_links = 36;  ///< maximum number of links of a GPU in NVML
  /// Creates a view of the NVLink with this index.
  NvlinkInfo(NvmlDevice device, unsigned link) noexcept : device_{device}, link_{link} {}
  [[nodiscard]] bool state() const;        ///< whether the link is active
  [[nodiscard]] unsigned version() const;  ///< version: NVML_NVLINK_VERSION_...

 private:
  NvmlDevice device_;
  unsigned link_;
};

}  // namespace system
}  // namespace cucore
