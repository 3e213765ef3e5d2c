// SPDX-License-Identifier: Apache-2.0
// cuMemBatchDecompressAsync.
#include "cpu/image/decompress.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "cpu/device/capture.hpp"
#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory.hpp"
#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/exec/memory_access.hpp"
#include "cpu/exec/ops.hpp"

using namespace cucpu::driver;

namespace {

void check(const CUmemDecompressParams& p) {
  require(p.src && p.dst && p.srcNumBytes > 0 && p.dstNumBytes > 0);
  require(p.algo == CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE ||
          p.algo == CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY ||
          p.algo == CU_MEM_DECOMPRESS_ALGORITHM_LZ4);
  require_device_range(reinterpret_cast<CUdeviceptr>(p.src), p.srcNumBytes);
  require_device_range(reinterpret_cast<CUdeviceptr>(p.dst), p.dstNumBytes);
  if (p.dstActBytes)
    require_device_range(reinterpret_cast<CUdeviceptr>(p.dstActBytes), sizeof *p.dstActBytes);
}

/// Decompresses between copies of source and destination: a fault in the program's memory must not
/// leave a decompressor, which owns memory.
void decompress(const CUmemDecompressParams& p) {
  const auto name = [] { return std::string{"batch decompression"}; };
  std::vector<unsigned char> in(p.srcNumBytes), out(p.dstNumBytes);
  access_memory([&] { std::memcpy(in.data(), p.src, p.srcNumBytes); }, name);
  std::optional<std::size_t> bytes;
  switch (p.algo) {
    case CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE:
      bytes = inflate_raw(in, out);
      break;
    case CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY:
      bytes = snappy_decompress(in, out);
      break;
    default:
      bytes = lz4_decompress_block(in, out);
      break;
  }
  if (cucpu::check::kinds_in_environment() != 0) [[unlikely]] {
    cucpu::check_host_write(reinterpret_cast<std::uintptr_t>(p.dst), bytes.value_or(0));
    if (p.dstActBytes)
      cucpu::check_host_write(reinterpret_cast<std::uintptr_t>(p.dstActBytes),
                              sizeof *p.dstActBytes);
  }
  access_memory(
      [&] {
        std::memcpy(p.dst, out.data(), bytes.value_or(0));
        if (p.dstActBytes) *p.dstActBytes = static_cast<cuuint32_t>(bytes.value_or(0));
      },
      name);
  if (!bytes)
    fail(CUDA_ERROR_EXTERNAL_DEVICE,
         "cuMemBatchDecompressAsync: damaged data, or more than the destination holds");
}

}  // namespace

extern "C" {

CUresult cuMemBatchDecompressAsync(CUmemDecompressParams* list, size_t count, unsigned int flags,
                                   size_t* error_index, CUstream handle) {
  return guarded([&] {
    require(list && count > 0 && flags == 0);
    const Ref<Stream> stream = stream_of(handle);
    require_not_capturing(*stream);
    for (std::size_t i = 0; i < count; ++i) {
      try {
        check(list[i]);
      } catch (...) {
        if (error_index) *error_index = i;
        throw;
      }
    }
    stream->submit(make_object<CallOp>([jobs = std::vector(list, list + count)] {
      for (const CUmemDecompressParams& job : jobs) decompress(job);
    }));
  });
}

}  // extern "C"
