// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/large_kernel_test.cpp: kernels of many instructions compile in bounded memory,
// and are right.
#include <sys/resource.h>

#include <ostream>
#include <random>

#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

long peak_kib() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_maxrss;
}

enum class Kind { kStraight, kBranches, kLoops };

/// A kernel of so many instructions on 16 numbers; its results depend on all of them.
std::string big_kernel(Kind kind, int instructions) {
  std::mt19937 random{1};
  const auto reg = [&] { return "%f" + std::to_string(random() % 16); };
  const auto step = [&] {  // integers: nothing of what they depend on is ever rounded away
    return random() % 2 ? "mad.lo.u32 " + reg() + ", " + reg() + ", 77, " + reg() + ";\n"
                        : "xor.b32 " + reg() + ", " + reg() + ", " + reg() + ";\n";
  };
  std::string text =
      ".shared .align 4 .b8 sh[1028];\n.visible .entry k(.param .u64 out, .param .u32 n) {\n.reg "
      ".b32 %f<16>; .reg .u32 %r<8>; .reg .u64 %rd<4>; "
      ".reg .pred %p<2>;\nld.param.u64 %rd1, [out]; ld.param.u32 %r5, [n]; mov.u32 %r1, %tid.x; "
      "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, "
      "%rd2; mov.u32 %r2, sh; mad.lo.u32 %r2, %r1, 4, %r2;\n";
  for (int i = 0; i < 16; ++i)
    text +=
        "add.u32 %r3, %r1, " + std::to_string(i) + "; mov.b32 %f" + std::to_string(i) + ", %r3;\n";
  for (int made = 0, label = 0; made < instructions; ++label) {
    const std::string name = "L" + std::to_string(label);
    if (kind == Kind::kBranches)
      text += "setp.lt.u32 %p0, " + reg() + ", " + reg() + "; @%p0 bra " + name + ";\n";
    if (kind == Kind::kLoops) text += "mov.u32 %r4, 0;\n" + name + ":\n";
    for (int i = 0; i < 10; ++i) text += step();
    if (kind == Kind::kBranches) text += name + ":\n";
    if (kind == Kind::kLoops)
      text += "add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, %r5; @%p0 bra " + name +
              ";\nst.shared.u32 [%r2], " + reg() + "; bar.sync 0; ld.shared.u32 " + reg() +
              ", [%r2]; bar.sync 0;\n";
    made += kind == Kind::kLoops ? 18 : 12;
  }
  for (int i = 1; i < 16; ++i) text += "add.u32 %f0, %f0, %f" + std::to_string(i) + ";\n";
  return text + "st.global.u32 [%rd1], %f0; ret; }\n";
}

class LargeKernels : public ::testing::TestWithParam<Kind> {};

std::vector<std::uint32_t> results_of(const std::string& text) {
  TestMemory memory;
  std::vector<std::uint32_t> results(64);
  EXPECT_EQ(launch(*load(text, memory), "k", shape_of({1}, {64}), results.data(), 2U).code, 0);
  return results;
}

TEST_P(LargeKernels, GiveTheSameResultsAsTheScalarPath) {
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  const std::string text = big_kernel(GetParam(), 2'000);
  const auto results = results_of(text);
  const Environment scalar{"CUCORE_CPU_W", "1"};
  EXPECT_EQ(results, results_of(text));
}

// Bounded memory is what is tested; bounded time is what lets the suite end.
TEST_P(LargeKernels, CompileInBoundedMemory) {
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  // Hundreds of loops and barriers are as hard as any number of instructions between them.
  const std::string text = big_kernel(GetParam(), GetParam() == Kind::kLoops ? 10'000 : 30'000);
  const long before = peak_kib();
  const auto results = results_of(text);
  EXPECT_NE(results.front(), results.back());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep what was freed
  EXPECT_LT(peak_kib() - before, 512 * 1024);
#else
  static_cast<void>(before);
#endif
}

void PrintTo(Kind kind, std::ostream* out) {
  *out << (kind == Kind::kStraight   ? "StraightCode"
           : kind == Kind::kBranches ? "Branches"
                                     : "LoopsAndBarriers");
}
INSTANTIATE_TEST_SUITE_P(Of, LargeKernels,
                         ::testing::Values(Kind::kStraight, Kind::kBranches, Kind::kLoops),
                         ::testing::PrintToStringParamName{});

}  // namespace
}  // namespace cucpu::test
