// SPDX-License-Identifier: Apache-2.0
// cpu/exec/standby_workers.hpp: workers that spin for the next grid, each on a cache line of its
// own.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>

namespace cucpu::driver {

/// One step of a loop that spins: tens of nanoseconds.
inline void relax() noexcept {
#if defined(__aarch64__)
  for (int i = 0; i < 8; ++i) asm volatile("yield");
#elif defined(__x86_64__)
  asm volatile("pause");
#endif
}

/// Whether a worker that has nothing to do spins before it sleeps: until it has spun a few times
/// for nothing, and again once work comes soon after it fell asleep. A worker that spins in vain
/// takes the core from other libraries, and from its own next work: whoever sleeps gets a core at
/// once when woken, whoever has spun waits for its turn.
class SpinBudget {
 public:
  [[nodiscard]] bool is_left() const noexcept { return spins_ != 0; }
  void spend() noexcept { --spins_; }
  void refill() noexcept { spins_ = kMost; }

 private:
  static constexpr unsigned kMost = 3;
  unsigned spins_ = kMost;
};

/// Gives work to workers that have just been busy without a system call. A worker waits on a cache
/// line of its own, and tells there that it does: many workers that end a grid at the same time
/// would wait for each other if they counted themselves in one place.
class StandbyWorkers {
 public:
  static constexpr unsigned kPlaces = 64;  ///< one worker per place

  /// Waits for a message to this place. 0: none came in time, or `is_needed()` returned true.
  template <class IsNeeded>
  std::uintptr_t wait(unsigned place, std::chrono::nanoseconds longest,
                      const IsNeeded& is_needed) noexcept {
    Line& line = lines_[place];
    line.message.store(0, std::memory_order_relaxed);
    line.is_waiting.store(true, std::memory_order_release);
    const auto until = std::chrono::steady_clock::now() + longest;
    for (unsigned looks = 1;; ++looks) {
      if (const std::uintptr_t found = line.message.load(std::memory_order_acquire)) return found;
      if (is_needed() || (looks % 32 == 0 && std::chrono::steady_clock::now() >= until)) break;
      relax();
    }
    while (!try_lock()) relax();  // a sender may have chosen this place
    const std::uintptr_t found = line.message.load(std::memory_order_acquire);
    if (found == 0) line.is_waiting.store(false, std::memory_order_relaxed);
    unlock();
    return found;
  }

  /// Chooses up to `most` of the places below `end` whose workers wait; returns them as bits. Waits
  /// a moment for workers that have ended their work and will wait soon: until so many wait. No
  /// other thread can send until send() is called, which must happen at once unless the result is
  /// 0.
  std::uint64_t choose(unsigned most, unsigned end, unsigned coming = 0) noexcept {
    constexpr std::chrono::nanoseconds kMoment{1000};
    if (!try_lock()) return 0;
    coming = std::min(coming, most);
    std::uint64_t chosen = waiting(end);
    if (count(chosen) < coming) {
      const auto until = std::chrono::steady_clock::now() + kMoment;
      do {
        relax();
        chosen = waiting(end);
      } while (count(chosen) < coming && std::chrono::steady_clock::now() < until);
    }
    for (unsigned excess = count(chosen); excess > most; --excess)
      chosen &= ~std::bit_floor(chosen);
    if (chosen == 0) unlock();
    return chosen;
  }

  /// Sends a message (not 0) to the workers that choose() returned.
  void send(std::uint64_t chosen, std::uintptr_t message) noexcept {
    for (; chosen != 0; chosen &= chosen - 1) {
      Line& line = lines_[static_cast<std::size_t>(std::countr_zero(chosen))];
      line.is_waiting.store(false, std::memory_order_relaxed);
      line.message.store(message, std::memory_order_release);
    }
    unlock();
  }

  /// The places below `end` whose workers wait, as bits.
  [[nodiscard]] std::uint64_t waiting(unsigned end) const noexcept {
    std::uint64_t found = 0;
    for (unsigned place = 0; place < end; ++place)
      found |= std::uint64_t{lines_[place].is_waiting.load(std::memory_order_acquire)} << place;
    return found;
  }

 private:
  static unsigned count(std::uint64_t places) noexcept {
    return static_cast<unsigned>(std::popcount(places));
  }
  bool try_lock() noexcept {
    return !is_sending_.load(std::memory_order_relaxed) &&
           !is_sending_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { is_sending_.store(false, std::memory_order_release); }

  struct alignas(64) Line {
    std::atomic<std::uintptr_t> message{0};
    std::atomic<bool> is_waiting{false};
  };
  alignas(64) std::atomic<bool> is_sending_{false};
  std::array<Line, kPlaces> lines_;
};

}  // namespace cucpu::driver
