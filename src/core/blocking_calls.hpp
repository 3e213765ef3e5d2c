// SPDX-License-Identifier: Apache-2.0
// blocking_calls.hpp: hooks of a language binding around driver calls that may wait for queued
// work.
#pragma once

#include <atomic>

#include "cucore/export.hpp"

namespace cucore::detail {

/// Functions that a language binding calls around a driver call that may block. Python releases the
/// GIL, which a pending host function may need. The result of `begin` is passed to `end`.
struct WaitHooks {
  void* (*begin)() noexcept;
  void (*end)(void*) noexcept;
};
CUCORE_EXPORT extern std::atomic<const WaitHooks*> wait_hooks;

/// The number of enqueued host functions that may need the binding's lock and may still run. While
/// it is not zero, a call that may block is not made with that lock held. This includes every call
/// that takes a lock of the driver: another thread may hold it and wait for the device, which waits
/// for the host function.
CUCORE_EXPORT extern std::atomic<long> host_calls;
inline bool host_calls_are_pending() noexcept {
  return host_calls.load(std::memory_order_relaxed) != 0;
}

/// Calls the hooks for the scope of a driver call.
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
