// SPDX-License-Identifier: Apache-2.0
// cpu/mem/per_thread.hpp: one object per thread that outlives the program's thread_local objects.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace cucpu {

/// One T per thread, made at first use. A thread_local T would be destroyed among the program's own
/// thread_local objects, whose destructors may call the driver, and at exit() before the handlers
/// of atexit(). POSIX thread keys are destroyed after all of them. A later call, from the
/// destructor of another key, makes a new T.
template <class T>
class PerThread {
 public:
  static T& get() {
    if (T* const made = current_) [[likely]]
      return *made;
    return make();
  }

  /// Null before the first use.
  static T* peek() noexcept { return current_; }

 private:
  [[gnu::noinline]] static T& make() {
    static const pthread_key_t key = [] {
      pthread_key_t made{};
      if (pthread_key_create(&made, [](void* object) {
            delete static_cast<T*>(object);  // its destructor may still use get()
            current_ = nullptr;
          }) != 0)
        throw std::bad_alloc{};
      return made;
    }();
    auto object = std::make_unique<T>();
    if (pthread_setspecific(key, object.get()) != 0) throw std::bad_alloc{};
    return *(current_ = object.release());
  }
  // Initial-exec: read without a function call.
  __attribute__((tls_model("initial-exec"))) static inline constinit thread_local T* current_ =
      nullptr;
};

}  // namespace cucpu
