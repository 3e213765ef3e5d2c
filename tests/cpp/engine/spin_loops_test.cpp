// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/spin_loops_test.cpp: which loops wait for memory
// (cpu/engine/jit/spin_loops.hpp), and which only look like it.
#include <ostream>

#include "ir_fixture.hpp"

namespace cucpu::test {
namespace {

struct Loop {
  const char* name;
  bool waits;
  const char* body;  ///< begins in `entry` after %q (global), %s (shared), %tid, %n; ends in `end`

  friend void PrintTo(const Loop& loop, std::ostream* out) { *out << loop.name; }
};

const Loop kLoops[] = {
    {"volatile_load", true, R"(
  br label %loop
loop:
  %v = load volatile i32, ptr %q, !cucpu.space !0
  %c = icmp eq i32 %v, 0
  br i1 %c, label %loop, label %end)"},
    {"two_entries", true, R"(
  %odd = trunc i32 %n to i1
  br i1 %odd, label %loop, label %middle
loop:
  %v = load volatile i32, ptr %q, !cucpu.space !0
  %c = icmp eq i32 %v, 0
  br i1 %c, label %middle, label %end
middle:
  store i32 1, ptr %q2, !cucpu.space !0
  br label %loop)"},
    {"two_entries_and_a_count", false, R"(
  %odd = trunc i32 %n to i1
  br i1 %odd, label %loop, label %middle
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %middle ]
  %c = icmp ult i32 %i, %n
  br i1 %c, label %middle, label %end
middle:
  %k = phi i32 [ 5, %entry ], [ %i, %loop ]
  %j = add i32 %k, 1
  store i32 1, ptr %q2, !cucpu.space !0
  br label %loop)"},
    {"a_branch_on_a_volatile_load_decides", true, R"(
  br label %loop
loop:
  %v = load volatile i32, ptr %q, !cucpu.space !0
  %c = icmp eq i32 %v, 0
  br i1 %c, label %turn, label %set
set:
  store i32 1, ptr %q2, !cucpu.space !0
  br label %turn
turn:
  %again = phi i1 [ true, %loop ], [ false, %set ]
  br i1 %again, label %loop, label %end)"},
    {"plain_load_and_barrier", true, R"(
  br label %loop
loop:
  %left = phi i32 [ %n, %entry ], [ %next, %turn ]
  %v = load i32, ptr %q, !cucpu.space !0
  %c = icmp eq i32 %v, 0
  br i1 %c, label %turn, label %set
set:
  store i32 1, ptr %q2, !cucpu.space !0
  %less = sub i32 %left, 1
  br label %turn
turn:
  %next = phi i32 [ %left, %loop ], [ %less, %set ]
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %more = icmp sgt i32 %next, 0
  br i1 %more, label %loop, label %end)"},
    {"plain_load_and_step_by_select", true, R"(
  br label %loop
loop:
  %left = phi i32 [ %n, %entry ], [ %next, %loop ]
  %v = load i32, ptr %q, !cucpu.space !0
  %c = icmp eq i32 %v, 0
  %step = select i1 %c, i32 0, i32 5
  %next = sub i32 %left, %step
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %more = icmp sgt i32 %next, 0
  br i1 %more, label %loop, label %end)"},
    {"barrier_with_a_reduction", true, R"(
  br label %loop
loop:
  %v = load i32, ptr %q, !cucpu.space !0
  %c = icmp ne i32 %v, 0
  %any = call i1 @cucpu.barrier.red.or(i32 0, i32 0, i1 true, i1 %c)
  br i1 %any, label %end, label %loop)"},
    {"one_thread_tells_the_others", true, R"(
  %first = icmp eq i32 %tid, 0
  br label %loop
loop:
  br i1 %first, label %look, label %join
look:
  %v = load volatile i32, ptr %q, !cucpu.space !0
  store i32 %v, ptr %s, !cucpu.space !1
  br label %join
join:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %told = load i32, ptr %s, !cucpu.space !1
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %c = icmp eq i32 %told, 0
  br i1 %c, label %loop, label %end)"},
    {"shared_memory_that_another_block_of_the_cluster_writes", true, R"(
  br label %loop
loop:
  %v = load i32, ptr %s, !cucpu.space !1
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %c = icmp eq i32 %v, 0
  br i1 %c, label %loop, label %end)"},
    {"token_in_one_word", true, R"(
  br label %loop
loop:
  %v = load i32, ptr %q, !cucpu.space !0
  %c = icmp eq i32 %v, %n
  br i1 %c, label %set, label %turn
set:
  %after = add i32 %v, 1
  store i32 %after, ptr %q, !cucpu.space !0
  br label %turn
turn:
  %again = phi i1 [ true, %loop ], [ false, %set ]
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  br i1 %again, label %loop, label %end)"},
    {"a_counter_that_adds_nothing", true, R"(
  br label %loop
loop:
  %v = atomicrmw add ptr %q, i32 0 monotonic, !cucpu.space !0
  %c = icmp slt i32 %v, %n
  br i1 %c, label %loop, label %end)"},
    {"work_queue", false, R"(
  br label %loop
loop:
  %v = atomicrmw add ptr %q, i32 1 monotonic, !cucpu.space !0
  %c = icmp slt i32 %v, %n
  br i1 %c, label %loop, label %end)"},
    {"work_queue_of_the_block", false, R"(
  %first = icmp eq i32 %tid, 0
  %size = call i32 @cucpu.sreg.ntid.x()
  br label %loop
loop:
  br i1 %first, label %take, label %join
take:
  %v = atomicrmw add ptr %q, i32 %size monotonic, !cucpu.space !0
  store i32 %v, ptr %s, !cucpu.space !1
  br label %join
join:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %told = load i32, ptr %s, !cucpu.space !1
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %c = icmp slt i32 %told, %n
  br i1 %c, label %loop, label %end)"},
    {"counted_turns_with_a_bound_in_memory", false, R"(
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %bound = load i32, ptr %q, !cucpu.space !0
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %next = add i32 %i, 1
  %c = icmp slt i32 %next, %bound
  br i1 %c, label %loop, label %end)"},
    {"turns_until_nothing_changes", false, R"(
  br label %loop
loop:
  store i32 0, ptr %s, !cucpu.space !1
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %a = load i32, ptr %q, !cucpu.space !0
  %b = load i32, ptr %q2, !cucpu.space !0
  %less = icmp slt i32 %a, %b
  br i1 %less, label %move, label %join
move:
  store i32 %b, ptr %q, !cucpu.space !0
  store i32 1, ptr %s, !cucpu.space !1
  br label %join
join:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %changed = load i32, ptr %s, !cucpu.space !1
  %c = icmp ne i32 %changed, 0
  br i1 %c, label %loop, label %end)"},
    {"lock_given_back_in_the_same_turn", false, R"(
  br label %loop
loop:
  %left = phi i32 [ %n, %entry ], [ %next, %turn ]
  %old = atomicrmw xchg ptr %q, i32 1 monotonic, !cucpu.space !0
  %c = icmp eq i32 %old, 0
  br i1 %c, label %set, label %turn
set:
  store volatile i32 0, ptr %q, !cucpu.space !0
  %less = sub i32 %left, 1
  br label %turn
turn:
  %next = phi i32 [ %left, %loop ], [ %less, %set ]
  %more = icmp sgt i32 %next, 0
  br i1 %more, label %loop, label %end)"},
    {"plain_load_that_nothing_makes_again", false, R"(
  br label %loop
loop:
  %at = phi i32 [ 0, %entry ], [ %next, %loop ]
  %i = sext i32 %at to i64
  %p = getelementptr i32, ptr %q, i64 %i
  %next = load i32, ptr %p, !cucpu.space !0
  %c = icmp slt i32 %next, %n
  br i1 %c, label %loop, label %end)"},
};

class SpinLoops : public ::testing::TestWithParam<Loop> {};
INSTANTIATE_TEST_SUITE_P(Loops, SpinLoops, ::testing::ValuesIn(kLoops),
                         [](const auto& info) { return std::string{info.param.name}; });

TEST_P(SpinLoops, AreFoundWithTheirMarker) {
  const Compiled kernel{std::string{R"(
declare ptr @cucpu.params() memory(none)
declare ptr @cucpu.shared() memory(none)
declare i32 @cucpu.sreg.tid.x() memory(none)
declare i32 @cucpu.sreg.ntid.x() memory(none)
declare void @cucpu.barrier.sync(i32, i32, i1) convergent
declare i1 @cucpu.barrier.red.or(i32, i32, i1, i1) convergent
define void @k() "cucpu.kernel" {
entry:
  %params = call ptr @cucpu.params()
  %q = load ptr, ptr %params
  %q2 = getelementptr i32, ptr %q, i32 1
  %n.at = getelementptr i8, ptr %params, i32 8
  %n = load i32, ptr %n.at
  %s = call ptr @cucpu.shared()
  %tid = call i32 @cucpu.sreg.tid.x()
)"} + GetParam().body + R"(
end:
  ret void
}
!0 = !{!"global"}
!1 = !{!"shared"}
)"};
  EXPECT_EQ(GetParam().waits, kernel.object.waits_for_blocks);
}

}  // namespace
}  // namespace cucpu::test
