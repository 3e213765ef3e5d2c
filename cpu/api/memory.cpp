// SPDX-License-Identifier: Apache-2.0
// cuMemAlloc*, cuMemFree*, cuMemHost*.
#include "cpu/device/memory.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory_pool.hpp"
#include "cpu/graph/graph.hpp"
#include "cpu/mem/address_space.hpp"

using namespace cucpu::driver;

namespace {

constexpr std::size_t kPitchAlign = 512;

void allocate_host(void** out, std::size_t bytes, unsigned flags) {
  require(out != nullptr);
  require((flags & ~(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                     CU_MEMHOSTALLOC_WRITECOMBINED)) == 0);
  Context& context = current_context();
  require_capture_safe();
  *out = nullptr;
  if (bytes == 0) return;
  AllocationRef a = allocate_memory(bytes, 4096, nullptr);
  a->kind = MemoryKind::host;
  a->device = context.device.ordinal;
  a->context_id = context.id;
  a->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
  MemoryMap::instance().insert_new(a);
  *out = reinterpret_cast<void*>(a->base);
}

/// True when every page of the range is mapped in the host.
bool is_mapped(std::uintptr_t base, std::size_t bytes) {
  const std::size_t page = AddressSpace::instance().page();
  const std::uintptr_t end = base + bytes;
  unsigned char resident[1024];
  for (std::uintptr_t at = base & ~(page - 1); at < end;) {
    const std::size_t length = std::min<std::size_t>(end - at, sizeof resident * page);
    if (mincore(reinterpret_cast<void*>(at), length, resident) != 0) return false;
    at += length;
  }
  return true;
}

/// Frees an allocation after all queued work that may use it.
void free_after_work(std::uintptr_t base, bool (*is_mine)(const Allocation&)) {
  auto& map = MemoryMap::instance();
  const AllocationRef a = map.find(base);
  require(a && a->base == base && is_mine(*a));
  require_capture_safe();
  Context& here = current_context();
  here.synchronize();
  if (a->context_id != here.id)
    for (const Ref<Context>& other : live_contexts())
      if (other->id == a->context_id) other->synchronize();
  MemoryMap::drop(map.remove(base, is_mine));
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return guarded([&] {
    Context& context = current_context();
    const Budget& budget = context.device.budget;
    if (free) *free = budget.limit - std::min(budget.limit, budget.used());
    if (total) *total = budget.limit;
  });
}

CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  return guarded(Parameters{out, bytes}, [&] {
    Context& context = current_context();
    require(out && bytes > 0);
    require_capture_safe();
    *out = allocate_device(context, bytes, 512, MemoryKind::device)->base;
  });
}

CUresult cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                         unsigned int element) {
  return guarded([&] {
    Context& context = current_context();
    require(out && pitch && width > 0 && height > 0 &&
            (element == 4 || element == 8 || element == 16));
    require_capture_safe();
    require(width <= (std::size_t{1} << 46), CUDA_ERROR_OUT_OF_MEMORY);
    const std::size_t row = (width + kPitchAlign - 1) / kPitchAlign * kPitchAlign;
    require(height <= (std::size_t{1} << 46) / row, CUDA_ERROR_OUT_OF_MEMORY);
    *out = allocate_device(context, row * height, 512, MemoryKind::device)->base;
    *pitch = row;
  });
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  return guarded(Parameters{out, bytes, flags}, [&] {
    require(out && bytes > 0 && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST));
    Context& context = current_context();
    require_capture_safe();
    *out = allocate_device(context, bytes, 512, MemoryKind::managed, flags)->base;
  });
}

CUresult cuMemFree(CUdeviceptr address) {
  return guarded(Parameters{address}, [&] {
    current_context();
    if (address == 0) return;
    const AllocationRef a = MemoryMap::instance().find(address);
    if (free_graph_memory(address, nullptr)) return;
    if (a && a->base == address && a->kind == MemoryKind::pool) {
      require_capture_safe();
      free_pool_memory(address);  // without a wait, which is the caller's responsibility
      return;
    }
    free_after_work(address, [](const Allocation& m) {
      return m.kind == MemoryKind::device || m.kind == MemoryKind::managed;
    });
  });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  return guarded([&] {
    current_context();
    const AllocationRef a = MemoryMap::instance().find(address);
    require(a != nullptr, CUDA_ERROR_NOT_FOUND);
    if (base) *base = a->base;
    if (size) *size = a->size;
  });
}

CUresult cuMemAllocHost(void** out, size_t bytes) {
  return guarded(Parameters{out, bytes}, [&] { allocate_host(out, bytes, 0); });
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  return guarded(Parameters{out, bytes, flags}, [&] { allocate_host(out, bytes, flags); });
}

CUresult cuMemFreeHost(void* p) {
  return guarded(Parameters{p}, [&] {
    current_context();
    if (!p) return;
    free_after_work(reinterpret_cast<std::uintptr_t>(p),
                    [](const Allocation& m) { return m.kind == MemoryKind::host; });
  });
}

CUresult cuMemHostRegister(void* p, size_t bytes, unsigned int flags) {
  return guarded([&] {
    constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    Context& context = current_context();
    require(p && bytes > 0 && (flags & ~kFlags) == 0);
    require((flags & CU_MEMHOSTREGISTER_IOMEMORY) == 0, CUDA_ERROR_NOT_PERMITTED);
    auto& map = MemoryMap::instance();
    const auto base = reinterpret_cast<std::uintptr_t>(p);
    require(!AddressSpace::instance().contains(base));
    require(bytes <= UINTPTR_MAX - base && is_mapped(base, bytes));
    bool taken = map.find(base) || map.find(base + bytes - 1);
    map.for_each(
        [&](const Allocation& a) { taken = taken || (a.base >= base && a.base < base + bytes); });
    require(!taken, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    auto a = std::make_shared<Allocation>();
    a->base = base;
    a->size = bytes;
    a->kind = MemoryKind::registered;
    a->device = context.device.ordinal;
    a->context_id = context.id;
    a->flags = flags;
    map.insert(a);
  });
}

CUresult cuMemHostUnregister(void* p) {
  return guarded([&] {
    Context& context = current_context();
    require(p != nullptr);
    const auto is_registered = [](const Allocation& m) { return m.kind == MemoryKind::registered; };
    const auto base = reinterpret_cast<std::uintptr_t>(p);
    auto& map = MemoryMap::instance();
    const AllocationRef a = map.find(base);
    require(a && is_registered(*a), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    require(a->base == base);  // inside a range: an invalid value
    context.synchronize();
    map.remove(base, is_registered);
  });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* p, unsigned int flags) {
  return guarded([&] {
    current_context();
    require(out && p && flags == 0);
    const AllocationRef a = MemoryMap::instance().find(reinterpret_cast<std::uintptr_t>(p));
    require(a && (a->kind == MemoryKind::host || a->kind == MemoryKind::registered));
    *out = reinterpret_cast<CUdeviceptr>(p);
  });
}

CUresult cuMemHostGetFlags(unsigned int* out, void* p) {
  return guarded([&] {
    current_context();
    require(out && p);
    const AllocationRef a = MemoryMap::instance().find(reinterpret_cast<std::uintptr_t>(p));
    require(a && (a->kind == MemoryKind::host || a->kind == MemoryKind::registered));
    *out = a->flags;
  });
}

}  // extern "C"
