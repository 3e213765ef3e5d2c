// SPDX-License-Identifier: Apache-2.0
// cpu/exec/standby_workers.hpp: workers that spin for the next grid, each on a cache line of its
// own.
#pragma once

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

/// Gives work to workers that have just been busy without a lock and without a system call: a
/// message goes to one worker only, so that many workers do not compete for it. Lock-free.
class StandbyWorkers {
 public:
  static constexpr unsigned kPlaces = 64;  ///< one worker per place

  /// Waits for a message to this place. 0: none came in time, or `is_needed()` returned true.
  template <class IsNeeded>
  std::uintptr_t wait(unsigned place, std::chrono::nanoseconds longest,
                      const IsNeeded& is_needed) noexcept {
    std::atomic<std::uintptr_t>& message = lines_[place].message;
    message.store(0, std::memory_order_relaxed);
    const std::uint64_t bit = std::uint64_t{1} << place;
    waiting_.fetch_or(bit, std::memory_order_release);
    const auto until = std::chrono::steady_clock::now() + longest;
    for (unsigned looks = 1;; ++looks) {
      if (const std::uintptr_t found = message.load(std::memory_order_acquire)) return found;
      if (is_needed() || (looks % 32 == 0 && std::chrono::steady_clock::now() >= until)) break;
      relax();
    }
    if ((waiting_.fetch_and(~bit, std::memory_order_acq_rel) & bit) != 0) return 0;
    for (;; relax())  // a sender has chosen this place and is about to store its message
      if (const std::uintptr_t found = message.load(std::memory_order_acquire)) return found;
  }

  /// Chooses up to `most` waiting workers. Each must be sent a message. Returns places as bits.
  std::uint64_t choose(unsigned most) noexcept {
    std::uint64_t chosen = 0;
    std::uint64_t waiting = waiting_.load(std::memory_order_relaxed);
    while (most != 0 && waiting != 0) {
      std::uint64_t wanted = waiting;
      for (int excess = std::popcount(wanted) - static_cast<int>(most); excess > 0; --excess)
        wanted &= ~std::bit_floor(wanted);
      waiting = waiting_.fetch_and(~wanted, std::memory_order_acq_rel);
      const std::uint64_t found = waiting & wanted;
      chosen |= found;
      most -= static_cast<unsigned>(std::popcount(found));
      waiting &= ~wanted;
    }
    return chosen;
  }

  /// Sends a message (not 0) to workers that choose() returned.
  void send(std::uint64_t chosen, std::uintptr_t message) noexcept {
    for (; chosen != 0; chosen &= chosen - 1)
      lines_[static_cast<std::size_t>(std::countr_zero(chosen))].message.store(
          message, std::memory_order_release);
  }

  [[nodiscard]] unsigned count() const noexcept {
    return static_cast<unsigned>(std::popcount(waiting_.load(std::memory_order_relaxed)));
  }

 private:
  struct alignas(64) Line {
    std::atomic<std::uintptr_t> message{0};
  };
  alignas(64) std::atomic<std::uint64_t> waiting_{0};  // by place
  std::array<Line, kPlaces> lines_;
};

}  // namespace cucpu::driver
