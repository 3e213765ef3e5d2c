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

  /// Waits for a message to this place. 0: none came in time.
  std::uintptr_t wait(unsigned place, std::chrono::nanoseconds longest) noexcept {
    std::atomic<std::uintptr_t>& message = lines_[place].message;
    message.store(0, std::memory_order_relaxed);
    const std::uint64_t bit = std::uint64_t{1} << place;
    waiting_.fetch_or(bit, std::memory_order_release);
    const auto until = std::chrono::steady_clock::now() + longest;
    do {
      for (int looks = 0; looks < 32; ++looks) {
        if (const std::uintptr_t found = message.load(std::memory_order_acquire)) return found;
        relax();
      }
    } while (std::chrono::steady_clock::now() < until);
    if ((waiting_.fetch_and(~bit, std::memory_order_acq_rel) & bit) != 0) return 0;
    for (;; relax())  // a sender has chosen this place and is about to store its message
      if (const std::uintptr_t found = message.load(std::memory_order_acquire)) return found;
  }

  /// Sends a message (not 0) to one waiting worker; false if none waits.
  bool send(std::uintptr_t message) noexcept {
    for (std::uint64_t all = waiting_.load(std::memory_order_relaxed); all != 0;) {
      const auto place = static_cast<std::size_t>(std::countr_zero(all));
      const std::uint64_t bit = std::uint64_t{1} << place;
      const std::uint64_t before = waiting_.fetch_and(~bit, std::memory_order_acq_rel);
      if ((before & bit) != 0) {
        lines_[place].message.store(message, std::memory_order_release);
        return true;
      }
      all = before;
    }
    return false;
  }

  [[nodiscard]] bool is_empty() const noexcept {
    return waiting_.load(std::memory_order_relaxed) == 0;
  }

 private:
  struct alignas(64) Line {
    std::atomic<std::uintptr_t> message{0};
  };
  alignas(64) std::atomic<std::uint64_t> waiting_{0};  // by place
  std::array<Line, kPlaces> lines_;
};

}  // namespace cucpu::driver
