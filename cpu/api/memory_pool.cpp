// SPDX-License-Identifier: Apache-2.0
// cuMemPool*, cuMemAllocAsync, cuMemFreeAsync.
#include "cpu/device/memory_pool.hpp"

#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "cpu/device/guard.hpp"
#include "cpu/device/location.hpp"
#include "cpu/engine/check/kinds.hpp"
#include "cpu/graph/capture.hpp"
#include "cpu/graph/graph.hpp"

using namespace cucpu::driver;

namespace {

MemPool& pool_of(CUmemoryPool handle) {
  return object_of<MemPool>(handle, CUDA_ERROR_INVALID_VALUE);
}

CUmemPoolProps checked(const CUmemPoolProps& p) {
  require(p.allocType == CU_MEM_ALLOCATION_TYPE_PINNED ||
          p.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED);
  if (p.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
    require(p.location.id >= 0 && p.location.id < device_count());
  else if (p.allocType == CU_MEM_ALLOCATION_TYPE_PINNED)
    require(is_host(p.location.type));
  check_handle_types(p.handleTypes);
  return p;
}

CUdeviceptr allocate_async(std::size_t bytes, MemPool& pool, Stream& stream) {
  if (bytes == 0) return 0;  // a null pointer, which cuMemFreeAsync accepts
  if (const CUdeviceptr captured = capture_alloc(stream, bytes, pool.props)) return captured;
  require(!pool.is_imported());
  return pool.allocate(bytes, stream);
}

/// When the stream has done all its work up to now.
void remove_queued_free(Stream& stream, const AllocationRef& memory) noexcept {
  const auto remove = [memory] { QueuedFrees::instance().remove(memory); };
  try {
    stream.submit(make_object<CallOp>(remove, true));
  } catch (...) {
    stream.wait(stream.submitted());
    remove();
  }
}

/// The data of cuMemPoolExportPointer, unique among all allocations of all pools. The importer
/// compares it with its file.
struct ExportedPointer {
  char magic[8];
  SharedArena::Identity pool;
  std::uint64_t offset, bytes;
};
static_assert(sizeof(ExportedPointer) <= sizeof(CUmemPoolPtrExportData));
constexpr char kMagic[8] = {'c', 'u', 'c', 'o', 'r', 'e', 'p', '2'};

}  // namespace

extern "C" {

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream handle) {
  return guarded(Parameters{out, bytes, handle}, [&] {
    require(out != nullptr);
    const Ref<Stream> stream = stream_of(handle);
    *out = allocate_async(bytes, current_pool(context_of(*stream).device), *stream);
  });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                 CUstream handle) {
  return guarded(Parameters{out, bytes, pool, handle}, [&] {
    require(out != nullptr);
    const Ref<Stream> stream = stream_of(handle);
    *out = allocate_async(bytes, pool_of(pool), *stream);
  });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return guarded(Parameters{address, handle}, [&] {
    const Ref<Stream> stream = stream_of(handle);
    if (address == 0) return;
    if (capture_free(*stream, address) || free_graph_memory(address, stream.get())) return;
    const auto is_mine = [](const Allocation& a) { return a.kind == MemoryKind::pool && a.pool; };
    const AllocationRef found = MemoryMap::instance().find(address);
    require(found && found->base == address);
    // Check mode looks up memory while kernels run: they find it until the stream reaches its free.
    const bool checked = cucpu::check::kinds_in_environment() != 0;
    if (checked) QueuedFrees::instance().add(found);
    const bool in_pool = found->kind != MemoryKind::device && found->kind != MemoryKind::managed;
    const AllocationRef record = in_pool ? MemoryMap::instance().remove(address, is_mine)
                                         : MemoryMap::instance().remove(address);
    if (checked && record != found) QueuedFrees::instance().remove(found);
    require(record != nullptr);
    if (checked) remove_queued_free(*stream, record);
    // Memory of cuMemAlloc freed in stream order: freed when the stream reaches it.
    if (in_pool)
      static_cast<MemPool*>(record->pool)->free(record, stream.get());
    else
      drop_after(*stream, record, stream->submitted());
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  return guarded([&] {
    require(out && props);
    *out = make_object<MemPool>(checked(*props))->publish();
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return guarded([&] {
    Ref<MemPool> pool{&pool_of(handle)};
    require(!pool->is_default);
    for (int i = 0; i < device_count(); ++i) {  // devices that use it get their default pool
      Device& device = device_of(i);
      const std::lock_guard lock{device.pool_mutex};
      if (device.current_pool.get() == pool.get()) device.current_pool = nullptr;
    }
    require(pool->retire());
  });
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  return guarded([&] { pool_of(handle).trim(keep); });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return guarded([&] {
    require(value != nullptr);
    pool_of(handle).set_attribute(attribute, value);
  });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return guarded([&] {
    require(value != nullptr);
    pool_of(handle).get_attribute(attribute, value);
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* list, size_t count) {
  return guarded([&] {
    MemPool& pool = pool_of(handle);
    require(list != nullptr);
    for (std::size_t i = 0; i < count; ++i) pool.set_access(list[i]);
  });
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* out, CUmemoryPool handle, CUmemLocation* location) {
  return guarded([&] {
    require(out && location);
    *out = pool_of(handle).access_of(*location);
  });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    *out = default_pool(device_of(dev)).handle();
  });
}

CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice dev) {
  return guarded([&] {
    require(out && is_device(dev));
    *out = current_pool(device_of(dev)).handle();
  });
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle) {
  return guarded([&] {
    require(is_device(dev));
    Device& device = device_of(dev);
    Ref<MemPool> pool{&pool_of(handle)};
    require(pool->device() == device.ordinal);
    const std::lock_guard lock{device.pool_mutex};
    device.current_pool = pool;
  });
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location,
                                CUmemAllocationType type) {
  return guarded([&] {
    require(out && location);
    require(type == CU_MEM_ALLOCATION_TYPE_PINNED || type == CU_MEM_ALLOCATION_TYPE_MANAGED);
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED) {
      require(is_device(location->id));
      *out = default_pool(device_of(location->id)).handle();
      return;
    }
    require(location->type == CU_MEM_LOCATION_TYPE_HOST ||
                location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
                type == CU_MEM_ALLOCATION_TYPE_MANAGED,
            not_on(location->type));
    // One pool of host memory and one of managed memory per process.
    static std::mutex& mutex = *new std::mutex;
    static Ref<MemPool>* const pools = new Ref<MemPool>[2];
    const std::lock_guard lock{mutex};
    Ref<MemPool>& pool = pools[type == CU_MEM_ALLOCATION_TYPE_MANAGED];
    if (!pool) {
      CUmemPoolProps props{};
      props.allocType = type;
      props.location = *location;
      pool = make_object<MemPool>(props, true);
      pool->publish();
    }
    *out = pool->handle();
  });
}

CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  return guarded([&] {
    require(out && location);
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED)
      return cuDeviceGetMemPool(out, location->id);
    return cuMemGetDefaultMemPool(out, location, type);
  });
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return guarded([&] {
    require(location && pool && location->type != CU_MEM_LOCATION_TYPE_INVALID &&
            type == CU_MEM_ALLOCATION_TYPE_PINNED);
    require(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    return cuDeviceSetMemPool(location->id, pool);
  });
}

CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool handle,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  return guarded([&] {
    require(out && flags == 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    MemPool& pool = pool_of(handle);
    require(pool.arena() && !pool.is_imported());
    const int fd = dup(pool.arena()->fd());
    require(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    std::memcpy(out, &fd, sizeof fd);
  });
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  return guarded([&] {
    require(out && flags == 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    Context* context = peek_context();
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {context ? context->device.ordinal : 0}};
    std::shared_ptr<SharedArena> arena;
    try {
      arena.reset(SharedArena::adopt(static_cast<int>(reinterpret_cast<std::intptr_t>(handle))));
    } catch (const std::invalid_argument&) {
      fail(CUDA_ERROR_INVALID_VALUE);
    }
    *out = make_object<MemPool>(props, std::move(arena))->publish();
  });
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  return guarded([&] {
    require(out != nullptr);
    const AllocationRef a = MemoryMap::instance().find(address);
    require(a && a->base == address && a->kind == MemoryKind::pool && a->pool);
    MemPool& pool = *static_cast<MemPool*>(a->pool);
    require(pool.arena() && !pool.is_imported());
    ExportedPointer data{};
    std::memcpy(data.magic, kMagic, sizeof kMagic);
    data.pool = pool.arena()->identity();
    data.offset = address - pool.arena()->base();
    data.bytes = a->size;
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &data, sizeof data);
  });
}

CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool handle,
                                CUmemPoolPtrExportData* data) {
  return guarded([&] {
    require(out && data);
    ExportedPointer exported;
    std::memcpy(&exported, data, sizeof exported);
    require(std::memcmp(exported.magic, kMagic, sizeof kMagic) == 0 && exported.bytes > 0);
    MemPool& pool = pool_of(handle);
    require(pool.arena() && pool.arena()->identity() == exported.pool);
    *out = pool.import_block(exported.offset, exported.bytes);
  });
}

}  // extern "C"
