// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/debugger.cpp
#include "cpu/engine/run/debugger.hpp"

#include <unistd.h>

#include <cstddef>
#include <mutex>

#include "cpu/engine/run/thread_scheduler.hpp"

extern "C" {
/// The list of registered runs.
__attribute__((visibility("default"), used)) const cucpu::DebuggedRun* cucpu_debugger_runs;
/// Offsets of the members that DebuggerLayout names, after the version; 0 before the first run.
__attribute__((visibility("default"), used)) std::uint64_t cucpu_debugger_layout[16];
}

namespace cucpu {

/// The order is that of LAYOUT in python/cucore/gdb/extension.py.
struct DebuggerLayout {
  static void write(const ThreadScheduler& scheduler) {
    constexpr std::uint64_t kVersion = 1;
    const auto base = reinterpret_cast<std::uintptr_t>(&scheduler);
    const auto at = [base](const auto& member) {
      return reinterpret_cast<std::uintptr_t>(&member) - base;
    };
    static const Cluster cluster{};
    static const Block block{};
    static const Fiber fiber{};
    const auto inside = [](const auto& whole, const auto& member) {
      return reinterpret_cast<std::uintptr_t>(&member) - reinterpret_cast<std::uintptr_t>(&whole);
    };
    const std::uint64_t values[] = {
        kVersion,
        at(scheduler.current_),
        at(scheduler.residents_),
        inside(cluster, cluster.blocks),
        inside(block, block.context),
        inside(block, block.fibers),
        inside(block, block.context.started),
        sizeof(Fiber),
        inside(fiber, fiber.sp),
        inside(fiber, fiber.block),
        inside(fiber, fiber.thread),
        inside(fiber, fiber.wait),
        inside(fiber, fiber.barrier),
        offsetof(BlockContext, shared),
        offsetof(BlockContext, shared_bytes),
        offsetof(BlockContext, block_threads),
    };
    static_assert(sizeof values == sizeof cucpu_debugger_layout);
    for (std::size_t i = 0; i < std::size(values); ++i) cucpu_debugger_layout[i] = values[i];
  }
};

namespace {

std::mutex g_mutex;

}  // namespace

DebuggedRun::DebuggedRun(const ThreadScheduler& runs, const char* name, const void* code) noexcept
    : scheduler{&runs},
      kernel{name},
      host_thread{static_cast<std::uint64_t>(gettid())},
      entry{code} {
  const std::lock_guard lock{g_mutex};
  DebuggerLayout::write(runs);
  next = cucpu_debugger_runs;
  cucpu_debugger_runs = this;
}

DebuggedRun::~DebuggedRun() {
  const std::lock_guard lock{g_mutex};
  const DebuggedRun** at = &cucpu_debugger_runs;
  while (*at != this) at = const_cast<const DebuggedRun**>(&(*at)->next);
  *at = next;
}

}  // namespace cucpu
