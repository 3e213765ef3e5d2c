// cpu/engine/run/fiber_switch.hpp: the one way from stack to stack, told to the sanitizers. The
// address sanitizer follows every stack. The thread sanitizer has no room for thousands of fibers:
// all fibers of a host thread are one fiber to it, apart from the scheduler.
#pragma once

#include "cpu/engine/run/fiber.hpp"
#include "cpu/mem/sanitizer.hpp"

#if defined(CUCPU_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(CUCPU_TSAN)
#include <sanitizer/tsan_interface.h>
/// For functions that are left for ever in the middle: the sanitizer would count their frames until
/// it has no room for more.
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
  void* fibers = nullptr;  ///< what the sanitizer takes all fibers for
#endif
};

/// No fiber goes on: what the sanitizer knows of their frames goes.
inline void destroy_tsan_fibers([[maybe_unused]] HostStack& host) {
#if defined(CUCPU_TSAN)
  if (host.fibers) __tsan_destroy_fiber(host.fibers);
  host.fibers = nullptr;
#endif
}

/// From the scheduler into a fiber; returns when a fiber comes back, or is abandoned by a fault.
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
                         0);  // here, not where it was left: that may have been a signal handler
#endif
#if defined(CUCPU_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

/// From a fiber to another one.
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

/// What a signal handler, or a fiber about to switch, says before control goes to the host's stack.
inline void announce_switch_to_host([[maybe_unused]] HostStack& host,
                                    [[maybe_unused]] void** fake) {
#if defined(CUCPU_ASAN)
  __sanitizer_start_switch_fiber(fake, host.bottom, host.size);
#endif
}

/// From a fiber to the scheduler.
inline void leave_fiber(void** save, HostStack& host) {
  void* fake = nullptr;
  announce_switch_to_host(host, &fake);
  cucpu_fiber_switch(save, host.sp);
#if defined(CUCPU_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

/// First thing a fresh fiber does.
inline void finish_first_switch([[maybe_unused]] HostStack& host) {
#if defined(CUCPU_ASAN)
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (!host.bottom) {  // the first fiber of all is always entered from the scheduler
    host.bottom = bottom;
    host.size = size;
  }
#endif
}

/// A stack goes to a new fiber: what the last one left behind (it may have been abandoned) means
/// nothing.
inline void unpoison_stack([[maybe_unused]] Stack& stack) {
#if defined(CUCPU_ASAN)
  __asan_unpoison_memory_region(stack.base, stack.size);
#endif
}

}  // namespace cucpu
