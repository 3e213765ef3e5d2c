// SPDX-License-Identifier: Apache-2.0
// Access of contexts to memory of other devices.
#include "cpu/device/peer_access.hpp"

#include "cpu/device/memory_pool.hpp"
#include "cpu/mem/address_space.hpp"
#include "cpu/mem/allocation.hpp"

namespace cucpu::driver {
namespace {

bool allowed(const Allocation& a, Context& context, bool write) {
  const int device = context.device.ordinal;
  if (a.kind == MemoryKind::mapped ||
      (a.kind == MemoryKind::pool && !a.pool && a.device != device)) {
    const auto& who = write ? a.writable_by : a.readable_by;
    return who.load(std::memory_order_relaxed) >> device & 1;
  }
  if (a.device < 0 || a.device == device || is_managed(a)) return true;
  switch (a.kind) {
    case MemoryKind::host:
    case MemoryKind::registered:
    case MemoryKind::managed:
      return true;
    case MemoryKind::pool: {
      CUmemLocation here{};
      here.type = CU_MEM_LOCATION_TYPE_DEVICE;
      here.id = device;
      const CUmemAccess_flags flags = static_cast<MemPool*>(a.pool)->access_of(here);
      return write ? flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                   : flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    default: {
      const std::lock_guard lock{context.peers_mutex};
      return context.peers.contains(a.context_id);
    }
  }
}

/// The last access this thread was granted: kernels access the same memory many times.
struct AccessCache {
  std::uint64_t version = 0, context = 0;
  std::uintptr_t base = 0;
  std::size_t size = 0;
  bool write = false;
};
thread_local AccessCache t_access_cache;

}  // namespace

bool can_access(Context& context, std::uintptr_t address, bool write) {
  MemoryMap& map = MemoryMap::instance();
  const std::uint64_t version = map.version();
  AccessCache& last = t_access_cache;
  if (last.version == version && last.context == context.id && address - last.base < last.size &&
      (last.write || !write))
    return true;
  if (!AddressSpace::instance().contains(address)) return true;
  const AllocationRef a = map.find(address);
  if (!a) return true;
  if (!allowed(*a, context, write)) return false;
  last = {version, context.id, a->base, a->size, write};
  return true;
}

bool can_access_arrays(Context& context, const Context& home) {
  if (&context.device == &home.device) return true;
  const std::lock_guard lock{context.peers_mutex};
  return context.peers.contains(home.id);
}

}  // namespace cucpu::driver
