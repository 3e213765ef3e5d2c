// SPDX-License-Identifier: Apache-2.0
// cpu/engine/schedule/random_schedule.hpp: a reproducible random order of the threads of one grid,
// with stores that other threads see late and loads that see old values.
// docs/design/schedule.md explains it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpu/engine/schedule/options.hpp"

namespace cucpu::schedule {

/// One thread of the grid.
struct ThreadId {
  std::uint64_t block;
  std::uint32_t thread;
  auto operator<=>(const ThreadId&) const = default;
};

/// The random decisions of one grid. Every decision is a hash of the seed, the thread and the
/// number of its accesses so far. So a decision does not depend on the decisions before it, and
/// leaving out one event (Options::kept) does not change where the others are.
///
/// One host thread runs the whole grid: there are no locks.
class RandomSchedule {
 public:
  /// `clusters`: of the grid. `cooperative`: its blocks may rely on all blocks being resident.
  RandomSchedule(Options, std::uint64_t clusters, bool cooperative);

  /// How many clusters are resident at a time.
  [[nodiscard]] std::uint64_t most_resident() const { return most_resident_; }
  /// The cluster that is started as number `index`.
  [[nodiscard]] std::uint64_t cluster(std::uint64_t index) const;

  /// A thread is about to access memory: whether another thread runs first. Counts the access.
  bool preempts(ThreadId, std::uintptr_t pc);
  /// Which of `count` threads runs after this one.
  [[nodiscard]] std::size_t choose(ThreadId, std::size_t count);

  /// A plain store. Either memory changes now, or when the thread makes its stores visible.
  void store(ThreadId, std::byte* address, const std::byte* value, std::size_t bytes,
             std::uintptr_t pc);
  /// A load that is no acquire. True: it has the older value that is in `value` now.
  bool load(ThreadId, const std::byte* address, std::byte* value, std::size_t bytes,
            std::uintptr_t pc);
  /// Before the thread accesses these bytes itself: its own delayed stores to them become visible.
  void before_access(ThreadId, const std::byte* address, std::size_t bytes);
  /// Before an atomic operation, which may be what other threads wait for.
  void before_atomic(ThreadId, const std::byte* address, std::size_t bytes);
  /// A fence, a barrier, a release, or a routine that reads memory.
  void make_stores_visible(ThreadId);
  /// A fence, a barrier, an acquire: later loads of the thread see what is in memory now.
  void see_memory(ThreadId);
  /// The thread has ended: its stores to `shared` become visible, others perhaps later.
  void end(ThreadId, std::span<const std::byte> shared);
  /// The grid has ended, or its threads wait: all stores of ended threads become visible.
  void finish();

  /// A thread yields in a loop that waits for memory.
  void waits() { ++waits_; }
  /// Threads have only waited for a long time, and no memory has changed.
  [[nodiscard]] bool is_stalled(std::size_t threads);

  [[nodiscard]] const Options& options() const { return options_; }
  /// Appends the events to the log of the options. `line_of`: "file:line" of an address.
  void write_log(const std::string& kernel,
                 const std::function<std::string(std::uintptr_t)>& line_of) const noexcept;

 private:
  static constexpr std::size_t kHeld = 16;  ///< bytes of the values that are kept
  struct DelayedStore {
    ThreadId writer;
    std::byte* address;
    std::array<std::byte, kHeld> value;
    std::size_t bytes;
    [[nodiscard]] bool overlaps(const std::byte* other, std::size_t length) const {
      return other < address + bytes && address < other + length;
    }
  };
  /// The bytes that a store or an atomic operation has replaced.
  struct Replaced {
    ThreadId writer;
    std::uint64_t time;  ///< of the store: the number of stores of the grid before it
    const std::byte* address;
    std::array<std::byte, kHeld> value;
    std::size_t bytes;
    [[nodiscard]] bool overlaps(const std::byte* other, std::size_t length) const {
      return other < address + bytes && address < other + length;
    }
  };
  /// Times of words of memory. A hash table with open addressing: a thread accesses it at every
  /// load, and most of them read few words before they forget them at a barrier.
  class WordTimes {
   public:
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::uint64_t at(std::uintptr_t word) const;  ///< 0: none
    void raise(std::uintptr_t word, std::uint64_t time);        ///< to this time at least
    void clear() {
      size_ = 0;
      ++round_;
    }

   private:
    struct Entry {
      std::uintptr_t word;
      std::uint64_t time;
      std::uint64_t round;  ///< the entry is empty unless it is of this round
    };
    [[nodiscard]] std::size_t find(std::uintptr_t word) const;  ///< its entry, or the empty one
    std::vector<Entry> entries_;                                ///< none, or a power of two
    std::size_t size_ = 0;
    std::uint64_t round_ = 1;
  };
  struct Thread {
    std::uint64_t hash;  ///< of seed, launch, block and thread
    std::uint64_t sees;  ///< the thread sees all stores up to this time
    /// Later times up to which it sees single words, because it has read them.
    WordTimes read{};
    std::uint64_t point = 0;
    std::uint64_t choices = 0;
    std::vector<DelayedStore> delayed{};  ///< in program order
    // The last atomic operation: whether it changed memory is known at the next access.
    const std::byte* atomic = nullptr;
    std::size_t atomic_bytes = 0;
    std::array<std::byte, kHeld> before_atomic{};
  };
  struct Hash {
    std::size_t operator()(ThreadId id) const noexcept {
      return static_cast<std::size_t>(id.block * 1024 + id.thread);
    }
  };

  [[nodiscard]] std::uint64_t hash_of(ThreadId) const;
  /// `hash`: hash_of() a thread.
  [[nodiscard]] static std::uint64_t random(std::uint64_t hash, std::uint64_t number,
                                            std::uint64_t purpose);
  bool happens(Event::Kind, ThreadId, const Thread&, std::uint64_t point, std::uint32_t one_in,
               std::uintptr_t pc);
  Thread& thread_of(ThreadId);
  /// Keeps the bytes that the thread is about to replace.
  void remember(ThreadId, const std::byte* address, std::size_t bytes);
  /// The time up to which the thread must see stores to these bytes.
  [[nodiscard]] static std::uint64_t seen(const Thread&, const std::byte* address,
                                          std::size_t bytes);
  static void note_read(Thread&, const std::byte* address, std::size_t bytes, std::uint64_t time);
  void commit(const DelayedStore&);
  void commit_overlapping(std::vector<DelayedStore>&, const std::byte* address, std::size_t bytes);
  void commit_random(std::vector<DelayedStore>&, std::uint64_t random);
  void note_atomic(Thread&);

  const Options options_;
  const std::uint64_t launch_;
  const std::uint64_t hash_;  ///< of seed and launch
  const std::uint64_t clusters_;
  std::uint64_t most_resident_;
  std::uint64_t factor_ = 1, offset_ = 0;  ///< the order of the clusters
  std::uint32_t preempt_one_in_, delay_one_in_, commit_one_in_, old_one_in_;
  std::unordered_map<ThreadId, Thread, Hash> threads_;
  ThreadId last_{};  ///< the thread found last
  Thread* last_thread_ = nullptr;
  std::vector<DelayedStore> of_ended_;  ///< delayed stores of threads that have ended
  std::uint64_t time_ = 0;              ///< stores and atomic operations of the grid
  std::uint64_t forgotten_ = 0;         ///< the time of the last one that is not in replaced_
  std::deque<Replaced> replaced_;       ///< in the order of time, a bounded number
  std::uint64_t waits_ = 0;             ///< since memory changed
  std::chrono::steady_clock::time_point changed_ = std::chrono::steady_clock::now();
  struct Logged {
    Event event;
    std::uintptr_t pc;
  };
  std::vector<Logged> logged_;
};

}  // namespace cucpu::schedule
