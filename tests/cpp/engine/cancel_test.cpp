// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/cancel_test.cpp: kernels cancelled at each of their safepoints in turn.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>

#include "cpu/engine/run/safepoints.hpp"
#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

constexpr std::uint64_t kNever = std::uint64_t{1} << 62;
constexpr std::uint32_t kWords = 4096;

struct Subject {
  const char* name;
  const char* functions;  ///< before the kernel
  const char* body;       ///< thread %r3 of the grid leaves %r6 in out[%r3]; %r4 is n, %rd2 zeroed
  LaunchShape shape;
  std::uint64_t least;  ///< safepoints it has at least, compiled in whatever way

  friend void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }
};

LaunchShape shape(Dim3 grid, Dim3 block, Dim3 cluster = {}, bool cooperative = false) {
  LaunchShape made = shape_of(grid, block);
  made.cluster = cluster;
  made.cooperative = cooperative;
  return made;
}

const Subject kSubjects[] = {
    {"loop", "",
     "mov.u32 %r5, 0; mov.u32 %r6, %r3; L: mad.lo.u32 %r6, %r6, %r6, 1; add.u32 %r5, %r5, 1;"
     "setp.lt.u32 %p1, %r5, %r4; @%p1 bra L;",
     shape({3}, {64}), 4},
    {"threads_that_part", "",
     "rem.u32 %r7, %r2, 5; add.u32 %r7, %r7, %r4; mov.u32 %r5, 0; mov.u32 %r6, %r3;"
     "L: mad.lo.u32 %r6, %r6, %r6, 1; add.u32 %r5, %r5, 1;"
     "setp.lt.u32 %p1, %r5, %r7; @%p1 bra L;",
     shape({3}, {48}), 4},
    {"threads_that_leave_at_two_places",
     "",  // full code enters the loop of masked code in its middle
     "rem.u32 %r7, %r2, 5; add.u32 %r7, %r7, %r4; and.b32 %r8, %r2, 1; mov.u32 %r5, 0;"
     "mov.u32 %r6, %r3; L: mad.lo.u32 %r6, %r6, %r6, 1; add.u32 %r5, %r5, 1;"
     "setp.ge.u32 %p1, %r5, %r7; @%p1 bra D; shr.u32 %r9, %r6, 24; setp.eq.u32 %p2, %r8, 1;"
     "setp.gt.and.u32 %p2, %r9, 1, %p2; @!%p2 bra L; D:",
     shape({1}, {48}), 16},
    {"barrier", "",
     ".shared .align 4 .b8 s[512]; mov.u32 %r7, s; mad.lo.s32 %r8, %r2, 4, %r7;"
     "mov.u32 %r5, 0; mov.u32 %r6, %r3; sub.s32 %r9, %r1, %r2; sub.s32 %r9, %r9, 1;"
     "mad.lo.s32 %r9, %r9, 4, %r7;"
     "L: st.shared.u32 [%r8], %r6; bar.sync 0; ld.shared.u32 %r10, [%r9]; bar.sync 0;"
     "mad.lo.u32 %r6, %r6, 3, %r10; add.u32 %r5, %r5, 1;"
     "setp.lt.u32 %p1, %r5, %r4; @%p1 bra L;",
     shape({2}, {64}), 4},
    {"barrier_in_a_branch", "",  // whether all threads get there is nothing a compiler can know
     "ld.volatile.global.u32 %r7, [%rd2]; add.u32 %r7, %r7, %r4; mov.u32 %r5, 0; mov.u32 %r6, %r3;"
     "L: setp.eq.u32 %p2, %r7, 0; @%p2 bra S; bar.sync 0; mad.lo.u32 %r6, %r6, %r6, 1;"
     "S: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r7; @%p1 bra L;",
     shape({2}, {40}), 4},
    {"call",
     ".func (.param .b32 y) f(.param .b32 x, .param .b32 n) {"
     " .reg .b32 %r<8>; .reg .pred %p<2>; ld.param.u32 %r0, [x]; ld.param.u32 %r1, [n];"
     " mov.u32 %r2, 0; L: mad.lo.u32 %r0, %r0, %r0, 1; add.u32 %r2, %r2, 1;"
     " setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; st.param.b32 [y], %r0; ret; }",
     "{ .param .b32 x; .param .b32 n; .param .b32 y; st.param.b32 [x], %r3; st.param.b32 [n], %r4;"
     " call (y), f, (x, n); ld.param.u32 %r6, [y]; }",
     shape({2}, {48}), 4},
    {"call_by_address",
     ".func (.param .b32 y) f(.param .b32 x, .param .b32 n) {"
     " .reg .b32 %r<8>; .reg .pred %p<2>; ld.param.u32 %r0, [x]; ld.param.u32 %r1, [n];"
     " mov.u32 %r2, 0; L: mad.lo.u32 %r0, %r0, %r0, 1; add.u32 %r2, %r2, 1;"
     " setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; st.param.b32 [y], %r0; ret; }",
     "ld.volatile.global.u64 %rd5, [%rd2]; mov.u64 %rd6, f; add.u64 %rd5, %rd5, %rd6;"
     "{ .param .b32 x; .param .b32 n; .param .b32 y; st.param.b32 [x], %r3; st.param.b32 [n], %r4;"
     " P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);"
     " call (y), %rd5, (x, n), P; ld.param.u32 %r6, [y]; }",
     shape({2}, {48}), 4},
    {"recursion",
     ".func (.param .b32 y) f(.param .b32 x) {"
     " .reg .b32 %r<8>; .reg .b64 %q; .reg .pred %p<3>; .local .align 8 .b8 l[16];"
     " mov.u64 %q, l; cvta.local.u64 %q, %q; ld.param.u32 %r0, [x]; mov.u32 %r3, 0; setp.eq.u32 "
     "%p0, %r0, 0; @%p0 bra E;"
     " st.volatile.u32 [%q], %r0; mov.u32 %r2, 0;"
     " L: mad.lo.u32 %r3, %r3, %r3, %r0; add.u32 %r2, %r2, 1;"
     " setp.lt.u32 %p1, %r2, %r0; @%p1 bra L;"
     " { .param .b32 a; .param .b32 b; sub.u32 %r4, %r0, 1; st.param.b32 [a], %r4;"
     " call (b), f, (a); ld.param.u32 %r5, [b]; }"
     " ld.volatile.u32 %r6, [%q]; mad.lo.u32 %r3, %r5, %r6, %r3;"
     " E: st.param.b32 [y], %r3; ret; }",
     "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r4; call (y), f, (x);"
     " ld.param.u32 %r6, [y]; }",
     shape({2}, {33}), 4},
    {"large_grid", "", "mad.lo.u32 %r6, %r3, %r3, %r4;", shape({512}, {8}), 2},
    {"large_grid_with_a_loop", "",
     "mov.u32 %r5, 0; mov.u32 %r6, %r3; L: mad.lo.u32 %r6, %r6, %r6, 1; add.u32 %r5, %r5, 1;"
     "setp.lt.u32 %p1, %r5, 2; @%p1 bra L; setp.ne.u32 %p2, %r5, %r4; @%p2 bra D; bar.sync 0; D:",
     shape({128}, {32}), 2},
    {"warp", "",
     "mov.u32 %r5, 0; mov.u32 %r6, %r3; L: shfl.sync.bfly.b32 %r7, %r6, 5, 31, -1;"
     "mad.lo.u32 %r6, %r6, 3, %r7; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r4; @%p1 bra L;",
     shape({2}, {64}), 4},
    {"threads_of_a_warp_that_wait_for_each_other", "",  // each for the one behind it
     "sub.u32 %r7, %r1, %r2; sub.u32 %r7, %r7, 1; L: ld.volatile.global.u32 %r8, [%rd2];"
     "setp.ne.u32 %p1, %r8, %r7; @%p1 bra L; add.u32 %r6, %r8, 1;"
     "st.volatile.global.u32 [%rd2], %r6;",
     shape({1}, {40}), 4},
    {"blocks_that_wait_for_each_other", "",
     "membar.gl; red.global.add.u32 [%rd2], 1; mov.u32 %r7, %nctaid.x;"
     "L: ld.volatile.global.u32 %r6, [%rd2]; setp.lt.u32 %p1, %r6, %r7; @%p1 bra L;",
     shape({6}, {1}, {}, true), 4},
    {"blocks_that_wait_at_a_barrier", "",  // each for the one behind it
     "mov.u32 %r7, %nctaid.x; mov.u32 %r8, %ctaid.x; sub.u32 %r7, %r7, 1; sub.u32 %r7, %r7, %r8;"
     "L: ld.global.u32 %r6, [%rd2]; bar.sync 0; setp.lt.u32 %p1, %r6, %r7; @%p1 bra L;"
     "membar.gl; bar.sync 0; mad.lo.u32 %r6, %r3, %r3, %r7;"
     "setp.ne.u32 %p1, %r2, 0; @%p1 bra D; red.global.add.u32 [%rd2], 1; D:",
     shape({4}, {40}, {}, true), 4},
    {"cluster", "",
     "mov.u32 %r5, 0; mov.u32 %r6, %r3; L: barrier.cluster.arrive; barrier.cluster.wait;"
     "mad.lo.u32 %r6, %r6, %r6, 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r4; @%p1 bra L;",
     shape({4}, {32}, {2}), 2},
};

// Leaked stacks would be many more. The thread sanitizer maps memory of its own
// for every thread.
#ifdef __SANITIZE_THREAD__
constexpr std::size_t kFew = 1024;
#else
constexpr std::size_t kFew = 64;
#endif

std::size_t mappings() {
  std::ifstream maps{"/proc/self/maps"};
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>{maps}, {}, '\n'));
}

class Cancel : public ::testing::TestWithParam<std::tuple<Subject, std::string, int>> {
 protected:
  Cancel() {
    safepoints::g_cancel_at = kNever;
    const std::string text =
        std::string{subject_.functions} +
        ".visible .entry k(.param .u64 out, .param .u64 zero, .param .u32 n) {"
        ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>;"
        "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;"
        "mad.lo.s32 %r3, %r0, %r1, %r2; ld.param.u64 %rd0, [out]; mul.wide.s32 %rd1, %r3, 4;"
        "add.s64 %rd1, %rd0, %rd1; ld.param.u64 %rd2, [zero]; ld.param.u32 %r4, [n];" +
        subject_.body + " st.global.u32 [%rd1], %r6; ret; }";
    module_ = load(text, memory_);
  }
  ~Cancel() override { safepoints::g_cancel_at = 0; }

  /// Runs it up to its k-th safepoint.
  Ended run(std::uint64_t k) {
    safepoints::g_cancel_at = k;
    std::fill(out_.begin(), out_.end(), 0);
    std::fill(zero_.begin(), zero_.end(), 0);
    const Kernel& kernel = *module_->find_kernel("k");
    struct {
      std::uint32_t* out;
      std::uint32_t* zero;
      std::uint32_t n;
    } params{out_.data(), zero_.data(), 16};
    return finish(*Launch::make(kernel, subject_.shape, reinterpret_cast<std::byte*>(&params)),
                  threads_);
  }
  /// All of it runs: what was cancelled before is no harm to it.
  void expect_whole(const std::vector<std::uint32_t>& right, std::uint64_t after) {
    const Ended ended = run(kNever);
    ASSERT_EQ(0, ended.code) << "after a cancel at " << after << ": " << ended.report;
    ASSERT_EQ(right, out_) << "after a cancel at " << after;
  }

  const Subject& subject_ = std::get<0>(GetParam());
  const int threads_ = std::get<2>(GetParam());
  const Environment width_{"CUCORE_CPU_W", std::get<1>(GetParam())};
  const Environment cache_{"CUCORE_CPU_CACHE", "0"};
  TestMemory memory_;
  std::unique_ptr<Module> module_;
  std::vector<std::uint32_t> out_ = std::vector<std::uint32_t>(kWords);
  std::vector<std::uint32_t> zero_ = std::vector<std::uint32_t>(16);
};

INSTANTIATE_TEST_SUITE_P(Kernels, Cancel,
                         ::testing::Combine(::testing::ValuesIn(kSubjects),
                                            ::testing::Values("1", ""), ::testing::Values(1, 3)),
                         [](const auto& info) {
                           return std::string{std::get<0>(info.param).name} +
                                  (std::get<1>(info.param).empty() ? "_chosen_" : "_scalar_") +
                                  std::to_string(std::get<2>(info.param));
                         });

// promise: A kernel can be cancelled, and later work is unaffected
TEST_P(Cancel, AtEverySafepointLeavesNothingBehind) {
  ASSERT_EQ(0, run(kNever).code);
  const std::vector<std::uint32_t> right = out_;
  const std::size_t mapped = mappings();
  ASSERT_NE(std::vector<std::uint32_t>(kWords), right);
  std::uint64_t k = 1;
  // With several host threads the number differs from run to run: not each of them is needed then.
  for (;; k += threads_ == 1 ? 1 : 1 + k / 8) {
    const Ended ended = run(k);
    if (ended.code == 0) break;
    ASSERT_EQ(702, ended.code) << "safepoint " << k << ": " << ended.report;
    ASSERT_NE(std::string::npos, ended.report.find("kernel k")) << ended.report;
    expect_whole(right, k);
  }
  EXPECT_EQ(right, out_);  // there is no k-th safepoint: all of it has run
  EXPECT_GT(k, subject_.least);
  EXPECT_LT(mappings(), mapped + kFew);
}

}  // namespace
}  // namespace cucpu::test
