// SPDX-License-Identifier: Apache-2.0
// The order in which block code that iterates over blocks takes them.
#include "cpu/engine/run/block_iteration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace cucpu {
namespace {

using Index = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

BlockContext grid_of(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  BlockContext context{};
  context.grid[0] = x;
  context.grid[1] = y;
  context.grid[2] = z;
  context.blocks_left = x * y * z - 1;
  context.current_blocks = 1;
  return context;
}

Index index_of(const BlockContext& context) {
  return {context.index[2], context.index[1], context.index[0]};
}

TEST(BlockIteration, EachBlockComesOnceInLinearOrder) {
  BlockContext context = grid_of(3, 2, 4);
  std::vector<Index> order{index_of(context)};
  while (next_block(context)) order.push_back(index_of(context));
  ASSERT_EQ(order.size(), 24u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(std::set<Index>(order.begin(), order.end()).size(), 24u);
  EXPECT_EQ(order.back(), Index(3, 1, 2));
  EXPECT_EQ(index_of(context), order.back()) << "where the caller goes on from";
}

TEST(BlockIteration, StripsStayInTheirRowAndCoverTheGrid) {
  for (const std::uint32_t most : {1u, 2u, 3u, 5u, 64u}) {
    BlockContext context = grid_of(5, 3, 2);
    std::vector<Index> order;
    std::uint32_t end = 0;
    while (const std::uint32_t blocks = next_strip(context, end, most)) {
      ASSERT_LE(blocks, most);
      ASSERT_EQ(context.current_blocks, blocks);
      end = context.index[0] + blocks;
      ASSERT_LE(end, context.grid[0]);
      for (std::uint32_t i = 0; i < blocks; ++i)
        order.emplace_back(context.index[2], context.index[1], context.index[0] + i);
    }
    ASSERT_EQ(order.size(), 30u) << most;
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << most;
    EXPECT_EQ(index_of(context), order.back()) << "where the caller goes on from";
  }
}

TEST(BlockIteration, IterationEndsAfterTheClaimedBlocks) {
  BlockContext context = grid_of(8, 8, 1);
  context.index[0] = 6;
  context.blocks_left = 4;
  EXPECT_EQ(next_strip(context, 0, 64), 2u);
  EXPECT_EQ(next_strip(context, 8, 64), 3u);
  EXPECT_EQ(index_of(context), Index(0, 1, 0));
  EXPECT_EQ(context.blocks_left, 0u);
  EXPECT_EQ(next_strip(context, 3, 64), 0u);
  EXPECT_EQ(index_of(context), Index(0, 1, 2));
}

// Code that ran a single thread of a strip has stored that in the context (for fault reports).
TEST(BlockIteration, AStripEndsAtTheColumnGivenByTheCode) {
  BlockContext context = grid_of(10, 1, 1);
  ASSERT_EQ(next_strip(context, 0, 4), 4u);
  context.index[0] = 2;
  context.current_blocks = 1;
  EXPECT_EQ(next_strip(context, 4, 4), 4u);
  EXPECT_EQ(index_of(context), Index(0, 0, 4));
}

}  // namespace
}  // namespace cucpu
