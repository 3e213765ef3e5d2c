// SPDX-License-Identifier: Apache-2.0
// cucore/system_parts.hpp: what a system::Device hands out: records of NVML's answers, and views of
// its parts (clocks, temperatures, fans, links), which ask NVML when called.
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

/// NVML with the words of Python's cuda.core.system. Every function throws NVMLError with what NVML
/// answers, and pathfinder::NotFoundError where the library is not there.
namespace system {

using NvmlDevice = nvmlDevice_st*;  ///< NVML's handle of a GPU

/// Whether a GPU reaches host memory through the system's page tables.
enum class AddressingMode { none = 0, hmm = 1, ats = 2 };
enum class AffinityScope { node = 0, socket = 1 };               ///< How near is near.
enum class ClockId { current = 0, customer_boost_max = 3 };      ///< Which of a clock's rates.
enum class ClockType { graphics = 0, sm, memory, video };        ///< What a clock drives.
enum class CoolerControl { toggle = 1, variable = 2 };           ///< How a cooler is controlled.
enum class FanControlPolicy { temperature_controlled, manual };  ///< Who controls a fan.
/// What lies between two GPUs.
enum class GpuTopologyLevel {
  internal = 0,
  single = 10,
  multiple = 20,
  hostbridge = 30,
  node = 40,
  system = 50
};
enum class InforomObject { oem = 0, ecc, power, den };  ///< A part of the inforom.
/// A temperature at which something happens.
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

/// Device memory in bytes.
struct MemoryInfo {
  std::uint64_t total = 0;     ///< all of it
  std::uint64_t reserved = 0;  ///< what the driver keeps for itself
  std::uint64_t free = 0;      ///< not allocated
  std::uint64_t used = 0;      ///< what is in use
};
/// Per cent of the time the GPU and its memory were busy.
struct Utilization {
  unsigned gpu = 0;     ///< a kernel ran
  unsigned memory = 0;  ///< memory was read or written
};
/// A process that uses a GPU.
struct ProcessInfo {
  unsigned pid = 0;                   ///< its number
  std::uint64_t used_gpu_memory = 0;  ///< bytes of device memory it holds
  /// of a MIG device
  std::optional<unsigned> gpu_instance_id{};
  std::optional<unsigned> compute_instance_id{};  ///< of a MIG device
};
/// A GPU on the PCI bus. The functions ask NVML when called; generations are PCI Express's: 5.
struct CUCORE_EXPORT PciInfo {
  unsigned domain = 0;          ///< the domain
  unsigned bus = 0;             ///< the bus
  unsigned device = 0;          ///< the device on its bus
  unsigned vendor_id = 0;       ///< the vendor
  unsigned device_id = 0;       ///< what the vendor calls the device
  unsigned subsystem_id = 0;    ///< the subsystem's vendor and device
  unsigned base_class = 0;      ///< the PCI class
  unsigned sub_class = 0;       ///< its subclass
  std::string bus_id{};         ///< domain:bus:device.function
  NvmlDevice handle = nullptr;  ///< whom the functions ask about

  /// the fastest generation that GPU and system have in common
  [[nodiscard]] unsigned max_link_generation() const;
  [[nodiscard]] unsigned link_generation() const;  ///< the fastest generation of the GPU
  /// the most lanes that GPU and system have in common
  [[nodiscard]] unsigned max_link_width() const;
  [[nodiscard]] unsigned current_link_generation() const;  ///< the generation now
  [[nodiscard]] unsigned current_link_width() const;       ///< the lanes in use now
  [[nodiscard]] unsigned replay_counter() const;           ///< how often a packet was sent again
  [[nodiscard]] unsigned tx_throughput() const;            ///< KB/s to its peer, over 20 ms
  [[nodiscard]] unsigned rx_throughput() const;            ///< KB/s from its peer, over 20 ms
};
/// How a cooler is controlled, and what it cools, as NVML's numbers.
struct CoolerInfo {
  int signal_type = 0;  ///< a CoolerControl
  int target = 0;       ///< NVML_THERMAL_COOLER_TARGET_...
};
/// Repairs that wait for a reset.
struct RepairStatus {
  bool channel_repair_pending = false;  ///< of a memory channel
  bool tpc_repair_pending = false;      ///< of a group of multiprocessors
};
/// What a MIG device has of its GPU.
struct DeviceAttributes {
  unsigned multiprocessor_count = 0;          ///< multiprocessors
  unsigned shared_copy_engine_count = 0;      ///< copy engines, shared with others
  unsigned shared_decoder_count = 0;          ///< video decoders, shared with others
  unsigned shared_encoder_count = 0;          ///< video encoders, shared with others
  unsigned shared_jpeg_count = 0;             ///< JPEG decoders, shared with others
  unsigned shared_ofa_count = 0;              ///< optical flow accelerators, shared with others
  unsigned gpu_instance_slice_count = 0;      ///< slices of the GPU instance
  unsigned compute_instance_slice_count = 0;  ///< slices of the compute instance
  std::uint64_t memory_size_mb = 0;           ///< memory in MiB
};
/// How busy one part of a GPU is.
struct GpuDynamicPstatesUtilization {
  bool is_present = false;     ///< the GPU has such a part
  unsigned percentage = 0;     ///< per cent of the time it was busy
  unsigned inc_threshold = 0;  ///< busier than this, in per cent, the clocks go up
  unsigned dec_threshold = 0;  ///< less busy than this, in per cent, the clocks go down
};
/// How far a clock is, and can be, moved, in MHz.
struct ClockOffsets {
  int clock_offset_mhz = 0;  ///< how far it is moved
  int min_offset_mhz = 0;    ///< the most it can be lowered
  int max_offset_mhz = 0;    ///< the most it can be raised
};
/// One sensor of temperature, in degrees Celsius.
struct ThermalSensor {
  int controller = 0;        ///< what reads it, as NVML's number
  int target = 0;            ///< what it measures, as NVML's number
  int current_temp = 0;      ///< now
  int default_min_temp = 0;  ///< the lowest it is made for
  int default_max_temp = 0;  ///< the highest it is made for
};
/// The answer to one of NVML's field queries.
struct FieldValue {
  unsigned field_id = 0;          ///< the field that was asked for
  unsigned scope_id = 0;          ///< the part of it that was asked for
  std::int64_t timestamp = 0;     ///< when it was read, in microseconds since 1970
  std::int64_t latency_usec = 0;  ///< how long reading took
  int status = 0;                 ///< an nvmlReturn_t; 0 where `value` counts
  std::variant<std::uint64_t, std::int64_t, double> value{};  ///< the answer
  CUCORE_EXPORT void validate() const;  ///< Throws NVMLError where NVML could not answer.
};
/// A field, and the part of it, to ask for.
struct FieldId {
  unsigned field_id = 0;  ///< NVML_FI_...
  unsigned scope_id = 0;  ///< which part of it
};

class Device;

/// A clock of a GPU, in MHz. A view of its device.
class CUCORE_EXPORT ClockInfo {
 public:
  ClockInfo(NvmlDevice device, ClockType type) noexcept : device_{device}, type_{type} {}  ///< one
  /// The clock now, or what an application may ask for.
  [[nodiscard]] unsigned get_current_mhz(ClockId id = ClockId::current) const;
  [[nodiscard]] unsigned get_max_mhz() const;                 ///< the fastest it can be
  [[nodiscard]] unsigned get_max_customer_boost_mhz() const;  ///< the fastest that can be asked for
  /// (slowest, fastest) in a performance state
  [[nodiscard]] std::pair<unsigned, unsigned> get_min_max_clock_of_pstate_mhz(int pstate) const;
  [[nodiscard]] ClockOffsets get_offsets(int pstate) const;  ///< in a performance state

 private:
  NvmlDevice device_;
  ClockType type_;
};

/// The temperatures of a GPU in degrees Celsius. A view of its device.
class CUCORE_EXPORT Temperature {
 public:
  explicit Temperature(NvmlDevice device) noexcept : device_{device} {}  ///< Of this device.
  [[nodiscard]] int get_sensor() const;                                  ///< of the GPU
  /// Where something happens.
  [[nodiscard]] unsigned get_threshold(TemperatureThresholds threshold) const;
  /// True where get_threshold() is deprecated: Ada and later have fields instead.
  [[nodiscard]] bool is_threshold_deprecated(TemperatureThresholds threshold) const;
  /// The sensors of a target, which is NVML's number: 1 is the GPU, 15 all.
  [[nodiscard]] std::vector<ThermalSensor> get_thermal_settings(unsigned target) const;
  [[nodiscard]] int margin() const;  ///< how far it is from slowing down

 private:
  NvmlDevice device_;
};

/// The power of a GPU. A view of its device.
class CUCORE_EXPORT Power {
 public:
  explicit Power(NvmlDevice device) noexcept : device_{device} {}  ///< Of this device.
  [[nodiscard]] unsigned usage_mw() const;                         ///< now, in milliwatts
  [[nodiscard]] unsigned limit_mw() const;                         ///< the limit in force
  [[nodiscard]] std::uint64_t total_energy_mj() const;  ///< millijoules since the driver's start

 private:
  NvmlDevice device_;
};

/// A fan of a GPU. A view of its device.
class CUCORE_EXPORT FanInfo {
 public:
  FanInfo(NvmlDevice device, unsigned fan) noexcept : device_{device}, fan_{fan} {}  ///< one of it
  [[nodiscard]] unsigned speed() const;         ///< per cent of the highest
  void set_speed(unsigned percent) const;       ///< changes that
  void set_default_speed() const;               ///< lets the GPU set it again
  [[nodiscard]] unsigned speed_rpm() const;     ///< turns in a minute
  [[nodiscard]] unsigned target_speed() const;  ///< per cent that it is going to
  /// (lowest, highest) per cent that can be set
  [[nodiscard]] std::pair<unsigned, unsigned> min_max_speed() const;
  [[nodiscard]] FanControlPolicy control_policy() const;  ///< who sets its speed

 private:
  NvmlDevice device_;
  unsigned fan_;
};

/// A GPU's own record of itself. A view of its device.
class CUCORE_EXPORT InforomInfo {
 public:
  explicit InforomInfo(NvmlDevice device) noexcept : device_{device} {}  ///< Of this device.
  [[nodiscard]] std::string get_version(InforomObject object) const;     ///< of one part of it
  [[nodiscard]] std::string image_version() const;                       ///< of the whole record
  [[nodiscard]] unsigned configuration_checksum() const;                 ///< of its configuration
  [[nodiscard]] std::string board_part_number() const;                   ///< of the board
  /// When the black box was last written (microseconds since 1970), and how many microseconds that
  /// took.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> bbx_flush_time() const;
  void validate() const;  ///< Throws NVMLError where the record is corrupt.

 private:
  NvmlDevice device_;
};

/// How a GPU is divided into MIG devices. A view of its device.
class CUCORE_EXPORT MigInfo {
 public:
  explicit MigInfo(NvmlDevice device) noexcept : device_{device} {}  ///< Of this device.
  [[nodiscard]] bool is_mig_device() const;                          ///< it is a part of a GPU
  [[nodiscard]] bool mode() const;                                   ///< it can be divided
  void set_mode(bool enabled) const;        ///< changes that; some GPUs need a reset
  [[nodiscard]] bool pending_mode() const;  ///< what mode() is after a reset
  [[nodiscard]] int device_count() const;   ///< the most MIG devices it can have
  [[nodiscard]] Device parent() const;      ///< the GPU a MIG device is part of
  [[nodiscard]] Device get_device_by_index(int index) const;  ///< one of its MIG devices
  [[nodiscard]] std::vector<Device> get_all_devices() const;  ///< the MIG devices there are

 private:
  [[nodiscard]] std::pair<bool, bool> modes() const;
  NvmlDevice device_;
};

/// One NVLink of a GPU. A view of its device.
class CUCORE_EXPORT NvlinkInfo {
 public:
  static constexpr int max_links = 36;  ///< the most links that NVML knows of any GPU
  NvlinkInfo(NvmlDevice device, unsigned link) noexcept : device_{device}, link_{link} {}  ///< one
  [[nodiscard]] bool state() const;        ///< the link is up
  [[nodiscard]] unsigned version() const;  ///< NVML_NVLINK_VERSION_...

 private:
  NvmlDevice device_;
  unsigned link_;
};

}  // namespace system
}  // namespace cucore
