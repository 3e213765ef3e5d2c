// SPDX-License-Identifier: Apache-2.0
// cuMemBatchDecompressAsync.
#include "cpu/image/decompress.hpp"

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cpu/device/capture.hpp"
#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory.hpp"
#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/check/operations.hpp"
#include "cpu/engine/check/routine_access.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/exec/memory_access.hpp"
#include "cpu/exec/ops.hpp"
#include "cpu/mem/allocation.hpp"

using namespace cucpu::driver;

namespace {

constexpr const char* kName = "batch decompression";

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

/// Race checks with operations of other streams.
void check_order(const void* first, std::size_t bytes, bool writes) {
  std::string report = cucpu::operations::check_access(reinterpret_cast<std::uintptr_t>(first),
                                                       bytes, writes, kName);
  if (!report.empty()) throw IllegalAddress{{CUDA_ERROR_LAUNCH_FAILED}, std::move(report)};
}

/// Memory checks: the memory must not have been freed since the call.
void check_allocation(const void* first, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  if ((cucpu::check::kinds_in_environment() & cucpu::check::kMemory) == 0) return;
  AllocationRef found = MemoryMap::instance().find(address);
  if (!found) found = QueuedFrees::instance().find(address);
  if (!found || bytes > found->end() - address) fail_access({address, true}, kName);
}

std::optional<std::size_t> decompress(CUmemDecompressAlgorithm algorithm,
                                      std::span<const unsigned char> in,
                                      std::span<unsigned char> out) {
  switch (algorithm) {
    case CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE:
      return inflate_raw(in, out);
    case CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY:
      return snappy_decompress(in, out);
    default:
      return lz4_decompress_block(in, out);
  }
}

/// Init checks: the data must end before the first uninitialized byte of the source.
void check_source(const CUmemDecompressParams& p, std::span<const unsigned char> initialized,
                  std::span<unsigned char> out) {
  if (initialized.size() == p.srcNumBytes || decompress(p.algo, initialized, out)) return;
  std::string report =
      cucpu::report_host_read(reinterpret_cast<std::uintptr_t>(p.src) + initialized.size(), kName);
  if (!report.empty()) throw IllegalAddress{{CUDA_ERROR_LAUNCH_FAILED}, std::move(report)};
}

/// Decompresses between copies of source and destination: a fault in the program's memory must not
/// leave a decompressor, which owns memory.
void decompress(const CUmemDecompressParams& p) {
  const auto name = [] { return std::string{kName}; };
  const bool is_checked = cucpu::check::kinds_in_environment() != 0;
  std::size_t initialized = p.srcNumBytes;  // up to the first byte that is not
  if (is_checked) [[unlikely]] {
    check_allocation(p.src, p.srcNumBytes);
    check_allocation(p.dst, p.dstNumBytes);
    if (p.dstActBytes) check_allocation(p.dstActBytes, sizeof *p.dstActBytes);
    check_order(p.src, p.srcNumBytes, /*writes=*/false);
    initialized = cucpu::check_host_read(reinterpret_cast<std::uintptr_t>(p.src), initialized);
  }
  std::vector<unsigned char> in(p.srcNumBytes), out(p.dstNumBytes);
  access_memory([&] { std::memcpy(in.data(), p.src, p.srcNumBytes); }, name);
  if (is_checked) [[unlikely]]
    check_source(p, std::span{in}.first(initialized), out);
  const std::optional<std::size_t> bytes = decompress(p.algo, in, out);
  if (is_checked) [[unlikely]] {
    check_order(p.dst, bytes.value_or(0), /*writes=*/true);
    if (p.dstActBytes) check_order(p.dstActBytes, sizeof *p.dstActBytes, /*writes=*/true);
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
