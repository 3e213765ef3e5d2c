// mutex.hpp: a lock that a forked child does not wait for.
#pragma once

#include <atomic>
#include <mutex>

#include "cucore/export.hpp"

namespace cucore::detail {

/// True in the child of a fork of a process that had loaded the driver.
CUCORE_EXPORT extern std::atomic<bool> is_forked_child;

/// As std::mutex. In a forked child it is free for the taking: who held it at the fork is a thread
/// that only the parent has, and all that the child can still get is the error that says so.
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
