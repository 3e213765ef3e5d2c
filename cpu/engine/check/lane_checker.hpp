// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/lane_checker.hpp: check mode for vector code: evaluates the accesses of lane
// groups. docs/design/check.md explains it. No LLVM in this header.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cpu/engine/check/findings.hpp"
#include "cpu/engine/check/history.hpp"
#include "cpu/engine/check/lane_access.hpp"
#include "cpu/engine/check/memory.hpp"
#include "cpu/engine/check/operations.hpp"
#include "cpu/engine/run/block.hpp"
#include "cpu/engine/run/grid_observer.hpp"

namespace cucpu {

/// The checks of one grid of vector code. Without race and init checks several host threads run the
/// grid: then only the memory check has state, which is per host thread (CheckRange).
class LaneChecker final : public GridObserver {
 public:
  explicit LaneChecker(std::shared_ptr<const check::Options>);
  ~LaneChecker() override;

  static bool is_parallel(const check::Options& options) {
    return (options.kinds & (check::kRace | check::kInit)) == 0;
  }
  [[nodiscard]] bool checks(unsigned kind) const { return (kinds_ & kind) != 0; }

  void access(Worker&, BlockContext&, CheckRange*, const LaneAccess&, std::uintptr_t pc);
  /// All checks of the usual case: neighboring lanes access words of shared memory, and nothing is
  /// found. False: another case, and nothing was changed.
  bool access_shared_words(const BlockContext&, const CheckRange& shared, const LaneAccess&);
  /// The same for lanes that read, or update atomically, one word of shared memory each.
  bool access_shared_word_of_each(const BlockContext&, const CheckRange& shared, const LaneAccess&);
  /// LaneAccess::site of an access by a routine that generated code called there.
  std::uint32_t site_of_routine(std::uintptr_t pc);
  void fence(std::uint32_t first_thread, std::uint64_t lanes);
  void warp(Worker&, BlockContext&, std::uint32_t first_thread, std::uint32_t missing,
            std::uint32_t mask, std::uintptr_t pc);

  /// Reports a finding of one lane.
  void report(Worker&, BlockContext&, const LaneAccess&, unsigned lane, Finding);

  void block_starts(Worker&, Block&) override;
  void grid_ends() noexcept override;
  // Of code on fibers.
  void barrier_arrives(Worker&, const void*) override {}
  void barrier_completes(Worker&, Block&, const std::vector<Fiber*>&, bool) override {}
  void warp_arrives(Worker&, std::uint32_t, const void*) override {}
  void warp_completes(Block&, std::uint32_t, std::uint32_t) override {}
  void cluster_barrier_completes(Cluster&) override {}

 private:
  /// Sites of accesses by routines; the last one is that of unknown places.
  static constexpr std::uint16_t kRoutineSites = 0x8000, kUnknownSite = 0xffff;
  enum class Space : std::uint8_t { shared, local, global };
  [[nodiscard]] static Space space_of(Worker&, const BlockContext&, const LaneAccess&,
                                      std::uintptr_t address);

  void check_memory(Worker&, BlockContext&, CheckRange*, const LaneAccess&, std::uintptr_t pc);
  /// Lets generated code find the state of the memory around an access to device memory.
  void remember(Worker&, const BlockContext&, CheckRange&, const LaneAccess&);
  /// Whether the kernel writes nothing to the allocation of a read with check::kReadOnly. Reads of
  /// it cannot be part of a race of the grid: they only set `settled`, and CheckRange::rows is
  /// null.
  [[nodiscard]] static bool is_read_only(const BlockContext&, const LaneAccess&,
                                         std::uintptr_t allocation);
  bool reads_read_only(const CheckRange&, const LaneAccess&) const;

  void check_init(Worker&, BlockContext&, const LaneAccess&, std::uintptr_t pc);
  bool check_init_together(const BlockContext&, const LaneAccess&);
  /// The bytes of device memory around an address.
  struct Tracked {
    std::uintptr_t base = 0;
    std::size_t size = 0;
    InitializedBytes* bytes = nullptr;  ///< null: memory that others can write
    bool is_array = false;
  };
  const Tracked& tracked(std::uint32_t range, std::uintptr_t address);

  // lane_race.cpp
  void check_race(Worker&, BlockContext&, const LaneAccess&, std::uintptr_t pc);
  void know_site(std::uint16_t site, std::uintptr_t pc);
  [[nodiscard]] std::uintptr_t pc_of_site(std::uint16_t site) const;
  bool check_race_together(const BlockContext&, const LaneAccess&);
  [[nodiscard]] bool are_words(const LaneAccess&) const;
  bool check_race_in_word(const BlockContext&, const LaneAccess&, unsigned lane);
  void check_race_in_lane(Worker&, BlockContext&, const LaneAccess&, unsigned lane,
                          std::uintptr_t pc);
  /// Whether lane `lane` stores what memory holds after the lanes before it.
  [[nodiscard]] static bool changes_nothing(const LaneAccess&, unsigned lane);
  [[nodiscard]] bool ordered(std::uint64_t earlier, bool shared, std::uint32_t thread) const;
  void race(Worker&, BlockContext&, const LaneAccess&, unsigned lane, std::uint64_t earlier,
            std::uint16_t site, bool earlier_writes, std::uintptr_t pc);
  [[nodiscard]] std::uint64_t block_of(std::uint64_t word) const;
  // Other operations (operations.hpp).
  void begin_operation(Worker&);
  void end_operation() noexcept;
  /// Whether an operation that nothing orders before this grid has used the memory around it.
  [[nodiscard]] bool is_contested(std::uintptr_t address) const;
  /// The operation of an interval before this grid, if nothing orders it before this grid.
  [[nodiscard]] const operations::Operation* unordered_at(std::uint32_t interval) const;
  HistoryView history(const BlockContext&, std::uintptr_t address, bool shared);

  Findings findings_;
  const unsigned kinds_;  ///< check::Kinds
  Progress progress_;

  // init
  std::unique_ptr<InitializedBytes> shared_bytes_;
  std::vector<Tracked> tracked_;  ///< by CheckRange

  // race
  HistoryPages pages_;
  std::unique_ptr<History> shared_history_;
  std::uint32_t grid_first_ = 0, block_first_ = 0;
  std::uint32_t interval_ = 0;  ///< BlockContext::check_clock: generated code increments it
  std::uint64_t block_ = 0;     ///< the running one
  std::vector<std::pair<std::uint32_t, std::uint64_t>> blocks_;  ///< first interval, block
  std::vector<std::uint16_t> warp_steps_;  ///< warp operations of the running block, by warp
  std::vector<bool> fenced_;               ///< by thread
  bool has_fenced_ = false;                ///< whether any is set
  std::unordered_map<std::uint64_t, std::uint32_t> known_;  ///< by block: ordered intervals
  std::unordered_map<std::uintptr_t, std::unordered_map<std::uint64_t, std::uint32_t>> released_;
  std::vector<std::uintptr_t> site_pcs_;
  std::vector<std::uintptr_t> routine_pcs_;  ///< by site, from kRoutineSites on
  std::unordered_map<std::uintptr_t, std::uint16_t> routine_sites_;  ///< by pc
  std::unique_ptr<operations::Turn> turn_;
  std::shared_ptr<operations::Operation> operation_;                     ///< null: unknown
  std::vector<std::shared_ptr<const operations::Operation>> unordered_;  ///< before this grid
  std::array<std::uint8_t, kCheckedSites> known_sites_{};  ///< BlockContext::check_sites
};

}  // namespace cucpu
