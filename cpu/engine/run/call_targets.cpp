// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/call_targets.cpp
#include "cpu/engine/run/call_targets.hpp"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::unordered_multiset<std::uintptr_t> known;
  std::atomic<std::uint64_t> generation{1};  ///< incremented when a function is removed

  static Registry& get() {
    static auto* const registry = new Registry;  // kernels may run at exit
    return *registry;
  }
};

/// The error of an H200: code lies at low addresses there, which hold no valid instruction here or
/// are misaligned for one; all other addresses are unmapped.
int code_of_bad_call(std::uint64_t address) {
  constexpr std::uint64_t kLow = std::uint64_t{1} << 32, kHigh = std::uint64_t{1} << 63;
  if (address == 0 || (address < kLow && address % 16 != 0)) return 718;
  return address < kLow || address >= kHigh ? 715 : 700;
}

}  // namespace

CallTargets::CallTargets(std::vector<std::uintptr_t> addresses) : addresses_{std::move(addresses)} {
  Registry& r = Registry::get();
  const std::lock_guard lock{r.mutex};
  r.known.insert(addresses_.begin(), addresses_.end());
}

CallTargets::~CallTargets() {
  Registry& r = Registry::get();
  const std::lock_guard lock{r.mutex};
  for (const std::uintptr_t address : addresses_)
    if (const auto at = r.known.find(address); at != r.known.end()) r.known.erase(at);
  r.generation.fetch_add(1, std::memory_order_release);
}

}  // namespace cucpu

std::uint64_t cucpu_rt_call_target(std::uint64_t address) {
  using namespace cucpu;
  // Most call sites call one function repeatedly.
  static thread_local std::uint64_t last = 0, generation = 0;
  Registry& r = Registry::get();
  const std::uint64_t now = r.generation.load(std::memory_order_acquire);
  if (address == last && now == generation) [[likely]]
    return address;
  bool known = false;
  {
    const std::shared_lock lock{r.mutex};
    known = r.known.contains(address);
  }
  if (!known) {
    char text[80];
    std::snprintf(text, sizeof text, "call of 0x%llx, which is no function of a loaded module",
                  static_cast<unsigned long long>(address));
    Worker::running()->trap(code_of_bad_call(address), __builtin_return_address(0), text);
  }
  last = address;
  generation = now;
  return address;
}
