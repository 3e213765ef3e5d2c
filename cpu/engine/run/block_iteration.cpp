// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/block_iteration.cpp
#include "cpu/engine/run/block_iteration.hpp"

#include <atomic>

#include "cpu/engine/run/routines.hpp"

using namespace cucpu;

namespace {

void poll(const BlockContext& context) {
  if (std::atomic_ref{*const_cast<std::uint32_t*>(context.cancel)}.load(
          std::memory_order_relaxed) != 0)
    cucpu_rt_poll();
}

}  // namespace

bool cucpu_rt_next_block(BlockContext* context) {
  if (context->blocks_left != 0) poll(*context);
  return next_block(*context);
}

std::uint32_t cucpu_rt_next_strip(BlockContext* context, std::uint32_t end, std::uint32_t most) {
  if (end != 0 && context->blocks_left != 0) poll(*context);
  return next_strip(*context, end, most);
}
