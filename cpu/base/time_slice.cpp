// SPDX-License-Identifier: Apache-2.0
#include "cpu/base/time_slice.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

namespace cucpu {
namespace {

// The shortest that the scheduler accepts.
constexpr std::chrono::nanoseconds kTimeSlice = std::chrono::microseconds{100};

/// The parameters of sched_setattr(2), which glibc declares from 2.41 on.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  ///< nanoseconds: the time slice
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

}  // namespace

void use_short_time_slice() noexcept {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return;
  attributes.runtime = kTimeSlice.count();
  // A system that forbids this leaves the slices of all threads equal.
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace cucpu
