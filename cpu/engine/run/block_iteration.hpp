// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/block_iteration.hpp: the order in which block code that iterates over blocks
// (Code::iterates_blocks) runs them. Generated code calls the routines at the end of this file.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/engine/run/block_context.hpp"

namespace cucpu {

/// Sets `index` to the next block in linear order.
inline void increment_index(BlockContext& context) {
  std::uint32_t *const index = context.index, *const grid = context.grid;
  if (++index[0] != grid[0]) return;
  index[0] = 0;
  if (++index[1] != grid[1]) return;
  index[1] = 0;
  ++index[2];
}

/// Advances to the next block. False: no block is left for this call, and `index` is unchanged.
inline bool next_block(BlockContext& context) {
  if (context.blocks_left == 0) return false;
  --context.blocks_left;
  increment_index(context);
  return true;
}

/// The length of the next strip: at most `most` blocks that are neighbors in x. Its first block is
/// then `index`. `end`: the column where the previous strip ended; 0: there was none. The result is
/// 0 when no block is left, and `index` is then the last block.
inline std::uint32_t next_strip(BlockContext& context, std::uint32_t end, std::uint32_t most) {
  if (end != 0) {
    context.index[0] = end - 1;
    if (!next_block(context)) return 0;
  }
  const std::uint32_t others =
      std::min({context.grid[0] - context.index[0] - 1, context.blocks_left, most - 1});
  context.blocks_left -= others;
  context.current_blocks = others + 1;
  return others + 1;
}

}  // namespace cucpu

extern "C" {
/// The same as routines. They are safepoints: they do not return when the grid is cancelled.
bool cucpu_rt_next_block(cucpu::BlockContext*);
std::uint32_t cucpu_rt_next_strip(cucpu::BlockContext*, std::uint32_t end, std::uint32_t most);
}
