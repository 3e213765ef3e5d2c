// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/rows_test.cpp: conditions that are the same for a row of threads are decided
// before its groups run; against the same code thread by thread.
#include <gtest/gtest.h>

#include <string>

#include "harness.hpp"

namespace simt_test {
namespace {

constexpr std::uint32_t kWide = 96, kHigh = 8, kDeep = 2;

// %x over the grid, %y and %z in the block; %p and %q are parameters, %i the thread's element.
const char* const kHead = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %pp = getelementptr i8, ptr %params, i64 8
  %p = load i32, ptr %pp
  %pq = getelementptr i8, ptr %params, i64 12
  %q = load i32, ptr %pq
  %tid = call i32 @cucpu.sreg.tid.x()
  %y = call i32 @cucpu.sreg.tid.y()
  %z = call i32 @cucpu.sreg.tid.z()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, 32
  %x = add i32 %m, %tid
  %z8 = mul i32 %z, 8
  %r = add i32 %z8, %y
  %r96 = mul i32 %r, 96
  %i = add i32 %r96, %x
  %w = zext i32 %i to i64
  %o = shl i64 %w, 2
  %d = add i64 %out, %o
  %pd = inttoptr i64 %d to ptr
)";

// %v, if the condition needs another one than %i, is what threads that go on write.
const char* const kTail = R"(
  store i32 %v, ptr %pd, align 4
  br label %stop
stop:
  ret void
}
)";

struct Case {
  const char* name;
  const char* text;
  unsigned rows;  // conditions that are decided for rows
};

const Case kCases[] = {
    {"a part of a disjunction", R"(
  %c1 = icmp sge i32 %y, %p
  %c2 = icmp slt i32 %x, 3
  %c3 = icmp eq i32 %z, %q
  %k = or i1 %c1, %c2
  %c = or i1 %k, %c3
  br i1 %c, label %stop, label %body
body:
  %v = add i32 %i, 1
)",
     2},
    {"a part of a conjunction, negated", R"(
  %c1 = icmp ult i32 %y, %p
  %c2 = icmp slt i32 %x, 90
  %c3 = icmp eq i32 %z, %q
  %n3 = xor i1 %c3, true
  %k = select i1 %c1, i1 %c2, i1 false
  %c = select i1 %k, i1 %n3, i1 false
  br i1 %c, label %body, label %stop
body:
  %v = add i32 %i, 1
)",
     2},
    {"branches one after the other", R"(
  %c1 = icmp ugt i32 %x, 60
  br i1 %c1, label %stop, label %second
second:
  %s = sub nsw i32 %y, %p
  %c2 = icmp slt i32 %s, 0
  br i1 %c2, label %third, label %stop
third:
  %c3 = icmp eq i32 %z, %q
  br i1 %c3, label %stop, label %body
body:
  %v = add i32 %i, 1
)",
     2},
    {"what was decided is used again", R"(
  %c1 = icmp sge i32 %y, %p
  %c2 = icmp slt i32 %x, 3
  %c = or i1 %c1, %c2
  br i1 %c, label %stop, label %body
body:
  %n = zext i1 %c1 to i32
  %h = mul i32 %n, 1000
  %t = select i1 %c2, i32 5, i32 7
  %u = add i32 %h, %t
  %v = add i32 %u, %i
)",
     1},
    // Division by zero is for threads that come to it, and a row has none where %q is zero.
    {"a division that must not run for threads that have returned", R"(
  %c1 = icmp eq i32 %q, 0
  br i1 %c1, label %stop, label %second
second:
  %k = udiv i32 %y, %q
  %c2 = icmp uge i32 %k, 2
  br i1 %c2, label %stop, label %body
body:
  %e = udiv i32 %y, 3
  %v = add i32 %i, %e
)",
     1},
    {"what threads do before they return is seen", R"(
  store i32 77, ptr %pd, align 4
  %c = icmp sge i32 %y, %p
  br i1 %c, label %stop, label %body
body:
  %v = add i32 %i, 1
)",
     0},
    {"what a thread does on the other way is seen", R"(
  %c = icmp sge i32 %y, %p
  br i1 %c, label %other, label %body
other:
  store i32 5, ptr %pd, align 4
  ret void
body:
  %v = add i32 %i, 1
)",
     0},
    {"any of two is not each of two", R"(
  %c1 = icmp sge i32 %y, %p
  %c2 = icmp slt i32 %x, 50
  %c = and i1 %c1, %c2
  br i1 %c, label %stop, label %body
body:
  %v = add i32 %i, 1
)",
     0},
};

TEST(SimtRows, ConditionsOfARowAreTestedOnce) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    for (std::uint32_t p : {0u, 5u, 8u})
      for (std::uint32_t q : {0u, 1u}) {
        Work work;
        work.block = {32, kHigh, kDeep};
        work.grid = {kWide / 32, 1, 1};
        work.buffers = {std::vector<std::uint32_t>(kWide * kHigh * kDeep, 7)};
        work.numbers = {p, q};
        const auto report =
            compare(parse(std::string{kHead} + one.text + kTail), work, {4, 8, 16, 32});
        EXPECT_EQ(report.row_tests, one.rows);
        ASSERT_FALSE(HasFailure());
      }
  }
}

// Values that are extended may wrap in the middle of a row, also of a group; what an extension
// gives is seen in its upper bits.
const Case kExtensions[] = {
    {"up", R"(
  %n = add i32 %i, %p
  %w1 = sext i32 %n to i64
)",
     1},
    {"up, unsigned", R"(
  %n = add i32 %i, %p
  %w1 = zext i32 %n to i64
)",
     1},
    {"down", R"(
  %n = sub i32 %p, %i
  %w1 = sext i32 %n to i64
)",
     1},
    {"in steps", R"(
  %i4 = mul i32 %x, -12
  %n = add i32 %i4, %p
  %w1 = zext i32 %n to i64
)",
     1},
    {"another step from block to block", R"(
  %i4 = mul i32 %tid, 3
  %i5 = add i32 %i4, %ctaid
  %n = add i32 %i5, %p
  %w1 = sext i32 %n to i64
)",
     0},
};

TEST(SimtRows, GroupsOfARowWithoutWrappingHaveNoGuards) {
  const char* const seen = R"(
  %far = mul i64 %w1, 1000003
  %up = lshr i64 %far, 32
  %v = trunc i64 %up to i32
  br label %put
put:
)";
  for (const Case& one : kExtensions) {
    SCOPED_TRACE(one.name);
    for (std::uint32_t p : {0u, 100u, 0x7fffffceu, 0x7ffffff0u, 0x80000011u, 0xffffffdbu}) {
      Work work;
      work.block = {32, kHigh, kDeep};
      work.grid = {kWide / 32, 1, 1};
      work.buffers = {std::vector<std::uint32_t>(kWide * kHigh * kDeep, 7)};
      work.numbers = {p, 0};
      const auto report =
          compare(parse(std::string{kHead} + one.text + seen + kTail), work, {4, 8, 16});
      EXPECT_EQ(report.row_tests, one.rows);
      EXPECT_GT(report.wrap_guards, 0u);
      ASSERT_FALSE(HasFailure());
    }
  }
}

// A load of a thread that returns then may fault: it is done, whatever the row says.
TEST(SimtRows, RowConditionsDoNotSkipFaults) {
  const char* const text = R"(
  %seen = load volatile i32, ptr %pd, align 4
  %c = icmp sge i32 %y, %p
  br i1 %c, label %stop, label %body
body:
  %v = add i32 %i, %seen
)";
  Work work;
  work.block = {32, kHigh, kDeep};
  work.grid = {kWide / 32, 1, 1};
  work.buffers = {std::vector<std::uint32_t>(kWide * kHigh * kDeep, 7)};
  work.numbers = {5, 0};
  EXPECT_EQ(compare(parse(std::string{kHead} + text + kTail), work, {4, 8, 16}).row_tests, 0u);
}

}  // namespace
}  // namespace simt_test
