// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/try_access.cpp
#include "cpu/engine/run/try_access.hpp"

#include <setjmp.h>
#include <signal.h>

#include "cpu/engine/run/signals.hpp"
#include "protection.hpp"

namespace cucpu {
namespace {

struct AccessAttempt {
  MemoryFault& fault;
  AccessAttempt* outer;
  sigjmp_buf back;
};

// Our handler blocks no signals (SA_NODEFER), so the signal mask need not be restored. The thread
// sanitizer's own handler, which calls ours, blocks all signals.
#if defined(__SANITIZE_THREAD__)
constexpr int kSaveMask = 1;
#else
constexpr int kSaveMask = 0;
#endif

__attribute__((tls_model("initial-exec"))) thread_local AccessAttempt* t_attempt = nullptr;

}  // namespace

bool try_access(void (*work)(const void*), const void* data, MemoryFault& fault) noexcept {
  if (!CUCORE_PROTECTION("access-to-freed-memory")) {
    work(data);
    return true;
  }
  ensure_fault_handlers();
  AccessAttempt attempt{fault, t_attempt, {}};
  if (sigsetjmp(attempt.back, kSaveMask) != 0) return false;
  t_attempt = &attempt;
  work(data);
  t_attempt = attempt.outer;
  return true;
}

void recover_from_access_fault(int signal, int signal_code, const void* address) noexcept {
  AccessAttempt* const attempt = t_attempt;
  if (!attempt || signal_code <= 0 || (signal != SIGSEGV && signal != SIGBUS)) return;
  t_attempt = attempt->outer;
  attempt->fault.address = reinterpret_cast<std::uintptr_t>(address);
  attempt->fault.has_address = signal_code != SI_KERNEL;
  siglongjmp(attempt->back, 1);
}

}  // namespace cucpu
