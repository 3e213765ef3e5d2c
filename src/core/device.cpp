// SPDX-License-Identifier: Apache-2.0
// device.cpp: devices, and the objects created on them.
#include "cucore/device.hpp"

#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "driver/mutex.hpp"

namespace cucore {

int Device::count() {
  int n = 0;
  CUCORE_CALL(cuDeviceGetCount(&n));
  return n;
}

Device::Device(int device_id) : id_{device_id} {
  if (const int n = count(); device_id < 0 || device_id >= n) {
    throw std::out_of_range("there is no device " + std::to_string(device_id) +
                            ": this process sees " + std::to_string(n) +
                            (n == 1 ? " device" : " devices") +
                            (n == 0 ? " (is CUDA_VISIBLE_DEVICES set?)" : ", numbered from 0"));
  }
}

std::vector<Device> Device::all() {
  std::vector<Device> devices;
  for (int i = 0, n = count(); i < n; ++i) devices.emplace_back(i);
  return devices;
}

/// Returns the device whose primary context was current when it was reset, or 0 if that is unknown.
static int device_of_destroyed_context() {
  try {
    if (const Context context = Context::current(); context.is_primary()) return context.device();
  } catch (const CUDAError&) {  // unknown
  }
  return 0;
}

int Device::current_id() {
  CUdevice handle = 0;
  const CUresult code = driver().cuCtxGetDevice(&handle);
  if (code == CUDA_SUCCESS) [[likely]]
    return handle;
  return current().device_id();
}

Device Device::current() {
  CUdevice handle = 0;
  const CUresult code = driver().cuCtxGetDevice(&handle);
  if (code == CUDA_ERROR_INVALID_CONTEXT || code == CUDA_ERROR_NOT_INITIALIZED) return Device{0};
  if (code == CUDA_ERROR_CONTEXT_IS_DESTROYED) return Device{device_of_destroyed_context()};
  check(code, "cuCtxGetDevice");
  return Device{handle};
}

static CUdevice handle_of(int id) {
  CUdevice handle = 0;
  CUCORE_CALL(cuDeviceGet(&handle, id));
  return handle;
}

std::string Device::name() const {
  char text[256] = {};
  CUCORE_CALL(cuDeviceGetName(text, sizeof text, handle_of(id_)));
  return text;
}

std::array<unsigned char, 16> Device::uuid_bytes() const {
  CUuuid raw{};
  CUCORE_CALL(cuDeviceGetUuid(&raw, handle_of(id_)));
  std::array<unsigned char, 16> bytes{};
  for (int i = 0; i < 16; ++i)
    bytes[static_cast<std::size_t>(i)] = static_cast<unsigned char>(raw.bytes[i]);
  return bytes;
}

std::string Device::uuid() const {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  std::size_t i = 0;
  for (const unsigned char byte : uuid_bytes()) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[byte >> 4];
    text += digits[byte & 15];
    ++i;
  }
  return text;
}

std::string Device::pci_bus_id() const {
  char text[64] = {};
  CUCORE_CALL(cuDeviceGetPCIBusId(text, sizeof text, handle_of(id_)));
  return text;
}

std::size_t Device::total_memory() const {
  std::size_t bytes = 0;
  CUCORE_CALL(cuDeviceTotalMem(&bytes, handle_of(id_)));
  return bytes;
}

ComputeCapability Device::compute_capability() const {
  return {attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
          attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)};
}

std::string Device::arch() const {
  const auto [major, minor] = compute_capability();
  return std::to_string(major) + std::to_string(minor);
}

int Device::attribute(CUdevice_attribute attribute) const {
  int value = 0;
  CUCORE_CALL(cuDeviceGetAttribute(&value, attribute, handle_of(id_)));
  return value;
}

int Device::attribute_or(CUdevice_attribute attribute, int otherwise) const {
  int value = 0;
  const CUresult code = driver().cuDeviceGetAttribute(&value, attribute, handle_of(id_));
  if (code == CUDA_ERROR_INVALID_VALUE) return otherwise;
  check(code, "cuDeviceGetAttribute");
  return value;
}

bool Device::can_access_peer(Device peer) const {
  if (peer == *this) return true;  // the driver query covers only other devices
  int answer = 0;
  CUCORE_CALL(cuDeviceCanAccessPeer(&answer, handle_of(id_), handle_of(peer.id_)));
  return answer != 0;
}

Stream Device::create_stream(const StreamOptions& options) const {
  return Stream::create(primary_context(), options);
}
Event Device::create_event(const EventOptions& options) const {
  return Event::create(primary_context(), options);
}

std::shared_ptr<MemoryResource> Device::memory_resource() const {
  static cucore::detail::Mutex mutex;
  static auto* const resources = new std::unordered_map<int, std::shared_ptr<MemoryResource>>;
  const std::lock_guard lock{mutex};
  std::shared_ptr<MemoryResource>& resource = (*resources)[id_];
  if (resource == nullptr) {
    if (attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0) {
      resource = MemoryPool::current_of(id_);
    } else {
      resource = std::make_shared<SynchronousMemory>(id_);
    }
  }
  return resource;
}

Buffer Device::allocate(std::size_t size, const Stream& stream) const {
  return Buffer::allocate(memory_resource(), size, stream);
}

}  // namespace cucore
