// SPDX-License-Identifier: Apache-2.0
// The turns that worker threads ask the scheduler for.
#include "cpu/base/time_slice.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <thread>

namespace {

/// What sched_getattr(2) tells of a thread, as 64-bit words: flags at 1, the time slice at 3.
using Words = std::array<std::uint64_t, 6>;

Words attributes() {
  Words words{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, words.data(), sizeof words, 0), 0);
  return words;
}

bool has_time_slices() {
  utsname system{};
  int major = 0, minor = 0;
  return uname(&system) == 0 && std::sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 12));
}

TEST(TimeSlice, IsShortenedForTheCallingThreadOnly) {
  if (!has_time_slices()) GTEST_SKIP() << "Linux 6.12 and later have time slices";
  const Words before = attributes();
  std::uint64_t slice = 0;
  std::thread{[&] {
    cucpu::use_short_time_slice();
    slice = attributes()[3];
  }}.join();
  EXPECT_EQ(slice, 100'000u);
  EXPECT_EQ(attributes(), before);
}

TEST(TimeSlice, KeepsPolicyAndNiceValue) {
  std::thread{[] {
    const sched_param none{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    const auto thread = static_cast<id_t>(gettid());
    ASSERT_EQ(setpriority(PRIO_PROCESS, thread, 3), 0);
    cucpu::use_short_time_slice();
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    EXPECT_EQ(getpriority(PRIO_PROCESS, thread), 3);
  }}.join();
}

TEST(TimeSlice, OfIdleThreadsStays) {
  std::thread{[] {
    const sched_param none{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    const Words before = attributes();
    cucpu::use_short_time_slice();
    EXPECT_EQ(attributes(), before);
  }}.join();
}

}  // namespace
