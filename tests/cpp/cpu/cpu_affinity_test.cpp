// SPDX-License-Identifier: Apache-2.0
// The CPUs that worker threads move to.
#include "cpu/base/cpu_affinity.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace {

cpu_set_t own_cpus() {
  cpu_set_t cpus;
  EXPECT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

bool equal(const cpu_set_t& a, const cpu_set_t& b) { return CPU_EQUAL(&a, &b) != 0; }

TEST(MoveBeside, LeavesTheCpu) {
  const cpu_set_t all = own_cpus();
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "needs two CPUs";
  for (unsigned number = 0; number < 5; ++number) {
    bool has_left = false;
    // The scheduler may bring the thread back at once.
    for (int tries = 0; tries < 1000 && !has_left; ++tries) {
      const int cpu = sched_getcpu();
      cucpu::move_beside(cpu, number);
      has_left = sched_getcpu() != cpu;
    }
    EXPECT_TRUE(has_left) << number;
    EXPECT_TRUE(equal(own_cpus(), all)) << number;
  }
}

TEST(MoveBeside, StaysWhereThereIsNoOtherCpu) {
  std::thread{[] {
    const int cpu = sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    cucpu::move_beside(cpu, 3);
    EXPECT_TRUE(equal(own_cpus(), one));
    EXPECT_EQ(sched_getcpu(), cpu);
  }}.join();
}

TEST(MoveBeside, StaysBesideAnUnknownCpu) {
  const cpu_set_t all = own_cpus();
  cucpu::move_beside(-1, 0);
  EXPECT_TRUE(equal(own_cpus(), all));
}

}  // namespace
