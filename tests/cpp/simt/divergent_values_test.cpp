// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/divergent_values_test.cpp: values that differ between lanes where an analysis
// could take them for uniform or strided: wrapped strides, speculated conversions, variables that
// only some threads set, loads that other groups have overtaken, split warp operations.
#include <gtest/gtest.h>

#include "harness.hpp"

namespace simt_test {
namespace {

std::vector<std::uint32_t> numbers(std::size_t n) {
  std::vector<std::uint32_t> words(n);
  for (std::size_t i = 0; i < n; ++i) words[i] = static_cast<std::uint32_t>(i * 2654435761u);
  return words;
}

/// Thread code whose `body` computes from %i (the thread's number in the grid, i32), %tid, %in (the
/// address of its word) and %n; it ends by branching to %done with the i64 %result.
std::string kernel(const std::string& body, const std::string& result = "i64 %result") {
  return R"(define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %second = getelementptr i8, ptr %params, i64 8
  %inputs = load i64, ptr %second
  %third = getelementptr i8, ptr %params, i64 16
  %n = load i32, ptr %third
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %first = mul i32 %ctaid, %ntid
  %i = add i32 %first, %tid
  %wide = zext i32 %i to i64
  %in.offset = shl i64 %wide, 2
  %in.address = add i64 %inputs, %in.offset
  %in = inttoptr i64 %in.address to ptr
  %out.offset = shl i64 %wide, 3
  %out.address = add i64 %out, %out.offset
  %q = inttoptr i64 %out.address to ptr
)" + body +
         R"(
done:
  store )" +
         result + R"(, ptr %q, align 8
  ret void
}
declare {i32, i1} @llvm.uadd.with.overflow.i32(i32, i32)
declare {i32, i1} @llvm.umul.with.overflow.i32(i32, i32)
!0 = !{!"shared"}
)";
}

Work work_of(std::uint32_t blocks, std::uint32_t threads) {
  Work work;
  work.grid = {blocks, 1, 1};
  work.block = {threads, 1, 1};
  work.buffers = {std::vector<std::uint32_t>(2 * blocks * threads),
                  numbers(blocks * threads + 1024)};
  work.numbers = {9};
  return work;
}

void compare_all(const std::string& text) {
  compare(parse(text), work_of(2, 64));
  compare(parse(text), work_of(3, 256));
  compare(parse(text), work_of(2, 100));
}

TEST(SimtDivergentValues, WrappedProductsExtendToWhatEachLaneHas) {
  for (const char* factor : {"-1640531535", "2147483647", "268435456", "65537", "-3"})
    for (const char* extension : {"zext", "sext"})
      compare_all(kernel("  %x = mul i32 %i, " + std::string{factor} +
                         "\n  %result = " + extension + " i32 %x to i64\n  br label %done"));
}

TEST(SimtDivergentValues, NarrowProductsExtendToWhatEachLaneHas) {
  for (const char* type : {"i8", "i16"})
    for (const char* factor : {"1", "9", "16", "5000"})
      for (const char* extension : {"zext", "sext"})
        compare_all(kernel("  %p = mul i32 %tid, " + std::string{factor} +
                           "\n  %x = trunc i32 %p to " + type + "\n  %result = " + extension + " " +
                           type + " %x to i64\n  br label %done"));
}

TEST(SimtDivergentValues, ComparisonsOfWrappedValuesAreDecidedLaneByLane) {
  const std::pair<const char*, const char*> cases[] = {
      {"i8", "9"}, {"i8", "16"}, {"i16", "5000"}, {"i32", "402653184"}, {"i32", "-1640531535"}};
  for (auto [type, factor] : cases)
    for (const char* predicate : {"slt", "ugt"})
      for (const char* bound : {"0", "10"})
        compare_all(kernel("  %p = mul i32 %tid, " + std::string{factor} + "\n" +
                           (type == std::string{"i32"}
                                ? std::string{"  %x = add i32 %p, 0\n"}
                                : "  %x = trunc i32 %p to " + std::string{type} + "\n") +
                           "  %c = icmp " + predicate + " " + type + " %x, " + bound + R"(
  br i1 %c, label %then, label %done.early
then:
  %v = load i32, ptr %in, align 4
  %r = zext i32 %v to i64
  store i64 %r, ptr %q, align 8
  br label %done.early
done.early:
  %result = phi i64 [7, %then], [1, %0]
  br label %done)"));
}

// The branch proves that the index is not negative; flattened, the conversion runs for all lanes.
TEST(SimtDivergentValues, IfConversionDropsPoisonFlagsOfConversions) {
  compare_all(kernel(R"(
  %a = load i32, ptr %in, align 4
  %p2 = getelementptr i8, ptr %in, i64 8
  %b = load i32, ptr %p2, align 4
  %j = add i32 %tid, -5
  %c = icmp sgt i32 %j, -1
  br i1 %c, label %then, label %join
then:
  %p1 = getelementptr i8, ptr %in, i64 4
  %m = load i32, ptr %p1, align 4
  %mw = zext i32 %m to i64
  %jw = sext i32 %j to i64
  %j7 = mul i64 %jw, 7
  %y1 = add i64 %mw, %j7
  br label %join
join:
  %y = phi i64 [%y1, %then], [3, %0]
  %aw = zext i32 %a to i64
  %bw = zext i32 %b to i64
  %s = add i64 %aw, %bw
  %result = add i64 %s, %y
  br label %done)"));
}

/// `set` is what threads set that satisfy the condition, `sync` what lies before they use it.
std::string set_and_used(const std::string& condition, const std::string& set,
                         const std::string& sync) {
  return kernel("  %c = icmp " + condition + R"(
  %v0 = load i32, ptr %in, align 4
  br i1 %c, label %set, label %between
set:
)" + set + R"(
  br label %between
between:
  %w = phi i32 [%x, %set], [undef, %0]
)" + sync + R"(
  %odd = and i32 %v0, 1
  %is.odd = icmp ne i32 %odd, 0
  br i1 %is.odd, label %change, label %changed
change:
  %v1 = mul i32 %v0, 3
  %index = and i32 %v0, 255
  %iw = zext i32 %index to i64
  %io = shl i64 %iw, 2
  %ia = add i64 %inputs, %io
  %ip = inttoptr i64 %ia to ptr
  %iv = load i32, ptr %ip, align 4
  %v2 = add i32 %v1, %iv
  br label %changed
changed:
  %v3 = phi i32 [%v2, %change], [%v0, %between]
  br i1 %c, label %use, label %used
use:
  %v4 = add i32 %v3, %w
  br label %used
used:
  %v = phi i32 [%v4, %use], [%v3, %changed]
  %result = zext i32 %v to i64
  br label %done)");
}

TEST(SimtDivergentValues, VariablesAssignedByOneGroupAreNotOverwrittenByOthers) {
  const char* const barrier = "  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)";
  const char* const conditions[] = {"eq i32 %tid, 31", "ult i32 %tid, 39", "eq i32 %tid, 0",
                                    "ugt i32 %tid, 20"};
  const char* const values[] = {
      "  %u = urem i32 77, %n\n  %x = add i32 %u, %ctaid",                      // uniform
      "  %x = mul i32 %tid, 5",                                                 // strided
      "  %l = load i32, ptr %in, align 4\n  %x = lshr i32 %l, 3",               // varying
      "  %a = inttoptr i64 %inputs to ptr\n  %x = load i32, ptr %a, align 4"};  // uniform load
  for (const char* condition : conditions)
    for (const char* value : values)
      for (const char* sync : {"", barrier}) compare_all(set_and_used(condition, value, sync));
}

// %w has a value only from the second turn on, and is used only where it has one.
TEST(SimtDivergentValues, APhiWithAnUndefinedStartValuePoisonsNoOtherLane) {
  compare_all(kernel(R"(
  %high = icmp ugt i32 %tid, 30
  br label %loop
loop:
  %k = phi i32 [0, %0], [%k1, %loop]
  %w = phi i32 [undef, %0], [%w1, %loop]
  %sum = phi i32 [0, %0], [%sum1, %loop]
  %w1 = select i1 %high, i32 %w, i32 %i
  %v = load i32, ptr %in, align 4
  %u = select i1 %high, i32 %v, i32 %w1
  %sum1 = add i32 %sum, %u
  %k1 = add i32 %k, 1
  %few = icmp ult i32 %k1, 4
  %one = icmp eq i32 %tid, 1
  %more = and i1 %few, %one
  br i1 %more, label %loop, label %end
end:
  %result = zext i32 %sum1 to i64
  br label %done)"));
}

/// Each group reads a word that the groups before it have already written: lane groups run one
/// after the other, so without care later groups see a later value.
std::string broadcast(const std::string& read) {
  return kernel(R"(
  %shared = call ptr @cucpu.shared()
  store i32 77, ptr %shared, align 4, !cucpu.space !0
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
)" + read + R"(
  store i32 %tid, ptr %shared, align 4, !cucpu.space !0
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %result = zext i32 %early to i64
  br label %done)");
}

void expect_early_value(const std::string& text) {
  for (unsigned width : {4u, 8u, 16u, 32u}) {
    Work work = work_of(2, 96);
    const auto report = run_vectorized(parse(text), work, width);
    ASSERT_EQ(report.refusal, "");
    for (std::size_t i = 0; i < work.buffers[0].size(); i += 2)
      ASSERT_EQ(work.buffers[0][i], 77u) << "thread " << i / 2 << ", W = " << width;
  }
}

TEST(SimtDivergentValues, ABroadcastReadBeforeTheFirstWriteGivesAllGroupsTheEarlyValue) {
  expect_early_value(broadcast("  %early = load i32, ptr %shared, align 4, !cucpu.space !0"));
}

TEST(SimtDivergentValues, AConditionalBroadcastReadGivesAllGroupsTheEarlyValue) {
  expect_early_value(broadcast(R"(
  %many = icmp ugt i32 %n, 3
  br i1 %many, label %read, label %after
read:
  %now = load i32, ptr %shared, align 4, !cucpu.space !0
  br label %after
after:
  %early = phi i32 [%now, %read], [0, %0])"));
}

TEST(SimtDivergentValues, AReadInALoopReturnsTheLastWriteOfItsThread) {
  compare_all(kernel(R"(
  %shared = call ptr @cucpu.shared()
  %first.thread = icmp eq i32 %tid, 0
  br i1 %first.thread, label %loop, label %met
loop:
  %k = phi i32 [0, %0], [%k1, %loop]
  %offset = shl i32 %k, 2
  %ow = zext i32 %offset to i64
  %slot = getelementptr i8, ptr %shared, i64 %ow
  store i32 %k, ptr %slot, align 4, !cucpu.space !0
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, %n
  br i1 %more, label %loop, label %met
met:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  br label %sum
sum:
  %j = phi i32 [0, %met], [%j1, %sum]
  %s = phi i32 [0, %met], [%s1, %sum]
  %jo = shl i32 %j, 2
  %jw = zext i32 %jo to i64
  %from = getelementptr i8, ptr %shared, i64 %jw
  %one = load i32, ptr %from, align 4, !cucpu.space !0
  %s1 = add i32 %s, %one
  %j1 = add i32 %j, 1
  %again = icmp ult i32 %j1, %n
  br i1 %again, label %sum, label %write
write:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  store i32 %tid, ptr %shared, align 4, !cucpu.space !0
  %result = zext i32 %s1 to i64
  br label %done)"));
}

// LLVM's pass for irreducible loops knows no switches.
TEST(SimtDivergentValues, AnIrreducibleLoopIsVectorizedOrRejected) {
  const auto block = [](const std::string& name, const std::string& next,
                        const std::string& other) {
    return name + ":\n  %c" + name + " = load i32, ptr %left, align 4\n  %d" + name +
           " = sub i32 %c" + name + ", 1\n  store i32 %d" + name + ", ptr %left, align 4\n  %s" +
           name + " = load i32, ptr %sum, align 4\n  %t" + name + " = mul i32 %s" + name +
           ", 3\n  %u" + name + " = add i32 %t" + name + ", " + std::to_string(name[0]) +
           "\n  store i32 %u" + name + ", ptr %sum, align 4\n  %e" + name + " = icmp eq i32 %d" +
           name + ", 0\n  br i1 %e" + name + ", label %end, label %" + name + "on\n" + name +
           "on:\n  %w" + name + " = and i32 %u" + name + ", 7\n  switch i32 %w" + name +
           ", label %" + next + " [i32 1, label %" + other + " i32 3, label %" + other +
           " i32 4, label %" + next + " i32 6, label %end]\n";
  };
  compare_all(kernel(R"(
  %left = alloca i32
  %sum = alloca i32
  store i32 9, ptr %left, align 4
  store i32 %i, ptr %sum, align 4
  %where = and i32 %tid, 3
  switch i32 %where, label %a [i32 1, label %b i32 2, label %c]
)" + block("a", "b", "c") +
                     block("b", "c", "a") + block("c", "a", "b") + R"(
end:
  %s = load i32, ptr %sum, align 4
  %result = zext i32 %s to i64
  br label %done)"));
}

// A loop with a vote, unswitched on a condition that differs between lanes.
TEST(SimtDivergentValues, AWarpOperationOnBothSidesOfADivergentBranchIsRejected) {
  Work work = work_of(1, 32);
  const auto votes = [](const char* other_mask) {
    return kernel(
        "  %lower = icmp ult i32 %tid, 7\n  br i1 %lower, label %a, label %b\n"
        "a:\n  %x = call i32 @cucpu.vote.ballot(i1 %lower, i32 -1)\n  br label %met\n"
        "b:\n  %y = call i32 @cucpu.vote.ballot(i1 true, i32 " +
        std::string{other_mask} +
        ")\n  br label %met\n"
        "met:\n  %z = phi i32 [%x, %a], [%y, %b]\n  %result = zext i32 %z to i64\n"
        "  br label %done");
  };
  EXPECT_EQ(run_vectorized(parse(votes("-1")), work, 32).refusal,
            "warp operation on both sides of a divergent branch");
  EXPECT_EQ(run_vectorized(parse(votes("%n")), work, 32).refusal,
            "warp operation on both sides of a divergent branch")
      << "which may be -1";
  EXPECT_EQ(run_vectorized(parse(votes("-128")), work, 32).refusal, "") << "other lanes";
}

TEST(SimtDivergentValues, StructuresAreBlendedMemberByMember) {
  compare(parse(kernel(R"(
  %v0 = load i32, ptr %in, align 4
  br label %loop
loop:
  %k = phi i32 [0, %0], [%k1, %next]
  %v = phi i32 [%v0, %0], [%v1, %next]
  %low = icmp ult i32 %v, 1000000000
  br i1 %low, label %left, label %right
left:
  %p = call {i32, i1} @llvm.uadd.with.overflow.i32(i32 %v, i32 %tid)
  br label %next
right:
  %r = call {i32, i1} @llvm.umul.with.overflow.i32(i32 %v, i32 %i)
  br label %next
next:
  %pair = phi {i32, i1} [%p, %left], [%r, %right]
  %value = extractvalue {i32, i1} %pair, 0
  %flag = extractvalue {i32, i1} %pair, 1
  %step = select i1 %flag, i32 3, i32 1000003
  %v1 = add i32 %value, %step
  %k1 = add i32 %k, 1
  %limit = and i32 %tid, 7
  %more = icmp ult i32 %k1, %limit
  br i1 %more, label %loop, label %end
end:
  %result = zext i32 %v1 to i64
  br label %done)")),
          work_of(2, 48));
}

}  // namespace
}  // namespace simt_test
