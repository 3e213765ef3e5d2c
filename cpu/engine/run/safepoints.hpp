// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/safepoints.hpp: fault injection at safepoints, the points where a grid may be
// stopped (loop back edges, block starts, the scheduler loop). Tests cancel a grid at each of them
// in turn.
#pragma once

#include <atomic>
#include <cstdint>

namespace cucpu::safepoints {

/// Not 0: grids launched now are cancelled at the safepoint with this number, starting from 1. Code
/// compiled meanwhile counts its loop iterations and must not be cached.
inline std::atomic<std::uint64_t> g_cancel_at{0};
inline constexpr int kCode = 702;

inline bool are_counted() noexcept { return g_cancel_at.load(std::memory_order_relaxed) != 0; }

}  // namespace cucpu::safepoints
