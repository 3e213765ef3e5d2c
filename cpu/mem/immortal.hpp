// SPDX-License-Identifier: Apache-2.0
// cpu/mem/immortal.hpp: objects of the process that are never destroyed.
#pragma once

#include <atomic>

namespace cucpu {

/// The only T of the process, made at first use and never destroyed: threads may use it while the
/// process exits. Found with one load, which is cheaper than a static variable of a function.
template <class T>
class Immortal {
 public:
  static T& get() {
    if (T* const made = made_.load(std::memory_order_acquire)) [[likely]]
      return *made;
    return make();
  }

 private:
  [[gnu::noinline, gnu::cold]] static T& make() {
    static T* const object = new T;
    made_.store(object, std::memory_order_release);
    return *object;
  }
  static inline constinit std::atomic<T*> made_{nullptr};
};

}  // namespace cucpu
