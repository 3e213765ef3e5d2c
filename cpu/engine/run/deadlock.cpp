// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/deadlock.cpp: detects and reports fibers that wait for each other for ever.
#include <algorithm>

#include "cpu/engine/run/format_text.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

bool Scheduler::has_deadlock() const {
  const auto all_wait = [&](const Block* block) {
    return std::all_of(block->fibers.begin(), block->fibers.begin() + fibers_per_block_,
                       [](const Fiber& fiber) {
                         return fiber.wait == Wait::kDone || fiber.wait == Wait::kBarrier ||
                                fiber.wait == Wait::kWarp || fiber.wait == Wait::kWarpgroup ||
                                fiber.wait == Wait::kCluster;
                       });
  };
  return std::any_of(residents_.begin(), residents_.end(), [&](const Cluster* cluster) {
    return cluster != ended_ &&
           std::all_of(cluster->blocks.begin(), cluster->blocks.end(), all_wait);
  });
}

void Scheduler::report_deadlock() {
  const Code& code = worker_.code();
  std::string text = "kernel " + code.kernel + ": barrier deadlock";
  const auto append = [&](const Block& block, std::uint32_t first, std::uint32_t last) {
    const Fiber& fiber = block.fibers[first];
    text += first == last ? format_text("; thread %u", first)
                          : format_text("; threads %u to %u", first, last);
    switch (fiber.wait) {
      case Wait::kBarrier: {
        const Barrier& barrier = block.barriers[fiber.barrier];
        text += format_text(" at barrier %u (%u of %u arrived)", fiber.barrier, barrier.arrived,
                            barrier.expected ? barrier.expected : block.live);
        break;
      }
      case Wait::kWarp:
        text += format_text(" in a warp operation of lanes 0x%08x", fiber.mask);
        break;
      case Wait::kWarpgroup:
        text += " in a warpgroup operation";
        break;
      case Wait::kCluster:
        text += " at the cluster barrier";
        break;
      case Wait::kDone:
        text += " exited";
        break;
      default:
        text += " ready";
        break;
    }
  };
  for (const Cluster* cluster : residents_) {
    for (const Block* block : cluster->blocks) {
      if (block->live == 0) continue;
      text += "; block " + format_index(block->context.index);
      const std::uint32_t count = fibers_per_block_;
      for (std::uint32_t first = 0, i = 1; i <= count; ++i) {
        const Fiber& a = block->fibers[first];
        if (i < count && block->fibers[i].wait == a.wait && block->fibers[i].barrier == a.barrier &&
            block->fibers[i].mask == a.mask)
          continue;
        append(*block, first, i - 1);
        first = i;
        if (text.size() > 2000) break;
      }
      if (text.size() > 2000) {
        text += "; …";
        break;
      }
    }
  }
  worker_.grid().fail(719, std::move(text));
}

}  // namespace cucpu
