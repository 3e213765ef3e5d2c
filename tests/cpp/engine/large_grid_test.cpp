// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/large_grid_test.cpp: grids of every size take bounded memory, and can be ended.
#include <sys/resource.h>

#include <atomic>

#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

constexpr std::uint32_t kMostBlocks = 0x7fffffff;

class Large : public ::testing::Test {
 protected:
  Environment cache_{"CUCORE_CPU_CACHE", "0"};
  TestMemory memory_;
};

long peak_kib() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_maxrss;
}

std::string counting_kernel(const std::string& work) {
  return ".visible .entry k(.param .u64 count) {\n.reg .u64 %rd<3>; .reg .u32 %r<4>; .reg .pred "
         "%p<2>;\n"
         "ld.param.u64 %rd1, [count]; mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0; @%p0 bra "
         "D;\nred.global.add.u64 [%rd1], 1;\nD:\n" +
         work + "ret; }\n";
}

/// Starts a grid on two host threads, and cancels it when some blocks have run.
Ended cancelled_after_some(const Module& module, std::atomic<std::uint64_t>& count, Dim3 grid) {
  std::vector<std::byte> params(8);
  std::atomic<std::uint64_t>* const where = &count;
  std::memcpy(params.data(), &where, 8);
  const auto launch = Launch::make(*module.find_kernel("k"), shape_of(grid, {32}), params.data());
  std::thread canceller{[&] {
    while (count.load() < 1000) std::this_thread::yield();
    launch->cancel(709);
  }};
  const Ended ended = finish(*launch);
  canceller.join();
  return ended;
}

TEST_F(Large, AGridOfEveryBlockStartsAtOnceAndCanBeCancelled) {
  const auto module = load(counting_kernel(""), memory_);
  std::atomic<std::uint64_t> count{0};
  const long before = peak_kib();
  const Ended ended = cancelled_after_some(*module, count, {kMostBlocks});
  EXPECT_EQ(ended.code, 709);
  EXPECT_GE(count, 1000U);
  EXPECT_LT(count, kMostBlocks);
  EXPECT_LT(peak_kib() - before, 64 * 1024);
}

// All blocks together would take days: that the test ends at all shows that the rest was dropped.
TEST_F(Large, BlocksThatWorkCanBeCancelledToo) {
  const auto module = load(
      counting_kernel(
          "mov.u32 %r2, 0;\nL: add.u32 %r2, %r2, 1; and.b32 %r3, %r1, 1; add.u32 %r2, %r2, %r3;"
          "setp.lt.u32 %p1, %r2, 100000000; @%p1 bra L;\nst.global.u32 [%rd1+8], %r2;\n"),
      memory_);
  struct {
    std::atomic<std::uint64_t> count{0};
    std::uint64_t room = 0;
  } there;
  std::vector<std::byte> params(8);
  const void* const where = &there;
  std::memcpy(params.data(), &where, 8);
  const auto launch =
      Launch::make(*module->find_kernel("k"), shape_of({kMostBlocks}, {32}), params.data());
  std::thread canceller{[&] {
    while (there.count.load() < 1) std::this_thread::yield();
    launch->cancel(709);
  }};
  EXPECT_EQ(finish(*launch).code, 709);
  canceller.join();
}

TEST_F(Large, AGridThatIsCancelledBeforeItStartsRunsNothing) {
  const auto module = load(counting_kernel(""), memory_);
  std::atomic<std::uint64_t> count{0};
  std::vector<std::byte> params(8);
  std::atomic<std::uint64_t>* const where = &count;
  std::memcpy(params.data(), &where, 8);
  const auto launch =
      Launch::make(*module->find_kernel("k"), shape_of({kMostBlocks}, {32}), params.data());
  launch->cancel(709);
  EXPECT_EQ(finish(*launch).code, 709);
  EXPECT_EQ(count, 0U);
}

TEST_F(Large, TheTimeLimitEndsAGridOfEveryBlock) {
  const Environment limit{"CUCORE_CPU_TIMEOUT", "0.02"};
  const auto module = load(counting_kernel(""), memory_);
  std::uint64_t count = 0;
  EXPECT_EQ(launch(*module, "k", shape_of({kMostBlocks}, {32}), &count).code, 702);
  EXPECT_LT(count, kMostBlocks);
}

TEST_F(Large, EveryBlockOfAGridRunsOnceAndMemoryDoesNotGrowWithIt) {
  const auto module = load(counting_kernel(""), memory_);
  std::uint64_t count = 0;
  EXPECT_EQ(launch(*module, "k", shape_of({1000}, {32}), &count).code, 0);
  const long before = peak_kib();
  for (const std::uint32_t blocks : {10'000U, 100'000U, 1'000'000U}) {
    count = 0;
    EXPECT_EQ(launch(*module, "k", shape_of({blocks}, {32}), &count).code, 0);
    EXPECT_EQ(count, blocks);
  }
  EXPECT_LT(peak_kib() - before, 16 * 1024);
}

}  // namespace
}  // namespace cucpu::test
