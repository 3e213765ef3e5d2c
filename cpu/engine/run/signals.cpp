// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/signals.cpp
#include "cpu/engine/run/signals.hpp"

#include <time.h>
#include <ucontext.h>

#include <atomic>
#include <mutex>

#include "cpu/engine/run/try_access.hpp"
#include "protection.hpp"

namespace cucpu {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
struct sigaction g_previous[NSIG];
constinit std::atomic<FaultHandler> g_fault_handler{nullptr};
std::mutex g_mutex;
__attribute__((tls_model("initial-exec"))) thread_local bool t_chaining = false;

/// Whether previous handlers have returned from this same fault many times in a row. The handler of
/// another copy of LLVM reinstalls ours and returns, which would loop for ever.
bool is_repeated_fault(int signal, const siginfo_t* info, void* context) {
  constexpr unsigned kPatience = 64;  // a handler that resolves faults does so the first time
  struct Last {
    int signal;
    std::uintptr_t address, pc;
    unsigned count;
  };
  static __attribute__((tls_model("initial-exec"))) thread_local Last last;
  if (info->si_code <= 0) return false;  // sent by kill
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::uintptr_t pc = program_counter(context);
  const bool again = last.signal == signal && last.address == address && last.pc == pc;
  last = {signal, address, pc, again ? last.count + 1 : 0};
  return last.count > kPatience;
}

/// A signal that no kernel caused: does what would happen without this handler.
void chain(int signal, siginfo_t* info, void* context) {
  struct sigaction previous = g_previous[signal];
  if (!CUCORE_PROTECTION("chain-signal-handler") || is_repeated_fault(signal, info, context))
    previous = {};
  if (!t_chaining && (previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction) {
    t_chaining = true;  // a handler that calls ours must not recurse
    previous.sa_sigaction(signal, info, context);
    t_chaining = false;
    return;
  }
  if (!t_chaining && (previous.sa_flags & SA_SIGINFO) == 0 && previous.sa_handler != SIG_DFL &&
      previous.sa_handler != SIG_IGN) {
    t_chaining = true;
    previous.sa_handler(signal);
    t_chaining = false;
    return;
  }
  // An ignored fault would repeat for ever; the default action ends the process, as it would
  // without our handler.
  struct sigaction fallback {};
  fallback.sa_handler = SIG_DFL;
  sigaction(signal, &fallback, nullptr);
  if (info->si_code <= 0) raise(signal);  // sent by kill: does not repeat by itself
}

void handle(int signal, siginfo_t* info, void* context) {
  recover_from_access_fault(signal, info->si_code,
                            info->si_addr);  // does not return from a queued access
  const FaultHandler handler = g_fault_handler.load(std::memory_order_acquire);
  if (handler && handler(signal, info, context)) return;
  chain(signal, info, context);
}

bool is_our_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &handle;
}

}  // namespace

std::uintptr_t program_counter(void* context) noexcept {
  const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__aarch64__)
  return machine.pc;
#else
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#endif
}

void set_fault_handler(FaultHandler handler) noexcept {
  g_fault_handler.store(handler, std::memory_order_release);
}

void ensure_fault_handlers(bool force) {
  // The test costs a system call, and handlers are rarely replaced.
  static std::atomic<std::int64_t> tested{-1'000'000'000};
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  const std::int64_t ms = time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
  if (!force && ms - tested.load(std::memory_order_acquire) < 20) return;
  // Programs that replace handlers replace that of SIGSEGV.
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if (is_our_handler(now)) return tested.store(ms, std::memory_order_release);
  const std::lock_guard lock{g_mutex};
  for (const int signal : kSignals) {
    sigaction(signal, nullptr, &now);
    if (is_our_handler(now)) continue;
    g_previous[signal] = now;
    struct sigaction mine {};
    mine.sa_sigaction = &handle;
    mine.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&mine.sa_mask);
    sigaction(signal, &mine, nullptr);
  }
  tested.store(ms, std::memory_order_release);
}

}  // namespace cucpu
