// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/crash_recovery.cpp
#include "cpu/engine/run/crash_recovery.hpp"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "cpu/engine/run/thread_local_reserve.hpp"
#include "cpu/engine/run/worker.hpp"
#include "protection.hpp"

namespace cucpu {
namespace {

constexpr std::size_t kStacks[] = {std::size_t{512} << 20, std::size_t{32} << 20};
constexpr std::size_t kSignalStack = 64 * 1024;

struct RecoverableWork {
  const std::function<void()>& run;
  std::mutex mutex;
  std::condition_variable over;
  bool done = false;
  bool crashed = false;
  bool no_memory = false;
  bool thread_parked = true;  ///< after a crash, the thread waits for ever
  std::exception_ptr exception;
  char reason[512] = {};
  sigjmp_buf back{};
  std::uintptr_t stack_low = 0;  ///< to tell a stack overflow from other faults
  std::optional<ThreadLocalReserve> reserve;
  alignas(16) std::byte signal_stack[kSignalStack];
};

__attribute__((tls_model("initial-exec"))) thread_local RecoverableWork* t_recoverable = nullptr;

void finish(RecoverableWork& work, bool crashed) {
  const std::lock_guard lock{work.mutex};
  work.crashed = crashed;
  work.done = true;
  work.over.notify_one();  // under the lock: the caller may destroy the object right after
}

void run(RecoverableWork& work) {
  stack_t signals{};
  signals.ss_sp = work.signal_stack;
  signals.ss_size = kSignalStack;
  sigaltstack(&signals, nullptr);
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* low = nullptr;
    std::size_t size = 0;
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    work.stack_low = reinterpret_cast<std::uintptr_t>(low);
  }
  if (sigsetjmp(work.back, 1) == 0) {
    t_recoverable = &work;
    try {
      work.run();
    } catch (...) {
      work.exception = std::current_exception();
    }
    t_recoverable = nullptr;
    signals.ss_flags = SS_DISABLE;
    sigaltstack(&signals, nullptr);
    finish(work, false);
    return;
  }
  const bool thread_parked = work.thread_parked;
  signals.ss_flags = SS_DISABLE;
  if (!thread_parked) sigaltstack(&signals, nullptr);
  finish(work, true);
  if (thread_parked)
    for (;;) pause();
}

void* start(void* argument) {
  auto* const work = static_cast<RecoverableWork*>(argument);
  work->reserve->use();
  run(*work);
  return nullptr;
}

/// A thread that receives fault signals only: other signals are for the program's own threads.
bool launch(RecoverableWork& work, std::size_t stack) {
  try {
    work.reserve.emplace();
  } catch (const std::bad_alloc&) {
    return false;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setguardsize(&attributes, 1 << 20);  // larger than any stack frame of the compiler
  sigset_t mask, before;
  sigfillset(&mask);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
    sigdelset(&mask, fault);
  pthread_sigmask(SIG_SETMASK, &mask, &before);
  pthread_t thread;
  const bool ok = pthread_attr_setstacksize(&attributes, stack) == 0 &&
                  pthread_create(&thread, &attributes, &start, &work) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (!ok) work.reserve->release();
  return ok;
}

}  // namespace

void run_with_crash_recovery(const std::function<void()>& function) {
  if (t_recoverable) return function();  // nested
  ensure_fault_handlers(true);
  auto work = std::make_unique<RecoverableWork>(function);
  bool started = false;
  for (const std::size_t stack : kStacks)
    if (!started) started = launch(*work, stack);
  if (!started) throw std::bad_alloc{};
  {
    std::unique_lock lock{work->mutex};
    work->over.wait(lock, [&] { return work->done; });
  }
  if (work->no_memory) throw std::bad_alloc{};
  if (work->crashed) {
    const std::string reason = work->reason;
    if (work->thread_parked)
      static_cast<void>(work.release());  // the parked thread still refers to it
    throw Crashed{reason};
  }
  if (work->exception) std::rethrow_exception(work->exception);
}

void raise_crash(const char* reason) noexcept {
  RecoverableWork* const work = t_recoverable;
  if (!work) return;
  std::snprintf(work->reason, sizeof work->reason, "%s", reason);
  work->thread_parked = false;
  t_recoverable = nullptr;
  siglongjmp(work->back, 1);
}

void raise_out_of_memory() noexcept {
  RecoverableWork* const work = t_recoverable;
  if (!work) return;
  work->no_memory = true;
  work->thread_parked = false;
  t_recoverable = nullptr;
  siglongjmp(work->back, 1);
}

void recover_from_crash_signal(int signal, const void* address) noexcept {
  RecoverableWork* const work = t_recoverable;
  if (!CUCORE_PROTECTION("compiler-crash-recovery") || !work) return;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const bool overflow = signal == SIGSEGV && at - work->stack_low + (2 << 20) < (4 << 20);
  const char* const what = overflow            ? "stack overflow"
                           : signal == SIGABRT ? "abort"
                           : signal == SIGSEGV ? "segmentation fault"
                           : signal == SIGBUS  ? "bus error"
                           : signal == SIGFPE  ? "arithmetic fault"
                                               : "illegal instruction";
  std::strncpy(work->reason, what, sizeof work->reason - 1);
  t_recoverable = nullptr;
  siglongjmp(work->back, 1);
}

}  // namespace cucpu
