// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/edges_test.cpp: groups of which only neighbouring lanes go on run as full groups
// whose pieces overlap; against the same code thread by thread.
#include <gtest/gtest.h>

#include <string>

#include "harness.hpp"

namespace simt_test {
namespace {

constexpr std::uint32_t kWide = 128, kRows = 32;

// Row y of the picture has its own first and end column, so that one grid sees every length and
// place of what is left of a group: first = 3 y mod 37, end = kWide - 5 y mod 41.
const char* const kHead = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %tid = call i32 @cucpu.sreg.tid.x()
  %y = call i32 @cucpu.sreg.tid.y()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %x = add i32 %m, %tid
  %y3 = mul i32 %y, 3
  %first = urem i32 %y3, 37
  %y5 = mul i32 %y, 5
  %less = urem i32 %y5, 41
  %end = sub i32 128, %less
)";

const char* const kTail = R"(
  br label %stop
stop:
  ret void
}
)";

// Defines %i, the thread's element, and %o, how many bytes it is from the start.
const char* const kPlace = R"(
body:
  %row = mul i32 %y, 128
  %i = add i32 %row, %x
  %w = sext i32 %i to i64
  %o = shl i64 %w, 2
)";

const char* const kNeighbours = R"(
  %a = add i64 %in, %o
  %b = add i64 %a, 4
  %e = add i64 %a, 12
  %pb = inttoptr i64 %b to ptr
  %pc = inttoptr i64 %e to ptr
  %vb = load i32, ptr %pb, align 4
  %vc = load i32, ptr %pc, align 4
  %s = sub i32 %vc, %vb
  %s1 = mul i32 %s, %x
  %d = add i64 %out, %o
  %pd = inttoptr i64 %d to ptr
  store i32 %s1, ptr %pd, align 4
)";

// What was written is read and written again: two lanes that stand for one thread must agree.
const char* const kInPlace = R"(
  %d = add i64 %out, %o
  %pd = inttoptr i64 %d to ptr
  %v0 = load i32, ptr %pd, align 4
  %v1 = add i32 %v0, %x
  store i32 %v1, ptr %pd, align 4
  %v2 = load i32, ptr %pd, align 4
  %v3 = mul i32 %v2, 3
  %v4 = add i32 %v3, %v0
  store i32 %v4, ptr %pd, align 4
)";

// Every second word, read far apart, and an address that is computed from what was loaded.
const char* const kFarApart = R"(
  %o3 = mul i64 %w, 12
  %a = add i64 %in, %o3
  %pa = inttoptr i64 %a to ptr
  %v = load i32, ptr %pa, align 4
  %near = and i32 %v, 1023
  %n64 = zext i32 %near to i64
  %o4 = shl i64 %n64, 2
  %g = add i64 %in, %o4
  %pg = inttoptr i64 %g to ptr
  %u = load i32, ptr %pg, align 4
  %o2 = shl i64 %w, 3
  %d = add i64 %out, %o2
  %pd = inttoptr i64 %d to ptr
  %r = add i32 %u, %x
  store i32 %r, ptr %pd, align 4
)";

// Elements of one and of eight bytes.
const char* const kOtherSizes = R"(
  %a = add i64 %in, %w
  %pa = inttoptr i64 %a to ptr
  %v = load i8, ptr %pa, align 1
  %z = zext i8 %v to i64
  %o8 = shl i64 %w, 3
  %d = add i64 %out, %o8
  %pd = inttoptr i64 %d to ptr
  %old = load i64, ptr %pd, align 8
  %t = mul i64 %old, 5
  %r = add i64 %t, %z
  store i64 %r, ptr %pd, align 8
)";

// Neighbouring bytes only.
const char* const kBytes = R"(
  %a = add i64 %in, %w
  %b = add i64 %a, 1
  %pa = inttoptr i64 %a to ptr
  %pb = inttoptr i64 %b to ptr
  %va = load i8, ptr %pa, align 1
  %vb = load i8, ptr %pb, align 1
  %za = zext i8 %va to i32
  %zb = zext i8 %vb to i32
  %s = add i32 %za, %zb
  %large = icmp sgt i32 %s, 200
  %r = select i1 %large, i8 %va, i8 %vb
  %d = add i64 %out, %w
  %pd = inttoptr i64 %d to ptr
  store i8 %r, ptr %pd, align 1
)";

struct Condition {
  const char* name;
  const char* text;
  bool edges;  // whether such groups can be recognised
};

const Condition kConditions[] = {
    {"signed, or", R"(
  %c1 = icmp slt i32 %x, %first
  %c2 = icmp sge i32 %x, %end
  %c = or i1 %c1, %c2
  br i1 %c, label %stop, label %body
)",
     true},
    {"unsigned, and", R"(
  %c1 = icmp uge i32 %x, %first
  %c2 = icmp ult i32 %x, %end
  %c = and i1 %c1, %c2
  br i1 %c, label %body, label %stop
)",
     true},
    {"the index on the right, beyond the bounds", R"(
  %c1 = icmp slt i32 %first, %x
  %c2 = icmp sge i32 %end, %x
  %c3 = icmp slt i32 %x, 127
  %c4 = icmp sgt i32 %x, 0
  %k1 = and i1 %c1, %c2
  %k2 = and i1 %c3, %c4
  %c = and i1 %k1, %k2
  br i1 %c, label %body, label %stop
)",
     true},
    {"one column is left out", R"(
  %c1 = icmp eq i32 %x, %y3
  %c2 = icmp uge i32 %x, %end
  %c = or i1 %c1, %c2
  br i1 %c, label %stop, label %body
)",
     true},
    {"with what is the same for the row", R"(
  %c1 = icmp ult i32 %x, %first
  %c2 = icmp ugt i32 %y, 28
  %c3 = icmp ugt i32 %x, %end
  %n = xor i1 %c3, true
  %n1 = xor i1 %n, true
  %k = select i1 %c1, i1 true, i1 %c2
  %c = select i1 %k, i1 true, i1 %n1
  br i1 %c, label %stop, label %body
)",
     true},
    {"an index that may begin anew", R"(
  %x1 = sub i32 %x, %first
  %wide = sub i32 %end, %first
  %c = icmp ult i32 %x1, %wide
  br i1 %c, label %body, label %stop
)",
     true},
    {"two ranges", R"(
  %c1 = icmp ult i32 %x, %first
  %c2 = icmp uge i32 %x, %end
  %c = or i1 %c1, %c2
  br i1 %c, label %body, label %stop
)",
     false},
};

TEST(SimtEdges, ActiveLanesAtAnEdgeAreComputedOnceEach) {
  for (const Condition& condition : kConditions) {
    for (const char* body : {kNeighbours, kInPlace, kFarApart, kOtherSizes, kBytes}) {
      SCOPED_TRACE(std::string{condition.name} + body);
      for (cucpu::Dim3 block : {cucpu::Dim3{32, kRows, 1}, cucpu::Dim3{128, 8, 1}}) {
        if (block.x == kWide && body != kNeighbours) continue;
        Work work;
        work.block = block;
        work.grid = {kWide / block.x, 1, 1};
        std::vector<std::uint32_t> in(3 * kWide * kRows + 64), out(2 * kWide * kRows + 64, 7);
        for (std::size_t i = 0; i < in.size(); ++i)
          in[i] = static_cast<std::uint32_t>(i * 2654435761u);
        work.buffers = {in, out};
        const auto report =
            compare(parse(std::string{kHead} + condition.text + kPlace + body + kTail), work,
                    {4, 8, 16, 32});
        EXPECT_EQ(report.edges, condition.edges ? 1u : 0u);
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// An atomic would count twice, and a row that is no multiple of the width has no such groups.
TEST(SimtEdges, AtomicsCallsAndVolatileAccessesAtAnEdgeAreMasked) {
  const char* const count = R"(
  %d = add i64 %out, %o
  %pd = inttoptr i64 %d to ptr
  %old = atomicrmw add ptr %pd, i32 %x monotonic
)";
  for (cucpu::Dim3 block : {cucpu::Dim3{32, kRows, 1}, cucpu::Dim3{20, 8, 1}}) {
    Work work;
    work.block = block;
    work.grid = {4, 1, 1};
    work.buffers = {std::vector<std::uint32_t>(8), std::vector<std::uint32_t>(kWide * kRows, 7)};
    const auto report =
        compare(parse(std::string{kHead} + kConditions[0].text + kPlace + count + kTail), work,
                {4, 8, 16, 32});
    EXPECT_EQ(report.edges, 0u);
  }
}

}  // namespace
}  // namespace simt_test
