// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/targets_test.cpp: block code for other machines: the ten benchmark
// kernels (bench/cpp/kernels/source.cu, as NVRTC compiles them) and others become assembly, which
// is read here. Nothing of it runs.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/run/block_context.hpp"
#include "target_code.hpp"

namespace {

using namespace llvm;

std::string ten() {
  std::ifstream file{SIMT_TEST_FOLDER "/ten.ptx"};
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Row {
  const char* kernel;
  cucpu::Dim3 block;
  const char* vector;  ///< an instruction that must work on whole registers
};

const Row kRows[] = {
    {"saxpy", {256, 1, 1}, "vfmadd[0-9]+ps"},
    {"vector_add", {256, 1, 1}, "vaddps"},
    {"matmul", {16, 16, 1}, "vfmadd[0-9]+ps"},
    {"reduce", {256, 1, 1}, "vaddps"},
    {"histogram", {256, 1, 1}, "vmovup|vpmovzx|vmovdq|vpadd|vpsll"},
    {"mandelbrot", {16, 16, 1}, "vmulps|vfmadd[0-9]+ps"},
    {"blackscholes", {256, 1, 1}, "vfmadd[0-9]+ps"},
    {"nbody", {256, 1, 1}, "vfmadd[0-9]+ps"},
    {"stencil", {32, 8, 1}, "vaddps"},
    {"scan", {256, 1, 1}, "vpaddd"},
};

void look(const char* cpu, const std::string& registers) {
  auto target = machine(cpu);
  if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
  const std::string ptx = ten();
  ASSERT_FALSE(ptx.empty());
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.kernel);
    Made made = compile(ptx, row.kernel, row.block, *target);
    // Whole registers do the work: many more instructions on them than scalar arithmetic.
    std::size_t wide =
        matches(made.assembly, "(" + std::string{row.vector} + ")[a-z0-9]*\t[^\n]*%" + registers);
    EXPECT_GE(wide, 1u) << "no " << row.vector << " on %" << registers;
    std::size_t scalar =
        matches(made.assembly, "\tv(add|sub|mul|div|sqrt|fn?m(add|sub)[0-9]+)ss\t");
    std::size_t vector =
        matches(made.assembly, "\tv(add|sub|mul|div|sqrt|fn?m(add|sub)[0-9]+)ps\t");
    // The end of the grid runs thread by thread: every operation once more.
    std::size_t alone = made.report.tails ? vector : 0;
    EXPECT_LE(scalar, 8 + vector / 4 + alone) << vector << " vector instructions";
    EXPECT_EQ(matches(made.assembly, "\tcallq?\t(expf|logf|sqrtf|fmaf|floorf)"), 0u);
  }
}

TEST(SimtTargets, Avx2CodeOfTheTenKernelsWorksOnYmmRegisters) { look("x86-64-v3", "ymm"); }
TEST(SimtTargets, Avx512CodeOfTheTenKernelsWorksOnZmmRegisters) { look("x86-64-v4", "zmm"); }

// Check mode keeps vector code: only the checks of an access are scalar, one for a lane group.
TEST(SimtTargets, CheckedCodeWorksOnWholeRegisters) {
  using namespace cucpu::check;
  const std::string ptx = ten();
  for (const auto& [cpu, registers] :
       {std::pair{"x86-64-v3", "ymm"}, std::pair{"x86-64-v4", "zmm"}}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    for (const Row& row : kRows) {
      const std::string name = row.kernel;
      if (name != "saxpy" && name != "matmul" && name != "reduce") continue;
      SCOPED_TRACE(name + " on " + cpu);
      const Made plain = compile(ptx, name, row.block, *target);
      const Made checked = compile(ptx, name, row.block, *target, kMemory | kRace | kInit | kSync);
      EXPECT_GE(checked.report.width, 8U);
      EXPECT_GE(matches(checked.assembly,
                        "(" + std::string{row.vector} + ")[a-z0-9]*\t[^\n]*%" + registers),
                1U);
      EXPECT_GE(matches(checked.assembly, "cucpu_rt_check_lanes"), 2U);
      EXPECT_EQ(matches(plain.assembly, "cucpu_rt_check"), 0U);
    }
  }
}

// With one register per value, an AVX2 pipeline waits for results; with two, sixteen registers are
// soon too few.
TEST(SimtTargets, Avx2CodeHasTwoRegistersPerValueWhereFewAreLive) {
  auto target = machine("x86-64-v3");
  if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
  const std::map<std::string, unsigned> widths{
      {"saxpy", 16}, {"matmul", 16}, {"mandelbrot", 16}, {"blackscholes", 8}, {"nbody", 8}};
  for (const Row& row : kRows) {
    const auto width = widths.find(row.kernel);
    if (width == widths.end()) continue;
    EXPECT_EQ(compile(ten(), row.kernel, row.block, *target).report.width, width->second)
        << row.kernel;
  }
  // A row of the block is a group, so that all groups use the same columns and run four at a time:
  // 4 * 2 * 16 products beside those of one group.
  EXPECT_GE(matches(compile(ten(), "matmul", {16, 16, 1}, *target).assembly, "vfmadd"), 128u + 32);
  // A row of eight threads has no wider group.
  EXPECT_EQ(compile(ten(), "mandelbrot", {8, 8, 1}, *target).report.width, 8u);
}

/// The lines of assembly from the one with `first` to the next branch back to a loop.
std::string loop_from(const std::string& code, const std::string& first) {
  const std::size_t from = code.find(first);
  EXPECT_NE(from, std::string::npos) << code;
  if (from == std::string::npos) return {};
  return code.substr(from, code.find("\tj", from) - from);
}

// A byte of a stream that a loop reads with a long stride: a group reads half a cache line, in
// words, and each lane adds to its bin. Nothing goes through the stack.
TEST(SimtTargets, LanesTakeTheirBytesFromWords) {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    const Made made = compile(ten(), "histogram", {256, 1, 1}, *target);
    EXPECT_EQ(made.report.width, 32u) << cpu;
    const std::string loop = loop_from(made.assembly, "prefetcht0");
    EXPECT_EQ(matches(loop, "\tincl\t"), 32u) << loop;
    EXPECT_EQ(matches(loop, "\tmovzbl\t[0-9]*\\("), 0u) << loop;
    EXPECT_LE(matches(loop, "\\(%rsp\\)"), 4u) << loop;
  }
}

// Between barriers, the stream of a kernel is interrupted: the next lines are prefetched. A tile
// goes to the second level of the caches, where its lines do not share one set.
TEST(SimtTargets, X86CodePrefetchesWhereBarriersAreBetweenLoads) {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    const auto code = [&](const char* kernel, cucpu::Dim3 block) {
      return compile(ten(), kernel, block, *target).assembly;
    };
    EXPECT_EQ(matches(code("reduce", {256, 1, 1}), "\tprefetcht0\t2048\\("), 1u) << cpu;
    EXPECT_EQ(matches(code("vector_add", {256, 1, 1}), "\tprefetch"), 0u) << cpu;
    const std::string matmul = code("matmul", {16, 16, 1});
    EXPECT_GE(matches(matmul, "\tprefetcht1\t"), 1u) << cpu;
    EXPECT_EQ(matches(matmul, "\tprefetcht0\t"), 0u) << cpu;
  }
}

// The sum of a tiled matrix product has one place in memory, not one for each turn of the loop and
// one for its end; beside it are two indices, the mode and the mask of each group. Groups that copy
// a tile do not test their modes, and do not move the sum.
TEST(SimtTargets, ASumThatALoopCarriesAroundBarriersIsNotCopied) {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    const Made made = compile(ten(), "matmul", {16, 16, 1}, *target);
    EXPECT_EQ(made.report.scratch_bytes, 16u * (64 + 4 * 4)) << cpu;
    // From the test of an index to the jump back: two vectors are loaded and stored.
    bool found = false;
    for (std::size_t at = made.assembly.find("\tprefetcht1"); at != std::string::npos;
         at = made.assembly.find("\tprefetcht1", at + 1)) {
      const std::size_t from = made.assembly.rfind("\tja", at);
      const std::string loop = made.assembly.substr(from, made.assembly.find("\tjmp", at) - from);
      const std::size_t registers = std::string{cpu} == "x86-64-v3" ? 2 : 1;  // of a vector
      found |= matches(loop, "\tvmov[a-z]+\t") == 4 * registers && matches(loop, "\n") <= 40;
    }
    EXPECT_TRUE(found) << made.assembly;
  }
}

// The last steps of a reduction: what a group has stored stays in its registers.
TEST(SimtTargets, AReductionLoadsNothingThatItHasJustStored) {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    const std::string code = compile(ten(), "reduce", {256, 1, 1}, *target).assembly;
    const std::string steps = code.substr(code.find("\tvaddps"));
    EXPECT_EQ(matches(steps, "\tvmov[a-z]+\t%[xyz]mm[0-9]+, [0-9]*\\("), 0u) << steps;
  }
}

// A store of a column: eight lines of the cache at a time, row of threads after row of threads.
TEST(SimtTargets, ColumnsAreWrittenLineAfterLine) {
  const std::string ptx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry turn(.param .u64 in, .param .u64 out, .param .u32 n) {
  .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f;
  ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y;
  mad.lo.s32 %r4, %r3, %r1, %r2;
  mad.lo.s32 %r5, %r2, %r1, %r3;
  mul.wide.s32 %d3, %r4, 4; add.s64 %d3, %d1, %d3;
  mul.wide.s32 %d4, %r5, 4; add.s64 %d4, %d2, %d4;
  ld.global.f32 %f, [%d3];
  st.global.f32 [%d4], %f;
  ret;
})";
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    EXPECT_EQ(compile(ptx, "turn", {32, 8, 1}, *target).report.width, 8u);
    // Without rows there is nothing to wait for.
    EXPECT_EQ(compile(ptx, "turn", {256, 1, 1}, *target).report.width, 16u);
  }
}

// Hints stand together before the loads they are about; between loads they cost more than they
// save.
TEST(SimtTargets, AArch64CodePrefetchesStreamsBeforeItLoads) {
  auto target = machine("neoverse-n1", "aarch64-unknown-linux-gnu");
  if (!target) GTEST_SKIP() << "this LLVM makes no AArch64 code";
  const std::string ptx = ten();
  for (const char* kernel : {"saxpy", "vector_add"}) {
    const std::string code = compile(ptx, kernel, {256, 1, 1}, *target).assembly;
    EXPECT_EQ(
        matches(code,
                "prfm\tpldl1keep, \\[x[0-9]+, #512\\]\n\tprfm\tpldl1keep, \\[x[0-9]+, #512\\]\n"),
        1u)
        << code;
    EXPECT_EQ(matches(code, "prfm"), 2u) << kernel;
    EXPECT_LT(code.find("prfm"), code.find("ldp\tq")) << kernel;
  }
  // A grid that strides over its data: the next places of the loop, too.
  const std::string strides = compile(ptx, "histogram", {256, 1, 1}, *target).assembly;
  EXPECT_EQ(matches(strides, "prfm"), 1u) << strides;
  EXPECT_LT(strides.find("prfm"), strides.find("sxtw]")) << "before the load it is about";
  // What all threads read at a time is in the caches.
  EXPECT_EQ(matches(compile(ptx, "nbody", {256, 1, 1}, *target).assembly, "prfm"), 0u);
  if (auto other = machine("x86-64-v3")) {
    EXPECT_EQ(matches(compile(ptx, "saxpy", {256, 1, 1}, *other).assembly, "prefetch"), 0u);
  }
}

// A value of sixteen lanes takes four of AArch64's registers: with many of them in use at a time,
// eight lanes are faster. One register of AVX-512 holds all sixteen.
TEST(SimtTargets, HighRegisterPressureHalvesTheWidth) {
  auto target = machine("neoverse-n1", "aarch64-unknown-linux-gnu");
  if (!target) GTEST_SKIP() << "this LLVM makes no AArch64 code";
  const std::string ptx = ten();
  EXPECT_EQ(compile(ptx, "blackscholes", {256, 1, 1}, *target).report.width, 8u);
  EXPECT_EQ(compile(ptx, "saxpy", {256, 1, 1}, *target).report.width, 16u);
  if (auto other = machine("x86-64-v4")) {
    EXPECT_EQ(compile(ptx, "blackscholes", {256, 1, 1}, *other).report.width, 16u);
  }
}

// Where a value is one register, fewer lanes would need as many registers.
TEST(SimtTargets, RegisterPressureKeepsTheWidthOfOneRegister) {
  auto target = machine("x86-64-v4");
  if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
  std::string text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry many(.param .u64 out, .param .u64 in) {
  .reg .b32 %r<2>; .reg .b64 %rd<5>; .reg .f32 %f<64>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
)";
  for (int i = 0; i < 48; ++i)
    text +=
        "  ld.global.f32 %f" + std::to_string(i) + ", [%rd2+" + std::to_string(4096 * i) + "];\n";
  for (int i = 1; i < 48; ++i) text += "  add.f32 %f0, %f0, %f" + std::to_string(i) + ";\n";
  text += "  st.global.f32 [%rd1], %f0;\n  ret;\n}\n";
  const auto report = compile(text, "many", {256, 1, 1}, *target).report;
  EXPECT_GT(report.pressure, 40u);
  EXPECT_EQ(report.width, 16u);
}

// What says which group runs is for fault reports; between stores that stream through memory it is
// dear, so it is said once.
TEST(SimtTargets, AddressesFromIndicesNeedNoStoreOfTheRunningGroup) {
  const std::string ptx = ten();
  const std::string field = std::to_string(offsetof(cucpu::BlockContext, current_thread));
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    for (const Row& row : kRows) {
      const std::string kernel = row.kernel;
      const bool by_index =
          kernel == "saxpy" || kernel == "vector_add" || kernel == "stencil" || kernel == "scan";
      if (!by_index && kernel != "histogram") continue;  // whose bins come from memory
      Made made = compile(ptx, row.kernel, row.block, *target);
      const std::size_t stores =
          matches(made.assembly, "\tmov[lq]\t[^\n]*, " + field + "\\(%r(?!sp|bp)");
      if (by_index)
        EXPECT_EQ(stores, 1u) << kernel << " on " << cpu;
      else
        EXPECT_GT(stores, 1u) << kernel << " on " << cpu;
    }
  }
}

TEST(SimtTargets, AnIndexFromMemoryIsAGatherOnAvx512AndAContiguousOneIsNot) {
  auto target = machine("x86-64-v4");
  if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
  const std::string head = ".version 8.0\n.target sm_90\n.address_size 64\n";
  const std::string text = head + R"(
.visible .entry pick(.param .u64 out, .param .u64 in, .param .u64 index) {
  .reg .b32 %r<8>; .reg .b64 %rd<12>; .reg .f32 %f<2>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; ld.param.u64 %rd3, [index];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.s32 %rd4, %r4, 4;
  add.s64 %rd5, %rd3, %rd4;
  ld.global.u32 %r5, [%rd5];
  mul.wide.s32 %rd6, %r5, 4;
  add.s64 %rd7, %rd2, %rd6;
  ld.global.f32 %f1, [%rd7];
  add.s64 %rd8, %rd1, %rd4;
  st.global.f32 [%rd8], %f1;
  ret;
})";
  Made made = compile(text, "pick", {256, 1, 1}, *target);
  EXPECT_EQ(made.report.gathers, 1u);
  EXPECT_GE(matches(made.assembly, "\tvp?gather[dq]+(ps|d)?"), 1u);
  EXPECT_EQ(matches(made.assembly, "scatter"), 0u) << "the store is contiguous";
}

// Rows of two units of 16 bytes, `o[t / 2 * 4 + t % 2] = a[t / 2 * lda + t % 2]` with uint4: an
// access per unit, where elements were four gathers and four scatters.
TEST(SimtTargets, UnitsOfLanesThatAreApartAreAccessedWhole) {
  const std::string ptx = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 o, .param .u64 a, .param .u32 lda) {
  .reg .b32 %r<8>, %v<4>; .reg .b64 %o, %a, %at;
  ld.param.u64 %o, [o]; ld.param.u64 %a, [a]; ld.param.u32 %r6, [lda];
  mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 1; and.b32 %r3, %r1, 1;
  mad.lo.u32 %r4, %r2, %r6, %r3; mul.wide.u32 %at, %r4, 16; add.u64 %a, %a, %at;
  shl.b32 %r5, %r2, 2; add.u32 %r5, %r5, %r3; mul.wide.u32 %at, %r5, 16; add.u64 %o, %o, %at;
  ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%a];
  mul.lo.u32 %v2, %v2, %v1;
  st.global.v4.u32 [%o], {%v0, %v1, %v2, %v3};
  ret;
})";
  struct {
    const char *cpu, *triple, *load, *store, *single;
  } const rows[] = {
      {"neoverse-n1", "aarch64-unknown-linux-gnu", "\tld(p|u?r)\tq", "\tst(p|u?r)\tq",
       "\t(ld|st)1\t\\{ v[0-9]+\\.[sd] \\}\\["},
      {"x86-64-v3", "x86_64-unknown-linux-gnu", "\tv?movups\t[^\n]*\\), %xmm",
       "\tv?movups\t%xmm[^\n]*\\)\n", "gather|scatter|vp?(insr|extr)[dq]"},
      {"x86-64-v4", "x86_64-unknown-linux-gnu", "\tv?movups\t[^\n]*\\), %xmm",
       "\tv?movups\t%xmm[^\n]*\\)\n", "gather|scatter|vp?(insr|extr)[dq]"},
  };
  for (const auto& row : rows) {
    auto target = machine(row.cpu, row.triple);
    if (!target) continue;
    const Made made = compile(ptx, "k", {256, 1, 1}, *target);
    const std::string& text = made.assembly;
    SCOPED_TRACE(row.cpu);
    EXPECT_LE(matches(text, "\n\t[a-z]"), 16 * made.report.width);
    EXPECT_EQ(matches(text, row.single), 0u) << "elements are accessed one by one\n";
    EXPECT_LE(matches(text, row.load), made.report.width + 4);
    EXPECT_LE(matches(text, row.store), made.report.width + 4);
  }
}

// The largest of a warp: FMAXNM once for each register that comes from memory, for each that is
// left in a step (half of them, then the halves of one), and for what memory sees.
TEST(SimtTargets, AArch64CodeOfAWarpMaximumIsOneInstructionPerStep) {
  auto target = machine("neoverse-n1", "aarch64-unknown-linux-gnu");
  if (!target) GTEST_SKIP() << "this LLVM makes no AArch64 code";
  std::string steps;
  for (int by : {16, 8, 4, 2, 1})
    steps += "shfl.sync.bfly.b32 %g, %f, " + std::to_string(by) + ", 31, -1; max.f32 %f, %f, %g;\n";
  const std::string ptx = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b32 %t; .reg .f32 %f, %g; .reg .b64 %out, %at;
  ld.param.u64 %out, [out];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %at, %t, 4;
  add.u64 %out, %out, %at;
  ld.global.f32 %f, [%out];
)" + steps + "st.global.f32 [%out], %f; ret; }";
  const Made made = compile(ptx, "k", {256, 1, 1}, *target);
  EXPECT_EQ(made.report.width, 32u);
  EXPECT_EQ(matches(made.assembly, "\tfmaxnm\t"), 8u + (4 + 2 + 1 + 1 + 1) + 1) << made.assembly;
  EXPECT_EQ(matches(made.assembly, "\t(fcm[a-z]+|bsl|bit|bif)\t"), 0u) << made.assembly;
}

/// A loop that every lane leaves when it likes: while %n, which it loads, is positive. The body may
/// use the predicates %p and %q.
std::string loop_of_lanes(const std::string& body) {
  return R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .pred %p, %q; .reg .b32 %t, %n, %v; .reg .b64 %out, %at;
  ld.param.u64 %out, [out];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %at, %t, 4;
  add.u64 %out, %out, %at;
  ld.global.u32 %n, [%out];
  mov.u32 %v, 0;
L:
)" + body +
         R"(
  setp.gt.s32 %p, %n, 0;
  @%p bra L;
  st.global.u32 [%out], %v;
  ret;
})";
}

// A loop that every lane leaves when it likes, and a choice in it: masks go around it and are
// combined. They stay what the comparisons give; nothing goes lane by lane.
TEST(SimtTargets, AArch64CodeKeepsMasksInWholeRegisters) {
  auto target = machine("neoverse-n1", "aarch64-unknown-linux-gnu");
  if (!target) GTEST_SKIP() << "this LLVM makes no AArch64 code";
  const std::string ptx = loop_of_lanes(R"(
  setp.gt.s32 %q, %n, 5;
  setp.lt.s32 %p, %v, 77;
  and.pred %q, %q, %p;
  @%q mad.lo.s32 %v, %v, %n, 3;
  shfl.sync.bfly.b32 %t, %v, 1, 31, -1;
  add.s32 %v, %v, %t;
  sub.s32 %n, %n, 1;
)");
  const Made made = compile(ptx, "k", {256, 1, 1}, *target);
  EXPECT_EQ(made.report.width, 32u);
  EXPECT_EQ(matches(made.assembly, "\tumov\t|\tmov\tv[0-9]+\\.b\\[|\tubfx\t[^\n]*, #1\n"), 0u)
      << made.assembly;
  EXPECT_EQ(matches(made.assembly, "\tushll2?\t"), 0u) << made.assembly;
}

// The same with registers that hold all lanes: masks are not packed into narrower numbers.
TEST(SimtTargets, Avx2CodeKeepsMasksOfEightLanesInOneRegister) {
  auto target = machine("x86-64-v3");
  if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
  const std::string ptx = loop_of_lanes(R"(
  setp.gt.s32 %q, %n, 5;
  @%q ld.global.u32 %v, [%out+4096];
  @%q st.global.u32 [%out], %n;
  sub.s32 %n, %n, %v;
)");
  const Made made = compile(ptx, "k", {256, 1, 1}, *target);
  EXPECT_EQ(made.report.width, 8u);
  EXPECT_EQ(matches(made.assembly, "\tvpackss"), 0u) << made.assembly;
  EXPECT_EQ(matches(made.assembly, "\tvpmovzxwd\t"), 0u) << made.assembly;
}

}  // namespace
