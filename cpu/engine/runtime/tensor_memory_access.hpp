// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/tensor_memory_access.hpp: checked access of tcgen05 routines to tensor memory
// and shared memory. What a GPU leaves undefined is a fault here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"
#include "cpu/engine/runtime/matrix_descriptor.hpp"

namespace cucpu {

inline constexpr int kIllegalAddress = 700, kIllegalInstruction = 715;

/// Ends the thread. The text belongs to the worker: nothing is unwound.
[[noreturn]] inline void tensor_fault(int code, std::string&& text) {
  Worker::running()->current_fault().text = std::move(text);
  cucpu_rt_trap(static_cast<std::uint32_t>(code));
}

inline std::uint32_t lane_of(std::uint32_t address) { return address >> 16; }
inline std::uint32_t column_of(std::uint32_t address) { return address & 0xffff; }

/// The tensor memory of a block, where these columns must be allocated.
inline TensorMemory& allocated_columns(Block& block, std::uint32_t first, std::uint32_t count) {
  TensorMemory* memory = block.tensor_memory.get();
  const std::uint32_t end = first + count;
  bool all = memory != nullptr && end <= TensorMemory::kColumns;
  for (std::uint32_t at = first / TensorMemory::kUnit; all && at * TensorMemory::kUnit < end; ++at)
    all = (memory->used >> at & 1) != 0;
  if (!all)
    tensor_fault(kIllegalAddress, "columns " + std::to_string(first) + " to " +
                                      std::to_string(end - 1) +
                                      " of tensor memory are not allocated (tcgen05.alloc)");
  return *memory;
}

/// The other block of the pair of .cta_group::2; block 0 of a pair has the even rank.
inline Block& peer_block(Block& block) {
  const std::uint32_t rank = block.context.cluster_rank ^ 1;
  if (block.cluster == nullptr || rank >= block.cluster->blocks.size())
    tensor_fault(kIllegalInstruction,
                 ".cta_group::2 needs a cluster with an even number of blocks");
  return *block.cluster->blocks[rank];
}

/// `absolute`: the leading dimension may be an address, for rows of 48 bytes.
inline MatrixDescriptor checked_descriptor(std::uint64_t bits, bool absolute = false) {
  auto found = tcgen05_descriptor(bits);
  if (!found)
    tensor_fault(kIllegalInstruction, "a matrix descriptor of tcgen05 has swizzle mode " +
                                          std::to_string(bits >> 61) +
                                          " (bits 61 to 63), expected 0, 1, 2, 4 or 6");
  if ((bits >> 52 & 1) != 0) {
    constexpr std::uint64_t kSwizzle128 = 2;
    if (!absolute || bits >> 61 != kSwizzle128 || (bits >> 49 & 7) != 0)
      tensor_fault(
          kIllegalInstruction,
          "a matrix descriptor of tcgen05 has an absolute leading dimension (bit 52), which "
          "only K = 96 takes, not transposed, with 128-byte swizzling and base offset 0");
    found->absolute = true;
  }
  return *found;
}

/// 16 bytes of the shared memory of a block.
inline const std::byte* shared_chunk(const Block& block, std::uint32_t offset) {
  if (offset + 16 > block.context.shared_bytes)
    tensor_fault(kIllegalAddress,
                 "a matrix descriptor of tcgen05 addresses memory after the block's shared memory, "
                 "at offset " +
                     std::to_string(offset));
  return block.context.shared + offset;
}

}  // namespace cucpu
