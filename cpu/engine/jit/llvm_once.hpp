// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/llvm_once.hpp: one-time initialization of LLVM.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <new>
#include <utility>

#include "cpu/engine/jit/crash_recovery.hpp"

namespace cucpu {

/// Like std::call_once, but a call that fails is never repeated. LLVM initializes some data under
/// locks and cannot repeat it: interrupted by a lack of memory, a second attempt would hang or end
/// the process. So it is initialized before other work, and after a failure every call throws
/// std::bad_alloc.
class LlvmOnce {
 public:
  void operator()(const std::function<void()>& make) {
    if (made_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock{mutex_};
    if (made_) return;
    if (std::exchange(tried_, true)) throw std::bad_alloc{};
    with_crash_recovery(make);
    made_.store(true, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> made_{false};
  bool tried_ = false;
};

}  // namespace cucpu
