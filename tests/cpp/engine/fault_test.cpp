// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/fault_test.cpp: faults end the grid with a code and a report, and the process
// goes on.
#include <sys/mman.h>

#include <csignal>
#include <cstdlib>

#include "grid_fixture.hpp"

namespace cucpu::test {
namespace {

LaunchShape shape(Dim3 grid, Dim3 block) {
  LaunchShape s;
  s.grid = grid;
  s.block = block;
  return s;
}

void poke(std::uintptr_t address) {
  asm volatile("" : "+r"(address));  // the compiler must not know what we are about to do
  *reinterpret_cast<volatile int*>(address) = 1;
}

void healthy() {
  static std::atomic<int> count;
  count = 0;
  const auto outcome = run(thread_code([](ThreadContext*) {
                             cucpu_rt_barrier_sync(0, 0);
                             ++count;
                           }),
                           shape({3}, {100}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(count, 300);
}

// promise: An illegal address is error 700 with kernel, block, thread and address, and the
// process continues
TEST(Faults, AnIllegalAddressNamesKernelBlockThreadAndAddress) {
  const auto outcome = run(thread_code([](ThreadContext* t) {
                             cucpu_rt_barrier_sync(0, 0);
                             if (t->block->index[0] == 1 && t->linear == 37) poke(0x1238);
                             cucpu_rt_barrier_sync(0, 0);
                           }),
                           shape({4}, {64, 2}), nullptr, 2);
  EXPECT_EQ(outcome.finishers, 1);
  EXPECT_EQ(outcome.code, 700);
  EXPECT_NE(outcome.report.find(
                "kernel k: illegal memory access at 0x1238, block (1, 0, 0), thread (37, 0, 0)"),
            std::string::npos)
      << outcome.report;
  healthy();
}

TEST(Faults, BlockCodeReportsTheLaneGroup) {
  const auto outcome = run(block_code([](BlockContext* c) {
                             c->current_thread = 16;
                             c->current_lanes = 16;
                             if (c->index[1] == 2) poke(8);
                           }),
                           shape({4, 4}, {40}));
  EXPECT_EQ(outcome.code, 700);
  EXPECT_NE(outcome.report.find("block (0, 2, 0), one of the threads (16, 0, 0) to (31, 0, 0)"),
            std::string::npos)
      << outcome.report;
  healthy();
}

int recurse(int n, volatile char* sink) {
  volatile char frame[256];
  frame[n % 256] = static_cast<char>(n);
  *sink = frame[n % 256];
  return n < 0 ? 0 : 1 + recurse(n + 1, frame) + frame[0];
}

// promise: A stack overflow in a kernel does not damage the stack of the host
TEST(Faults, AStackOverflowIsReportedAsIllegalAddress700) {
  Code code = thread_code([](ThreadContext*) {
    volatile char c;
    recurse(1, &c);
  });
  code.recursive = true;
  const auto outcome = run(code, shape({1}, {32}));
  EXPECT_EQ(outcome.code, 700);
  EXPECT_NE(outcome.report.find("stack overflow"), std::string::npos) << outcome.report;
  healthy();
}

TEST(Faults, ATrapCarriesItsCode) {
  const auto outcome = run(thread_code([](ThreadContext* t) {
                             if (t->linear == 3) cucpu_rt_trap(719);
                             cucpu_rt_barrier_sync(0, 0);
                           }),
                           shape({1}, {32}));
  EXPECT_EQ(outcome.code, 719);
  EXPECT_NE(outcome.report.find("trap, block (0, 0, 0), thread (3, 0, 0)"), std::string::npos)
      << outcome.report;
  healthy();
}

// promise: A misaligned access and an illegal instruction have error codes of their own
TEST(Faults, AnIllegalInstructionIs715) {
  const auto outcome = run(block_code([](BlockContext*) {
#if defined(__aarch64__)
                             asm volatile("udf #0");
#else
                             asm volatile("ud2");
#endif
                           }),
                           shape({1}, {32}));
  EXPECT_EQ(outcome.code, 715);
  healthy();
}

// promise: A kernel can be cancelled, and later work is unaffected
TEST(Faults, CancelStopsAKernelThatNeverEnds) {
  ensure_fault_handlers();
  auto code = std::make_shared<Code>(thread_code([](ThreadContext*) {
    for (;;) cucpu_rt_yield();
  }));
  Grid grid{code, shape({4}, {64}), nullptr};
  std::thread worker{[&] { EXPECT_TRUE(grid.work()); }};
  grid.cancel(702);
  worker.join();
  ASSERT_NE(grid.fault(), nullptr);
  EXPECT_EQ(grid.fault()->code, 702);
  healthy();
}

TEST(Faults, RepeatedFaultsLeakNothing) {
  for (int i = 0; i < 300; ++i) {
    const auto outcome = run(thread_code([](ThreadContext* t) {
                               if (t->linear == 255) poke(16);
                               cucpu_rt_barrier_sync(0, 0);
                             }),
                             shape({2}, {256}));
    ASSERT_EQ(outcome.code, 700);
  }
  healthy();
}

using FaultsDeathTest = ::testing::Test;
// promise: A fault of the host program reaches the previous signal handler
TEST(FaultsDeathTest, AFaultOfTheHostIsPassedToThePreviousHandler) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, [](int) { std::_Exit(42); });
        ensure_fault_handlers(true);
        poke(4);
      },
      ::testing::ExitedWithCode(42), "");
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, SIG_DFL);
        ensure_fault_handlers(true);
        poke(4);
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(FaultsDeathTest, AHandlerThatOnlyReturnsDoesNotLoopForEver) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, [](int) {});
        ensure_fault_handlers(true);
        poke(4);
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(FaultsDeathTest, AHandlerThatResolvesFaultsIsCalledForEveryFault) {
  EXPECT_EXIT(
      {
        static auto* const pages = static_cast<char*>(
            mmap(nullptr, 256 * page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        std::signal(SIGSEGV, [](int) {
          static int mended = 0;
          mprotect(pages + static_cast<std::size_t>(mended++) * page_size(), page_size(),
                   PROT_READ | PROT_WRITE);
        });
        ensure_fault_handlers(true);
        for (std::size_t i = 0; i < 256; ++i)
          *const_cast<volatile char*>(pages + i * page_size()) = 1;
        std::_Exit(43);
      },
      ::testing::ExitedWithCode(43), "");
}

}  // namespace
}  // namespace cucpu::test
