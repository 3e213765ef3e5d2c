// SPDX-License-Identifier: Apache-2.0
// mutex.hpp: a mutex that never blocks in a forked child.
#pragma once

#include <atomic>
#include <mutex>

#include "cucore/export.hpp"

namespace cucore::detail {

/// True in a process that was forked after its parent had loaded the driver.
CUCORE_EXPORT extern std::atomic<bool> is_forked_child;

/// A std::mutex that does nothing in a forked child. The thread that held it at the fork exists in
/// the parent only, and every driver call of the child fails with an error anyway.
class Mutex {
 public:
  void lock() {
    if (!is_forked_child.load(std::memory_order_relaxed)) mutex_.lock();
  }
  void unlock() {
    if (!is_forked_child.load(std::memory_order_relaxed)) mutex_.unlock();
  }

 private:
  std::mutex mutex_;
};

}  // namespace cucore::detail
