// cpu/engine/run/safepoints.hpp: where a grid may be stopped (loops, block starts, turns of the
// scheduler), one by one. Only tests count them: they cancel a grid at each in turn.
#pragma once

#include <atomic>
#include <cstdint>

namespace cucpu::safepoints {

/// Grids made while this is not 0 are cancelled at that safepoint, the first being 1. Code
/// compiled meanwhile counts the turns of its loops; it must not go into a cache.
inline std::atomic<std::uint64_t> g_cancel_at{0};
inline constexpr int kCode = 702;

inline bool are_counted() noexcept { return g_cancel_at.load(std::memory_order_relaxed) != 0; }

}  // namespace cucpu::safepoints
