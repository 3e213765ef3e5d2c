// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/clock.hpp: monotonic time in nanoseconds, and short sleeps of a host thread.
#pragma once

#include <time.h>

#include <cstdint>

namespace cucpu {

inline std::uint64_t now_ns() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(t.tv_nsec);
}

/// Less than a second.
inline void pause_ns(std::uint64_t nanoseconds) noexcept {
  const timespec time{0, static_cast<long>(nanoseconds)};
  nanosleep(&time, nullptr);
}

}  // namespace cucpu
