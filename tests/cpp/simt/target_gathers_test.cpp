// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/target_gathers_test.cpp: loads of lanes at different places, as assembly for
// machines with and without (fast) gathers.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "target_code.hpp"

namespace {

/// The rows of a sparse matrix times a vector, a thread per row: the loop that NVRTC unrolls by
/// four, `sum += values[k] * x[columns[k]]`.
const char* const kRowsTimesVector = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 rows, .param .u64 columns, .param .u64 values, .param .u64 x,
                  .param .u64 y) {
  .reg .pred %p; .reg .b32 %t, %k, %end, %c<4>; .reg .f32 %v<4>, %g<4>, %sum;
  .reg .b64 %rows, %columns, %values, %x, %y, %at, %c, %v, %a<4>, %four;
  ld.param.u64 %rows, [rows]; ld.param.u64 %columns, [columns]; ld.param.u64 %values, [values];
  ld.param.u64 %x, [x]; ld.param.u64 %y, [y];
  mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 4;
  add.u64 %rows, %rows, %at; add.u64 %y, %y, %at;
  ld.global.u32 %k, [%rows]; ld.global.u32 %end, [%rows+4];
  mov.f32 %sum, 0f00000000;
  mul.wide.s32 %four, %k, 4; add.u64 %four, %four, 8;
  add.u64 %c, %columns, %four; add.u64 %v, %values, %four;
L:
  ld.global.u32 %c0, [%c+-8]; mul.wide.s32 %a0, %c0, 4; add.s64 %a0, %x, %a0;
  ld.global.f32 %g0, [%a0]; ld.global.f32 %v0, [%v+-8]; fma.rn.f32 %sum, %v0, %g0, %sum;
  ld.global.u32 %c1, [%c+-4]; mul.wide.s32 %a1, %c1, 4; add.s64 %a1, %x, %a1;
  ld.global.f32 %g1, [%a1]; ld.global.f32 %v1, [%v+-4]; fma.rn.f32 %sum, %v1, %g1, %sum;
  ld.global.u32 %c2, [%c]; mul.wide.s32 %a2, %c2, 4; add.s64 %a2, %x, %a2;
  ld.global.f32 %g2, [%a2]; ld.global.f32 %v2, [%v]; fma.rn.f32 %sum, %v2, %g2, %sum;
  ld.global.u32 %c3, [%c+4]; mul.wide.s32 %a3, %c3, 4; add.s64 %a3, %x, %a3;
  ld.global.f32 %g3, [%a3]; ld.global.f32 %v3, [%v+4]; fma.rn.f32 %sum, %v3, %g3, %sum;
  add.s64 %c, %c, 16; add.s64 %v, %v, 16; add.s32 %k, %k, 4;
  setp.lt.s32 %p, %k, %end; @%p bra L;
  st.global.f32 [%y], %sum;
  ret;
})";

/// The longest piece of code without a label, the loop in masked code.
std::string longest_block(const std::string& assembly) {
  std::istringstream lines{assembly};
  std::string line, block, longest;
  while (std::getline(lines, line)) {
    if (!line.empty() && line[0] == '.' && line.find(':') != std::string::npos) block.clear();
    block += line + "\n";
    if (matches(block, "\n\t[a-z]") > matches(longest, "\n\t[a-z]")) longest = block;
  }
  return longest;
}

constexpr const char* kAArch64 = "aarch64-unknown-linux-gnu";
constexpr const char* kX86 = "x86_64-unknown-linux-gnu";

TEST(SimtTargetGathers, ElementsOfARowAreLoadedTogether) {
  struct {
    const char *cpu, *triple, *features;
    unsigned per_element;  // instructions of an iteration, for an element of a lane
    const char* unit;
  } const rows[] = {
      {"skylake-avx512", kX86, "+prefer-no-gather", 6, "-8\\(%r[a-z0-9]+,%r"},
      {"skylake", kX86, "+prefer-no-gather", 6, "-8\\(%r[a-z0-9]+,%r"},
      {"neoverse-n1", kAArch64, "", 8, "\tld(r|ur)\tq"},
  };
  for (const auto& row : rows) {
    auto target = machine(row.cpu, row.triple, row.features);
    if (!target) continue;
    SCOPED_TRACE(row.cpu);
    const Made made = compile(kRowsTimesVector, "k", {256, 1, 1}, *target);
    const std::string loop = longest_block(made.assembly);
    const unsigned lanes = made.report.width;
    EXPECT_LE(matches(loop, "\n\t[a-z]"), std::size_t{row.per_element} * 4 * lanes) << loop;
    EXPECT_GE(matches(loop, row.unit), 2 * lanes) << "sixteen bytes of each array per lane\n"
                                                  << loop;
  }
}

TEST(SimtTargetGathers, OnlyTheVectorIsGatheredWhereGathersAreFast) {
  auto target = machine("sapphirerapids");
  if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
  const Made made = compile(kRowsTimesVector, "k", {256, 1, 1}, *target);
  const std::string loop = longest_block(made.assembly);
  EXPECT_EQ(matches(loop, "\tv?p?gather"), 4u) << loop;
  EXPECT_LE(matches(loop, "\n\t[a-z]"), std::size_t{2} * 4 * made.report.width) << loop;
}

}  // namespace
