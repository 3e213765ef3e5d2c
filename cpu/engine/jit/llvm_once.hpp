// cpu/engine/jit/llvm_once.hpp: what LLVM makes once.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <new>
#include <utility>

#include "cpu/engine/jit/crash_recovery.hpp"

namespace cucpu {

/// What LLVM makes once it makes under locks, and does not make a second time: left half way for
/// want of memory, it would hang or end the process. So it is made before other work, and never
/// tried again.
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
