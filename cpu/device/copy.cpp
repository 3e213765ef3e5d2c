// SPDX-License-Identifier: Apache-2.0
// Copies: checks of source and destination, and submission to a stream.
#include "cpu/device/copy.hpp"

#include "cpu/device/array.hpp"
#include "cpu/device/memory.hpp"
#include "cpu/device/submit.hpp"
#include "cpu/exec/memory_access.hpp"

namespace cucpu::driver {
namespace {

/// Source or destination of a 3-D copy.
struct End {
  char* start;
  std::size_t pitch, slice;
};

/// Resolves source or destination; `keep` receives objects that must live as long as the copy.
End resolve(CUmemorytype kind, const void* host, CUdeviceptr device, CUarray array_handle,
            std::size_t x, std::size_t y, std::size_t z, std::size_t pitch, std::size_t rows,
            const CUDA_MEMCPY3D& p, std::vector<Ref<Object>>& keep) {
  const std::size_t width = p.WidthInBytes, height = p.Height, depth = p.Depth;
  if (kind == CU_MEMORYTYPE_ARRAY) {
    Array& array = object_of<Array>(array_handle);
    require(x + width <= array.width * array.element && y + height <= array.height &&
            z + depth <= array.slices);
    keep.emplace_back(&array);
    return {array.data + z * array.slice_bytes + y * array.pitch + x, array.pitch,
            array.slice_bytes};
  }
  require(kind == CU_MEMORYTYPE_HOST || kind == CU_MEMORYTYPE_DEVICE ||
          kind == CU_MEMORYTYPE_UNIFIED);
  if (pitch == 0) pitch = x + width;
  require(pitch >= x + width);
  if (rows == 0) rows = y + height;
  require(rows >= y + height || depth <= 1);
  const std::size_t slice = pitch * rows;
  const std::size_t offset = z * slice + y * pitch + x;
  const std::size_t bytes = (depth - 1) * slice + (height - 1) * pitch + width;
  const CUdeviceptr base =
      kind == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
  require(base != 0);
  if (kind == CU_MEMORYTYPE_DEVICE)
    require_device_range(base + offset, bytes);
  else
    require_any_range(base + offset, bytes);
  return {reinterpret_cast<char*>(base + offset), pitch, slice};
}

}  // namespace

Ref<CopyOp> make_copy(const CUDA_MEMCPY3D& p, CUcontext context) {
  require(p.srcLOD == 0 && p.dstLOD == 0);
  auto op = make_object<CopyOp>(BoxCopy{});
  op->params = p;
  op->context_handle = context;
  if (p.WidthInBytes == 0 || p.Height == 0 || p.Depth == 0) return op;
  const End dst = resolve(p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes,
                          p.dstY, p.dstZ, p.dstPitch, p.dstHeight, p, op->keep);
  const End src = resolve(p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes,
                          p.srcY, p.srcZ, p.srcPitch, p.srcHeight, p, op->keep);
  const auto reach = [&p](const End& end) {
    return (p.Depth - 1) * end.slice + (p.Height - 1) * end.pitch + p.WidthInBytes;
  };
  require_mapped_access(reinterpret_cast<CUdeviceptr>(dst.start), reach(dst), true);
  require_mapped_access(reinterpret_cast<CUdeviceptr>(src.start), reach(src), false);
  op->box = {dst.start, src.start,      dst.pitch, dst.slice, src.pitch,
             src.slice, p.WidthInBytes, p.Height,  p.Depth};
  return op;
}

Ref<CopyOp> make_copy(CUdeviceptr dst, CUmemorytype dst_kind, CUdeviceptr src,
                      CUmemorytype src_kind, std::size_t bytes) {
  const auto check = [&](CUdeviceptr address, CUmemorytype kind) {
    if (bytes == 0) return;
    require(address != 0);
    if (kind == CU_MEMORYTYPE_DEVICE)
      require_device_range(address, bytes);
    else
      require_any_range(address, bytes);
  };
  check(dst, dst_kind);
  check(src, src_kind);
  require_mapped_access(dst, bytes, true);
  require_mapped_access(src, bytes, false);
  BoxCopy box;
  box.dst = reinterpret_cast<char*>(dst);
  box.src = reinterpret_cast<const char*>(src);
  box.width = bytes;
  box.dst_pitch = box.src_pitch = box.dst_slice = box.src_slice = bytes;
  auto op = make_object<CopyOp>(box);
  CUDA_MEMCPY3D& p = op->params;
  p.dstMemoryType = dst_kind;
  p.srcMemoryType = src_kind;
  if (dst_kind == CU_MEMORYTYPE_HOST)
    p.dstHost = box.dst;
  else
    p.dstDevice = dst;
  if (src_kind == CU_MEMORYTYPE_HOST)
    p.srcHost = box.src;
  else
    p.srcDevice = src;
  p.WidthInBytes = bytes;
  p.Height = p.Depth = 1;
  return op;
}

namespace {

/// Copies the source into the operation, which then copies from there.
void take_source(Stream& stream, CopyOp& op) {
  BoxCopy take = op.box;
  op.staged.resize(take.width * take.height * take.depth);
  take.dst = op.staged.data();
  take.dst_pitch = take.width;
  take.dst_slice = take.width * take.height;
  access_in(context_of(stream), [&] { take.execute(); });
  op.box.src = op.staged.data();
  op.box.src_pitch = take.dst_pitch;
  op.box.src_slice = take.dst_slice;
}

}  // namespace

void submit_copy_as(CUmemcpySrcAccessOrder order, Stream& stream, Ref<CopyOp> op) {
  if (order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL && op->box.src) take_source(stream, *op);
  submit_copy(stream, std::move(op));
}

void submit_copy(Stream& stream, Ref<CopyOp> op) {
  if (stream.capture.load(std::memory_order_acquire)) {
    submit(stream, std::move(op));
    return;
  }
  const bool from_pageable = op->box.src && op->keep.empty() && op->staged.empty() &&
                             is_pageable(reinterpret_cast<CUdeviceptr>(op->box.src));
  const bool to_pageable =
      op->box.dst && op->keep.empty() && is_pageable(reinterpret_cast<CUdeviceptr>(op->box.dst));
  if (from_pageable && !to_pageable && !stream.drained()) {
    take_source(stream, *op);
    submit(stream, std::move(op));
    return;
  }
  const std::uint64_t number = submit(stream, std::move(op));
  if (!from_pageable && !to_pageable) return;
  stream.wait(number);
  usable(context_of(stream));  // the copy is complete, so its error can be reported
}

}  // namespace cucpu::driver
