// SPDX-License-Identifier: Apache-2.0
// Multicast objects: memory of several devices at one address.
#include "cpu/device/multicast.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <shared_mutex>

#include "cpu/device/location.hpp"
#include "cpu/mem/address_space.hpp"

namespace cucpu::driver {
namespace {

struct Mapped {
  std::size_t size;
  const MulticastObject* object;
};
struct Table {
  std::shared_mutex mutex;
  std::map<std::uintptr_t, Mapped> ranges;
};
Table& table() {
  static Table& t = *new Table;
  return t;
}

}  // namespace

MulticastObject* find_multicast(CUmemGenericAllocationHandle handle) noexcept {
  return find_object<MulticastObject>(reinterpret_cast<const void*>(handle));
}

unsigned multicast_copies(std::uintptr_t address, std::uintptr_t* out, unsigned room) {
  Table& t = table();
  const std::shared_lock lock{t.mutex};
  auto at = t.ranges.upper_bound(address);
  if (at == t.ranges.begin()) return 0;
  --at;
  if (address - at->first >= at->second.size) return 0;
  return at->second.object->copies(address - at->first, out, room);
}

MulticastObject::~MulticastObject() {
  for (auto& [device, list] : bindings_)
    for (Binding& b : list) munmap(reinterpret_cast<void*>(b.private_map), b.size);
}

void MulticastObject::add_device(int device) {
  const std::lock_guard lock{mutex_};
  require(!devices_.contains(device) && devices_.size() < prop.numDevices);
  devices_.insert(device);
}

void MulticastObject::bind(int device, std::size_t offset, Ref<PhysicalMemory> memory,
                           std::size_t memory_offset, std::size_t size) {
  require(size > 0 && size % kGranularity == 0 && offset % kGranularity == 0 &&
          memory_offset % kGranularity == 0);
  require(offset < prop.size && size <= prop.size - offset);
  require(memory_offset < memory->size && size <= memory->size - memory_offset);
  const std::lock_guard lock{mutex_};
  require(devices_.contains(device));
  require(devices_.size() == prop.numDevices,
          CUDA_ERROR_ILLEGAL_STATE);  // all devices must be added first
  std::vector<Binding>& list = bindings_[device];
  for (const Binding& b : list) require(offset >= b.offset + b.size || b.offset >= offset + size);
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd,
                 static_cast<off_t>(memory_offset));
  require(p != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  list.push_back(
      {offset, size, std::move(memory), memory_offset, reinterpret_cast<std::uintptr_t>(p)});
  for (const auto& [address, view] : views_) show(address, view);
}

void MulticastObject::unbind(int device, std::size_t offset, std::size_t size) {
  const std::lock_guard lock{mutex_};
  require(devices_.contains(device));
  std::vector<Binding>& list = bindings_[device];
  const auto at = std::find_if(list.begin(), list.end(), [&](const Binding& b) {
    return b.offset == offset && b.size == size;
  });
  require(at != list.end());
  munmap(reinterpret_cast<void*>(at->private_map), at->size);
  list.erase(at);
  for (const auto& [address, view] : views_) show(address, view);
}

/// Maps the first device's memory under a view; unbound parts stay inaccessible.
void MulticastObject::show(std::uintptr_t address, const View& view) const {
  AddressSpace::instance().decommit(address, view.size);
  for (const auto& [device, list] : bindings_) {
    for (const Binding& b : list) {
      if (b.offset >= view.size) continue;
      const std::size_t size = std::min(b.size, view.size - b.offset);
      require(mmap(reinterpret_cast<void*>(address + b.offset), size, view.protection,
                   MAP_SHARED | MAP_FIXED, b.memory->fd,
                   static_cast<off_t>(b.memory_offset)) != MAP_FAILED,
              CUDA_ERROR_OUT_OF_MEMORY);
    }
    if (!list.empty()) return;
  }
}

void MulticastObject::map(std::uintptr_t address, std::size_t size) {
  {
    const std::lock_guard lock{mutex_};
    const View view{size, PROT_NONE};
    show(address, view);
    views_.emplace(address, view);
  }
  Table& t = table();
  const std::unique_lock lock{t.mutex};
  t.ranges[address] = {size, this};
}

void MulticastObject::protect(std::uintptr_t address, int protection) {
  const std::lock_guard lock{mutex_};
  const auto at = views_.find(address);
  require(at != views_.end());
  at->second.protection = protection;
  show(address, at->second);
}

void MulticastObject::unmap(std::uintptr_t address) {
  {
    Table& t = table();
    const std::unique_lock lock{t.mutex};
    t.ranges.erase(address);
  }
  const std::lock_guard lock{mutex_};
  views_.erase(address);
}

int MulticastObject::first_device() const {
  const std::lock_guard lock{mutex_};
  return devices_.empty() ? -1 : *devices_.begin();
}

unsigned MulticastObject::copies(std::size_t offset, std::uintptr_t* out, unsigned room) const {
  const std::lock_guard lock{mutex_};
  unsigned count = 0;
  for (const auto& [device, list] : bindings_)
    for (const Binding& b : list)
      if (offset - b.offset < b.size && count < room)
        out[count++] = b.private_map + (offset - b.offset);
  return count;
}

}  // namespace cucpu::driver
