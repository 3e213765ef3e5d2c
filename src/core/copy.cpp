// SPDX-License-Identifier: Apache-2.0
// copy.cpp: parameters of copies between linear memory and arrays.
#include "cucore/copy.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/batch.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/managed.hpp"

namespace cucore {
namespace {

/// One side of CUDA_MEMCPY3D, whose two sides have the same fields under different names.
struct Side {
  std::size_t& x;
  std::size_t& y;
  std::size_t& z;
  CUmemorytype& type;
  const void* host;
  CUdeviceptr& device;
  CUarray& array;
  std::size_t& pitch;
  std::size_t& height;
};

Side destination(CUDA_MEMCPY3D& c) {
  return {c.dstXInBytes, c.dstY,     c.dstZ,     c.dstMemoryType, c.dstHost,
          c.dstDevice,   c.dstArray, c.dstPitch, c.dstHeight};
}
Side source(CUDA_MEMCPY3D& c) {
  return {c.srcXInBytes, c.srcY,     c.srcZ,     c.srcMemoryType, c.srcHost,
          c.srcDevice,   c.srcArray, c.srcPitch, c.srcHeight};
}

void pack(const Side& side, CopyExtent extent) {
  side.pitch = extent.width;
  side.height = extent.height;
}

void point(const Side& side, CopyEnd end, CopyExtent extent) {
  const bool was_array = side.type == CU_MEMORYTYPE_ARRAY;
  const bool is_array = end.array != nullptr;
  if (was_array != is_array) {
    side.x = side.y = side.z = 0;
    pack(side, is_array ? CopyExtent{0, 0, 0} : extent);
  }
  side.type = is_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  side.array = end.array;
  side.device = end.ptr;
}

CopyEnd end_of(const Side& side) noexcept {
  if (side.type == CU_MEMORYTYPE_ARRAY) return {0, side.array};
  const CUdeviceptr base =
      side.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(side.host) : side.device;
  return {base, nullptr};
}

}  // namespace

CUDA_MEMCPY3D copy_params(CopyEnd dst, CopyEnd src, CopyExtent extent) {
  CUDA_MEMCPY3D copy{};
  copy.dstMemoryType = copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  change_copy(copy, dst, src, extent);
  return copy;
}

CopyExtent extent_of(const CUDA_MEMCPY3D& copy) noexcept {
  return {copy.WidthInBytes, std::max<std::size_t>(copy.Height, 1),
          std::max<std::size_t>(copy.Depth, 1)};
}

CopyEnd destination_of(const CUDA_MEMCPY3D& copy) noexcept {
  CUDA_MEMCPY3D mine = copy;
  return end_of(destination(mine));
}
CopyEnd source_of(const CUDA_MEMCPY3D& copy) noexcept {
  CUDA_MEMCPY3D mine = copy;
  return end_of(source(mine));
}

void change_copy(CUDA_MEMCPY3D& copy, std::optional<CopyEnd> dst, std::optional<CopyEnd> src,
                 std::optional<CopyExtent> extent) {
  const CopyExtent before = extent_of(copy);
  const CopyExtent now = extent.value_or(before);
  copy.WidthInBytes = now.width;
  copy.Height = now.height;
  copy.Depth = now.depth;
  for (const Side& side : {destination(copy), source(copy)}) {
    // Packed rows stay packed. A single row has no pitch to preserve.
    const bool was_packed = side.pitch == before.width || before.height * before.depth == 1;
    if (side.type != CU_MEMORYTYPE_ARRAY && was_packed) pack(side, now);
  }
  if (dst) point(destination(copy), *dst, now);
  if (src) point(source(copy), *src, now);
}

CopyExtent extent_between(std::size_t size, const std::optional<CopyExtent>& into,
                          const std::optional<CopyExtent>& out_of) {
  if (!into && !out_of) return {size};
  const CopyExtent whole = into ? *into : *out_of;
  const auto text = [](const CopyExtent& e) {
    return "(" + std::to_string(e.width) + ", " + std::to_string(e.height) + ", " +
           std::to_string(e.depth) + ")";
  };
  if (into && out_of && *into != *out_of) {
    throw std::invalid_argument{"the arrays have different sizes: " + text(*into) + " and " +
                                text(*out_of) + " (bytes of a row, rows, planes)"};
  }
  if (whole.bytes() != size) {
    throw std::invalid_argument{"the array has " + std::to_string(whole.bytes()) + " bytes, not " +
                                std::to_string(size) + ": an array is copied as a whole"};
  }
  return whole;
}

std::optional<CopyExtent> changed_extent(const CUDA_MEMCPY3D& copy, std::optional<std::size_t> size,
                                         const std::optional<CopyExtent>& into,
                                         const std::optional<CopyExtent>& out_of) {
  const CopyExtent old = extent_of(copy);
  const bool has_new_array = into || out_of;
  if (!size || *size == old.bytes()) {
    const bool had_array =
        destination_of(copy).array != nullptr || source_of(copy).array != nullptr;
    const bool is_same = !has_new_array || had_array || into == old || out_of == old;
    return is_same ? std::nullopt : std::optional{extent_between(old.bytes(), into, out_of)};
  }
  if (old.height * old.depth != 1 && !has_new_array) {
    throw std::invalid_argument{"the node copies " + std::to_string(old.height * old.depth) +
                                " rows of " + std::to_string(old.width) + " bytes, " +
                                std::to_string(old.bytes()) + " in all: its size cannot become " +
                                std::to_string(*size)};
  }
  return extent_between(*size, into, out_of);
}

namespace {

CUmemcpyAttributes attributes_of(const CopyOptions& options) {
  CUmemcpyAttributes out{};
  out.srcAccessOrder = static_cast<CUmemcpySrcAccessOrder>(options.src_access_order);
  if (options.src_location_hint) out.srcLocHint = options.src_location_hint->raw();
  if (options.dst_location_hint) out.dstLocHint = options.dst_location_hint->raw();
  if (options.overlap_mode == MemcpyOverlapMode::prefer_overlap_with_compute)
    out.flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  return out;
}

void check_batch(std::span<const BufferRef> srcs, std::span<const BufferRef> dsts,
                 std::size_t options) {
  const auto text = [](std::size_t n) { return std::to_string(n); };
  if (srcs.size() != dsts.size()) {
    throw std::invalid_argument{"there are " + text(srcs.size()) + " sources but " +
                                text(dsts.size()) + " destinations"};
  }
  if (options > 1 && options != srcs.size()) {
    throw std::invalid_argument{"there are " + text(srcs.size()) + " copies but " + text(options) +
                                " options: give one for all, or one each"};
  }
  for (std::size_t i = 0; i < srcs.size(); ++i) {
    if (srcs[i].size() == dsts[i].size()) continue;
    throw std::invalid_argument{"a source has " + text(srcs[i].size()) +
                                " bytes, its destination " + text(dsts[i].size()) + ": srcs[" +
                                text(i) + "] and dsts[" + text(i) + "]"};
  }
}

}  // namespace

BatchStreamError::~BatchStreamError() = default;

static void check_batch_stream(StreamRef stream) {
  if (detail::is_legacy_default(stream)) {
    throw BatchStreamError{
        "a batch of copies, or a copy with options, cannot be queued in the legacy default stream; "
        "give it a stream of your own, or the default stream of the thread"};
  }
  if (stream.is_capturing()) {
    throw BatchStreamError{
        "a batch of copies, or a copy with options, cannot be captured into a graph: copy the "
        "buffers one by one, without options"};
  }
}

void copy_batch(StreamRef stream, std::span<const BufferRef> srcs, std::span<const BufferRef> dsts,
                std::span<const CopyOptions> options) {
  check_batch(srcs, dsts, options.size());
  if (srcs.empty()) return;
  check_batch_stream(stream);
  const CopyOptions standard;
  std::vector<BufferRef> from;
  std::vector<BufferRef> into;
  std::vector<CUmemcpyAttributes> attributes;
  for (std::size_t i = 0; i < srcs.size(); ++i) {
    const CopyOptions& how = options.empty() ? standard : options[options.size() == 1 ? 0 : i];
    if (how == standard && (is_managed(srcs[i]) || is_managed(dsts[i]))) {
      CUCORE_CALL(
          cuMemcpyAsync(dsts[i].handle(), srcs[i].handle(), srcs[i].size(), stream.handle()));
      continue;
    }
    from.push_back(srcs[i]);
    into.push_back(dsts[i]);
    attributes.push_back(attributes_of(how));
  }
  if (from.empty()) return;
  detail::BatchMemory sources{from};
  detail::BatchMemory targets{into};
  auto indices = detail::each_its_own(attributes.size());
  CUCORE_CALL(cuMemcpyBatchAsync(targets.addresses.data(), sources.addresses.data(),
                                 sources.sizes.data(), from.size(), attributes.data(),
                                 indices.data(), attributes.size(), stream.handle()));
}

}  // namespace cucore
