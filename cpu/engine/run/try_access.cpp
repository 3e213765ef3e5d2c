// cpu/engine/run/try_access.cpp
#include "cpu/engine/run/try_access.hpp"

#include <setjmp.h>
#include <signal.h>

#include "cpu/engine/run/signals.hpp"

namespace cucpu {
namespace {

struct Touch {
  MemoryFault& fault;
  Touch* outer;
  sigjmp_buf back;
};

// The handler blocks no signals (SA_NODEFER), so that there is no mask to restore; but the thread
// sanitizer puts a handler of its own before it, which blocks them all.
#if defined(__SANITIZE_THREAD__)
constexpr int kSaveMask = 1;
#else
constexpr int kSaveMask = 0;
#endif

__attribute__((tls_model("initial-exec"))) thread_local Touch* t_touch = nullptr;

}  // namespace

bool touch(void (*work)(const void*), const void* data, MemoryFault& fault) noexcept {
  ensure_fault_handlers();
  Touch touch{fault, t_touch, {}};
  if (sigsetjmp(touch.back, kSaveMask) != 0) return false;
  t_touch = &touch;
  work(data);
  t_touch = touch.outer;
  return true;
}

void leave_touch(int signal, int signal_code, const void* address) noexcept {
  Touch* const touch = t_touch;
  if (!touch || signal_code <= 0 || (signal != SIGSEGV && signal != SIGBUS)) return;
  t_touch = touch->outer;
  touch->fault.address = reinterpret_cast<std::uintptr_t>(address);
  touch->fault.has_address = signal_code != SI_KERNEL;
  siglongjmp(touch->back, 1);
}

}  // namespace cucpu
