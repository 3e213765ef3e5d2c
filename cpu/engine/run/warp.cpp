// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/warp.cpp: warp operations for threads on fibers: the lanes of a mask arrive, and
// the last one to arrive computes the results of all.
#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {
namespace {

template <typename F>
void for_lanes(std::uint32_t lanes, F&& f) {
  for (; lanes; lanes &= lanes - 1) f(static_cast<std::uint32_t>(std::countr_zero(lanes)));
}

/// shfl.sync of the PTX manual: c packs the clamp in bits 0-4 and the segment mask in bits 8-12.
std::uint64_t shuffle(const PendingWarpOperation& r, std::uint32_t lane) {
  const std::uint32_t clamp = r.c[lane] & 31, segment = r.c[lane] >> 8 & 31, b = r.b[lane] & 31;
  const std::uint32_t max_lane = (lane & segment) | (clamp & ~segment), min_lane = lane & segment;
  std::uint32_t from = lane;
  bool in_range = false;
  switch (static_cast<WarpOp>(r.kind)) {
    case WarpOp::kShflUp:
      from = lane - b;
      in_range = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(max_lane);
      break;
    case WarpOp::kShflDown:
      from = lane + b;
      in_range = from <= max_lane;
      break;
    case WarpOp::kShflBfly:
      from = lane ^ b;
      in_range = from <= max_lane;
      break;
    default:
      from = min_lane | (b & ~segment);
      in_range = from <= max_lane;
      break;
  }
  if (!in_range) from = lane;
  if (!(r.arrived >> from & 1)) from = lane;  // undefined in CUDA: the lane does not take part
  return (r.a[from] & 0xffffffffU) | std::uint64_t{in_range} << 32;
}

std::uint32_t reduce(const PendingWarpOperation& r) {
  const auto fold = [&](std::uint32_t start, auto f) {
    for_lanes(r.arrived,
              [&](std::uint32_t lane) { start = f(start, static_cast<std::uint32_t>(r.a[lane])); });
    return start;
  };
  using U = std::uint32_t;
  const auto s = [](U v) { return static_cast<std::int32_t>(v); };
  switch (static_cast<WarpOp>(r.kind)) {
    case WarpOp::kReduxAdd:
      return fold(0, [](U a, U b) { return a + b; });
    case WarpOp::kReduxUMin:
      return fold(~0U, [](U a, U b) { return a < b ? a : b; });
    case WarpOp::kReduxUMax:
      return fold(0, [](U a, U b) { return a > b ? a : b; });
    case WarpOp::kReduxSMin:
      return fold(0x7fffffffU, [s](U a, U b) { return s(a) < s(b) ? a : b; });
    case WarpOp::kReduxSMax:
      return fold(0x80000000U, [s](U a, U b) { return s(a) > s(b) ? a : b; });
    case WarpOp::kReduxAnd:
      return fold(~0U, [](U a, U b) { return a & b; });
    case WarpOp::kReduxOr:
      return fold(0, [](U a, U b) { return a | b; });
    default:  // kReduxXor
      return fold(0, [](U a, U b) { return a ^ b; });
  }
}

/// Computes the result of every lane.
void compute(PendingWarpOperation& r, std::uint64_t (&result)[32]) {
  const std::uint32_t lanes = r.arrived;
  const auto all = [&](std::uint64_t value) {
    for_lanes(lanes, [&](std::uint32_t l) { result[l] = value; });
  };
  std::uint32_t set = 0;
  for_lanes(lanes, [&](std::uint32_t l) { set |= (r.a[l] & 1) << l; });
  switch (static_cast<WarpOp>(r.kind)) {
    case WarpOp::kSync:
      return;
    case WarpOp::kShflUp:
    case WarpOp::kShflDown:
    case WarpOp::kShflBfly:
    case WarpOp::kShflIdx:
      return for_lanes(lanes, [&](std::uint32_t l) { result[l] = shuffle(r, l); });
    case WarpOp::kVoteAll:
      return all(set == lanes);
    case WarpOp::kVoteAny:
      return all(set != 0);
    case WarpOp::kVoteUni:
      return all(set == 0 || set == lanes);
    case WarpOp::kVoteBallot:
      return all(set);
    case WarpOp::kMatchAny:
      return for_lanes(lanes, [&](std::uint32_t l) {
        std::uint32_t same = 0;
        for_lanes(lanes, [&](std::uint32_t k) { same |= std::uint32_t{r.a[k] == r.a[l]} << k; });
        result[l] = same;
      });
    case WarpOp::kMatchAll: {
      bool same = true;
      const std::uint64_t first = r.a[std::countr_zero(lanes)];
      for_lanes(lanes, [&](std::uint32_t l) { same &= r.a[l] == first; });
      return all(same ? lanes | std::uint64_t{1} << 32 : 0);
    }
    case WarpOp::kElect: {
      const auto leader = static_cast<std::uint32_t>(std::countr_zero(lanes));
      return for_lanes(
          lanes, [&](std::uint32_t l) { result[l] = leader | std::uint64_t{l == leader} << 32; });
    }
    case WarpOp::kCall: {
      const void* in[32] = {};
      void* out[32] = {};
      for_lanes(lanes, [&](std::uint32_t l) {
        const auto* operands = reinterpret_cast<const void* const*>(r.a[l]);
        in[l] = operands[0];
        out[l] = const_cast<void*>(operands[1]);
      });
      const auto first = static_cast<std::uint32_t>(std::countr_zero(lanes));
      const auto routine = std::uint64_t{r.b[first]} | std::uint64_t{r.c[first]} << 32;
      return reinterpret_cast<cucpu_warp_routine*>(routine)(lanes, in, out);
    }
    default:
      return all(reduce(r));
  }
}

}  // namespace

bool ThreadScheduler::try_warp_operation(Block& block, std::uint32_t w, std::uint32_t slot) {
  Warp& warp = block.warps[w];
  PendingWarpOperation& r = *warp.open[slot];
  if ((r.mask & warp.live & ~r.arrived) != 0 || r.arrived == 0) return false;
  if (GridObserver* const observer = worker_.grid().observer())
    observer->warp_completes(block, w, r.arrived);
  std::uint64_t result[32];
  compute(r, result);
  for_lanes(r.arrived, [&](std::uint32_t lane) {
    Fiber& fiber = block.fibers[w * 32 + lane];
    fiber.result = result[lane];
    if (&fiber != current_) make_ready(&fiber);
  });
  r.arrived = 0;
  std::swap(warp.open[slot], warp.open[--warp.used]);
  return true;
}

bool ThreadScheduler::try_warpgroup(Block& block, std::uint32_t group) {
  if (!block.warpgroups[group]) return false;
  Warpgroup& g = *block.warpgroups[group];
  const auto warps = static_cast<std::uint32_t>((block.context.block_threads + 31) / 32);
  const std::uint32_t first = group * Warpgroup::kWarps;
  std::uint32_t live = 0;
  for (std::uint32_t w = first; w < std::min(first + Warpgroup::kWarps, warps); ++w)
    live += static_cast<std::uint32_t>(std::popcount(block.warps[w].live));
  if (g.arrived == 0 || g.arrived < live) return false;
  g.routine(g.in, g.out);
  g.arrived = 0;
  for (std::uint32_t t = 0; t < Warpgroup::kThreads; ++t) {
    if (g.in[t] == nullptr) continue;
    g.in[t] = nullptr;
    g.out[t] = nullptr;
    Fiber& fiber = block.fibers[first * 32 + t];
    if (&fiber != current_) make_ready(&fiber);
  }
  return true;
}

void ThreadScheduler::leave_warp(Fiber& fiber) {
  const std::uint32_t w = fiber.thread.linear / 32;
  Warp& warp = fiber.block->warps[w];
  warp.live &= ~(1U << fiber.thread.linear % 32);
  for (std::uint32_t slot = 0; slot < warp.used;) {
    if (!try_warp_operation(*fiber.block, w, slot)) ++slot;
  }
  const std::uint32_t group = w / Warpgroup::kWarps;
  if (group < fiber.block->warpgroups.size()) try_warpgroup(*fiber.block, group);
  if (warp.polling) {
    fiber.wait = Wait::kDone;
    try_activemask(*fiber.block, warp, w);
  }
}

void ThreadScheduler::try_activemask(Block& block, Warp& warp, std::uint32_t w) {
  bool busy = false;
  for_lanes(warp.live, [&](std::uint32_t lane) {
    const Wait state = block.fibers[w * 32 + lane].wait;
    busy |= state == Wait::kUnstarted || state == Wait::kRunning || state == Wait::kReady;
  });
  if (busy) return;
  complete_activemask(block, warp, w);
}

void ThreadScheduler::complete_activemask(Block& block, Warp& warp, std::uint32_t w) {
  const void* site = block.fibers[w * 32 + std::countr_zero(warp.polling)].site;
  std::uint32_t together = 0;
  for_lanes(warp.polling, [&](std::uint32_t lane) {
    together |= std::uint32_t{block.fibers[w * 32 + lane].site == site} << lane;
  });
  warp.polling &= ~together;
  for_lanes(together, [&](std::uint32_t lane) {
    Fiber& fiber = block.fibers[w * 32 + lane];
    fiber.result = together;
    make_ready(&fiber);
  });
}

bool ThreadScheduler::release_activemasks() {
  bool any = false;
  for (Cluster* cluster : residents_) {
    for (Block* block : cluster->blocks) {
      if (block->live == 0) continue;
      const std::uint32_t warps = (block->context.block_threads + 31) / 32;
      for (std::uint32_t w = 0; w < warps; ++w) {
        Warp& warp = block->warps[w];
        if (!warp.polling) continue;
        complete_activemask(*block, warp, w);
        any = true;
      }
    }
  }
  return any;
}

std::uint64_t ThreadScheduler::warp_operation(std::uint32_t kind, std::uint32_t mask,
                                              std::uint64_t a, std::uint32_t b, std::uint32_t c,
                                              const void* pc) {
  Fiber& self = *current_;
  const std::uint32_t w = self.thread.linear / 32, lane = self.thread.linear % 32, bit = 1U << lane;
  Warp& warp = self.block->warps[w];
  if (GridObserver* const observer = worker_.grid().observer();
      observer && kind != static_cast<std::uint32_t>(WarpOp::kCall)) {
    observer->warp_arrives(worker_, mask, pc);
    if (worker_.current_fault().code != 0) abandon_fiber();
  }
  mask |= bit;
  std::uint32_t slot = 0;
  for (; slot < warp.used; ++slot) {
    const PendingWarpOperation& r = *warp.open[slot];
    if (r.mask == mask && r.kind == kind && !(r.arrived & bit)) break;
  }
  if (slot == warp.used) {
    if (slot == warp.open.size()) warp.open.push_back(std::make_unique<PendingWarpOperation>());
    ++warp.used;
    warp.open[slot]->mask = mask;
    warp.open[slot]->kind = kind;
    warp.open[slot]->arrived = 0;
  }
  PendingWarpOperation& r = *warp.open[slot];
  r.a[lane] = a;
  r.b[lane] = b;
  r.c[lane] = c;
  r.arrived |= bit;
  if (!try_warp_operation(*self.block, w, slot)) {
    self.mask = mask;
    wait(Wait::kWarp);
  }
  return self.result;
}

std::uint32_t ThreadScheduler::activemask(const void* site) {
  Fiber& self = *current_;
  Warp& warp = self.block->warps[self.thread.linear / 32];
  self.site = site;
  warp.polling |= 1U << self.thread.linear % 32;
  wait(Wait::kActiveMask);
  return static_cast<std::uint32_t>(self.result);
}

void ThreadScheduler::warpgroup_call(cucpu_warpgroup_routine* routine, const void* in, void* out) {
  Fiber& self = *current_;
  auto& groups = self.block->warpgroups;
  const std::uint32_t group = self.thread.linear / Warpgroup::kThreads;
  if (groups.size() <= group) groups.resize(group + 1);
  if (!groups[group]) groups[group] = std::make_unique<Warpgroup>();
  Warpgroup& g = *groups[group];
  g.routine = routine;
  g.in[self.thread.linear % Warpgroup::kThreads] = in;
  g.out[self.thread.linear % Warpgroup::kThreads] = out;
  ++g.arrived;
  if (!try_warpgroup(*self.block, group)) wait(Wait::kWarpgroup);
}

}  // namespace cucpu

using namespace cucpu;

static ThreadScheduler& thread_scheduler() { return Worker::running()->thread_scheduler(); }

extern "C" {

std::uint64_t cucpu_rt_warp(std::uint32_t kind, std::uint32_t mask, std::uint64_t a,
                            std::uint32_t b, std::uint32_t c) {
  return thread_scheduler().warp_operation(kind, mask, a, b, c, __builtin_return_address(0));
}

std::uint32_t cucpu_rt_activemask() {
  return thread_scheduler().activemask(__builtin_return_address(0));
}

void cucpu_rt_warp_call(cucpu_warp_routine* routine, const void* in, void* out) {
  const void* operands[2] = {in, out};
  const auto address = reinterpret_cast<std::uint64_t>(routine);
  thread_scheduler().warp_operation(
      static_cast<std::uint32_t>(WarpOp::kCall), ~0U, reinterpret_cast<std::uint64_t>(operands),
      static_cast<std::uint32_t>(address), static_cast<std::uint32_t>(address >> 32), nullptr);
}

void cucpu_rt_warpgroup_call(cucpu_warpgroup_routine* routine, const void* in, void* out) {
  thread_scheduler().warpgroup_call(routine, in, out);
}

}  // extern "C"
