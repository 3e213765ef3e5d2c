// SPDX-License-Identifier: Apache-2.0
// cucore/system.hpp: the system's GPUs as NVML sees them, whether or not this process uses CUDA on
// them. On the CPU device its own NVML answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cucore/device.hpp"
#include "cucore/error.hpp"
#include "cucore/export.hpp"

struct nvmlDevice_st;

namespace cucore {

/// A call of NVML failed; code() is an nvmlReturn_t, name() its symbol.
class CUCORE_EXPORT NVMLError : public CUDAError {
 public:
  using CUDAError::CUDAError;
  ~NVMLError() override;
};

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
/// What one GPU can do with another.
enum class GpuP2PCapsIndex { read = 0, write, nvlink, atomics, pci, unknown };
/// Whether it can, and why not.
enum class GpuP2PStatus {
  ok = 0,
  chipset_not_supported,
  gpu_not_supported,
  ioh_topology_not_supported,
  disabled_by_regkey,
  not_supported,
  unknown
};
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
enum class SystemEventType { unbind = 1, bind = 2 };    ///< What can happen to the system's GPUs.
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
/// A GPU on the PCI bus.
struct PciInfo {
  unsigned domain = 0;        ///< the domain
  unsigned bus = 0;           ///< the bus
  unsigned device = 0;        ///< the device on its bus
  unsigned vendor_id = 0;     ///< the vendor
  unsigned device_id = 0;     ///< what the vendor calls the device
  unsigned subsystem_id = 0;  ///< the subsystem's vendor and device
  unsigned base_class = 0;    ///< the PCI class
  unsigned sub_class = 0;     ///< its subclass
  std::string bus_id{};       ///< domain:bus:device.function
};
/// The lanes between a GPU and the system. Generations are PCI Express's: 5.
struct PcieLink {
  unsigned max_link_generation = 0;      ///< the fastest that both have in common
  unsigned link_generation = 0;          ///< the fastest of the device
  unsigned max_link_width = 0;           ///< the most lanes that both have in common
  unsigned current_link_generation = 0;  ///< now
  unsigned current_link_width = 0;       ///< now
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
};
/// A field, and the part of it, to ask for.
struct FieldId {
  unsigned field_id = 0;  ///< NVML_FI_...
  unsigned scope_id = 0;  ///< which part of it
};

class Device;

/// Numbers of a version: {580, 65, 6}.
using Version = std::vector<int>;
[[nodiscard]] CUCORE_EXPORT Version get_user_mode_driver_version();    ///< CUDA's: {13, 0}
[[nodiscard]] CUCORE_EXPORT Version get_kernel_mode_driver_version();  ///< of the kernel's driver
[[nodiscard]] CUCORE_EXPORT Version get_nvml_version();                ///< of NVML
[[nodiscard]] CUCORE_EXPORT std::string get_driver_branch();  ///< what the driver was built from
[[nodiscard]] CUCORE_EXPORT int get_num_devices();            ///< how many GPUs the system has
/// The name of a process that uses a GPU.
[[nodiscard]] CUCORE_EXPORT std::string get_process_name(unsigned pid);
/// Whether one GPU can do something with another.
[[nodiscard]] CUCORE_EXPORT GpuP2PStatus get_p2p_status(Device a, Device b, GpuP2PCapsIndex index);
/// What lies between two GPUs.
[[nodiscard]] CUCORE_EXPORT GpuTopologyLevel get_topology_common_ancestor(Device a, Device b);

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
  [[nodiscard]] PcieLink pcie_link() const;                                   ///< its lanes
  [[nodiscard]] unsigned pcie_replay_counter() const;  ///< how often a packet was sent again
  [[nodiscard]] unsigned pcie_tx_throughput() const;   ///< KB/s to its peer, over 20 ms
  [[nodiscard]] unsigned pcie_rx_throughput() const;   ///< KB/s from its peer, over 20 ms

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
  /// The version of one part of its record of itself.
  [[nodiscard]] std::string inforom_version(InforomObject object) const;
  [[nodiscard]] std::string inforom_image_version() const;        ///< of the whole record
  [[nodiscard]] unsigned inforom_configuration_checksum() const;  ///< of its configuration
  [[nodiscard]] std::string board_part_number() const;            ///< of the board
  void validate_inforom() const;  ///< Throws NVMLError where the record is corrupt.

  // ---- fields, links, neighbours
  /// Asks several of NVML's fields at once.
  [[nodiscard]] std::vector<FieldValue> get_field_values(std::span<const FieldId> fields) const;
  [[nodiscard]] int get_nvlink_count() const;                 ///< how many NVLinks it has
  [[nodiscard]] bool get_nvlink_state(int link) const;        ///< the link is up
  [[nodiscard]] unsigned get_nvlink_version(int link) const;  ///< of the link, NVML's number
  /// The GPUs with no more than this between them and this one.
  [[nodiscard]] std::vector<Device> get_topology_nearest_gpus(GpuTopologyLevel level) const;
  /// The numbers of the CPUs near it.
  [[nodiscard]] std::vector<int> get_cpu_affinity(AffinityScope scope = AffinityScope::node) const;
  /// The numbers of the NUMA nodes near it.
  [[nodiscard]] std::vector<int> get_memory_affinity(
      AffinityScope scope = AffinityScope::node) const;
  void set_cpu_affinity() const;    ///< Runs this thread near it.
  void clear_cpu_affinity() const;  ///< Runs this thread anywhere again.

  // ---- MIG
  [[nodiscard]] bool is_mig_device() const;               ///< it is a part of a GPU
  [[nodiscard]] std::pair<bool, bool> mig_mode() const;   ///< (now, after a reset): can be divided
  [[nodiscard]] Device mig_parent() const;                ///< the GPU a MIG device is part of
  [[nodiscard]] std::vector<Device> mig_devices() const;  ///< the MIG devices there are

  /// NVML's bits: the events it can report.
  [[nodiscard]] std::uint64_t get_supported_event_types() const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  NvmlDevice handle_;
};

/// What happened to a GPU.
struct EventData {
  Device device;                     ///< the GPU it is about
  std::uint64_t event_type = 0;      ///< NVML's bit of what happened
  std::uint64_t event_data = 0;      ///< the number of a XID error; 0 for other events
  unsigned gpu_instance_id = 0;      ///< of a MIG device
  unsigned compute_instance_id = 0;  ///< of a MIG device
};

/// Collects events of a GPU from its construction on. Moves, never copies.
class CUCORE_EXPORT DeviceEvents {
 public:
  DeviceEvents(Device device, std::uint64_t events);  ///< `events`: NVML's bits
  /// The next event; nothing when none comes in time.
  [[nodiscard]] std::optional<EventData> wait(unsigned timeout_ms = 0) const;

 private:
  struct Destroy {
    void operator()(void* set) const noexcept;
  };
  std::unique_ptr<void, Destroy> set_;
};

/// A GPU came or went.
struct SystemEvent {
  SystemEventType event_type{};                       ///< whether it came or went
  unsigned gpu_id = 0;                                ///< its place on the PCI bus, as a number
  [[nodiscard]] CUCORE_EXPORT Device device() const;  ///< the GPU it is about
};

/// Collects the coming and going of GPUs from its construction on. Moves, never copies.
class CUCORE_EXPORT SystemEvents {
 public:
  explicit SystemEvents(std::span<const SystemEventType> events);  ///< Of these kinds.
  /// At most `most` events; none when none come in time.
  [[nodiscard]] std::vector<SystemEvent> wait(unsigned timeout_ms = 0, unsigned most = 1) const;

 private:
  struct Destroy {
    void operator()(void* set) const noexcept;
  };
  std::unique_ptr<void, Destroy> set_;
};

}  // namespace system
}  // namespace cucore
