// SPDX-License-Identifier: Apache-2.0
// waiting.hpp: driver calls that may wait for queued work, and what a language binding with a lock
// of its own has to know about them.
#pragma once

#include <atomic>

#include "cucore/export.hpp"

namespace cucore::detail {

/// What a language binding does around such a call: Python gives up the interpreter's lock, which a
/// host function among the work waited for may need. `begin` returns what `end` is given.
struct WaitHooks {
  void* (*begin)() noexcept;
  void (*end)(void*) noexcept;
};
CUCORE_EXPORT extern std::atomic<const WaitHooks*> wait_hooks;

/// Host functions that may need the binding's lock: how many the driver has been given that may
/// still run. While there are any, no call that could possibly wait is made with that lock, and
/// that is every call that needs a lock of the driver: another thread may hold it and wait for the
/// device, which waits for the host function.
CUCORE_EXPORT extern std::atomic<long> host_calls;
inline bool host_calls_are_pending() noexcept {
  return host_calls.load(std::memory_order_relaxed) != 0;
}

/// For the scope of the call.
class Waiting {
 public:
  explicit Waiting(bool may_wait = true) noexcept
      : hooks_{may_wait ? wait_hooks.load(std::memory_order_acquire) : nullptr},
        state_{hooks_ != nullptr ? hooks_->begin() : nullptr} {}
  ~Waiting() {
    if (hooks_ != nullptr) hooks_->end(state_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const WaitHooks* hooks_;
  void* state_;
};

}  // namespace cucore::detail
