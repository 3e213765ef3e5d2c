// SPDX-License-Identifier: Apache-2.0
// The devices of this process and their attributes.
#include "cpu/device/device.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "cpu/mem/usage.hpp"

namespace cucpu::driver {
namespace {

struct Process {
  Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
};
Process& process() {
  static Process& p = *new Process;
  return p;
}

}  // namespace

const Settings& settings() noexcept { return process().settings; }

Device& device_of(CUdevice ordinal) {
  auto& devices = process().devices;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices.size())
    fail(CUDA_ERROR_INVALID_DEVICE);
  return *devices[static_cast<std::size_t>(ordinal)];
}

void initialize_process() {
  Process& p = process();
  p.settings = read_settings();
  if (p.settings.visible.empty()) {
    const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string last = std::to_string(p.settings.devices - 1);
    fail(CUDA_ERROR_NO_DEVICE,
         std::string{"CUDA_VISIBLE_DEVICES=\""} + (list != nullptr ? list : "") +
             "\" hides every device: unset it, or list different numbers " +
             (p.settings.devices == 1 ? "(only 0 exists" : "(0 to " + last + " exist") +
             "; CUCORE_CPU_DEVICES sets how many) or UUIDs");
  }
  const std::string name = device_name();
  for (const int physical : p.settings.visible) {
    auto device = std::make_unique<Device>();
    device->ordinal = static_cast<int>(p.devices.size());
    device->physical = physical;
    device->name = name;
    device->limits = p.settings.capabilities[static_cast<std::size_t>(physical)];
    device->budget.limit = p.settings.memory;
    if (static_cast<unsigned>(physical) < kUsageDevices)
      device->budget.count_in(usage_page().devices[physical].bytes);
    device_uuid(physical, device->uuid);
    p.devices.push_back(std::move(device));
  }
  g_device_count = static_cast<int>(p.devices.size());
  g_blocking_launches = p.settings.blocking_launches;
}

std::uint32_t target_of(const Device& device) {
  return environment::compute_capability(device.physical).target();
}

/// Values of api/cpu_device.json.
int device_attribute(const Device& device, CUdevice_attribute attribute) {
  const Limits& limits = *device.limits;
  switch (attribute) {
#include "device_attributes.inc"
    default:
      break;
  }
  // Other known attributes: features that this device does not have.
  require(attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX);
  return 0;
}

}  // namespace cucpu::driver
