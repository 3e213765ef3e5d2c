// SPDX-License-Identifier: Apache-2.0
// cuMemAddressReserve, cuMemCreate, cuMemMap, cuMemSetAccess: addresses and memory apart. Memory is
// a memfd, so another process can import its handle.
#include "cpu/device/virtual_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>

#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/location.hpp"
#include "cpu/device/sparse_array.hpp"
#include "cpu/mem/address_space.hpp"
#include "cpu/mem/shared_file.hpp"

using namespace cucpu::driver;

namespace {

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

/// Owns the file and the reserved budget, even when it throws.
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

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  return guarded([&] {
    require(out && prop &&
            (option == CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
             option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    // An empty description has a granularity, too.
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
    require(size < (std::size_t{1} << 44),
            CUDA_ERROR_OUT_OF_MEMORY);  // more than the address space
    VirtualMemory& s = virtual_memory();
    const std::lock_guard lock{s.mutex};
    const std::uintptr_t base =
        AddressSpace::instance().take(size, std::max(alignment, kGranularity), wished);
    s.reserved.emplace(base, size);
    *out = base;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  return guarded([&] {
    VirtualMemory& s = virtual_memory();
    const std::lock_guard lock{s.mutex};
    const auto at = s.reserved.find(address);
    require(at != s.reserved.end() && at->second == size);
    const auto mapped = s.mapped.lower_bound(address);
    require(mapped == s.mapped.end() ||
            mapped->first >= address + size);  // mappings must be unmapped before
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
    *out = memory_in(fd, size, *prop, budget)->acquire_handle();
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return guarded([&] {
    if (MulticastObject* multicast = find_multicast(handle)) return require(multicast->retire());
    require(memory_of(handle).release_handle());
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
    VirtualMemory& s = virtual_memory();
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
    if (memory) note_mapped_outside_of_arrays(*memory);
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
    s.any_mapped = true;
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  return guarded([&] {
    if (Context* context = peek_context(); context && context->is_live) context->synchronize();
    VirtualMemory& s = virtual_memory();
    const std::lock_guard lock{s.mutex};
    for (const auto& at : mappings(s, address, size)) {
      MemoryMap::instance().remove(at->first);
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
    VirtualMemory& s = virtual_memory();
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
    MemoryMap::instance().mark_changed();
  });
}

CUresult cuMemGetAccess(unsigned long long* out, const CUmemLocation* location,
                        CUdeviceptr address) {
  return guarded([&] {
    require(out && location && address != 0);
    require(is_host(location->type) || location->type == CU_MEM_LOCATION_TYPE_DEVICE,
            CUDA_ERROR_INVALID_DEVICE);
    const int place = place_of(*location);
    VirtualMemory& s = virtual_memory();
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
    *out = memory_in(fd, static_cast<std::size_t>(info.st_size), prop, nullptr)->acquire_handle();
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
    VirtualMemory& s = virtual_memory();
    const std::lock_guard lock{s.mutex};
    auto at = s.mapped.upper_bound(reinterpret_cast<std::uintptr_t>(address));
    require(at != s.mapped.begin());
    --at;
    require(reinterpret_cast<std::uintptr_t>(address) - at->first < at->second.size);
    require(static_cast<bool>(at->second.memory));
    *out = at->second.memory->acquire_handle();
  });
}

}  // extern "C"
