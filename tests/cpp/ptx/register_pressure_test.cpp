// SPDX-License-Identifier: Apache-2.0
#include "cpu/ptx/register_pressure.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cpu/ptx/diagnostics.hpp"
#include "cpu/ptx/parser.hpp"

namespace cucpu::ptx {
namespace {

std::uint32_t pressure(const std::string& body) {
  Diagnostics diagnostics{"test"};
  const auto parsed = parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 p) {\n.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;\n" +
          body + "\nret;\n}\n",
      diagnostics, 90);
  EXPECT_FALSE(diagnostics.failed()) << diagnostics.log();
  return register_pressure(parsed.module->functions.front());
}

TEST(RegisterPressureTest, ValuesThatAreNotAliveAtOnceShareARegister) {
  EXPECT_EQ(pressure(""), 0U);
  EXPECT_EQ(pressure("mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 1; add.u32 %r3, %r2, 1;"
                     "st.global.u32 [0], %r3;"),
            1U);
  EXPECT_EQ(pressure("mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;"
                     "add.u32 %r4, %r1, %r2; add.u32 %r4, %r4, %r3; st.global.u32 [0], %r4;"),
            3U);
}

TEST(RegisterPressureTest, WideValuesTakeTwoRegistersAndPredicatesNone) {
  EXPECT_EQ(pressure("ld.param.u64 %d1, [p]; ld.global.u64 %d2, [%d1]; st.global.u64 [%d1], %d2;"),
            4U);
  EXPECT_EQ(pressure("mov.u32 %r1, 5; setp.eq.u32 %p1, %r1, 5; @%p1 st.global.u32 [0], 1;"), 1U);
}

TEST(RegisterPressureTest, AValueFromOutsideALoopIsAliveToTheEndOfTheLoop) {
  const std::string head = "mov.u32 %r1, 9; mov.u32 %r2, 0; mov.u32 %r3, 3;\n";
  const std::string body =
      "add.u32 %r2, %r2, %r3; mov.u32 %r4, %r2; mov.u32 %r5, %r4; st.global.u32 [0], %r5;\n"
      "sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0;\n";
  EXPECT_EQ(pressure(head + body), 3U);
  EXPECT_EQ(pressure(head + "again:\n" + body + "@%p1 bra again;"), 4U);
}

}  // namespace
}  // namespace cucpu::ptx
