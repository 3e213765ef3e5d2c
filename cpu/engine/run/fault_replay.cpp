// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/fault_replay.cpp: finds the thread whose access faulted. A vector access is one
// instruction for several threads, so the block runs again thread by thread.
#include <thread>

#include "cpu/engine/run/grid.hpp"
#include "cpu/engine/run/time_limit.hpp"

namespace cucpu {
namespace {

constexpr double kReplaySeconds =
    2;  // seconds: a block may wait for a write that no thread makes in a replay

/// A vector access that crosses into an unmapped page faults at its start or anywhere in it.
bool on_neighboring_pages(std::uintptr_t a, std::uintptr_t b) {
  constexpr std::uintptr_t kNear = 4096;
  return a - b < kNear || b - a < kNear;
}

}  // namespace

std::optional<FaultPlace> Grid::find_faulting_thread(std::uint64_t block, const FaultPlace& group,
                                                     std::uint32_t lanes) const noexcept try {
  // A block that waits for other blocks cannot run alone.
  if (!code_->scalar || replay_ || shape_.cooperative || shape_.cluster.volume() != 1 ||
      code_->waits_for_blocks)
    return std::nullopt;
  Grid replay{code_->scalar(), shape_, params_};
  if (replay.code_->waits_for_blocks) return std::nullopt;
  replay.replay_ = true;
  replay.unclaimed_.restrict_to(block);
  replay.unfinished_ = 1;
  // On another thread: the worker of this thread runs the faulted grid.
  std::thread{[&replay] {
    TimeLimit limit;
    limit.start(replay, kReplaySeconds);
    replay.work();
    limit.stop();
  }}.join();
  if (!replay.place_) return std::nullopt;
  const FaultPlace& found = *replay.place_;
  const bool same = found.code == group.code && found.thread - group.thread < lanes &&
                    on_neighboring_pages(found.address, group.address) && found.line == group.line;
  return same ? replay.place_ : std::nullopt;
} catch (...) {
  return std::nullopt;
}

}  // namespace cucpu
