// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/target_tiles_test.cpp: tiles with a border on other machines. tiles.ptx has two
// kernels whose threads load `in[clamp(y0 + i / 18) * width + clamp(x0 + i % 18)]`.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "target_code.hpp"

namespace {

std::string assembly_of(const char* kernel, llvm::TargetMachine& target) {
  const std::ifstream file{SIMT_TEST_FOLDER "/tiles.ptx"};
  std::stringstream text;
  text << file.rdbuf();
  return compile(text.str(), kernel, {16, 16, 1}, target).assembly;
}

// A division by 18 is a product with 954437177. Vectors of quotients remain where lanes are
// clamped.
constexpr const char* kDivision = "\timulq\t\\$954437177";

TEST(SimtTargets, GroupsThatLoadASmallTileDivideNothing) {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    EXPECT_EQ(matches(assembly_of("small_tile", *target), kDivision), 0u) << cpu;
  }
}

TEST(SimtTargets, GroupsThatLoadALargeTileShareTheirCode) {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    const std::string large = assembly_of("large_tile", *target);
    EXPECT_GE(matches(large, kDivision), 1u) << cpu;
    EXPECT_LT(matches(large, "\n"), matches(assembly_of("small_tile", *target), "\n")) << cpu;
  }
}

// Blocks are 16 numbers apart.
TEST(SimtTargets, X86CodePrefetchesTheTileOfALaterBlock) {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    EXPECT_GE(matches(assembly_of("small_tile", *target), "\tprefetcht0\t256\\("), 18u) << cpu;
    EXPECT_GE(matches(assembly_of("large_tile", *target), "\tprefetcht0\t"), 1u) << cpu;
  }
  auto arm = machine("neoverse-n1", "aarch64-unknown-linux-gnu");
  if (!arm) GTEST_SKIP() << "this LLVM makes no AArch64 code";
  EXPECT_EQ(matches(assembly_of("small_tile", *arm), "\tprfm\t"), 0u);
}

}  // namespace
