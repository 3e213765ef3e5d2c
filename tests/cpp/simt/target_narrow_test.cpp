// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/target_narrow_test.cpp: code of kernels with narrow numbers for other machines.
#include <gtest/gtest.h>

#include "target_code.hpp"

namespace {

constexpr auto kArm = "aarch64-unknown-linux-gnu";

std::string entry(const std::string& body) {
  return R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry f(.param .u64 in, .param .u64 out, .param .u32 n) {
  .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .b16 %h<20>; .reg .f32 %f<20>; .reg .pred %p<9>;
  ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r2, %r3, %r2, %r4;
  mov.u32 %r3, %ntid.y; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %tid.y;
  mad.lo.s32 %r3, %r4, %r3, %r5;
)" + body +
         "END:\n  ret;\n}\n";
}

/// The game of life: the sum of the eight bytes around a byte.
std::string life() {
  std::string body = R"(
  setp.lt.s32 %p1, %r2, 1; setp.lt.s32 %p2, %r3, 1; or.pred %p1, %p1, %p2;
  add.s32 %r5, %r1, -1;
  setp.ge.s32 %p2, %r2, %r5; or.pred %p1, %p1, %p2;
  setp.ge.s32 %p2, %r3, %r5; or.pred %p1, %p1, %p2;
  @%p1 bra END;
  mad.lo.s32 %r6, %r3, %r1, %r2;
  sub.s32 %r7, %r6, %r1; add.s32 %r8, %r6, %r1;
  cvt.s64.s32 %d3, %r6; add.s64 %d4, %d1, %d3;
  cvt.s64.s32 %d5, %r7; add.s64 %d5, %d1, %d5;
  cvt.s64.s32 %d6, %r8; add.s64 %d6, %d1, %d6;
  ld.global.u8 %r9, [%d4+-1];
)";
  for (const char* at : {"%d4+1", "%d5+-1", "%d5", "%d5+1", "%d6+-1", "%d6", "%d6+1"})
    body += "  ld.global.u8 %r10, [" + std::string{at} + "]; add.s32 %r9, %r9, %r10;\n";
  return entry(body + R"(
  ld.global.u8 %r10, [%d4];
  setp.eq.s32 %p1, %r9, 3; setp.eq.s32 %p2, %r9, 2; setp.ne.s32 %p3, %r10, 0;
  and.pred %p2, %p2, %p3; or.pred %p1, %p1, %p2;
  selp.u32 %r11, 1, 0, %p1;
  add.s64 %d7, %d2, %d3;
  st.global.u8 [%d7], %r11;
)");
}

// A group is a row of the block, and its bytes are added as bytes.
TEST(SimtTargets, SumsOfBytesFillWholeRegisters) {
  for (const auto& [cpu, edges] : {std::pair{"x86-64-v3", 1U}, std::pair{"x86-64-v4", 0U}}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    const Made made = compile(life(), "f", {32, 8, 1}, *target);
    EXPECT_EQ(made.report.width, 32u) << cpu;
    // Without masked accesses to bytes, groups at the border have pieces of eight lanes.
    EXPECT_EQ(made.report.edges, edges) << cpu;
    EXPECT_GE(matches(made.assembly, "\tvpaddusb\t[^\n]*\\([^\n]*%ymm"), 7u) << made.assembly;
    EXPECT_EQ(matches(made.assembly, "\tvpaddw\t|\tvpmovzxbw\t"), 0u) << made.assembly;
    // Where a row has eight threads, a group has not more, and no group of 48 threads has 32.
    EXPECT_EQ(compile(life(), "f", {8, 8, 1}, *target).report.width, 8u) << cpu;
    EXPECT_LE(compile(life(), "f", {48, 1, 1}, *target).report.width, 16u) << cpu;
  }
  auto target = machine("neoverse-n1", kArm);
  if (!target) GTEST_SKIP() << "this LLVM makes no AArch64 code";
  const Made made = compile(life(), "f", {32, 8, 1}, *target);
  EXPECT_EQ(made.report.width, 32u);
  EXPECT_EQ(made.report.edges, 1u);
  EXPECT_GE(matches(made.assembly, "\tuqadd\tv[0-9]+.16b"), 14u) << made.assembly;
  EXPECT_EQ(matches(made.assembly, "\tuaddl"), 0u) << made.assembly;
}

// Other kernels keep their width: those with a vector of wider numbers, with accesses that are
// apart, and with branches on what was loaded.
TEST(SimtTargets, OnlyKernelsWithNarrowNumbersHaveWiderGroups) {
  const std::string address = R"(
  mad.lo.s32 %r6, %r3, %r1, %r2;
  cvt.s64.s32 %d3, %r6; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
)";
  const struct {
    const char* name;
    unsigned width;
    std::string body;
  } cases[] = {
      {"bytes", 32,
       address + "ld.global.u8 %r7, [%d4]; xor.b32 %r7, %r7, 255; st.global.u8 [%d5], %r7;"},
      {"words", 32,
       address + "add.s64 %d4, %d4, %d3; add.s64 %d5, %d5, %d3;\n"
                 "ld.global.u16 %h1, [%d4]; add.u16 %h1, %h1, 5; st.global.u16 [%d5], %h1;"},
      {"a float", 16,
       address + "ld.global.u8 %r7, [%d4]; cvt.rn.f32.u32 %f1, %r7; mul.f32 %f1, %f1, 0f3F000000;\n"
                 "cvt.rzi.u32.f32 %r7, %f1; st.global.u8 [%d5], %r7;"},
      {"every other byte", 16,
       address + "add.s64 %d4, %d4, %d3; ld.global.u8 %r7, [%d4]; st.global.u8 [%d5], %r7;"},
      {"no vector", 16,
       address + "shl.b64 %d3, %d3, 2; add.s64 %d5, %d2, %d3; st.global.u32 [%d5], %r1;"},
      {"a branch", 16,
       address + "ld.global.u8 %r7, [%d4]; setp.lt.u32 %p1, %r7, 9; @%p1 bra END;\n"
                 "ld.global.u8 %r7, [%d4+8192]; st.global.u8 [%d5], %r7;"},
      {"an atomic", 16,
       address + "ld.global.u8 %r7, [%d4]; st.global.u8 [%d5], %r7; red.global.add.u32 [%d1], 1;"},
  };
  auto target = machine("x86-64-v4");
  if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
  for (const auto& one : cases)
    EXPECT_EQ(compile(entry(one.body + "\n"), "f", {32, 8, 1}, *target).report.width, one.width)
        << one.name;
}

}  // namespace
