// cpu/engine/run/block_iteration.hpp: the order in which block code that goes on by itself
// (ObjectCode::runs_on) takes its blocks. Generated code calls the routines at the end of this
// file.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/engine/run/block_context.hpp"

namespace cucpu {

/// `index` of the block behind, in linear order.
inline void increment_index(BlockContext& context) {
  std::uint32_t *const index = context.index, *const grid = context.grid;
  if (++index[0] != grid[0]) return;
  index[0] = 0;
  if (++index[1] != grid[1]) return;
  index[1] = 0;
  ++index[2];
}

/// On to the block behind. False: the caller wants no more blocks, and `index` stays.
inline bool next_block(BlockContext& context) {
  if (context.blocks_left == 0) return false;
  --context.blocks_left;
  increment_index(context);
  return true;
}

/// How many blocks, neighbours in x and at most `most`, make the next strip, whose first is `index`
/// then. `end`: the column where the strip before ended, or 0, when there was none. The result is 0
/// when the caller wants no more, and `index` is the last block then.
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
/// The same, and safepoints: they do not come back when the grid is cancelled.
bool cucpu_rt_next_block(cucpu::BlockContext*);
std::uint32_t cucpu_rt_next_strip(cucpu::BlockContext*, std::uint32_t end, std::uint32_t most);
}
