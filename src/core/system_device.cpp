// SPDX-License-Identifier: Apache-2.0
// system_device.cpp: properties of a GPU, queried from NVML.
#include "cucore/system_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <optional>
#include <stdexcept>

#include "core/nvml.hpp"
#include "cucore/system.hpp"

namespace cucore::system {
namespace {

/// Reads a list from NVML: queries its length first, and again if it has grown in between.
template <class T, class Ask>
std::vector<T> list_of(Ask ask, const char* call) {
  unsigned count = 0;
  nvmlReturn_t code = ask(&count, nullptr);
  std::vector<T> list;
  while (code == NVML_ERROR_INSUFFICIENT_SIZE || (code == NVML_SUCCESS && count > list.size())) {
    list.resize(count + 4);  // a process may start between the calls
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

/// Returns a zeroed bit set with one bit per CPU of the system.
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

/// Converts NVML's sentinel for a device without MIG instances to an empty value.
std::optional<unsigned> instance(unsigned number) {
  return number == 0xFFFFFFFF ? std::nullopt : std::optional{number};
}

void require_below(const char* name, int number, int count) {
  if (number >= 0 && number < count) return;
  throw std::invalid_argument{std::string{name} + " must be at least 0 and below " +
                              std::to_string(count) + ", not " + std::to_string(number)};
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

FieldValue answer_of(const nvmlFieldValue_t& raw) {
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

std::vector<nvmlFieldValue_t> asked(std::span<const FieldId> fields) {
  std::vector<nvmlFieldValue_t> raw(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    raw[i].fieldId = fields[i].field_id;
    raw[i].scopeId = fields[i].scope_id;
  }
  return raw;
}

}  // namespace

// ---- identity

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
          raw.busId,
          handle_};
}

// ---- memory, utilization, state

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

int Device::num_fans() const {
  return static_cast<int>(CUCORE_ASK(unsigned, nvmlDeviceGetNumFans, handle_));
}
FanInfo Device::get_fan(int fan) const {
  require_below("fan", fan, num_fans());
  return {handle_, static_cast<unsigned>(fan)};
}

// ---- field values, links, topology

std::vector<FieldValue> Device::get_field_values(std::span<const FieldId> fields) const {
  std::vector<nvmlFieldValue_t> raw = asked(fields);
  std::vector<FieldValue> values;
  if (raw.empty()) return values;
  CUCORE_NVML(nvmlDeviceGetFieldValues, handle_, static_cast<int>(raw.size()), raw.data());
  for (const nvmlFieldValue_t& one : raw) values.push_back(answer_of(one));
  return values;
}

void Device::clear_field_values(std::span<const FieldId> fields) const {
  std::vector<nvmlFieldValue_t> raw = asked(fields);
  if (raw.empty()) return;
  CUCORE_NVML(nvmlDeviceClearFieldValues, handle_, static_cast<int>(raw.size()), raw.data());
  for (const nvmlFieldValue_t& one : raw)
    detail::check_nvml(one.nvmlReturn, "nvmlDeviceClearFieldValues");
}

int Device::get_nvlink_count() const {
  const FieldId field{NVML_FI_DEV_NVLINK_LINK_COUNT, 0};
  const FieldValue answer = get_field_values({&field, 1}).front();
  answer.validate();
  return std::visit([](auto number) { return static_cast<int>(number); }, answer.value);
}
NvlinkInfo Device::get_nvlink(int link) const {
  require_below("link", link, get_nvlink_count());
  return {handle_, static_cast<unsigned>(link)};
}
std::vector<NvlinkInfo> Device::get_nvlinks() const {
  std::vector<NvlinkInfo> links;
  for (int i = 0, count = get_nvlink_count(); i < count; ++i)
    links.emplace_back(handle_, static_cast<unsigned>(i));
  return links;
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

// ---- events

std::uint64_t Device::get_supported_event_types() const {
  return CUCORE_ASK(unsigned long long, nvmlDeviceGetSupportedEventTypes, handle_);
}

}  // namespace cucore::system
