// SPDX-License-Identifier: Apache-2.0
// Occupancy of a multiprocessor.
#include <algorithm>
#include <span>

#include "cpu/device/kernel_op.hpp"

namespace cucpu::driver {
namespace {
constexpr unsigned kWarp = 32, kMaxThreadsPerBlock = 1024, kRegisterUnit = 256, kSharedUnit = 128;
unsigned round_up(unsigned value, unsigned unit) { return (value + unit - 1) / unit * unit; }
}  // namespace

unsigned blocks_per_sm(const Limits& limits, const cucpu::KernelInfo& info, unsigned threads,
                       std::size_t dynamic_shared) {
  if (threads == 0 || threads > kMaxThreadsPerBlock)
    return 0;  // the limit of the kernel itself is not checked
  const unsigned warps = (threads + kWarp - 1) / kWarp;
  unsigned blocks = std::min(limits.blocks_per_sm, limits.threads_per_sm / kWarp / warps);
  if (info.registers > 0) {
    const unsigned per_warp = round_up(info.registers * kWarp, kRegisterUnit);
    const unsigned warps_by_registers =
        limits.registers_per_sm / per_warp / 4 * 4;  // allocated in units of four warps
    blocks = std::min(blocks, warps_by_registers / warps);
  }
  const std::size_t asked = info.static_shared_bytes + dynamic_shared;
  if (asked > limits.shared_per_block_opt_in) return 0;
  const unsigned shared =
      round_up(static_cast<unsigned>(asked + limits.shared_reserved), kSharedUnit);
  if (shared == 0) return blocks;
  return std::min(blocks, static_cast<unsigned>(limits.shared_per_sm) / shared);
}

std::uint64_t active_clusters(std::span<const unsigned> processors, unsigned blocks,
                              unsigned cluster) {
  constexpr unsigned kMaxClusterBlocksPerSm = 8;
  const std::uint64_t each = std::min(blocks, kMaxClusterBlocksPerSm);
  std::uint64_t sum = 0;
  for (const unsigned count : processors)
    if (count >= cluster) sum += count * each / cluster;
  return sum;
}

}  // namespace cucpu::driver
