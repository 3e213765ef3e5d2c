// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/check.hpp: check mode (CUCORE_CHECK): evaluates the accesses that instrumented
// kernels report while they run. docs/design/check.md explains it. No LLVM in this header.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/run/block.hpp"
#include "cpu/engine/run/grid_observer.hpp"

namespace cucpu {

/// One access of a thread, as reported by instrumented code.
struct CheckedAccess {
  std::uintptr_t address;
  std::uint32_t bytes;
  std::uint32_t flags;  ///< of check::AccessFlag
  std::uint64_t value;  ///< the value of a plain store of up to 8 bytes
  std::uint64_t root;   ///< the kernel parameter the address was computed from; 0: unknown
  std::uintptr_t pc;
};

/// The last access to a word of memory.
struct Touch {
  std::uint64_t time = 0;  ///< 0: no access
  std::uintptr_t pc = 0;
  std::uint32_t block = 0;
  std::uint16_t thread = 0;
  std::uint8_t bytes = 0;  ///< a bit per byte of the word
  bool strong = false;     ///< atomic or volatile
};

/// The history of four bytes: the last write, and the last reads of two different threads.
struct Cell {
  Touch write, reads[2];
};

/// The state of one resident block in check mode.
struct CheckedBlock {
  std::uint64_t number = 0;  ///< linear, in the grid
  std::vector<Cell> shared;
  std::vector<bool> written;  ///< bytes of shared memory
  struct Thread {
    /// Accesses of the block up to this time happen before the next access of this thread.
    std::uint64_t block_floor = 0;
    std::uint64_t warp_floor = 0;  ///< the same for its warp
    bool fenced = false;
    const void* barrier = nullptr;  ///< the barrier that it waits at
  };
  std::vector<Thread> threads;
  std::unordered_map<std::uint64_t, std::uint64_t>
      known;  ///< by block: accesses of other blocks up to this time are ordered
};

/// The checks of one grid: the observer of its blocks, and the target of the routines that
/// instrumented code calls. One host thread runs an observed grid, so it needs no locks.
class Checker final : public GridObserver {
 public:
  explicit Checker(std::shared_ptr<const check::Options> options) : options_{std::move(options)} {}
  [[nodiscard]] bool checks(unsigned kind) const { return (options_->kinds & kind) != 0; }

  void access(Worker&, const CheckedAccess&);
  void local(std::uintptr_t address,
             std::size_t bytes);  ///< the lifetime of a local variable starts, uninitialized
  void fence(Worker&);
  void synchronizes(Worker&,
                    std::uintptr_t address);  ///< release and acquire on an object like an mbarrier
  void writes(Worker&, std::uintptr_t address,
              std::size_t bytes);  ///< a routine initialized this memory

  void block_starts(Worker&, Block&) override;
  void barrier_arrives(Worker&, const void* pc) override;
  void barrier_completes(Worker&, Block&, const std::vector<Fiber*>& waiters,
                         bool whole_block) override;
  void warp_arrives(Worker&, std::uint32_t mask, const void* pc) override;
  void warp_completes(Block&, std::uint32_t warp, std::uint32_t lanes) override;
  void cluster_barrier_completes(Cluster&) override;

 private:
  struct Where {
    enum Kind { kShared, kLocal, kGlobal } kind = kGlobal;
    CheckedBlock* owner = nullptr;  ///< of shared memory
    std::size_t offset = 0;
    std::size_t size = 0;
  };
  CheckedBlock& of(const Block& block) { return blocks_[&block]; }
  void show_progress(Worker&, const BlockContext&);
  Where locate(Worker&, std::uintptr_t address, std::uint32_t flags);
  void check_memory(Worker&, const CheckedAccess&, const Where&);
  void check_init(Worker&, const CheckedAccess&, const Where&);
  void check_race(Worker&, const CheckedAccess&, const Where&);
  bool ordered(const Touch&, const CheckedBlock&, std::uint32_t thread) const;
  void race(Worker&, const CheckedAccess&, const Touch& earlier, bool earlier_writes);
  Cell& cell(const Where&, std::uintptr_t address);
  std::string name_of(Worker&, const Touch&) const;
  /// Ends the thread with a report; with "continue", or for a suppressed report, it continues.
  void report(Worker&, check::Kind kind, int code, const char* name, std::string text,
              std::uintptr_t pc, std::uintptr_t address = 0);

  std::shared_ptr<const check::Options> options_;
  std::uint64_t now_ = 0;
  std::uint64_t begun_ = 0;  ///< blocks
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();
  std::unordered_map<const Block*, CheckedBlock> blocks_;
  std::unordered_map<std::uintptr_t, std::vector<Cell>> global_;  ///< by page
  struct Local {
    std::size_t bytes;
    std::vector<bool> written;
  };
  std::map<std::uintptr_t, Local> locals_;
  std::unordered_map<std::uintptr_t, std::unordered_map<std::uint64_t, std::uint64_t>> released_;
  std::set<std::tuple<unsigned, std::uintptr_t, std::uintptr_t>> told_;
};

}  // namespace cucpu
