// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/baseline_test.cpp: kernels that start in the baseline tier.
#include "../temporary_folder.hpp"
#include "cpu/engine/jit_module.hpp"
#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

// A barrier, lanes that part, a warp operation.
constexpr const char* kKernel = R"(
.visible .entry k(.param .u64 out, .param .u32 turns) {
  .reg .u64 %rd<4>; .reg .u32 %r<12>; .reg .pred %p<3>;
  .shared .align 4 .b8 sh[512];
  ld.param.u64 %rd0, [out];
  ld.param.u32 %r8, [turns];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, 0;
  mov.u32 %r3, 0;
L:
  setp.ge.u32 %p0, %r3, %r8;
  @%p0 bra D;
  mad.lo.u32 %r2, %r2, 1664525, %r0;
  add.u32 %r3, %r3, 1;
  and.b32 %r4, %r2, 7;
  setp.eq.u32 %p1, %r4, 3;
  @%p1 add.u32 %r2, %r2, 1013904223;
  bra L;
D:
  shl.b32 %r5, %r0, 2;
  mov.u32 %r6, sh;
  add.u32 %r6, %r6, %r5;
  st.shared.u32 [%r6], %r2;
  bar.sync 0;
  mov.u32 %r7, sh;
  mov.u32 %r9, 508;
  sub.u32 %r9, %r9, %r5;
  add.u32 %r7, %r7, %r9;
  ld.shared.u32 %r10, [%r7];
  shfl.sync.bfly.b32 %r11, %r10, 1, 31, -1;
  xor.b32 %r11, %r11, %r1;
  mad.lo.u32 %r1, %r1, 128, %r0;
  mad.wide.u32 %rd1, %r1, 4, %rd0;
  st.global.u32 [%rd1], %r11;
  ret;
})";

std::vector<std::uint32_t> expected(std::uint32_t blocks, std::uint32_t turns) {
  std::vector<std::uint32_t> of_thread(128), out;
  for (std::uint32_t t = 0; t < 128; ++t) {
    std::uint32_t x = 0;
    for (std::uint32_t i = 0; i < turns; ++i) {
      x = x * 1664525 + t;
      if ((x & 7) == 3) x += 1013904223;
    }
    of_thread[t] = x;
  }
  for (std::uint32_t b = 0; b < blocks; ++b)
    for (std::uint32_t t = 0; t < 128; ++t) out.push_back(of_thread[127 - (t ^ 1)] ^ b);
  return out;
}

class Baseline : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 64;
  std::vector<std::uint32_t> out = std::vector<std::uint32_t>(kBlocks * 128);
  const LaunchShape shape = shape_of({kBlocks, 1, 1}, {128, 1, 1});
  Environment tier{"CUCORE_CPU_TIER", "baseline"};
  TestMemory memory;

  void run(const Module& module, std::uint32_t turns) {
    std::ranges::fill(out, 0);
    const Ended ended =
        launch(module, "k", shape, reinterpret_cast<std::uint64_t>(out.data()), turns);
    EXPECT_EQ(ended.code, 0) << ended.report;
    EXPECT_EQ(out, expected(kBlocks, turns));
  }
  [[nodiscard]] bool is_baseline(const Module& module) const {
    const std::vector<std::byte> params(16);
    return static_cast<const JitKernel&>(*module.find_kernel("k"))
        .variant(shape, params.data())
        .code->baseline;
  }
  void run_until_optimized(const Module& module) {
    for (std::uint32_t turns = 1; is_baseline(module); ++turns) run(module, 40 + turns % 100);
  }
};

TEST_F(Baseline, OptimizedCodeReplacesItWithTheSameResults) {
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  const auto module = load(kKernel, memory);
  EXPECT_TRUE(is_baseline(*module));
  run_until_optimized(*module);
  run(*module, 77);
}

TEST_F(Baseline, TheOptimizedTierCompilesOptimizedCodeFirst) {
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  const Environment optimized{"CUCORE_CPU_TIER", "optimized"};
  EXPECT_FALSE(is_baseline(*load(kKernel, memory)));
}

TEST_F(Baseline, TheAutomaticTierOptimizesSmallKernelsFirst) {
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  const Environment automatic{"CUCORE_CPU_TIER", "auto"};
  EXPECT_FALSE(is_baseline(*load(kKernel, memory)));
}

TEST(Tier, TheFormerVariableIsAnAlias) {
  const auto tier = [](const char* value) {
    const Environment former{"CUCORE_CPU_QUICK", value};
    return Settings::from_environment().tier;
  };
  EXPECT_EQ(tier("0"), Settings::Tier::optimized);
  EXPECT_EQ(tier("1"), Settings::Tier::automatic);
  EXPECT_EQ(tier("always"), Settings::Tier::baseline);
}

TEST(Tier, TheNewVariableWinsOverTheFormerOne) {
  const Environment former{"CUCORE_CPU_QUICK", "always"};
  const Environment tier{"CUCORE_CPU_TIER", "optimized"};
  EXPECT_EQ(Settings::from_environment().tier, Settings::Tier::optimized);
}

TEST(Tier, ADumpOfLaterFormsSelectsTheOptimizedTier) {
  const Environment strict{"CUCORE_CPU_STRICT", "0"};
  EXPECT_EQ(Settings::from_environment().tier, Settings::Tier::automatic);
  for (const char* what : {"block", "asm", "after:gvn"}) {
    const Environment dump{"CUCORE_CPU_DUMP", what};
    EXPECT_EQ(Settings::from_environment().tier, Settings::Tier::optimized) << what;
  }
}

TEST_F(Baseline, CooperativeGridsStartWithOptimizedCode) {
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  const auto module = load(kKernel, memory);
  LaunchShape together = shape;
  together.cooperative = true;
  const Ended ended =
      launch(*module, "k", together, reinterpret_cast<std::uint64_t>(out.data()), 5U);
  EXPECT_EQ(ended.code, 0) << ended.report;
  EXPECT_FALSE(is_baseline(*module));
}

TEST_F(Baseline, TheDiskCacheHoldsBothTiersAndPrefersTheOptimizedOne) {
  const cucore::test::TemporaryFolder folder;
  const Environment cache{"CUCORE_CACHE_DIR", folder.path().string()};
  const Environment report{"CUCORE_CPU_REPORT", "1"};
  const auto load_and_compile = [&] {
    testing::internal::CaptureStderr();
    const auto module = load(kKernel, memory);
    const bool baseline = is_baseline(*module);  // without a run no optimized code is compiled
    return std::pair{baseline, testing::internal::GetCapturedStderr()};
  };
  const auto [first, compiled] = load_and_compile();
  EXPECT_TRUE(first);
  EXPECT_NE(compiled.find("vector, baseline: "), std::string::npos) << compiled;
  const auto [second, found] = load_and_compile();
  EXPECT_TRUE(second);
  EXPECT_NE(found.find("from the cache on disk"), std::string::npos) << found;
  {
    testing::internal::CaptureStderr();
    const auto module = load(kKernel, memory);
    run_until_optimized(*module);
    EXPECT_NE(testing::internal::GetCapturedStderr().find(": vector: "), std::string::npos);
  }
  const auto [third, last] = load_and_compile();
  EXPECT_FALSE(third);
  EXPECT_EQ(last.find("vector"), std::string::npos) << last;
}

TEST_F(Baseline, UnloadingAModuleDoesNotWaitForItsCompilation) {
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  for (int i = 0; i < 8; ++i) {
    const auto module = load(kKernel, memory);
    // Long enough to start the compilation of optimized code, which may or may not end in time.
    run(*module, 1U << (10 + i));
  }
}

}  // namespace
}  // namespace cucpu::test
