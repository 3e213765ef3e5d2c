// SPDX-License-Identifier: Apache-2.0
// cpu/mem/host_stack.hpp: the call stack of the host program, for reports about allocations.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace cucpu {

/// The calls that led here, one per line: those of Python if the calling thread runs Python, else
/// those of C and C++, without the functions of this library. Empty if nothing is known.
std::string host_stack();

/// The stacks that allocated memory (CUCORE_CHECK=leak). Thread-safe.
namespace allocation_stacks {

inline std::atomic<bool> g_recorded{false};
inline bool are_recorded() { return g_recorded.load(std::memory_order_relaxed); }
inline void start() { g_recorded.store(true, std::memory_order_relaxed); }

/// Keeps the stack of the caller, by the number of the allocation.
void record(std::uint64_t allocation);
std::string of(std::uint64_t allocation);  ///< empty if it was not recorded

}  // namespace allocation_stacks
}  // namespace cucpu
