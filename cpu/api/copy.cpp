// SPDX-License-Identifier: Apache-2.0
// cuMemcpy*: copies between host, device and arrays, across devices, and in batches.
#include "cpu/device/copy.hpp"

#include <algorithm>
#include <functional>

#include "cpu/device/array.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory.hpp"
#include "cpu/device/submit.hpp"

using namespace cucpu::driver;

namespace {

constexpr auto kHost = CU_MEMORYTYPE_HOST, kDevice = CU_MEMORYTYPE_DEVICE,
               kUnified = CU_MEMORYTYPE_UNIFIED;

CUdeviceptr address_of(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

CUDA_MEMCPY3D widen(const CUDA_MEMCPY2D& p) {
  CUDA_MEMCPY3D w{};
  w.srcXInBytes = p.srcXInBytes;
  w.srcY = p.srcY;
  w.srcMemoryType = p.srcMemoryType;
  w.srcHost = p.srcHost;
  w.srcDevice = p.srcDevice;
  w.srcArray = p.srcArray;
  w.srcPitch = p.srcPitch;
  w.dstXInBytes = p.dstXInBytes;
  w.dstY = p.dstY;
  w.dstMemoryType = p.dstMemoryType;
  w.dstHost = p.dstHost;
  w.dstDevice = p.dstDevice;
  w.dstArray = p.dstArray;
  w.dstPitch = p.dstPitch;
  w.WidthInBytes = p.WidthInBytes;
  w.Height = p.Height;
  w.Depth = 1;
  return w;
}

CUDA_MEMCPY3D without_peers(const CUDA_MEMCPY3D_PEER& p) {
  CUDA_MEMCPY3D w{};
  w.srcXInBytes = p.srcXInBytes, w.srcY = p.srcY, w.srcZ = p.srcZ, w.srcLOD = p.srcLOD;
  w.srcMemoryType = p.srcMemoryType, w.srcHost = p.srcHost, w.srcDevice = p.srcDevice,
  w.srcArray = p.srcArray;
  w.srcPitch = p.srcPitch, w.srcHeight = p.srcHeight;
  w.dstXInBytes = p.dstXInBytes, w.dstY = p.dstY, w.dstZ = p.dstZ, w.dstLOD = p.dstLOD;
  w.dstMemoryType = p.dstMemoryType, w.dstHost = p.dstHost, w.dstDevice = p.dstDevice,
  w.dstArray = p.dstArray;
  w.dstPitch = p.dstPitch, w.dstHeight = p.dstHeight;
  w.WidthInBytes = p.WidthInBytes, w.Height = p.Height, w.Depth = p.Depth;
  return w;
}

/// Source or destination of a 1-D copy with an array: bytes of the first row.
struct RowEnd {
  RowEnd(CUarray array, std::size_t offset)
      : kind{CU_MEMORYTYPE_ARRAY}, array{array}, offset{offset} {}
  RowEnd(CUdeviceptr device) : kind{CU_MEMORYTYPE_DEVICE}, device{device} {}
  RowEnd(const void* host) : kind{CU_MEMORYTYPE_HOST}, host{const_cast<void*>(host)} {}

  CUmemorytype kind;
  CUarray array = nullptr;
  std::size_t offset = 0;
  CUdeviceptr device = 0;
  void* host = nullptr;
};

Ref<CopyOp> make_row_copy(const RowEnd& dst, const RowEnd& src, std::size_t bytes) {
  for (const RowEnd* end : {&dst, &src})
    if (end->kind == CU_MEMORYTYPE_ARRAY) nonnull_object_of<Array>(end->array);
  CUDA_MEMCPY3D p{};
  p.dstMemoryType = dst.kind, p.dstArray = dst.array, p.dstXInBytes = dst.offset;
  p.dstDevice = dst.device, p.dstHost = dst.host;
  p.srcMemoryType = src.kind, p.srcArray = src.array, p.srcXInBytes = src.offset;
  p.srcDevice = src.device, p.srcHost = src.host;
  p.WidthInBytes = bytes;
  p.Height = p.Depth = 1;
  return make_copy(p);
}

/// A context of a peer copy; null is the current one.
Context& peer_context(CUcontext handle) {
  return handle ? usable(context_of(handle)) : current_context();
}

CUresult now(CUdeviceptr dst, CUmemorytype dst_kind, CUdeviceptr src, CUmemorytype src_kind,
             std::size_t bytes, const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        current_context();
        run_synchronously(make_copy(dst, dst_kind, src, src_kind, bytes));
      },
      function);
}

// Not inlined, so that the guard is.
[[gnu::noinline]] CUresult later(CUstream handle, CUdeviceptr dst, CUmemorytype dst_kind,
                                 CUdeviceptr src, CUmemorytype src_kind, std::size_t bytes,
                                 const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        const Ref<Stream> stream = stream_of(handle);
        submit_copy(*stream, make_copy(dst, dst_kind, src, src_kind, bytes));
      },
      function);
}

/// Copies bytes of a row synchronously; zero bytes are skipped.
CUresult row_now(const RowEnd& dst, const RowEnd& src, std::size_t bytes,
                 const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        current_context();
        if (bytes != 0) run_synchronously(make_row_copy(dst, src, bytes));
      },
      function);
}

CUresult row_later(CUstream handle, const RowEnd& dst, const RowEnd& src, std::size_t bytes,
                   const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        const Ref<Stream> stream = stream_of(handle);
        if (bytes != 0) submit_copy(*stream, make_row_copy(dst, src, bytes));
      },
      function);
}

void check_batch_attributes(const CUmemcpyAttributes* attrs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    require(attrs[i].srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
            attrs[i].srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    require(attrs[i].flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
  }
}

/// Batches cannot be captured; the capture stays valid.
void require_no_capture(const Stream& stream) {
  require(stream.capture.load() == nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUDA_MEMCPY3D batch_op(const CUDA_MEMCPY3D_BATCH_OP& op) {
  CUDA_MEMCPY3D p{};
  const auto element = [&](const CUmemcpy3DOperand& side) -> std::size_t {
    return side.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? object_of<Array>(side.op.array.array).element
                                                     : 0;
  };
  const std::size_t size = std::max<std::size_t>({element(op.src), element(op.dst), 1});
  p.WidthInBytes = op.extent.width * size;
  p.Height = op.extent.height;
  p.Depth = op.extent.depth;
  const auto end = [&](const CUmemcpy3DOperand& side, CUmemorytype& type, CUdeviceptr& device,
                       CUarray& array, std::size_t& x, std::size_t& y, std::size_t& z,
                       std::size_t& pitch, std::size_t& rows) {
    if (side.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
      type = CU_MEMORYTYPE_ARRAY;
      array = side.op.array.array;
      x = side.op.array.offset.x * size;
      y = side.op.array.offset.y;
      z = side.op.array.offset.z;
      return;
    }
    require(side.type == CU_MEMCPY_OPERAND_TYPE_POINTER);
    type = CU_MEMORYTYPE_UNIFIED;
    device = side.op.ptr.ptr;
    pitch = side.op.ptr.rowLength * size;
    rows = side.op.ptr.layerHeight;
  };
  end(op.src, p.srcMemoryType, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch,
      p.srcHeight);
  end(op.dst, p.dstMemoryType, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch,
      p.dstHeight);
  return p;
}

}  // namespace

extern "C" {

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return now(dst, kUnified, src, kUnified, bytes);
}

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void* src, size_t bytes) {
  return now(dst, kDevice, address_of(src), kHost, bytes);
}

CUresult cuMemcpyDtoH(void* dst, CUdeviceptr src, size_t bytes) {
  return now(address_of(dst), kHost, src, kDevice, bytes);
}

CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return now(dst, kDevice, src, kDevice, bytes);
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                      CUcontext src_context, size_t bytes) {
  return guarded([&] {
    current_context();
    Context& to = peer_context(dst_context);
    peer_context(src_context).synchronize();  // ordered after the work of both contexts
    to.synchronize();
    const ScopedContext scope{to};
    run_synchronously(make_copy(dst, kDevice, src, kDevice, bytes));
  });
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return later(stream, dst, kUnified, src, kUnified, bytes);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  return later(stream, dst, kDevice, address_of(src), kHost, bytes);
}

CUresult cuMemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return later(stream, address_of(dst), kHost, src, kDevice, bytes);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return later(stream, dst, kDevice, src, kDevice, bytes);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                           CUcontext src_context, size_t bytes, CUstream stream) {
  return guarded([&] {
    peer_context(dst_context);
    peer_context(src_context);
    return later(stream, dst, kDevice, src, kDevice, bytes);
  });
}

CUresult cuMemcpyDtoA(CUarray array, size_t offset, CUdeviceptr src, size_t bytes) {
  return row_now({array, offset}, src, bytes);
}

CUresult cuMemcpyAtoD(CUdeviceptr dst, CUarray array, size_t offset, size_t bytes) {
  return row_now(dst, {array, offset}, bytes);
}

CUresult cuMemcpyHtoA(CUarray array, size_t offset, const void* src, size_t bytes) {
  return row_now({array, offset}, src, bytes);
}

CUresult cuMemcpyAtoH(void* dst, CUarray array, size_t offset, size_t bytes) {
  return row_now(dst, {array, offset}, bytes);
}

CUresult cuMemcpyAtoA(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset,
                      size_t bytes) {
  return row_now({dst, dst_offset}, {src, src_offset}, bytes);
}

CUresult cuMemcpyHtoAAsync(CUarray array, size_t offset, const void* src, size_t bytes,
                           CUstream stream) {
  return row_later(stream, {array, offset}, src, bytes);
}

CUresult cuMemcpyAtoHAsync(void* dst, CUarray array, size_t offset, size_t bytes, CUstream stream) {
  return row_later(stream, dst, {array, offset}, bytes);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D* p) {
  return guarded([&] {
    current_context();
    require(p != nullptr);
    run_synchronously(make_copy(widen(*p)));
  });
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* p) { return cuMemcpy2D(p); }

CUresult cuMemcpy3D(const CUDA_MEMCPY3D* p) {
  return guarded([&] {
    current_context();
    require(p != nullptr);
    run_synchronously(make_copy(*p));
  });
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* p) {
  return guarded([&] {
    current_context();
    require(p != nullptr);
    run_synchronously(make_copy(without_peers(*p)));
  });
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* p, CUstream handle) {
  return guarded([&] {
    const Ref<Stream> stream = stream_of(handle);
    require(p != nullptr);
    submit_copy(*stream, make_copy(widen(*p)));
  });
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* p, CUstream handle) {
  return guarded([&] {
    const Ref<Stream> stream = stream_of(handle);
    require(p != nullptr);
    submit_copy(*stream, make_copy(*p));
  });
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* p, CUstream handle) {
  return guarded([&] {
    const Ref<Stream> stream = stream_of(handle);
    require(p != nullptr);
    submit_copy(*stream, make_copy(without_peers(*p)));
  });
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attrs, size_t* attr_starts, size_t attr_count,
                            CUstream handle) {
  return guarded([&] {
    const Ref<Stream> stream = batch_stream(handle);
    require(dsts && srcs && sizes && count > 0 && attrs);
    require_no_capture(*stream);
    require_parts(attr_starts, attr_count, count);
    const auto last = attr_starts + attr_count;
    require(std::adjacent_find(attr_starts, last, std::greater_equal{}) == last);
    check_batch_attributes(attrs, attr_count);
    std::vector<Ref<CopyOp>> ops;
    for (std::size_t i = 0; i < count; ++i) {
      require(sizes[i] > 0);
      ops.push_back(make_copy(dsts[i], kUnified, srcs[i], kUnified, sizes[i]));
    }
    for (std::size_t i = 0, k = 0; i < count; ++i) {
      if (k + 1 < attr_count && attr_starts[k + 1] == i) ++k;
      submit_copy_as(attrs[k].srcAccessOrder, *stream, ops[i]);
    }
  });
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, unsigned long long flags,
                              CUstream handle) {
  return guarded([&] {
    const Ref<Stream> stream = batch_stream(handle);
    require(list && count > 0 && flags == 0);
    require_no_capture(*stream);
    std::vector<Ref<CopyOp>> ops;
    for (std::size_t i = 0; i < count; ++i) ops.push_back(make_copy(batch_op(list[i])));
    for (std::size_t i = 0; i < count; ++i) submit_copy_as(list[i].srcAccessOrder, *stream, ops[i]);
  });
}

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                     CUmemcpyAttributes* attr, CUstream handle) {
  return guarded([&] {
    const Ref<Stream> stream = batch_stream(handle);
    require(attr != nullptr);
    check_batch_attributes(attr, 1);
    submit_copy_as(attr->srcAccessOrder, *stream, make_copy(dst, kUnified, src, kUnified, size));
  });
}

CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags,
                                       CUstream handle) {
  return guarded([&] {
    const Ref<Stream> stream = batch_stream(handle);
    require(op && flags == 0);
    submit_copy_as(op->srcAccessOrder, *stream, make_copy(batch_op(*op)));
  });
}

}  // extern "C"
