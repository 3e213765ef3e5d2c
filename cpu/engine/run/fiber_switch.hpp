// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/fiber_switch.hpp: switches between stacks, annotated for sanitizers. The address
// sanitizer tracks every stack. The thread sanitizer cannot track thousands of fibers: it treats
// all fibers of a host thread as one, separate from the scheduler.
#pragma once

#include "cpu/engine/run/fiber.hpp"
#include "cpu/mem/sanitizer.hpp"

#if defined(CUCPU_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(CUCPU_TSAN)
#include <sanitizer/tsan_interface.h>
/// For functions that are abandoned before they return: the sanitizer would keep their frames on
/// its shadow stack until that overflows.
#define CUCPU_NO_SANITIZE_THREAD __attribute__((no_sanitize("thread")))
#else
#define CUCPU_NO_SANITIZE_THREAD
#endif

namespace cucpu {

/// The scheduler's stack: that of the host thread.
struct HostStack {
  void* sp = nullptr;
#if defined(CUCPU_ASAN)
  const void* bottom = nullptr;
  std::size_t size = 0;
#endif
#if defined(CUCPU_TSAN)
  void* fibers = nullptr;  ///< the sanitizer's handle for all fibers of the host thread
#endif
};

/// Drops the sanitizer's record of all frames. No fiber may continue.
inline void destroy_tsan_fibers([[maybe_unused]] HostStack& host) {
#if defined(CUCPU_TSAN)
  if (host.fibers) __tsan_destroy_fiber(host.fibers);
  host.fibers = nullptr;
#endif
}

/// Switches from the scheduler to a fiber; returns when a fiber leaves to the scheduler or faults.
inline void enter_fiber(HostStack& host, void* to, [[maybe_unused]] const Stack& stack) {
#if defined(CUCPU_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack.base, stack.size);
#endif
#if defined(CUCPU_TSAN)
  void* const own = __tsan_get_current_fiber();
  if (!host.fibers) host.fibers = __tsan_create_fiber(0);
  __tsan_switch_to_fiber(host.fibers, 0);
#endif
  cucpu_fiber_switch(&host.sp, to);
#if defined(CUCPU_TSAN)
  __tsan_switch_to_fiber(own,
                         0);  // here, not in the fiber: a signal handler may have left it
#endif
#if defined(CUCPU_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

/// Switches from a fiber to another fiber.
inline void switch_fiber(void** save, void* to, [[maybe_unused]] const Stack& stack) {
#if defined(CUCPU_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack.base, stack.size);
#endif
  cucpu_fiber_switch(save, to);
#if defined(CUCPU_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

/// Announces a switch to the stack of the host thread, from a fiber or a signal handler.
inline void announce_switch_to_host([[maybe_unused]] HostStack& host,
                                    [[maybe_unused]] void** fake) {
#if defined(CUCPU_ASAN)
  __sanitizer_start_switch_fiber(fake, host.bottom, host.size);
#endif
}

/// Switches from a fiber to the scheduler.
inline void leave_fiber(void** save, HostStack& host) {
  void* fake = nullptr;
  announce_switch_to_host(host, &fake);
  cucpu_fiber_switch(save, host.sp);
#if defined(CUCPU_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

/// The first call on a new fiber.
inline void finish_first_switch([[maybe_unused]] HostStack& host) {
#if defined(CUCPU_ASAN)
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (!host.bottom) {  // the first fiber is always entered from the scheduler
    host.bottom = bottom;
    host.size = size;
  }
#endif
}

/// Prepares a stack for a new fiber: the previous fiber may have been abandoned with poisoned
/// frames.
inline void unpoison_stack([[maybe_unused]] Stack& stack) {
#if defined(CUCPU_ASAN)
  __asan_unpoison_memory_region(stack.base, stack.size);
#endif
}

}  // namespace cucpu
