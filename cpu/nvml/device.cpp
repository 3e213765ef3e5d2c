// SPDX-License-Identifier: Apache-2.0
// nvmlDevice*: properties, memory use and processes of the devices.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cpu/base/compute_capability.hpp"
#include "cpu/base/cpu_affinity.hpp"
#include "cpu/nvml/nvml.hpp"

using namespace cucpu::nvml;

namespace {

constexpr unsigned kSmClock = 1000, kMemoryClock = 1600;  // MHz, as the driver's attributes report
constexpr unsigned kNoInstance = 0xffffffff;
constexpr unsigned kCoresPerSm = 128;  // of compute capability 9.0

template <class T>
T& out(T* place) {
  require(place != nullptr);
  return *place;
}

/// Checks a structure with a version field: its size and version must be known.
template <class T>
void require_version(const T* place, unsigned number) {
  require(place != nullptr);
  require(place->version == (sizeof(T) | number << 24), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

const cucpu::Limits& limits_of(nvmlDevice_t handle) {
  return *settings().capabilities[static_cast<std::size_t>(device_of(handle).index)];
}

template <class T, class V>
nvmlReturn_t answer(nvmlDevice_t handle, T* place, V value) {
  return guarded([&] {
    device_of(handle);
    out(place) = static_cast<T>(value);
  });
}

struct Memory {
  unsigned long long total, used, free;
};

Memory memory_of(const nvmlDevice_st& device) {
  Memory m{settings().memory, 0, 0};
  for (const ProcessUse& use : processes_on(device)) m.used += use.bytes;
  m.used = std::min(m.used, m.total);  // limits apply per process, so the sum may exceed the total
  m.free = m.total - m.used;
  return m;
}

/// Lists processes: *count is the capacity, then the number.
template <class T, class Fill>
nvmlReturn_t list_processes(nvmlDevice_t handle, unsigned* count, T* infos, Fill fill) {
  return guarded([&] {
    const auto found = processes_on(device_of(handle));
    const unsigned room = out(count);
    *count = static_cast<unsigned>(found.size());
    if (found.empty()) return;
    require(infos && room >= found.size(), NVML_ERROR_INSUFFICIENT_SIZE);
    for (std::size_t i = 0; i < found.size(); ++i) {
      infos[i] = {};
      infos[i].pid = found[i].pid;
      infos[i].usedGpuMemory = found[i].bytes;
      fill(infos[i]);
    }
  });
}

template <class T>
void whole_device(T& info) {
  info.gpuInstanceId = info.computeInstanceId = kNoInstance;
}

template <class T>
nvmlReturn_t no_processes(nvmlDevice_t handle, unsigned* count, T*) {
  return answer(handle, count, 0u);
}

unsigned clock_of(nvmlClockType_t type) {
  switch (type) {
    case NVML_CLOCK_GRAPHICS:
    case NVML_CLOCK_SM:
      return kSmClock;
    case NVML_CLOCK_MEM:
      return kMemoryClock;
    case NVML_CLOCK_VIDEO:
      fail(NVML_ERROR_NOT_SUPPORTED);
    default:
      fail(NVML_ERROR_INVALID_ARGUMENT);
  }
}

void put_pci(const nvmlDevice_st& device, nvmlPciInfo_t& pci) {
  pci = {};
  pci.domain = cucpu::driver::kPciDomain;
  pci.bus = static_cast<unsigned>(device.index) + 1;
  std::snprintf(pci.busIdLegacy, sizeof pci.busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT,
                pci.domain, pci.bus, 0u);
  std::snprintf(pci.busId, sizeof pci.busId, NVML_DEVICE_PCI_BUS_ID_FMT, pci.domain, pci.bus, 0u);
}

/// The CPUs that this process may use, as a bit mask.
void put_cpus(unsigned words, unsigned long* bits) {
  require(bits && words > 0);
  std::fill_n(bits, words, 0ul);
  const cpu_set_t& set = cucpu::process_cpus();
  require(CPU_COUNT(&set) > 0, NVML_ERROR_OPERATING_SYSTEM);
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) {
      require(cpu / kBits < words, NVML_ERROR_INSUFFICIENT_SIZE);
      bits[cpu / kBits] |= 1ul << cpu % kBits;
    }
}

nvmlReturn_t find_device(nvmlDevice_t* place, nvmlReturn_t missing, auto matches) {
  return guarded([&] {
    require(place != nullptr);
    for (nvmlDevice_st& device : devices())
      if (matches(device)) {
        *place = &device;
        return;
      }
    fail(missing);
  });
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  return guarded([&] { out(count) = static_cast<unsigned>(devices().size()); });
}
nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  return find_device(device, NVML_ERROR_INVALID_ARGUMENT, [&](const nvmlDevice_st& d) {
    return static_cast<unsigned>(d.index) == index;
  });
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return find_device(device, NVML_ERROR_NOT_FOUND, [&](const nvmlDevice_st& d) {
    require(uuid != nullptr);
    return strcasecmp(uuid, d.uuid.c_str()) == 0;
  });
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t* uuid, nvmlDevice_t* device) {
  return find_device(device, NVML_ERROR_NOT_FOUND, [&](const nvmlDevice_st& d) {
    require_version(uuid, 1);
    require(uuid->type == NVML_UUID_TYPE_ASCII || uuid->type == NVML_UUID_TYPE_BINARY);
    if (uuid->type == NVML_UUID_TYPE_ASCII)
      return strncasecmp(uuid->value.str, d.uuid.c_str(), sizeof uuid->value.str) == 0;
    unsigned char bytes[16];
    cucpu::driver::device_uuid(d.index, bytes);
    return std::memcmp(bytes, uuid->value.bytes, sizeof bytes) == 0;
  });
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  return find_device(device, NVML_ERROR_NOT_FOUND, [&](const nvmlDevice_st& d) {
    require(bus_id != nullptr);
    unsigned domain = cucpu::driver::kPciDomain, bus = 0, slot = 0, function = 0;
    if (std::sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
      domain = cucpu::driver::kPciDomain;
      require(std::sscanf(bus_id, "%x:%x.%x", &bus, &slot, &function) >= 2);
    }
    return domain == static_cast<unsigned>(cucpu::driver::kPciDomain) &&
           bus == static_cast<unsigned>(d.index) + 1 && slot == 0;
  });
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char* name, unsigned int length) {
  return guarded([&] {
    device_of(handle);
    put_text(name, length, cucpu::driver::device_name());
  });
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char* uuid, unsigned int length) {
  return guarded([&] { put_text(uuid, length, device_of(handle).uuid); });
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int* index) {
  return guarded([&] { out(index) = static_cast<unsigned>(device_of(handle).index); });
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned int* number) {
  return nvmlDeviceGetIndex(handle, number);
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t handle, unsigned int* id) {
  return guarded([&] { out(id) = (static_cast<unsigned>(device_of(handle).index) + 1) << 8; });
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t* pci) {
  return guarded([&] { put_pci(device_of(handle), out(pci)); });
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t handle, nvmlPciInfo_t* pci) {
  return nvmlDeviceGetPciInfo_v3(handle, pci);
}
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t handle, nvmlPciInfo_t* pci) {
  return nvmlDeviceGetPciInfo_v3(handle, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t handle, nvmlPciInfoExt_t* pci) {
  return guarded([&] {
    require_version(pci, 1);
    nvmlPciInfo_t plain;
    put_pci(device_of(handle), plain);
    pci->domain = plain.domain, pci->bus = plain.bus, pci->device = 0;
    pci->pciDeviceId = pci->pciSubSystemId = 0;
    pci->baseClass = 0x12, pci->subClass = 0;  // a processing accelerator
    std::memcpy(pci->busId, plain.busId, sizeof pci->busId);
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t* memory) {
  return guarded([&] {
    const Memory m = memory_of(device_of(handle));
    out(memory) = {m.total, m.free, m.used};
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t* memory) {
  return guarded([&] {
    require_version(memory, 2);
    const Memory m = memory_of(device_of(handle));
    memory->total = m.total, memory->reserved = 0, memory->free = m.free, memory->used = m.used;
  });
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t handle, nvmlBAR1Memory_t* memory) {
  return guarded([&] {  // the host can access all memory
    const Memory m = memory_of(device_of(handle));
    out(memory) = {m.total, m.free, m.used};
  });
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t* rates) {
  return guarded([&] {
    const nvmlDevice_st& device = device_of(handle);
    const unsigned busy = utilization(device);
    out(rates) = {busy, busy};  // computation and memory traffic cannot be separated
  });
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int* count,
                                                     nvmlProcessInfo_t* infos) {
  return list_processes(handle, count, infos, whole_device<nvmlProcessInfo_t>);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t handle, unsigned int* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return list_processes(handle, count, infos, whole_device<nvmlProcessInfo_v2_t>);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t handle, unsigned int* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return list_processes(handle, count, infos, [](nvmlProcessInfo_v1_t&) {});
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t handle, unsigned int* count,
                                                      nvmlProcessInfo_t* infos) {
  return no_processes(handle, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t handle, unsigned int* count,
                                                      nvmlProcessInfo_v2_t* infos) {
  return no_processes(handle, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t handle, unsigned int* count,
                                                   nvmlProcessInfo_v1_t* infos) {
  return no_processes(handle, count, infos);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t handle, nvmlClockType_t type,
                                    unsigned int* clock) {
  return guarded([&] {
    device_of(handle);
    out(clock) = clock_of(type);
  });
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, nvmlClockType_t type,
                                       unsigned int* clock) {
  return nvmlDeviceGetClockInfo(handle, type, clock);
}
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t handle, nvmlClockType_t type, nvmlClockId_t id,
                                unsigned int* clock) {
  return guarded([&] {
    device_of(handle);
    require(id < NVML_CLOCK_ID_COUNT);
    require(id == NVML_CLOCK_ID_CURRENT || id == NVML_CLOCK_ID_CUSTOMER_BOOST_MAX,
            NVML_ERROR_NOT_SUPPORTED);
    out(clock) = clock_of(type);
  });
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, nvmlTemperatureSensors_t sensor,
                                      unsigned int* degrees) {
  return guarded([&] {
    device_of(handle);
    require(degrees && sensor == NVML_TEMPERATURE_GPU);
    *degrees = static_cast<unsigned>(std::max(temperature(), 0));
  });
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, nvmlTemperature_t* place) {
  return guarded([&] {
    device_of(handle);
    require_version(place, 1);
    require(place->sensorType == NVML_TEMPERATURE_GPU);
    place->temperature = temperature();
  });
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int* major, int* minor) {
  return guarded([&] {
    const cucpu::Limits& limits = limits_of(handle);
    out(major) = static_cast<int>(limits.major);
    out(minor) = static_cast<int>(limits.minor);
  });
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t d, nvmlDeviceArchitecture_t* p) {
  return guarded([&] {
    const cucpu::Limits& limits = limits_of(d);
    switch (limits.major) {
      case 7:
        out(p) = NVML_DEVICE_ARCH_TURING;
        break;
      case 8:
        out(p) = limits.minor == 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE;
        break;
      case 9:
        out(p) = NVML_DEVICE_ARCH_HOPPER;
        break;
      default:
        out(p) = NVML_DEVICE_ARCH_BLACKWELL;
    }
  });
}
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t d, nvmlBrandType_t* p) {
  return answer(d, p, NVML_BRAND_UNKNOWN);
}
nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t d, nvmlBusType_t* p) {
  return answer(d, p, NVML_BUS_TYPE_UNKNOWN);
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t d, nvmlPstates_t* p) {
  return answer(d, p, NVML_PSTATE_0);
}
nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t d, nvmlPstates_t* p) {
  return answer(d, p, NVML_PSTATE_0);
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t d, nvmlEnableState_t* p) {
  return answer(d, p, NVML_FEATURE_ENABLED);
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, nvmlComputeMode_t* p) {
  return answer(d, p, NVML_COMPUTEMODE_DEFAULT);
}
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t d, nvmlEnableState_t* p) {
  return answer(d, p, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t d, nvmlEnableState_t* p) {
  return answer(d, p, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t d, unsigned int* p) { return answer(d, p, 0); }
nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t d, unsigned int* p) { return answer(d, p, 0); }
nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t d, unsigned int* p) {
  return answer(d, p, 128);
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int* p) {
  return answer(d, p, 0);
}
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned int* p) {
  return answer(d, p, 0);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, unsigned long long* p) {
  return answer(d, p, 0);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long* p) {
  return answer(d, p, 0);
}
nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t d, unsigned long long* p) {
  return answer(d, p, 0);
}
nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t d, unsigned long long* p) {
  return answer(d, p, 0);
}
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long* p) {
  return answer(d, p, 0);
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t handle, unsigned int* cores) {
  return guarded([&] {
    device_of(handle);
    out(cores) = kCoresPerSm * settings().threads;
  });
}

nvmlReturn_t nvmlDeviceGetC2cModeInfoV(nvmlDevice_t handle, nvmlC2cModeInfo_v1_t* info) {
  return guarded([&] {
    device_of(handle);
    out(info) = {0};
  });
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t handle, nvmlDeviceAddressingMode_t* mode) {
  return guarded([&] {
    device_of(handle);
    require_version(mode, 1);
    mode->value = NVML_DEVICE_ADDRESSING_MODE_NONE;
  });
}

nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t handle, nvmlPstates_t* states,
                                                     unsigned int bytes) {
  return guarded([&] {
    device_of(handle);
    const std::size_t count = bytes / sizeof *states;
    require(states && count > 0);
    std::fill_n(states, count, NVML_PSTATE_UNKNOWN);
    states[0] = NVML_PSTATE_0;
  });
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t handle, unsigned int words,
                                                 unsigned long* bits, nvmlAffinityScope_t scope) {
  return guarded([&] {
    device_of(handle);
    require(scope <= NVML_AFFINITY_SCOPE_SOCKET);
    put_cpus(words, bits);
  });
}
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t handle, unsigned int words,
                                      unsigned long* bits) {
  return nvmlDeviceGetCpuAffinityWithinScope(handle, words, bits, NVML_AFFINITY_SCOPE_NODE);
}
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t handle, unsigned int words,
                                         unsigned long* bits, nvmlAffinityScope_t scope) {
  return guarded([&] {
    device_of(handle);
    require(bits && words > 0 && scope <= NVML_AFFINITY_SCOPE_SOCKET);
    std::fill_n(bits, words, 0ul);
    bits[0] = 1;
  });
}
nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t handle) {
  return guarded([&] { device_of(handle); });  // all CPUs of the process are local to the device
}
nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t handle) {
  return guarded([&] { device_of(handle); });
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t index,
                                    nvmlGpuP2PStatus_t* status) {
  return guarded([&] {
    device_of(a);
    device_of(b);
    require(index < NVML_P2P_CAPS_INDEX_UNKNOWN);
    out(status) =
        index == NVML_P2P_CAPS_INDEX_NVLINK ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK;
  });
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
                                                 nvmlGpuTopologyLevel_t* level) {
  return guarded([&] {
    device_of(a);
    device_of(b);
    out(level) = NVML_TOPOLOGY_INTERNAL;  // one host, one memory
  });
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t handle, nvmlGpuTopologyLevel_t level,
                                              unsigned int* count, nvmlDevice_t* list) {
  return guarded([&] {
    const nvmlDevice_st& self = device_of(handle);
    require(count && level >= NVML_TOPOLOGY_INTERNAL && level <= NVML_TOPOLOGY_SYSTEM);
    const auto others = static_cast<unsigned>(devices().size() - 1);
    const unsigned room = *count;
    *count = others;
    if (!list) return;
    require(room >= others, NVML_ERROR_INSUFFICIENT_SIZE);
    for (nvmlDevice_st& device : devices())
      if (&device != &self) *list++ = &device;
  });
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t a, nvmlDevice_t b, int* same) {
  return guarded([&] { out(same) = &device_of(a) == &device_of(b); });
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t* values) {
  return guarded([&] {
    device_of(handle);
    require(values && count > 0);
    for (int i = 0; i < count; ++i) {
      nvmlFieldValue_t& field = values[i];
      field.nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
      if (field.fieldId != NVML_FI_DEV_NVLINK_LINK_COUNT) continue;
      field.nvmlReturn = NVML_SUCCESS;
      field.valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
      field.value = {};
    }
  });
}

}  // extern "C"
