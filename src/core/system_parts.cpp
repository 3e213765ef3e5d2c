// SPDX-License-Identifier: Apache-2.0
// system_parts.cpp: parts of a GPU; each call queries NVML.
#include "cucore/system_parts.hpp"

#include <algorithm>
#include <iterator>

#include "core/nvml.hpp"
#include "cucore/system_device.hpp"

namespace cucore::system {

// ---- the PCI bus

unsigned PciInfo::max_link_generation() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetMaxPcieLinkGeneration, handle);
}
unsigned PciInfo::link_generation() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetGpuMaxPcieLinkGeneration, handle);
}
unsigned PciInfo::max_link_width() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetMaxPcieLinkWidth, handle);
}
unsigned PciInfo::current_link_generation() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetCurrPcieLinkGeneration, handle);
}
unsigned PciInfo::current_link_width() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetCurrPcieLinkWidth, handle);
}
unsigned PciInfo::replay_counter() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetPcieReplayCounter, handle);
}
unsigned PciInfo::tx_throughput() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetPcieThroughput, handle, NVML_PCIE_UTIL_TX_BYTES);
}
unsigned PciInfo::rx_throughput() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetPcieThroughput, handle, NVML_PCIE_UTIL_RX_BYTES);
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

// ---- the inforom

std::string InforomInfo::get_version(InforomObject object) const {
  return CUCORE_ASK_TEXT(nvmlDeviceGetInforomVersion, device_,
                         static_cast<nvmlInforomObject_t>(object));
}
std::string InforomInfo::image_version() const {
  return CUCORE_ASK_TEXT(nvmlDeviceGetInforomImageVersion, device_);
}

unsigned InforomInfo::configuration_checksum() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetInforomConfigurationChecksum, device_);
}
std::string InforomInfo::board_part_number() const {
  return CUCORE_ASK_TEXT(nvmlDeviceGetBoardPartNumber, device_);
}
std::pair<std::uint64_t, std::uint64_t> InforomInfo::bbx_flush_time() const {
  unsigned long long timestamp = 0;
  unsigned long duration = 0;
  CUCORE_NVML(nvmlDeviceGetLastBBXFlushTime, device_, &timestamp, &duration);
  return {timestamp, duration};
}
void InforomInfo::validate() const { CUCORE_NVML(nvmlDeviceValidateInforom, device_); }

// ---- MIG

bool MigInfo::is_mig_device() const {
  return CUCORE_ASK(unsigned, nvmlDeviceIsMigDeviceHandle, device_) != 0;
}
std::pair<bool, bool> MigInfo::modes() const {
  unsigned now = 0;
  unsigned pending = 0;
  CUCORE_NVML(nvmlDeviceGetMigMode, device_, &now, &pending);
  return {now != 0, pending != 0};
}
bool MigInfo::mode() const { return modes().first; }
bool MigInfo::pending_mode() const { return modes().second; }
void MigInfo::set_mode(bool enabled) const {
  nvmlReturn_t activation = NVML_SUCCESS;  // unused: pending_mode() shows whether a reset is needed
  CUCORE_NVML(nvmlDeviceSetMigMode, device_,
              enabled ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE, &activation);
}
int MigInfo::device_count() const {
  return static_cast<int>(CUCORE_ASK(unsigned, nvmlDeviceGetMaxMigDeviceCount, device_));
}
Device MigInfo::parent() const {
  return Device{CUCORE_ASK(nvmlDevice_t, nvmlDeviceGetDeviceHandleFromMigDeviceHandle, device_)};
}
Device MigInfo::get_device_by_index(int index) const {
  return Device{CUCORE_ASK(nvmlDevice_t, nvmlDeviceGetMigDeviceHandleByIndex, device_,
                           static_cast<unsigned>(index))};
}
std::vector<Device> MigInfo::get_all_devices() const {
  std::vector<Device> devices;
  for (int i = 0, most = device_count(); i < most; ++i) {
    nvmlDevice_t part = nullptr;
    const nvmlReturn_t code = CUCORE_NVML_FUNCTION(nvmlDeviceGetMigDeviceHandleByIndex)(
        device_, static_cast<unsigned>(i), &part);
    if (code == NVML_ERROR_NOT_FOUND) continue;
    detail::check_nvml(code, "nvmlDeviceGetMigDeviceHandleByIndex");
    devices.emplace_back(part);
  }
  return devices;
}

// ---- NVLink, fields

static_assert(NvlinkInfo::max_links == NVML_NVLINK_MAX_LINKS);
bool NvlinkInfo::state() const {
  return CUCORE_ASK(nvmlEnableState_t, nvmlDeviceGetNvLinkState, device_, link_) !=
         NVML_FEATURE_DISABLED;
}
unsigned NvlinkInfo::version() const {
  return CUCORE_ASK(unsigned, nvmlDeviceGetNvLinkVersion, device_, link_);
}

void FieldValue::validate() const {
  detail::check_nvml(static_cast<nvmlReturn_t>(status), "nvmlDeviceGetFieldValues");
}

}  // namespace cucore::system
