// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/faults.cpp: handles faults in kernel code, which end the fiber and not the
// process, and writes their reports.
#include <signal.h>
#include <ucontext.h>

#include <utility>

#include "cpu/engine/run/crash_recovery.hpp"
#include "cpu/engine/run/format_text.hpp"
#include "cpu/engine/run/signals.hpp"
#include "cpu/engine/run/worker.hpp"
#include "protection.hpp"

namespace cucpu {
namespace {

/// Handles a fault of the compiler or of a kernel; false: it is neither.
bool handle_kernel_fault(int signal, siginfo_t* info, void* context) {
  recover_from_crash_signal(signal, info->si_code > 0
                                        ? info->si_addr
                                        : nullptr);  // does not return from the compiler's threads
  Worker* worker = Worker::running();
  if (!CUCORE_PROTECTION("kernel-fault-handler") || !worker || worker->in_host_call ||
      info->si_code <= 0)
    return false;

  auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
  FiberFault& fault = worker->current_fault();
  fault.signal = signal;
  fault.signal_code = info->si_code;
  fault.address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  fault.pc = program_counter(context);
  fault.has_address = signal == SIGSEGV || signal == SIGBUS;
  switch (signal) {
    case SIGILL:
      fault.code = 715;
      break;
    case SIGFPE:
    case SIGTRAP:
      fault.code = 719;
      break;
    case SIGBUS:
      fault.code = fault.pc == fault.address ? 718 : info->si_code == BUS_ADRALN ? 716 : 700;
      break;
    default:
      fault.code =
          fault.pc == fault.address ? 718 : 700;  // a jump to an unmapped address, or an access
      fault.stack_overflow = worker->current().stack.guard_contains(fault.address, page_size());
#if defined(__x86_64__)
      // A misaligned vector access is a general protection fault, which names no address.
      if (info->si_code == SI_KERNEL) fault.has_address = false;
#endif
  }
  void* fake = nullptr;
  announce_switch_to_host(worker->host_stack(), &fake);
  // Continue in the scheduler, as if the fiber had switched to it. The fiber never continues.
#if defined(__aarch64__)
  machine->regs[1] = reinterpret_cast<std::uintptr_t>(worker->host_stack().sp);
  machine->pc = reinterpret_cast<std::uintptr_t>(&cucpu_fiber_resume);
#else
  machine->gregs[REG_RSI] = reinterpret_cast<greg_t>(worker->host_stack().sp);
  machine->gregs[REG_RIP] = reinterpret_cast<greg_t>(&cucpu_fiber_resume);
  machine->gregs[REG_EFL] &= ~greg_t{0x400};  // the direction flag is clear at every call
#endif
  return true;
}

const bool g_handler_set = (set_fault_handler(&handle_kernel_fault), true);

std::uintptr_t shared_base(const Fiber& fiber) {
  return reinterpret_cast<std::uintptr_t>(fiber.block->context.shared);
}

std::string name_of_fault(const FiberFault& fault) {
  if (fault.name) return fault.name;
  if (fault.stack_overflow) return "stack overflow";
  switch (fault.code) {
    case 700:
      return "illegal memory access";
    case 710:
      return "device-side assertion failed";
    case 715:
      return "illegal instruction";
    case 716:
      return "misaligned address";
    case 717:
      return "address in the wrong state space";
    case 718:
      return "invalid program counter";
    case 719:
      return fault.signal == SIGFPE ? "arithmetic fault" : "trap";
    default:
      return "fault " + std::to_string(fault.code);
  }
}

std::string describe_thread(const Fiber& fiber, bool block_code,
                            std::optional<std::uint32_t> known) {
  const BlockContext& context = fiber.block->context;
  std::string text = "block " + format_index(context.index);
  if (block_code && !known && context.current_blocks > 1) {
    const std::uint32_t last[] = {context.index[0] + context.current_blocks - 1, context.index[1],
                                  context.index[2]};
    text = "one of the blocks " + format_index(context.index) + " to " + format_index(last);
  }
  if (!block_code) return text + ", thread " + format_index(fiber.thread.tid);
  const auto tid = [&](std::uint32_t n) {
    return format_text("(%u, %u, %u)", n % context.block[0],
                       n / context.block[0] % context.block[1],
                       n / (context.block[0] * context.block[1]));
  };
  const std::uint32_t first = known.value_or(context.current_thread);
  if (known || context.current_lanes <= 1) return text + ", thread " + tid(first);
  const std::uint32_t last = std::min(first + context.current_lanes, context.block_threads) - 1;
  return text + ", one of the threads " + tid(first) + " to " + tid(last);
}

}  // namespace

void Worker::trap(int code, const void* pc, std::string text) {
  fault_.code = CUCORE_PROTECTION("trap-code") ? code : 700;
  if (!text.empty()) fault_.text = std::move(text);
  // The return address may belong to the next line.
  if (pc) fault_.pc = reinterpret_cast<std::uintptr_t>(pc) - 1;
  abandon();
}

void Worker::report_fault() {
  FiberFault fault = std::exchange(fault_, FiberFault{});
  in_host_call = false;
  if (fault.cancelled) return;  // the caller of Grid::cancel gave the reason
  // As on an H200: the window of shared addresses is 16 MiB; an access beyond it is an illegal
  // instruction.
  if (fault.signal != 0 && fault.code == 700 && fault.has_address && !fault.stack_overflow) {
    const std::uintptr_t offset = fault.address - shared_base(current());
    if (in_shared(fault)) {
      if (offset >= (std::uintptr_t{1} << 24)) fault.code = 715;
    } else if (hooks().find_allocation && hooks().find_allocation(offset)) {
      fault.code = 715;
      fault.text = format_text("a shared access with the global address 0x%llx",
                               static_cast<unsigned long long>(offset));
    }
  }
  const Code& code = *code_;
  BlockContext& context = current().block->context;
  FaultPlace place{
      fault.code, fault.address, code.block ? context.current_thread : current().thread.linear, {}};
  if (fault.pc && code.line_of) place.line = code.line_of(fault.pc);
  if (grid_->is_replay()) {
    grid_->set_fault_place(place);
    return grid_->fail(fault.code, {});
  }
  std::optional<std::uint32_t> thread;
  if (code.block && context.current_lanes > 1 && fault.signal != 0 && fault.has_address) {
    const std::uint64_t block =
        context.index[0] +
        std::uint64_t{context.grid[0]} *
            (context.index[1] + std::uint64_t{context.grid[1]} * context.index[2]);
    for (std::uint32_t i = 0; i < context.current_blocks && !thread; ++i) {
      if (const auto found = grid_->find_faulting_thread(block + i, place, context.current_lanes)) {
        fault.address = found->address;
        thread = found->thread;
        context.index[0] += i;
      }
    }
  }
  grid_->fail(fault.code, describe(fault, thread));
}

std::string Worker::describe(const FiberFault& fault, std::optional<std::uint32_t> thread) const {
  const Code& code = *code_;
  std::string text = "kernel " + code.kernel + ": " + name_of_fault(fault);
  const bool address = fault.has_address && !fault.stack_overflow;
  if (address) text += format_text(" at 0x%llx", static_cast<unsigned long long>(fault.address));
  if (!fault.text.empty()) text += ": " + fault.text;
  if (fault.pc && code.line_of) {
    if (const std::string line = code.line_of(fault.pc); !line.empty()) text += ", " + line;
  }
  text += ", " + describe_thread(current(), code.block != nullptr, thread);
  if (in_shared(fault)) {
    text += format_text("; offset %llu of shared memory, where the block has %u bytes",
                        static_cast<unsigned long long>(fault.address - shared_base(current())),
                        current().block->context.shared_bytes);
  } else if (address && hooks().describe_address) {
    if (const std::string what = hooks().describe_address(fault.address); !what.empty())
      text += "; " + what;
  }
  return text;
}

bool Worker::in_shared(const FiberFault& fault) const {
  constexpr std::uintptr_t kReach = std::uintptr_t{1} << 32;
  return fault.has_address && !fault.stack_overflow &&
         fault.address - shared_base(current()) < kReach && pool_.is_shared_address(fault.address);
}

}  // namespace cucpu
