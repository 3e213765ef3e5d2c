// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/check.hpp: check mode (CUCORE_CHECK): evaluates the accesses that instrumented
// kernels report while they run. docs/design/check.md explains it. No LLVM in this header.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpu/engine/check/findings.hpp"
#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/check/memory.hpp"
#include "cpu/engine/check/operations.hpp"
#include "cpu/engine/check/routine_access.hpp"
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
  std::unique_ptr<InitializedBytes> written;  ///< of shared memory
  struct Thread {
    /// Accesses of the block up to this time happen before the next access of this thread.
    std::uint64_t block_floor = 0;
    std::uint64_t warp_floor = 0;  ///< the same for its warp
    std::uint64_t released = 0;    ///< when other blocks could last learn what it did
    bool fenced = false;
    const void* barrier = nullptr;  ///< the barrier that it waits at
    std::uint32_t copy_groups = 0;  ///< groups of asynchronous copies that it has committed
  };
  struct Copy {
    std::uintptr_t address;
    std::uint32_t bytes, thread, group;
    std::uintptr_t pc;
  };
  std::vector<Copy> copies;  ///< asynchronous ones that their threads have not waited for
  std::vector<Thread> threads;
  std::unordered_map<std::uint64_t, std::uint64_t>
      known;  ///< by block: accesses of other blocks up to this time are ordered
};

/// The checks of one grid: the observer of its blocks, and the target of the routines that
/// instrumented code calls. One host thread runs an observed grid, so it needs no locks.
class Checker final : public GridObserver {
 public:
  explicit Checker(std::shared_ptr<const check::Options> options) : findings_{std::move(options)} {
    g_is_checking.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] bool checks(unsigned kind) const { return (findings_.options().kinds & kind) != 0; }

  void access(Worker&, const CheckedAccess&);
  /// An access whose address was computed from a .shared variable.
  void variable(Worker&, const CheckedAccess&, std::uint64_t offset, std::uint64_t size);
  void local(std::uintptr_t address,
             std::size_t bytes);  ///< the lifetime of a local variable starts, uninitialized
  void fence(Worker&);
  // Asynchronous copies (cp.async): their data is there after a wait of the thread that issued
  // them.
  void copy_starts(Worker&, std::uintptr_t address, std::uint32_t bytes, std::uintptr_t pc);
  void copies_commit(Worker&);
  void copies_wait(Worker&, std::uint32_t groups);  ///< all but so many groups; kAllCopies: all
  static constexpr std::uint32_t kAllCopies = 0xffffffff;
  /// Ends the thread with a report; with "continue", or for a suppressed report, it continues.
  void report(Worker& worker, Finding finding) { findings_.report(worker, std::move(finding)); }
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
  void grid_ends() noexcept override { accesses_ = nullptr; }

 private:
  struct Where {
    enum Kind { kShared, kLocal, kGlobal } kind = kGlobal;
    CheckedBlock* owner = nullptr;  ///< of shared memory
    std::size_t offset = 0;
    std::size_t size = 0;
  };
  CheckedBlock& of(const Block& block) { return blocks_[&block]; }
  Where locate(Worker&, std::uintptr_t address, std::uint32_t flags);
  void check_memory(Worker&, const CheckedAccess&, const Where&);
  void check_init(Worker&, const CheckedAccess&, const Where&);
  void check_race(Worker&, const CheckedAccess&, const Where&);
  void check_copies(Worker&, const CheckedAccess&, const Where&);
  /// Compares an access to device memory with other operations of streams.
  void check_operations(Worker&, const CheckedAccess&, bool releases);
  bool ordered(const Touch&, const CheckedBlock&, std::uint32_t thread) const;
  void race(Worker&, const CheckedAccess&, const Touch& earlier, bool earlier_writes);
  Cell& cell(const Where&, std::uintptr_t address);
  void report(Worker&, check::Kind kind, int code, const char* name, std::string text,
              std::uintptr_t pc, std::uintptr_t address = 0);

  Findings findings_;
  Progress progress_;
  bool has_started_ = false;
  std::shared_ptr<operations::Operation> operation_;  ///< null: not compared (any more)
  std::unique_ptr<operations::Accesses> accesses_;    ///< null: others have their turn
  std::uint64_t now_ = 0;
  std::unordered_map<const Block*, CheckedBlock> blocks_;
  std::unordered_map<std::uintptr_t, std::vector<Cell>> global_;  ///< by page
  struct Local {
    std::size_t bytes;
    std::unique_ptr<InitializedBytes> written;  ///< null without check::kInit
  };
  std::map<std::uintptr_t, Local> locals_;
  std::unordered_map<std::uintptr_t, std::unordered_map<std::uint64_t, std::uint64_t>> released_;
};

}  // namespace cucpu
