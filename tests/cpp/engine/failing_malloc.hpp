// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/failing_malloc.hpp: a malloc that fails on demand, for all of the process.
#pragma once

#include <atomic>
#include <functional>

namespace cucpu::test {

extern std::atomic<long> g_left;         ///< allocations until one fails; negative: none will
extern std::atomic<bool> g_for_good;     ///< so do all after it
extern std::atomic<long> g_failed;       ///< how many did
extern std::function<void()> g_refusal;  ///< called in the one that will fail, which then waits

}  // namespace cucpu::test
