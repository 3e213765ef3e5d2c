// SPDX-License-Identifier: Apache-2.0
// system.cpp: the system's GPUs as NVML sees them.
#include "cucore/system.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <climits>
#include <cstdio>
#include <stdexcept>

#include "core/nvml.hpp"
#include "cucore/driver.hpp"

namespace cucore::system {
namespace {

/// The last argument of a function of NVML is where it writes its answer.
#define CUCORE_ASK(type, name, ...)                         \
  ([&] {                                                    \
    type answer{};                                          \
    CUCORE_NVML(name, __VA_ARGS__ __VA_OPT__(, ) & answer); \
    return answer;                                          \
  }())
/// The same for text.
#define CUCORE_ASK_TEXT(name, ...)                                   \
  ([&] {                                                             \
    char text[256] = {};                                             \
    CUCORE_NVML(name, __VA_ARGS__ __VA_OPT__(, ) text, sizeof text); \
    return std::string{text};                                        \
  }())

/// The numbers of "580.65.06"; what is no number is left out.
Version numbers_of(std::string_view text) {
  Version numbers;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('.'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    int number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error == std::errc{} && end == part.data() + part.size()) numbers.push_back(number);
  }
  return numbers;
}

/// A list that NVML fills: asked for its length first, and again where it has grown in between.
template <class T, class Ask>
std::vector<T> list_of(Ask ask, const char* call) {
  unsigned count = 0;
  nvmlReturn_t code = ask(&count, nullptr);
  std::vector<T> list;
  while (code == NVML_ERROR_INSUFFICIENT_SIZE || (code == NVML_SUCCESS && count > list.size())) {
    list.resize(count + 4);  // a process may start in between
    count = static_cast<unsigned>(list.size());
    code = ask(&count, list.data());
  }
  detail::check_nvml(code, call);
  list.resize(std::min<std::size_t>(count, list.size()));
  return list;
}

std::vector<Device> devices_of(const std::vector<nvmlDevice_t>& handles) {
  std::vector<Device> devices;
  devices.reserve(handles.size());
  for (const nvmlDevice_t handle : handles) devices.emplace_back(handle);
  return devices;
}

/// Words for as many bits as the system has CPUs.
std::vector<unsigned long> cpu_words() {
  constexpr long kBits = CHAR_BIT * sizeof(unsigned long);
  const long cpus = std::max(1L, ::sysconf(_SC_NPROCESSORS_CONF));
  return std::vector<unsigned long>(static_cast<std::size_t>((cpus + kBits - 1) / kBits));
}

std::vector<int> bits_of(const std::vector<unsigned long>& words) {
  constexpr std::size_t kBits = CHAR_BIT * sizeof(unsigned long);
  std::vector<int> bits;
  for (std::size_t i = 0; i < words.size() * kBits; ++i)
    if ((words[i / kBits] >> (i % kBits) & 1) != 0) bits.push_back(static_cast<int>(i));
  return bits;
}

/// NVML's number for "this device is not divided".
std::optional<unsigned> instance(unsigned number) {
  return number == 0xFFFFFFFF ? std::nullopt : std::optional{number};
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

// ---- the system

Version get_user_mode_driver_version() {
  const int version = driver_info().version;
  return {version / 1000, version % 1000 / 10};
}
Version get_kernel_mode_driver_version() {
  return numbers_of(CUCORE_ASK_TEXT(nvmlSystemGetDriverVersion));
}
Version get_nvml_version() { return numbers_of(CUCORE_ASK_TEXT(nvmlSystemGetNVMLVersion)); }

std::string get_driver_branch() {
  nvmlSystemDriverBranchInfo_t info{};
  info.version = nvmlSystemDriverBranchInfo_v1;
  CUCORE_NVML(nvmlSystemGetDriverBranch, &info, sizeof info.branch);
  return info.branch;
}

int get_num_devices() { return static_cast<int>(CUCORE_ASK(unsigned, nvmlDeviceGetCount_v2)); }

std::string get_process_name(unsigned pid) {
  std::string name(4096, '\0');
  CUCORE_NVML(nvmlSystemGetProcessName, pid, name.data(), static_cast<unsigned>(name.size()));
  name.resize(name.find('\0'));
  return name;
}

GpuP2PStatus get_p2p_status(Device a, Device b, GpuP2PCapsIndex index) {
  return static_cast<GpuP2PStatus>(CUCORE_ASK(nvmlGpuP2PStatus_t, nvmlDeviceGetP2PStatus,
                                              a.handle(), b.handle(),
                                              static_cast<nvmlGpuP2PCapsIndex_t>(index)));
}

GpuTopologyLevel get_topology_common_ancestor(Device a, Device b) {
  return static_cast<GpuTopologyLevel>(CUCORE_ASK(
      nvmlGpuTopologyLevel_t, nvmlDeviceGetTopologyCommonAncestor, a.handle(), b.handle()));
}

// ---- which GPU

Device::Device(int index) : handle_{nullptr} {
  CUCORE_NVML(nvmlDeviceGetHandleByIndex_v2, static_cast<unsigned>(index), &handle_);
}

Device Device::from_uuid(std::string_view uuid) {
  const bool has_prefix = uuid.starts_with("GPU-") || uuid.starts_with("MIG-");
  const std::string text = has_prefix ? std::string{uuid} : "GPU-" + std::string{uuid};
  return Device{CUCORE_ASK(nvmlDevice_t, nvmlDeviceGetHandleByUUID, text.c_str())};
}

Device Device::from_pci_bus_id(const std::string& bus_id) {
  return Device{CUCORE_ASK(nvmlDevice_t, nvmlDeviceGetHandleByPciBusId_v2, bus_id.c_str())};
}

Device Device::from_cuda_device(cucore::Device device) {
  const std::string uuid = device.uuid();
  try {
    return from_uuid("GPU-" + uuid);
  } catch (const NVMLError&) {
    return from_uuid("MIG-" + uuid);
  }
}

std::vector<Device> Device::get_all_devices() {
  std::vector<Device> devices;
  for (int i = 0, n = get_num_devices(); i < n; ++i) devices.emplace_back(i);
  return devices;
}

std::vector<Device> Device::get_all_devices_with_cpu_affinity(unsigned cpu_index) {
  const auto ask = [&](unsigned* count, nvmlDevice_t* list) {
    return CUCORE_NVML_FUNCTION(nvmlSystemGetTopologyGpuSet)(cpu_index, count, list);
  };
  return devices_of(list_of<nvmlDevice_t>(ask, "nvmlSystemGetTopologyGpuSet"));
}

cucore::Device Device::to_cuda_device() const {
  const std::string wanted = lower(uuid_without_prefix());
  for (const cucore::Device device : cucore::Device::all())
    if (lower(device.uuid()) == wanted) return device;
  throw InvalidStateError{"CUDA does not see this GPU (is CUDA_VISIBLE_DEVICES set?)"};
}

int Device::index() const {
  return static_cast<int>(CUCORE_ASK(unsigned, nvmlDeviceGetIndex, handle_));
}
std::string Device::name() const { return CUCORE_ASK_TEXT(nvmlDeviceGetName, handle_); }
std::string Device::uuid() const { return CUCORE_ASK_TEXT(nvmlDeviceGetUUID, handle_); }
std::string Device::uuid_without_prefix() const {
  const std::string text = uuid();
  return text.substr(text.find('-') + 1);
}
std::string Device::serial() const { return CUCORE_ASK_TEXT(nvmlDeviceGetSerial, handle_); }
int Device::minor_number() const {
  return static_cast<int>(CUCORE_ASK(unsigned, nvmlDeviceGetMinorNumber, handle_));
}
int Device::module_id() const {
  return static_cast<int>(CUCORE_ASK(unsigned, nvmlDeviceGetModuleId, handle_));
}
int Device::numa_node_id() const {
  return static_cast<int>(CUCORE_ASK(unsigned, nvmlDeviceGetNumaNodeId, handle_));
}
unsigned Device::architecture() const {
  return CUCORE_ASK(nvmlDeviceArchitecture_t, nvmlDeviceGetArchitecture, handle_);
}

std::string Device::brand() const {
  constexpr std::array kBrands = {
      "Unknown",    "Quadro",     "Tesla",           "NVS",
      "GRID",       "GeForce",    "Titan",           "NVIDIA vApps",
      "NVIDIA vPC", "NVIDIA vCS", "NVIDIA vWS",      "NVIDIA Cloud Gaming",
      "Quadro RTX", "NVIDIA RTX", "NVIDIA",          "GeForce RTX",
      "Titan RTX",  "NVIDIA DLA", "NVIDIA vGameDev", "NVIDIA NPU"};
  const auto brand =
      static_cast<std::size_t>(CUCORE_ASK(nvmlBrandType_t, nvmlDeviceGetBrand, handle_));
  return kBrands[brand < kBrands.size() ? brand : 0];
}

ComputeCapability Device::compute_capability() const {
  ComputeCapability answer;
  CUCORE_NVML(nvmlDeviceGetCudaComputeCapability, handle_, &answer.major, &answer.minor);
  return answer;
}

PciInfo Device::pci_info() const {
  nvmlPciInfoExt_t raw{};
  raw.version = nvmlPciInfoExt_v1;
  CUCORE_NVML(nvmlDeviceGetPciInfoExt, handle_, &raw);
  return {raw.domain,
          raw.bus,
          raw.device,
          raw.pciDeviceId & 0xFFFF,
          raw.pciDeviceId >> 16,
          raw.pciSubSystemId,
          raw.baseClass,
          raw.subClass,
          raw.busId};
}

PcieLink Device::pcie_link() const {
  return {CUCORE_ASK(unsigned, nvmlDeviceGetMaxPcieLinkGeneration, handle_),
          CUCORE_ASK(unsigned, nvmlDeviceGetGpuMaxPcieLinkGeneration, handle_),
          CUCORE_ASK(unsigned, nvmlDeviceGetMaxPcieLinkWidth, handle_),
          CUCORE_ASK(unsigned, nvmlDeviceGetCurrPcieLinkGeneration, handle_),
          CUCORE_ASK(unsigned, nvmlDeviceGetCurrPcieLinkWidth, handle_)};
}
unsigned Device::pcie_replay_counter() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetPcieReplayCounter, handle_);
}
unsigned Device::pcie_tx_throughput() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetPcieThroughput, handle_, NVML_PCIE_UTIL_TX_BYTES);
}
unsigned Device::pcie_rx_throughput() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetPcieThroughput, handle_, NVML_PCIE_UTIL_RX_BYTES);
}

// ---- memory, load, state

MemoryInfo Device::memory_info() const {
  nvmlMemory_v2_t raw{};
  raw.version = nvmlMemory_v2;
  CUCORE_NVML(nvmlDeviceGetMemoryInfo_v2, handle_, &raw);
  return {raw.total, raw.reserved, raw.free, raw.used};
}

MemoryInfo Device::bar1_memory_info() const {
  const auto raw = CUCORE_ASK(nvmlBAR1Memory_t, nvmlDeviceGetBAR1MemoryInfo, handle_);
  return {raw.bar1Total, 0, raw.bar1Free, raw.bar1Used};
}

Utilization Device::utilization() const {
  const auto raw = CUCORE_ASK(nvmlUtilization_t, nvmlDeviceGetUtilizationRates, handle_);
  return {raw.gpu, raw.memory};
}

DeviceAttributes Device::attributes() const {
  const auto raw = CUCORE_ASK(nvmlDeviceAttributes_t, nvmlDeviceGetAttributes_v2, handle_);
  return {raw.multiprocessorCount,   raw.sharedCopyEngineCount,     raw.sharedDecoderCount,
          raw.sharedEncoderCount,    raw.sharedJpegCount,           raw.sharedOfaCount,
          raw.gpuInstanceSliceCount, raw.computeInstanceSliceCount, raw.memorySizeMB};
}

std::vector<GpuDynamicPstatesUtilization> Device::dynamic_pstates_info() const {
  const auto raw =
      CUCORE_ASK(nvmlGpuDynamicPstatesInfo_t, nvmlDeviceGetDynamicPstatesInfo, handle_);
  std::vector<GpuDynamicPstatesUtilization> parts;
  for (const auto& part : raw.utilization)
    parts.push_back({part.bIsPresent != 0, part.percentage, part.incThreshold, part.decThreshold});
  return parts;
}

CoolerInfo Device::cooler() const {
  nvmlCoolerInfo_t raw{};
  raw.version = nvmlCoolerInfo_v1;
  CUCORE_NVML(nvmlDeviceGetCoolerInfo, handle_, &raw);
  return {static_cast<int>(raw.signalType), static_cast<int>(raw.target)};
}

RepairStatus Device::repair_status() const {
  nvmlRepairStatus_t raw{};
  raw.version = nvmlRepairStatus_v1;
  CUCORE_NVML(nvmlDeviceGetRepairStatus, handle_, &raw);
  return {raw.bChannelRepairPending != 0, raw.bTpcRepairPending != 0};
}

std::vector<ProcessInfo> Device::compute_running_processes() const {
  const auto ask = [&](unsigned* count, nvmlProcessInfo_t* list) {
    return CUCORE_NVML_FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3)(handle_, count, list);
  };
  std::vector<ProcessInfo> processes;
  for (const nvmlProcessInfo_t& raw :
       list_of<nvmlProcessInfo_t>(ask, "nvmlDeviceGetComputeRunningProcesses_v3"))
    processes.push_back(
        {raw.pid, raw.usedGpuMemory, instance(raw.gpuInstanceId), instance(raw.computeInstanceId)});
  return processes;
}

int Device::performance_state() const {
  return CUCORE_ASK(nvmlPstates_t, nvmlDeviceGetPerformanceState, handle_);
}

std::vector<int> Device::supported_pstates() const {
  std::vector<nvmlPstates_t> states(NVML_MAX_GPU_PERF_PSTATES, NVML_PSTATE_UNKNOWN);
  CUCORE_NVML(nvmlDeviceGetSupportedPerformanceStates, handle_, states.data(),
              static_cast<unsigned>(states.size() * sizeof(nvmlPstates_t)));
  std::vector<int> found;
  for (const nvmlPstates_t state : states)
    if (state != NVML_PSTATE_UNKNOWN) found.push_back(state);
  return found;
}

std::uint64_t Device::current_clock_event_reasons() const {
  return CUCORE_ASK(unsigned long long, nvmlDeviceGetCurrentClocksEventReasons, handle_);
}
std::uint64_t Device::supported_clock_event_reasons() const {
  return CUCORE_ASK(unsigned long long, nvmlDeviceGetSupportedClocksEventReasons, handle_);
}

std::pair<bool, bool> Device::is_auto_boosted_clocks_enabled() const {
  nvmlEnableState_t now{};
  nvmlEnableState_t by_default{};
  CUCORE_NVML(nvmlDeviceGetAutoBoostedClocksEnabled, handle_, &now, &by_default);
  return {now != NVML_FEATURE_DISABLED, by_default != NVML_FEATURE_DISABLED};
}

bool Device::is_persistence_mode_enabled() const {
  return CUCORE_ASK(nvmlEnableState_t, nvmlDeviceGetPersistenceMode, handle_) !=
         NVML_FEATURE_DISABLED;
}
void Device::set_persistence_mode(bool enabled) const {
  CUCORE_NVML(nvmlDeviceSetPersistenceMode, handle_,
              enabled ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED);
}
bool Device::is_c2c_enabled() const {
  return CUCORE_ASK(nvmlC2cModeInfo_v1_t, nvmlDeviceGetC2cModeInfoV, handle_).isC2cEnabled != 0;
}
bool Device::is_display_active() const {
  return CUCORE_ASK(nvmlEnableState_t, nvmlDeviceGetDisplayActive, handle_) !=
         NVML_FEATURE_DISABLED;
}
bool Device::is_display_connected() const {
  return CUCORE_ASK(nvmlEnableState_t, nvmlDeviceGetDisplayMode, handle_) != NVML_FEATURE_DISABLED;
}
AddressingMode Device::addressing_mode() const {
  nvmlDeviceAddressingMode_t raw{};
  raw.version = nvmlDeviceAddressingMode_v1;
  CUCORE_NVML(nvmlDeviceGetAddressingMode, handle_, &raw);
  return static_cast<AddressingMode>(raw.value);
}

// ---- clocks, temperatures, power, fans

unsigned ClockInfo::get_current_mhz(ClockId id) const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetClock, device_, static_cast<nvmlClockType_t>(type_),
                    static_cast<nvmlClockId_t>(id));
}
unsigned ClockInfo::get_max_mhz() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetMaxClockInfo, device_,
                    static_cast<nvmlClockType_t>(type_));
}
unsigned ClockInfo::get_max_customer_boost_mhz() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetMaxCustomerBoostClock, device_,
                    static_cast<nvmlClockType_t>(type_));
}
std::pair<unsigned, unsigned> ClockInfo::get_min_max_clock_of_pstate_mhz(int pstate) const {
  unsigned low = 0;
  unsigned high = 0;
  CUCORE_NVML(nvmlDeviceGetMinMaxClockOfPState, device_, static_cast<nvmlClockType_t>(type_),
              static_cast<nvmlPstates_t>(pstate), &low, &high);
  return {low, high};
}
ClockOffsets ClockInfo::get_offsets(int pstate) const {
  nvmlClockOffset_t raw{};
  raw.version = nvmlClockOffset_v1;
  raw.type = static_cast<nvmlClockType_t>(type_);
  raw.pstate = static_cast<nvmlPstates_t>(pstate);
  CUCORE_NVML(nvmlDeviceGetClockOffsets, device_, &raw);
  return {raw.clockOffsetMHz, raw.minClockOffsetMHz, raw.maxClockOffsetMHz};
}

int Temperature::get_sensor() const {
  nvmlTemperature_t raw{};
  raw.version = nvmlTemperature_v1;
  raw.sensorType = NVML_TEMPERATURE_GPU;
  CUCORE_NVML(nvmlDeviceGetTemperatureV, device_, &raw);
  return raw.temperature;
}
unsigned Temperature::get_threshold(TemperatureThresholds threshold) const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetTemperatureThreshold, device_,
                    static_cast<nvmlTemperatureThresholds_t>(threshold));
}
bool Temperature::is_threshold_deprecated(TemperatureThresholds threshold) const {
  return threshold <= TemperatureThresholds::gpu_max &&
         Device{device_}.architecture() >= NVML_DEVICE_ARCH_ADA;
}
std::vector<ThermalSensor> Temperature::get_thermal_settings(unsigned target) const {
  const auto raw =
      CUCORE_ASK(nvmlGpuThermalSettings_t, nvmlDeviceGetThermalSettings, device_, target);
  std::vector<ThermalSensor> sensors;
  for (unsigned i = 0; i < std::min<unsigned>(raw.count, std::size(raw.sensor)); ++i) {
    const auto& s = raw.sensor[i];
    sensors.push_back({s.controller, s.target, s.currentTemp, s.defaultMinTemp, s.defaultMaxTemp});
  }
  return sensors;
}
int Temperature::margin() const {
  nvmlMarginTemperature_t raw{};
  raw.version = nvmlMarginTemperature_v1;
  CUCORE_NVML(nvmlDeviceGetMarginTemperature, device_, &raw);
  return raw.marginTemperature;
}

unsigned Power::usage_mw() const { return CUCORE_ASK(unsigned, nvmlDeviceGetPowerUsage, device_); }
unsigned Power::limit_mw() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetEnforcedPowerLimit, device_);
}
std::uint64_t Power::total_energy_mj() const {
  return CUCORE_ASK(unsigned long long, nvmlDeviceGetTotalEnergyConsumption, device_);
}

int Device::num_fans() const {
  return static_cast<int>(CUCORE_ASK(unsigned, nvmlDeviceGetNumFans, handle_));
}
FanInfo Device::get_fan(int fan) const {
  const int count = num_fans();
  if (fan < 0 || fan >= count)
    throw std::invalid_argument{"fan must be at least 0 and below " + std::to_string(count) +
                                ", not " + std::to_string(fan)};
  return {handle_, static_cast<unsigned>(fan)};
}
unsigned FanInfo::speed() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetFanSpeed_v2, device_, fan_);
}
void FanInfo::set_speed(unsigned percent) const {
  CUCORE_NVML(nvmlDeviceSetFanSpeed_v2, device_, fan_, percent);
}
void FanInfo::set_default_speed() const {
  CUCORE_NVML(nvmlDeviceSetDefaultFanSpeed_v2, device_, fan_);
}
unsigned FanInfo::speed_rpm() const {
  nvmlFanSpeedInfo_t raw{};
  raw.version = nvmlFanSpeedInfo_v1;
  raw.fan = fan_;
  CUCORE_NVML(nvmlDeviceGetFanSpeedRPM, device_, &raw);
  return raw.speed;
}
unsigned FanInfo::target_speed() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetTargetFanSpeed, device_, fan_);
}
std::pair<unsigned, unsigned> FanInfo::min_max_speed() const {
  unsigned low = 0;
  unsigned high = 0;
  CUCORE_NVML(nvmlDeviceGetMinMaxFanSpeed, device_, &low, &high);
  return {low, high};
}
FanControlPolicy FanInfo::control_policy() const {
  return static_cast<FanControlPolicy>(
      CUCORE_ASK(nvmlFanControlPolicy_t, nvmlDeviceGetFanControlPolicy_v2, device_, fan_));
}

std::string Device::inforom_version(InforomObject object) const {
  return CUCORE_ASK_TEXT(nvmlDeviceGetInforomVersion, handle_,
                         static_cast<nvmlInforomObject_t>(object));
}
std::string Device::inforom_image_version() const {
  return CUCORE_ASK_TEXT(nvmlDeviceGetInforomImageVersion, handle_);
}

unsigned Device::inforom_configuration_checksum() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetInforomConfigurationChecksum, handle_);
}
std::string Device::board_part_number() const {
  return CUCORE_ASK_TEXT(nvmlDeviceGetBoardPartNumber, handle_);
}
void Device::validate_inforom() const { CUCORE_NVML(nvmlDeviceValidateInforom, handle_); }

// ---- fields, links, neighbours

static FieldValue answer_of(const nvmlFieldValue_t& raw) {
  FieldValue value{raw.fieldId, raw.scopeId, raw.timestamp, raw.latencyUsec,
                   static_cast<int>(raw.nvmlReturn)};
  switch (raw.valueType) {
    case NVML_VALUE_TYPE_DOUBLE:
      value.value = raw.value.dVal;
      break;
    case NVML_VALUE_TYPE_UNSIGNED_INT:
      value.value = std::uint64_t{raw.value.uiVal};
      break;
    case NVML_VALUE_TYPE_UNSIGNED_LONG:
      value.value = std::uint64_t{raw.value.ulVal};
      break;
    case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
      value.value = std::int64_t{raw.value.sllVal};
      break;
    case NVML_VALUE_TYPE_SIGNED_INT:
      value.value = std::int64_t{raw.value.siVal};
      break;
    case NVML_VALUE_TYPE_UNSIGNED_SHORT:
      value.value = std::uint64_t{raw.value.usVal};
      break;
    default:
      value.value = std::uint64_t{raw.value.ullVal};
      break;
  }
  return value;
}

std::vector<FieldValue> Device::get_field_values(std::span<const FieldId> fields) const {
  std::vector<nvmlFieldValue_t> raw(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    raw[i].fieldId = fields[i].field_id;
    raw[i].scopeId = fields[i].scope_id;
  }
  std::vector<FieldValue> values;
  if (raw.empty()) return values;
  CUCORE_NVML(nvmlDeviceGetFieldValues, handle_, static_cast<int>(raw.size()), raw.data());
  for (const nvmlFieldValue_t& one : raw) values.push_back(answer_of(one));
  return values;
}

int Device::get_nvlink_count() const {
  const FieldId field{NVML_FI_DEV_NVLINK_LINK_COUNT, 0};
  const FieldValue answer = get_field_values({&field, 1}).front();
  detail::check_nvml(static_cast<nvmlReturn_t>(answer.status), "nvmlDeviceGetFieldValues");
  return std::visit([](auto number) { return static_cast<int>(number); }, answer.value);
}
bool Device::get_nvlink_state(int link) const {
  return CUCORE_ASK(nvmlEnableState_t, nvmlDeviceGetNvLinkState, handle_,
                    static_cast<unsigned>(link)) != NVML_FEATURE_DISABLED;
}
unsigned Device::get_nvlink_version(int link) const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetNvLinkVersion, handle_, static_cast<unsigned>(link));
}

std::vector<Device> Device::get_topology_nearest_gpus(GpuTopologyLevel level) const {
  const auto ask = [&](unsigned* count, nvmlDevice_t* list) {
    return CUCORE_NVML_FUNCTION(nvmlDeviceGetTopologyNearestGpus)(
        handle_, static_cast<nvmlGpuTopologyLevel_t>(level), count, list);
  };
  return devices_of(list_of<nvmlDevice_t>(ask, "nvmlDeviceGetTopologyNearestGpus"));
}

std::vector<int> Device::get_cpu_affinity(AffinityScope scope) const {
  auto words = cpu_words();
  CUCORE_NVML(nvmlDeviceGetCpuAffinityWithinScope, handle_, static_cast<unsigned>(words.size()),
              words.data(), static_cast<nvmlAffinityScope_t>(scope));
  return bits_of(words);
}
std::vector<int> Device::get_memory_affinity(AffinityScope scope) const {
  auto words = cpu_words();
  CUCORE_NVML(nvmlDeviceGetMemoryAffinity, handle_, static_cast<unsigned>(words.size()),
              words.data(), static_cast<nvmlAffinityScope_t>(scope));
  return bits_of(words);
}
void Device::set_cpu_affinity() const { CUCORE_NVML(nvmlDeviceSetCpuAffinity, handle_); }
void Device::clear_cpu_affinity() const { CUCORE_NVML(nvmlDeviceClearCpuAffinity, handle_); }

// ---- MIG

bool Device::is_mig_device() const {
  return CUCORE_ASK(unsigned, nvmlDeviceIsMigDeviceHandle, handle_) != 0;
}
std::pair<bool, bool> Device::mig_mode() const {
  unsigned now = 0;
  unsigned pending = 0;
  CUCORE_NVML(nvmlDeviceGetMigMode, handle_, &now, &pending);
  return {now != 0, pending != 0};
}
Device Device::mig_parent() const {
  return Device{CUCORE_ASK(nvmlDevice_t, nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle_)};
}
std::vector<Device> Device::mig_devices() const {
  std::vector<Device> devices;
  const unsigned most = CUCORE_ASK(unsigned, nvmlDeviceGetMaxMigDeviceCount, handle_);
  for (unsigned i = 0; i < most; ++i) {
    nvmlDevice_t part = nullptr;
    const nvmlReturn_t code =
        CUCORE_NVML_FUNCTION(nvmlDeviceGetMigDeviceHandleByIndex)(handle_, i, &part);
    if (code == NVML_ERROR_NOT_FOUND) continue;
    detail::check_nvml(code, "nvmlDeviceGetMigDeviceHandleByIndex");
    devices.emplace_back(part);
  }
  return devices;
}

// ---- events

std::uint64_t Device::get_supported_event_types() const {
  return CUCORE_ASK(unsigned long long, nvmlDeviceGetSupportedEventTypes, handle_);
}

void DeviceEvents::Destroy::operator()(void* set) const noexcept {
  try {
    (void)CUCORE_NVML_FUNCTION(nvmlEventSetFree)(static_cast<nvmlEventSet_t>(set));
  } catch (const std::exception&) {  // an NVML without the function has made no set either
  }
}

DeviceEvents::DeviceEvents(Device device, std::uint64_t events)
    : set_{CUCORE_ASK(nvmlEventSet_t, nvmlEventSetCreate)} {
  CUCORE_NVML(nvmlDeviceRegisterEvents, device.handle(), events,
              static_cast<nvmlEventSet_t>(set_.get()));
}

std::optional<EventData> DeviceEvents::wait(unsigned timeout_ms) const {
  nvmlEventData_t raw{};
  const nvmlReturn_t code = CUCORE_NVML_FUNCTION(nvmlEventSetWait_v2)(
      static_cast<nvmlEventSet_t>(set_.get()), &raw, timeout_ms);
  if (code == NVML_ERROR_TIMEOUT) return std::nullopt;
  detail::check_nvml(code, "nvmlEventSetWait_v2");
  return EventData{Device{raw.device}, raw.eventType, raw.eventData, raw.gpuInstanceId,
                   raw.computeInstanceId};
}

Device SystemEvent::device() const {
  char bus_id[32];
  std::snprintf(bus_id, sizeof bus_id, "%04x:%02x:%02x.0", gpu_id >> 16, gpu_id >> 8 & 0xFF,
                gpu_id & 0xFF);
  return Device::from_pci_bus_id(bus_id);
}

void SystemEvents::Destroy::operator()(void* set) const noexcept {
  try {
    nvmlSystemEventSetFreeRequest_t request{};
    request.version = nvmlSystemEventSetFreeRequest_v1;
    request.set = static_cast<nvmlSystemEventSet_t>(set);
    (void)CUCORE_NVML_FUNCTION(nvmlSystemEventSetFree)(&request);
  } catch (const std::exception&) {  // an NVML without the function has made no set either
  }
}

SystemEvents::SystemEvents(std::span<const SystemEventType> events) {
  nvmlSystemEventSetCreateRequest_t made{};
  made.version = nvmlSystemEventSetCreateRequest_v1;
  CUCORE_NVML(nvmlSystemEventSetCreate, &made);
  set_.reset(made.set);
  nvmlSystemRegisterEventRequest_t request{};
  request.version = nvmlSystemRegisterEventRequest_v1;
  request.set = made.set;
  for (const SystemEventType event : events)
    request.eventTypes |= static_cast<unsigned long long>(event);
  CUCORE_NVML(nvmlSystemRegisterEvents, &request);
}

std::vector<SystemEvent> SystemEvents::wait(unsigned timeout_ms, unsigned most) const {
  std::vector<nvmlSystemEventData_v1_t> raw(most);
  nvmlSystemEventSetWaitRequest_t request{};
  request.version = nvmlSystemEventSetWaitRequest_v1;
  request.timeoutms = timeout_ms;
  request.set = static_cast<nvmlSystemEventSet_t>(set_.get());
  request.data = raw.data();
  request.dataSize = most;
  const nvmlReturn_t code = CUCORE_NVML_FUNCTION(nvmlSystemEventSetWait)(&request);
  std::vector<SystemEvent> events;
  if (code == NVML_ERROR_TIMEOUT) return events;
  detail::check_nvml(code, "nvmlSystemEventSetWait");
  for (unsigned i = 0; i < std::min(request.numEvent, most); ++i)
    events.push_back({static_cast<SystemEventType>(raw[i].eventType), raw[i].gpuId});
  return events;
}

}  // namespace cucore::system
