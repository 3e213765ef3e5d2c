// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/detached_thread.hpp: background threads of this library.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <thread>

#include "cpu/base/cpu_affinity.hpp"
#include "cpu/engine/run/thread_local_reserve.hpp"

namespace cucpu {

/// Starts a detached thread with all signals blocked except fault signals: other signals belong to
/// the program's own threads. It may use all CPUs of the process, also where the calling thread is
/// bound to one. Throws std::system_error or std::bad_alloc. `name`: at most 15 characters.
template <class F>
void start_detached_thread(const char* name, F f) {
  sigset_t none, before;
  sigfillset(&none);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&none, fault);
  // Shared: the creating thread may be gone when it is notified.
  auto has_thread_locals = std::make_shared<std::atomic<bool>>(false);
  const ThreadLocalReserve reserve;
  pthread_sigmask(SIG_SETMASK, &none, &before);
  try {
    std::thread thread{[f, name, reserve, started = has_thread_locals]() mutable {
      reserve.use();
      started->store(true, std::memory_order_release);  // the creating thread goes on
      started->notify_one();
      started.reset();
      pthread_setname_np(pthread_self(), name);
      use_process_cpus();
      f();
    }};
    thread.detach();
    // A limit of memory that is set after this call must not meet a thread without its data. It
    // sleeps meanwhile: the new thread may get no other processor for milliseconds.
    has_thread_locals->wait(false, std::memory_order_acquire);
  } catch (...) {
    reserve.release();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace cucpu
