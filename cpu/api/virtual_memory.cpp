// cuMemAddressReserve, cuMemCreate, cuMemMap, cuMemSetAccess: addresses and memory apart. Memory is
// a memfd, so that its handle can go to another process.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "cpu/device/capture.hpp"
#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/location.hpp"
#include "cpu/device/memory.hpp"
#include "cpu/device/multicast.hpp"
#include "cpu/device/physical_memory.hpp"
#include "cpu/mem/address_space.hpp"
#include "cpu/mem/shared_file.hpp"

namespace cucpu::driver {
namespace {

struct Mapping {
  std::size_t size;
  Ref<PhysicalMemory> memory;  // null: a multicast object
  Ref<MulticastObject> multicast;
  std::map<int, CUmemAccess_flags> access;  // by device; -1: the host
};

struct State {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> reserved;
  std::map<std::uintptr_t, Mapping> mapped;
};
State& state() {
  static State& s = *new State;
  return s;
}

void check(const CUmemAllocationProp& prop) {
  require(prop.type == CU_MEM_ALLOCATION_TYPE_PINNED);
  if (prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
    device_of(prop.location.id);
  else
    require(is_host(prop.location.type));
  check_handle_types(prop.requestedHandleTypes);
}

int place_of(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return device_of(location.id).ordinal;
  require(is_host(location.type));
  return -1;
}

/// Takes over the file and what was taken from the budget, also when it fails.
Ref<PhysicalMemory> memory_in(int fd, std::size_t size, const CUmemAllocationProp& prop,
                              Budget* budget) {
  try {
    return make_object<PhysicalMemory>(fd, size, prop, budget);
  } catch (...) {
    close(fd);
    if (budget) budget->give(size);
    throw;
  }
}

std::atomic<bool> any_mapped{false};  ///< most programs never map memory

/// The mappings that make up [address, address + bytes) exactly. Call with the lock held.
std::vector<std::map<std::uintptr_t, Mapping>::iterator> mappings(State& s, std::uintptr_t address,
                                                                  std::size_t bytes) {
  std::vector<std::map<std::uintptr_t, Mapping>::iterator> found;
  const std::uintptr_t end = address + bytes;
  while (address < end) {
    const auto at = s.mapped.find(address);
    require(at != s.mapped.end() && at->second.size <= end - address);
    found.push_back(at);
    address += at->second.size;
  }
  require(!found.empty());
  return found;
}

void protect(std::uintptr_t base, const Mapping& mapping) {
  int protection = PROT_NONE;
  for (const auto& [place, flags] : mapping.access) {
    if (flags & CU_MEM_ACCESS_FLAGS_PROT_READ) protection |= PROT_READ;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_WRITE;
  }
  if (mapping.multicast) return mapping.multicast->protect(base, protection);
  require(mprotect(reinterpret_cast<void*>(base), mapping.size, protection) == 0,
          CUDA_ERROR_OPERATING_SYSTEM);
}

}  // namespace

void require_mapped_access(CUdeviceptr address, std::size_t bytes, bool write) {
  if (bytes == 0 || !any_mapped.load(std::memory_order_relaxed)) return;
  State& s = state();
  const std::lock_guard lock{s.mutex};
  auto at = s.mapped.upper_bound(address);
  if (at != s.mapped.begin() && std::prev(at)->first + std::prev(at)->second.size > address) --at;
  for (; at != s.mapped.end() && at->first < address + bytes; ++at) {
    bool allowed = false;
    for (const auto& [place, flags] : at->second.access)
      allowed |= flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
                 (!write && flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
    require(allowed);
  }
}

PhysicalMemory& memory_of(CUmemGenericAllocationHandle handle) {
  auto& memory =
      object_of<PhysicalMemory>(reinterpret_cast<const void*>(handle), CUDA_ERROR_INVALID_VALUE);
  require(memory.is_handed_out());
  return memory;
}

MappedPlace mapped_place(std::uintptr_t address, std::size_t bytes) {
  State& s = state();
  const std::lock_guard lock{s.mutex};
  auto at = s.mapped.upper_bound(address);
  require(at != s.mapped.begin());
  --at;
  const std::size_t offset = address - at->first;
  require(at->second.memory && offset < at->second.size && bytes <= at->second.size - offset);
  return {at->second.memory, offset};
}

}  // namespace cucpu::driver

using namespace cucpu::driver;

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  return guarded([&] {
    require(out && prop &&
            (option == CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
             option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    // A description of nothing has a granularity, too.
    if (prop->type != CU_MEM_ALLOCATION_TYPE_INVALID ||
        prop->location.type != CU_MEM_LOCATION_TYPE_INVALID)
      check(*prop);
    *out = kGranularity;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr wished,
                             unsigned long long flags) {
  return guarded([&] {
    require(out && size > 0 && size % kGranularity == 0 && flags == 0);
    require((alignment & (alignment - 1)) == 0);
    require(size < (std::size_t{1} << 44), CUDA_ERROR_OUT_OF_MEMORY);  // more addresses than exist
    State& s = state();
    const std::lock_guard lock{s.mutex};
    const std::uintptr_t base =
        AddressSpace::instance().take(size, std::max(alignment, kGranularity), wished);
    s.reserved.emplace(base, size);
    *out = base;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  return guarded([&] {
    State& s = state();
    const std::lock_guard lock{s.mutex};
    const auto at = s.reserved.find(address);
    require(at != s.reserved.end() && at->second == size);
    const auto mapped = s.mapped.lower_bound(address);
    require(mapped == s.mapped.end() || mapped->first >= address + size);  // unmap first
    s.reserved.erase(at);
    AddressSpace::instance().give(address, size);
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t size,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  return guarded([&] {
    require(out && prop && flags == 0 && size > 0 && size % kGranularity == 0);
    check(*prop);
    Budget* budget = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                         ? &device_of(prop->location.id).budget
                         : nullptr;
    require(!budget || budget->take(size), CUDA_ERROR_OUT_OF_MEMORY);
    const int fd = make_shared_file("cucore-memory");
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) {
      if (fd >= 0) close(fd);
      if (budget) budget->give(size);
      fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *out = memory_in(fd, size, *prop, budget)->hand_out();
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return guarded([&] {
    if (MulticastObject* multicast = find_multicast(handle)) return require(multicast->retire());
    require(memory_of(handle).give_back());
  });
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return guarded([&] {
    const Ref<MulticastObject> multicast{find_multicast(handle)};
    const Ref<PhysicalMemory> memory{multicast ? nullptr : &memory_of(handle)};
    require(flags == 0 && offset == 0 && size > 0 && size % kGranularity == 0 &&
            address % kGranularity == 0);
    require(size <= (multicast ? multicast->prop.size : memory->size));
    State& s = state();
    const std::lock_guard lock{s.mutex};
    auto range = s.reserved.upper_bound(address);
    require(range != s.reserved.begin());
    --range;
    require(address - range->first < range->second &&
            size <= range->second - (address - range->first));
    const auto next = s.mapped.lower_bound(address);
    require(next == s.mapped.end() || next->first >= address + size);
    if (next != s.mapped.begin())
      require(std::prev(next)->first + std::prev(next)->second.size <= address);
    if (multicast)
      multicast->map(address, size);
    else
      require(mmap(reinterpret_cast<void*>(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED,
                   memory->fd, static_cast<off_t>(offset)) != MAP_FAILED,
              CUDA_ERROR_OUT_OF_MEMORY);
    auto record = std::make_shared<Allocation>();
    record->base = address;
    record->size = size;
    record->kind = MemoryKind::mapped;
    if (multicast) {
      record->device = multicast->first_device();
    } else {
      record->device =
          memory->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? memory->prop.location.id : -1;
      record->handle_types = memory->prop.requestedHandleTypes;
    }
    MemoryMap::instance().insert(record);
    s.mapped.emplace(address, Mapping{size, memory, multicast, {}});
    any_mapped = true;
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  return guarded([&] {
    if (Context* context = peek_context(); context && context->is_live) context->synchronize();
    State& s = state();
    const std::lock_guard lock{s.mutex};
    for (const auto& at : mappings(s, address, size)) {
      MemoryMap::instance().take_out(at->first);
      if (at->second.multicast) at->second.multicast->unmap(at->first);
      AddressSpace::instance().decommit(at->first, at->second.size);
      s.mapped.erase(at);
    }
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* list,
                        size_t count) {
  return guarded([&] {
    require(list && count > 0 && size > 0);
    for (std::size_t i = 0; i < count; ++i) {
      const CUmemLocation& location = list[i].location;
      require(is_host(location.type) ||
              (location.type == CU_MEM_LOCATION_TYPE_DEVICE && is_device(location.id)));
      require(list[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
              list[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
              list[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    State& s = state();
    const std::lock_guard lock{s.mutex};
    for (const auto& at : mappings(s, address, size)) {
      for (std::size_t i = 0; i < count; ++i)
        at->second.access[place_of(list[i].location)] = list[i].flags;
      protect(at->first, at->second);
      const AllocationRef record = MemoryMap::instance().find(at->first);
      std::uint64_t readable = 0, writable = 0;
      for (const auto& [place, flags] : at->second.access) {
        if (place < 0) continue;
        if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) readable |= std::uint64_t{1} << place;
        if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) writable |= std::uint64_t{1} << place;
      }
      record->readable_by = readable;
      record->writable_by = writable;
    }
    MemoryMap::instance().touch();
  });
}

CUresult cuMemGetAccess(unsigned long long* out, const CUmemLocation* location,
                        CUdeviceptr address) {
  return guarded([&] {
    require(out && location && address != 0);
    require(is_host(location->type) || location->type == CU_MEM_LOCATION_TYPE_DEVICE,
            CUDA_ERROR_INVALID_DEVICE);
    const int place = place_of(*location);
    State& s = state();
    const std::lock_guard lock{s.mutex};
    auto at = s.mapped.upper_bound(address);
    require(at != s.mapped.begin());
    --at;
    require(address - at->first < at->second.size);
    const auto flags = at->second.access.find(place);
    *out = flags == at->second.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : flags->second;
  });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return guarded([&] {
    PhysicalMemory& memory = memory_of(handle);
    require(out && flags == 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    require(memory.prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const int fd = fcntl(memory.fd, F_DUPFD, 3);
    require(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    std::memcpy(out, &fd, sizeof fd);
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* handle,
                                        CUmemAllocationHandleType type) {
  return guarded([&] {
    require(out && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
    struct stat info;
    require(fstat(given, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
            static_cast<std::size_t>(info.st_size) % kGranularity == 0);
    const int fd = fcntl(given, F_DUPFD_CLOEXEC, 3);
    require(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    Context* context = peek_context();
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {context ? context->device.ordinal : 0}};
    *out = memory_in(fd, static_cast<std::size_t>(info.st_size), prop, nullptr)->hand_out();
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                CUmemGenericAllocationHandle handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = memory_of(handle).prop;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  return guarded([&] {
    require(out && address);
    State& s = state();
    const std::lock_guard lock{s.mutex};
    auto at = s.mapped.upper_bound(reinterpret_cast<std::uintptr_t>(address));
    require(at != s.mapped.begin());
    --at;
    require(reinterpret_cast<std::uintptr_t>(address) - at->first < at->second.size);
    require(static_cast<bool>(at->second.memory));
    *out = at->second.memory->hand_out();
  });
}

}  // extern "C"
