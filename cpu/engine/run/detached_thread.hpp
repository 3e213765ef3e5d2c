// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/detached_thread.hpp: background threads of this library.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>

#include "cpu/base/cpu_affinity.hpp"

namespace cucpu {

/// Starts a detached thread with all signals blocked except fault signals: other signals belong to
/// the program's own threads. It may use all CPUs of the process, also where the calling thread is
/// bound to one. Throws std::system_error. `name`: at most 15 characters.
template <class F>
void start_detached_thread(const char* name, F f) {
  sigset_t none, before;
  sigfillset(&none);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&none, fault);
  pthread_sigmask(SIG_SETMASK, &none, &before);
  try {
    std::thread thread{[f, name] {
      pthread_setname_np(pthread_self(), name);
      use_process_cpus();
      f();
    }};
    thread.detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace cucpu
