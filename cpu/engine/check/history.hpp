// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/history.hpp: the last accesses to memory, for race checks of vector code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "cpu/engine/run/block_context.hpp"

namespace cucpu {

/// An access in 64 bits: the interval between two barriers, the number of warp operations that its
/// warp had executed in the block, the thread, the bytes of the word, and whether it was atomic or
/// volatile. Words of later intervals are greater. 0: no access.
namespace touch {
inline constexpr unsigned kIntervalShift = 32, kStepShift = 20, kThreadShift = 10, kBytesShift = 6;
inline constexpr std::uint64_t kThreads = 0x3ff, kBytes = 0xf, kSteps = 0xfff, kStrong = 1 << 5;
inline constexpr std::uint64_t kThreadMask = kThreads << kThreadShift;
inline std::uint32_t interval(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> kIntervalShift);
}
inline std::uint32_t thread(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> kThreadShift & kThreads);
}
inline std::uint64_t steps(std::uint64_t word) { return word >> kStepShift & kSteps; }
inline std::uint64_t bytes(std::uint64_t word) { return word >> kBytesShift & kBytes; }

// A word of a CheckRow holds no bytes, and says what its access was:
// - neighboring threads accessed neighboring elements of 4, 8 or 16 bytes (1, 2, 4 words: the
//   shift), the first of them `thread`;
// - `kUniform` instead of a shift: all threads of a lane group read the words of CheckRow::uniform;
// - `kDetailed`: the words of the History hold what happened. No access to one of them is of a
// later
//   interval.
// With `kSettled`, two threads have read each word in this interval, and none wrote it.
inline constexpr std::uint64_t kDetailed = 1, kShiftShift = 1, kShifts = 3, kSettled = 1 << 3;
inline constexpr std::uint64_t kUniform = kShifts << kShiftShift;
/// Equal in the read word of a row that is settled in this interval, and in its `kSettled | now`.
inline constexpr std::uint64_t kSettledMask = ~std::uint64_t{0} << kIntervalShift | kSettled;
inline constexpr std::uint64_t kRowMask = kThreadMask | kDetailed | kUniform | kSettled;
inline constexpr unsigned kRowWords = 8;
inline bool is_uniform(std::uint64_t row) { return (row & kUniform) == kUniform; }
/// Whether a word of a row holds an access that the words of the History do not hold.
inline bool is_closed(std::uint64_t row) { return row != 0 && (row & kDetailed) == 0; }
/// The access to word `n` of a row by neighboring threads.
inline std::uint64_t in_row(std::uint64_t row, unsigned n) {
  const auto shift = static_cast<unsigned>(row >> kShiftShift & kShifts);
  return ((row >> kBytesShift) << kBytesShift) + (std::uint64_t{n >> shift} << kThreadShift) +
         (kBytes << kBytesShift);
}
}  // namespace touch

/// The last write and the last reads by two different threads of each word of four bytes, and the
/// numbers of the accesses in their kernel. Accesses to whole rows are only in `rows`, until a
/// different access to one of their words opens the row. The memory is zero until it is used.
class History {
 public:
  explicit History(std::size_t words);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;
  void clear();
  [[nodiscard]] std::size_t words() const { return words_; }
  /// Makes the words of the rows of these words complete. Reads below `empty` need not be kept.
  void open(std::size_t word, std::size_t words, std::uint64_t empty) {
    for (std::size_t r = word / touch::kRowWords; r <= (word + words - 1) / touch::kRowWords; ++r)
      if (touch::is_closed(rows[r].write) || touch::is_closed(rows[r].read)) open_row(r, empty);
  }
  /// Announces that words of open rows are written or read in this interval
  /// (BlockContext::check_now).
  void wrote(std::size_t word, std::size_t words, std::uint64_t now) {
    for (std::size_t r = word / touch::kRowWords; r <= (word + words - 1) / touch::kRowWords; ++r) {
      rows[r].write = now | touch::kDetailed;
      rows[r].read &= ~touch::kSettled;
    }
  }
  void has_read(std::size_t word, std::size_t words, std::uint64_t now);
  /// The same for one word, which the read does not settle.
  void read_one(std::size_t word, std::uint64_t now) {
    std::uint64_t& read = rows[word / touch::kRowWords].read;
    if (read < now) read = now | touch::kDetailed;
  }

  std::uint64_t *write, *reads[2];
  CheckRow* rows;
  std::uint32_t* settled;  ///< CheckRange::settled
  std::uint16_t *write_site, *read_sites[2];

 private:
  void open_row(std::size_t row, std::uint64_t empty);

  std::size_t words_;
  std::byte* memory_;
};

/// A word of a History, and how many words follow in it.
struct HistoryView {
  History* history;
  std::size_t index, words;
};

/// The histories of the memory that a grid accesses, by page. A page is used by one grid at a time.
/// Grids take pages over from earlier ones: intervals of those are older than all of their own.
class HistoryPages {
 public:
  static constexpr std::size_t kPage = 1 << 20;  ///< bytes

  /// `first`: the first interval of the grid.
  void begin(std::uint32_t first) { first_ = first; }
  HistoryView at(std::uintptr_t address);
  /// Of the pages that were used: address / kPage.
  [[nodiscard]] std::unordered_set<std::uintptr_t> numbers() const;
  /// Gives the pages back. `last`: the last interval of the grid.
  void end(std::uint32_t last) noexcept;

 private:
  std::uint32_t first_ = 0;
  std::unordered_map<std::uintptr_t, std::unique_ptr<History>> pages_;
  std::uintptr_t number_ = ~std::uintptr_t{0};  ///< of the page used last
  History* page_ = nullptr;
};

/// The first interval that no grid of the process has used.
std::uint32_t next_interval();
/// Announces that a grid used the intervals up to this one.
void used_intervals(std::uint32_t last);

}  // namespace cucpu
