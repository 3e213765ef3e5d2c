// SPDX-License-Identifier: Apache-2.0
// cuMemAllocManaged, cuMemAdvise, cuMemPrefetch*, cuMemRangeGetAttribute*. There is one memory, so
// nothing moves.
#include <cstring>

#include "cpu/device/capture.hpp"
#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory.hpp"
#include "cpu/device/memory_pool.hpp"
#include "cpu/exec/ops.hpp"

using namespace cucpu::driver;

namespace {

constexpr int kCpu = -1, kInvalid = -2;
constexpr std::uint64_t kHostBit = std::uint64_t{1} << 63;

AllocationRef managed_at(CUdeviceptr address, std::size_t bytes) {
  require(bytes > 0);
  const AllocationRef a = MemoryMap::instance().find(address);
  require(a && is_managed(*a) && bytes <= a->end() - address);
  return a;
}

void check_location(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      device_of(location.id);
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      break;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

std::uint64_t bit_of(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? std::uint64_t{1} << location.id : kHostBit;
}

/// Prefetch in stream order: sets the last location when the stream reaches it.
void prefetch(CUdeviceptr address, std::size_t bytes, const CUmemLocation& location,
              Stream& stream) {
  const AllocationRef a = managed_at(address, bytes);
  check_location(location);
  require_not_capturing(stream);
  stream.submit(make_object<CallOp>([a, location, offset = address - a->base, bytes] {
    MemoryMap::instance().with_lock([&] {
      a->managed.change(offset, bytes, [&](ManagedState& s) {
        s.prefetched = {location.type, location.id};
      });
    });
  }));
}

int old_id(const MemoryPlace& place) {
  if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) return place.id;
  return place.type == 0 ? kInvalid : kCpu;
}

/// The attribute of a range is that of its first page, as on an H200
/// (tests/python/driver/test_managed_ranges.py); the manual requires all pages to agree.
ManagedState first_state(const Allocation& a, CUdeviceptr address) {
  ManagedState first;
  a.managed.visit(address - a.base, 1, [&](const ManagedState& s) { first = s; });
  return first;
}

void range_attribute(void* data, std::size_t size, CUmem_range_attribute attribute,
                     const ManagedState& a) {
  require(data && size >= sizeof(int) && size % sizeof(int) == 0);
  const auto put = [&](int value) {
    require(size == sizeof(int));
    std::memcpy(data, &value, sizeof value);
  };
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return put(a.read_mostly);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return put(old_id(a.preferred));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return put(old_id(a.prefetched));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return put(a.preferred.type);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return put(a.preferred.id);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return put(a.prefetched.type);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return put(a.prefetched.id);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      std::vector<int> list;
      for (int i = 0; i < 63; ++i)
        if (a.accessed_by >> i & 1) list.push_back(i);
      if (a.accessed_by & kHostBit) list.push_back(kCpu);
      list.resize(size / sizeof(int), kInvalid);
      std::memcpy(data, list.data(), size);
      return;
    }
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

void apply(CUmem_advise advice, const CUmemLocation& location, ManagedState& s) {
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      s.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
      break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      s.preferred = {location.type, location.id};
      break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      s.preferred = {};
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      s.accessed_by |= bit_of(location);
      break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      s.accessed_by &= ~bit_of(location);
      break;
    default:
      break;
  }
}

/// As on an H200, ranges before an invalid one are prefetched. A part starts at its start index
/// when that follows the previous part; start indices out of order are ignored.
void prefetch_batch(CUdeviceptr* addresses, std::size_t* sizes, std::size_t count,
                    CUmemLocation* locations, std::size_t* starts, std::size_t location_count,
                    unsigned long long flags, CUstream handle) {
  require(addresses && sizes && count > 0 && locations && flags == 0);
  require_parts(starts, location_count, count);
  const Ref<Stream> stream = batch_stream(handle);
  for (std::size_t i = 0; i < location_count; ++i) {
    require(locations[i].type != CU_MEM_LOCATION_TYPE_DEVICE || is_device(locations[i].id));
    check_location(locations[i]);
  }
  for (std::size_t i = 0, part = 0; i < count; ++i) {
    if (i > 0 && part + 1 < location_count && starts[part + 1] == i) ++part;
    prefetch(addresses[i], sizes[i], locations[part], *stream);
  }
}

}  // namespace

extern "C" {

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUmemLocation location,
                            unsigned int flags, CUstream handle) {
  return guarded([&] {
    require(flags == 0);
    const Ref<Stream> stream = stream_of(handle);
    prefetch(address, bytes, location, *stream);
  });
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                 CUmemLocation* locations, size_t* starts, size_t location_count,
                                 unsigned long long flags, CUstream stream) {
  return guarded([&] {
    prefetch_batch(addresses, sizes, count, locations, starts, location_count, flags, stream);
  });
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                unsigned long long flags, CUstream handle) {
  return guarded([&] {
    require(addresses && sizes && count > 0 && flags == 0);
    batch_stream(handle);
    for (std::size_t i = 0; i < count; ++i)
      managed_at(addresses[i], sizes[i]);  // keeping the contents is allowed
  });
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                           CUmemLocation* locations, size_t* starts,
                                           size_t location_count, unsigned long long flags,
                                           CUstream stream) {
  return guarded([&] {
    prefetch_batch(addresses, sizes, count, locations, starts, location_count, flags, stream);
  });
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                     CUmemLocation location) {
  return guarded([&] {
    current_context();
    const AllocationRef a = managed_at(address, bytes);
    const bool needs_place = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                             advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                             advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    if (needs_place) check_location(location);
    require(advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY);
    MemoryMap::instance().with_lock([&] {
      a->managed.change(address - a->base, bytes,
                        [&](ManagedState& s) { apply(advice, location, s); });
    });
  });
}

CUresult cuMemRangeGetAttribute(void* data, size_t size, CUmem_range_attribute attribute,
                                CUdeviceptr address, size_t bytes) {
  return guarded([&] {
    current_context();
    const AllocationRef a = managed_at(address, bytes);
    MemoryMap::instance().with_lock(
        [&] { range_attribute(data, size, attribute, first_state(*a, address)); });
  });
}

CUresult cuMemRangeGetAttributes(void** data, size_t* sizes, CUmem_range_attribute* attributes,
                                 size_t count, CUdeviceptr address, size_t bytes) {
  return guarded([&] {
    current_context();
    require(data && sizes && attributes && count > 0);
    const AllocationRef a = managed_at(address, bytes);
    MemoryMap::instance().with_lock([&] {
      const ManagedState first = first_state(*a, address);
      for (std::size_t i = 0; i < count; ++i)
        range_attribute(data[i], sizes[i], attributes[i], first);
    });
  });
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t length,
                                unsigned int flags) {
  return guarded([&] {
    const Ref<Stream> stream = stream_of(handle);
    require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
            flags == CU_MEM_ATTACH_SINGLE);
    const AllocationRef a = MemoryMap::instance().find(address);
    require(a && is_managed(*a) && a->base == address && (length == 0 || length == a->size));
    require(flags != CU_MEM_ATTACH_SINGLE || stream->role() == StreamRole::created);
    stream->submit(make_object<CallOp>([] {}));
  });
}

CUresult cuMemGetLocationInfo(CUdeviceptr address, size_t size, size_t summary, size_t sampling,
                              CUmemLocation* out) {
  return guarded([&] {
    require(out && size > 0 && summary > 0 && summary <= size && sampling <= summary);
    const AllocationRef a = MemoryMap::instance().find(address);
    require(a && size <= a->end() - address);
    const auto place = [&](std::size_t offset) {
      const bool moves = is_managed(*a);
      MemoryPlace sent;
      if (moves) a->managed.visit(offset, 1, [&](const ManagedState& s) { sent = s.prefetched; });
      if (sent.type != 0) return sent;
      if (a->device >= 0 && !moves) return MemoryPlace{CU_MEM_LOCATION_TYPE_DEVICE, a->device};
      return MemoryPlace{CU_MEM_LOCATION_TYPE_HOST, 0};
    };
    MemoryMap::instance().with_lock([&] {
      for (std::size_t i = 0; i * summary < size; ++i) {  // start of each part
        const MemoryPlace found = place(address - a->base + i * summary);
        out[i] = {};
        out[i].type = static_cast<CUmemLocationType>(found.type);
        out[i].id = found.id;
      }
    });
  });
}

}  // extern "C"
