// SPDX-License-Identifier: Apache-2.0
// managed.cpp: advises, prefetches and discards managed memory.
#include "cucore/managed.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/batch.hpp"
#include "cucore/device.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace {

/// Throws if the memory is not managed. Drivers return an unspecific error code, or apply the
/// operation if the device accesses pageable memory.
void require_managed(BufferRef memory) {
  if (is_managed(memory)) return;
  throw std::invalid_argument{
      "the memory is not managed: only managed memory has advice and can be prefetched; allocate "
      "it from a ManagedMemoryResource"};
}

/// CUDA documents accessed_by for devices and for the whole host, not for NUMA nodes.
bool keeps_mappings(Location place) {
  return place.is_device() || place.type() == CU_MEM_LOCATION_TYPE_HOST;
}
void require_mappable(Location place) {
  if (keeps_mappings(place)) return;
  throw std::invalid_argument{
      "accessed_by takes devices and the whole host, Host(), not one of its NUMA nodes"};
}

void advise(BufferRef memory, CUmem_advise advice, Location place) {
  require_managed(memory);
  CUCORE_CALL(cuMemAdvise(memory.handle(), memory.size(), advice, place.raw()));
}

int range_attribute(BufferRef memory, CUmem_range_attribute attribute) {
  require_managed(memory);
  int value = 0;
  CUCORE_CALL(
      cuMemRangeGetAttribute(&value, sizeof value, attribute, memory.handle(), memory.size()));
  return value;
}

std::vector<CUmemLocation> one_each(std::span<const Location> places, std::size_t count) {
  if (places.size() != 1 && places.size() != count) {
    throw std::invalid_argument{"there are " + std::to_string(count) + " buffers but " +
                                std::to_string(places.size()) +
                                " locations: give one for all, or one each"};
  }
  std::vector<CUmemLocation> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(places[places.size() == 1 ? 0 : i].raw());
  return out;
}

}  // namespace

bool detail::is_legacy_default(StreamRef stream) {
  return stream.handle() == nullptr ? !driver_info().per_thread_stream
                                    : stream.handle() == CU_STREAM_LEGACY;
}

void detail::require_batch_stream(StreamRef stream, const char* function) {
  if (!is_legacy_default(stream)) return;
  throw CUDAError{CUDA_ERROR_INVALID_VALUE, result_name(CUDA_ERROR_INVALID_VALUE),
                  std::string{result_name(CUDA_ERROR_INVALID_VALUE)} + ": " + function +
                      ": no batch can be queued in the legacy default stream; give it a stream "
                      "of your own, or the default stream of the thread"};
}

bool is_managed(BufferRef memory) {
  unsigned managed = 0;
  return driver().cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        memory.handle()) == CUDA_SUCCESS &&
         managed != 0;
}

bool ManagedRef::read_mostly() const {
  return range_attribute(*this, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) != 0;
}

void ManagedRef::set_read_mostly(bool value) const {
  advise(*this, value ? CU_MEM_ADVISE_SET_READ_MOSTLY : CU_MEM_ADVISE_UNSET_READ_MOSTLY,
         Location::host());
}

std::optional<Location> ManagedRef::preferred_location() const {
  const auto type = static_cast<CUmemLocationType>(
      range_attribute(*this, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE));
  const int id = range_attribute(*this, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID);
  switch (type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return Location{type, id};
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return Location{type, 0};
    default:
      return std::nullopt;
  }
}

void ManagedRef::set_preferred_location(const std::optional<Location>& place) const {
  if (place) {
    advise(*this, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, *place);
  } else {
    advise(*this, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, Location::host());
  }
}

std::vector<Location> ManagedRef::accessed_by() const {
  require_managed(*this);
  std::vector<int> ids(static_cast<std::size_t>(Device::count()) + 1, CU_DEVICE_INVALID);
  CUCORE_CALL(cuMemRangeGetAttribute(ids.data(), ids.size() * sizeof(int),
                                     CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, handle(), size()));
  std::vector<Location> places;
  for (const int id : ids) {
    if (id == CU_DEVICE_CPU) {
      places.push_back(Location::host());
    } else if (id != CU_DEVICE_INVALID) {
      places.push_back(Location::device(id));
    }
  }
  return places;
}

void ManagedRef::add_accessed_by(Location place) const {
  require_mappable(place);
  advise(*this, CU_MEM_ADVISE_SET_ACCESSED_BY, place);
}
void ManagedRef::remove_accessed_by(Location place) const {
  if (!keeps_mappings(place)) return;  // never in the set
  advise(*this, CU_MEM_ADVISE_UNSET_ACCESSED_BY, place);
}

void ManagedRef::set_accessed_by(std::span<const Location> places) const {
  // Validate all before the first change.
  for (const Location place : places) require_mappable(place);
  const auto before = accessed_by();
  for (const Location place : before) {
    if (std::ranges::find(places, place) == places.end()) remove_accessed_by(place);
  }
  for (const Location place : places) {
    if (std::ranges::find(before, place) == before.end()) add_accessed_by(place);
  }
}

void ManagedRef::prefetch(Location place, StreamRef stream) const {
  require_managed(*this);
  CUCORE_CALL(cuMemPrefetchAsync(handle(), size(), place.raw(), 0, stream.handle()));
}
void ManagedRef::discard(StreamRef stream) const {
  const BufferRef memory = *this;
  discard_batch(stream, {&memory, 1});
}
void ManagedRef::discard_prefetch(Location place, StreamRef stream) const {
  const BufferRef memory = *this;
  discard_prefetch_batch(stream, {&memory, 1}, {&place, 1});
}

void prefetch_batch(StreamRef stream, std::span<const BufferRef> buffers,
                    std::span<const Location> places) {
  auto locations = one_each(places, buffers.size());
  if (buffers.empty()) return;
  detail::require_batch_stream(stream, "prefetch_batch");
  detail::BatchMemory memory{buffers};
  auto indices = detail::each_its_own(buffers.size());
  CUCORE_CALL(cuMemPrefetchBatchAsync(memory.addresses.data(), memory.sizes.data(), buffers.size(),
                                      locations.data(), indices.data(), locations.size(), 0,
                                      stream.handle()));
}

void discard_batch(StreamRef stream, std::span<const BufferRef> buffers) {
  if (buffers.empty()) return;
  detail::require_batch_stream(stream, "discard_batch");
  detail::BatchMemory memory{buffers};
  CUCORE_CALL(cuMemDiscardBatchAsync(memory.addresses.data(), memory.sizes.data(), buffers.size(),
                                     0, stream.handle()));
}

void discard_prefetch_batch(StreamRef stream, std::span<const BufferRef> buffers,
                            std::span<const Location> places) {
  auto locations = one_each(places, buffers.size());
  if (buffers.empty()) return;
  detail::require_batch_stream(stream, "discard_prefetch_batch");
  detail::BatchMemory memory{buffers};
  auto indices = detail::each_its_own(buffers.size());
  CUCORE_CALL(cuMemDiscardAndPrefetchBatchAsync(memory.addresses.data(), memory.sizes.data(),
                                                buffers.size(), locations.data(), indices.data(),
                                                locations.size(), 0, stream.handle()));
}

}  // namespace cucore
