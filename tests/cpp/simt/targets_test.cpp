// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/targets_test.cpp: block code for other machines: the ten benchmark
// kernels (bench/cpp/kernels/source.cu, as NVRTC compiles them) become assembly, which is read
// here. Nothing of it runs.
#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <regex>
#include <sstream>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/jit/instrument.hpp"
#include "cpu/engine/nan/canonical_select.hpp"
#include "cpu/engine/nan/min_max.hpp"
#include "cpu/engine/nan/saturating_convert.hpp"
#include "cpu/engine/pipeline.hpp"
#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/simt/analyses.hpp"
#include "cpu/engine/simt/dot_products.hpp"
#include "cpu/engine/simt/jam_groups.hpp"
#include "cpu/engine/simt/widen_masks.hpp"
#include "cpu/ptx/parser.hpp"

namespace {

using namespace llvm;

struct Made {
  cucpu::simt::Report report;
  std::string assembly;
};

std::unique_ptr<TargetMachine> machine(const char* cpu,
                                       const std::string& triple = "x86_64-unknown-linux-gnu") {
  static const bool ready = [] {
    InitializeAllTargetInfos();
    InitializeAllTargets();
    InitializeAllTargetMCs();
    InitializeAllAsmPrinters();
    return true;
  }();
  (void)ready;
  std::string error;
  const Target* target = TargetRegistry::lookupTarget(triple, error);
  if (!target) return nullptr;
  return std::unique_ptr<TargetMachine>{
      target->createTargetMachine(triple, cpu, "", TargetOptions{}, Reloc::PIC_)};
}

/// `check`: of check::Kinds.
Made compile(const std::string& ptx, const std::string& kernel, cucpu::Dim3 block,
             TargetMachine& target, unsigned check = 0) {
  cucpu::ptx::Diagnostics diagnostics{"test"};
  auto parsed = cucpu::ptx::parse(ptx, diagnostics);
  EXPECT_FALSE(diagnostics.failed()) << diagnostics.log();
  const cucpu::ptx::Module* modules[] = {parsed.module.get()};
  LLVMContext context;
  cucpu::TranslateOptions options;
  options.native_half = false;
  options.shared_variables = check != 0;
  auto translation = cucpu::pipeline::thread_code(modules, context, options);
  Module& module = *translation.module;
  if (check != 0) cucpu::instrument(module, /*lanes=*/true);
  module.setTargetTriple(target.getTargetTriple().str());
  module.setDataLayout(target.createDataLayout());
  cucpu::simt::Options how;
  how.block = block;
  how.target = &target;
  how.check = check;
  auto made = cucpu::pipeline::vectorize(*module.getFunction(kernel), how);
  EXPECT_EQ(made.report.refusal, "") << kernel;
  if (!made.function) return {made.report, ""};
  for (Function& function : module)
    if (&function != made.function && !function.isDeclaration()) function.deleteBody();
  EXPECT_FALSE(verifyModule(module, &errs())) << kernel;
  cucpu::pipeline::optimize_block(*made.function, &target);
  cucpu::lower_min_max(*made.function, &target);
  cucpu::lower_saturating_conversions(*made.function, &target);
  cucpu::simt::form_dot_products(*made.function, &target);
  cucpu::fold_canonical_selects(*made.function, &target);
  cucpu::simt::widen_masks(*made.function, cucpu::simt::MaskForm::of(&target));
  EXPECT_FALSE(verifyModule(module, &errs())) << kernel;
  SmallString<0> text;
  raw_svector_ostream out{text};
  legacy::PassManager passes;
  EXPECT_FALSE(target.addPassesToEmitFile(passes, out, nullptr, CodeGenFileType::AssemblyFile));
  passes.run(module);
  return {made.report, text.str().str()};
}

std::size_t count(const std::string& text, const std::string& pattern) {
  const std::regex regex{pattern};
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

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
        count(made.assembly, "(" + std::string{row.vector} + ")[a-z0-9]*\t[^\n]*%" + registers);
    EXPECT_GE(wide, 1u) << "no " << row.vector << " on %" << registers;
    std::size_t scalar = count(made.assembly, "\tv(add|sub|mul|div|sqrt|fn?m(add|sub)[0-9]+)ss\t");
    std::size_t vector = count(made.assembly, "\tv(add|sub|mul|div|sqrt|fn?m(add|sub)[0-9]+)ps\t");
    // The end of the grid runs thread by thread: every operation once more.
    std::size_t alone = made.report.tails ? vector : 0;
    EXPECT_LE(scalar, 8 + vector / 4 + alone) << vector << " vector instructions";
    EXPECT_EQ(count(made.assembly, "\tcallq?\t(expf|logf|sqrtf|fmaf|floorf)"), 0u);
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
      EXPECT_GE(count(checked.assembly,
                      "(" + std::string{row.vector} + ")[a-z0-9]*\t[^\n]*%" + registers),
                1U);
      EXPECT_GE(count(checked.assembly, "cucpu_rt_check_lanes"), 2U);
      EXPECT_EQ(count(plain.assembly, "cucpu_rt_check"), 0U);
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
  EXPECT_GE(count(compile(ten(), "matmul", {16, 16, 1}, *target).assembly, "vfmadd"), 128u + 32);
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
    EXPECT_EQ(count(loop, "\tincl\t"), 32u) << loop;
    EXPECT_EQ(count(loop, "\tmovzbl\t[0-9]*\\("), 0u) << loop;
    EXPECT_LE(count(loop, "\\(%rsp\\)"), 4u) << loop;
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
    EXPECT_EQ(count(code("reduce", {256, 1, 1}), "\tprefetcht0\t2048\\("), 1u) << cpu;
    EXPECT_EQ(count(code("vector_add", {256, 1, 1}), "\tprefetch"), 0u) << cpu;
    const std::string matmul = code("matmul", {16, 16, 1});
    EXPECT_GE(count(matmul, "\tprefetcht1\t"), 1u) << cpu;
    EXPECT_EQ(count(matmul, "\tprefetcht0\t"), 0u) << cpu;
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
      found |= count(loop, "\tvmov[a-z]+\t") == 4 * registers && count(loop, "\n") <= 40;
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
    EXPECT_EQ(count(steps, "\tvmov[a-z]+\t%[xyz]mm[0-9]+, [0-9]*\\("), 0u) << steps;
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
        count(code,
              "prfm\tpldl1keep, \\[x[0-9]+, #512\\]\n\tprfm\tpldl1keep, \\[x[0-9]+, #512\\]\n"),
        1u)
        << code;
    EXPECT_EQ(count(code, "prfm"), 2u) << kernel;
    EXPECT_LT(code.find("prfm"), code.find("ldp\tq")) << kernel;
  }
  // A grid that strides over its data: the next places of the loop, too.
  const std::string strides = compile(ptx, "histogram", {256, 1, 1}, *target).assembly;
  EXPECT_EQ(count(strides, "prfm"), 1u) << strides;
  EXPECT_LT(strides.find("prfm"), strides.find("sxtw]")) << "before the load it is about";
  // What all threads read at a time is in the caches.
  EXPECT_EQ(count(compile(ptx, "nbody", {256, 1, 1}, *target).assembly, "prfm"), 0u);
  if (auto other = machine("x86-64-v3")) {
    EXPECT_EQ(count(compile(ptx, "saxpy", {256, 1, 1}, *other).assembly, "prefetch"), 0u);
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
          count(made.assembly, "\tmov[lq]\t[^\n]*, " + field + "\\(%r(?!sp|bp)");
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
  EXPECT_GE(count(made.assembly, "\tvp?gather[dq]+(ps|d)?"), 1u);
  EXPECT_EQ(count(made.assembly, "scatter"), 0u) << "the store is contiguous";
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
    EXPECT_LE(count(text, "\n\t[a-z]"), 16 * made.report.width);
    EXPECT_EQ(count(text, row.single), 0u) << "elements are accessed one by one\n";
    EXPECT_LE(count(text, row.load), made.report.width + 4);
    EXPECT_LE(count(text, row.store), made.report.width + 4);
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
  EXPECT_EQ(count(made.assembly, "\tfmaxnm\t"), 8u + (4 + 2 + 1 + 1 + 1) + 1) << made.assembly;
  EXPECT_EQ(count(made.assembly, "\t(fcm[a-z]+|bsl|bit|bif)\t"), 0u) << made.assembly;
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
  EXPECT_EQ(count(made.assembly, "\tumov\t|\tmov\tv[0-9]+\\.b\\[|\tubfx\t[^\n]*, #1\n"), 0u)
      << made.assembly;
  EXPECT_EQ(count(made.assembly, "\tushll2?\t"), 0u) << made.assembly;
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
  EXPECT_EQ(count(made.assembly, "\tvpackss"), 0u) << made.assembly;
  EXPECT_EQ(count(made.assembly, "\tvpmovzxwd\t"), 0u) << made.assembly;
}

// The passes below emit constants for constant operands, so that their results can be compared here
// for a target that this machine may not be.

/// The constant that a call of `id` with these operands is after `pass`.
template <typename Pass>
Constant* result_of(LLVMContext& context, Intrinsic::ID id, ArrayRef<Type*> types,
                    ArrayRef<Value*> operands, Type* type, Pass pass) {
  Module module{"test", context};
  auto* function =
      Function::Create(FunctionType::get(type, false), Function::ExternalLinkage, "result", module);
  IRBuilder<> b{BasicBlock::Create(context, "entry", function)};
  b.CreateRet(b.CreateCall(Intrinsic::getDeclaration(&module, id, types), operands));
  pass(*function);
  return dyn_cast<Constant>(
      cast<ReturnInst>(function->getEntryBlock().getTerminator())->getReturnValue());
}

TEST(SimtTargets, Avx2MinimumOrdersZerosAndPrefersNumbersToNans) {
  auto target = machine("x86-64-v3");
  if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
  LLVMContext context;
  Type* type = Type::getFloatTy(context);
  const std::uint32_t numbers[] = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x00000001,
                                   0x80000001, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
                                   0x7f800001, 0xff812345, 0x7f7fffff, 0x40490fdb};
  const auto constant = [&](std::uint32_t bits) {
    return ConstantFP::get(context, APFloat{APFloat::IEEEsingle(), APInt{32, bits}});
  };
  for (const bool max : {false, true})
    for (const std::uint32_t x : numbers)
      for (const std::uint32_t y : numbers) {
        Constant* made = result_of(context, max ? Intrinsic::maxnum : Intrinsic::minnum, {type},
                                   {constant(x), constant(y)}, type,
                                   [&](Function& f) { cucpu::lower_min_max(f, target.get()); });
        auto* number = dyn_cast_or_null<ConstantFP>(made);
        ASSERT_NE(number, nullptr);
        const auto got =
            static_cast<std::uint32_t>(number->getValueAPF().bitcastToAPInt().getZExtValue());
        const float a = std::bit_cast<float>(x), c = std::bit_cast<float>(y);
        if (std::isnan(a) && std::isnan(c)) {
          EXPECT_TRUE(std::isnan(std::bit_cast<float>(got)));
          continue;
        }
        std::uint32_t expected = std::isnan(a) ? y : std::isnan(c) ? x : (a < c) != max ? x : y;
        if (a == c) expected = max ? x & y : x | y;
        EXPECT_EQ(got, expected) << std::hex << x << " " << y << (max ? " max" : " min");
      }
}

TEST(SimtTargets, SaturatingConversionsClampAndGiveZeroForNans) {
  LLVMContext context;
  const double inf = std::numeric_limits<double>::infinity();
  const double numbers[] = {0.0,          -0.0,         0.5,          -0.5,          0.999,
                            1.0,          -1.0,         127.0,        127.5,         128.0,
                            -128.0,       -128.5,       -129.0,       255.0,         255.99,
                            256.0,        1e4,          -1e4,         32767.5,       32768.0,
                            -32768.9,     65535.5,      65536.0,      1e9,           -1e9,
                            2147483520.0, 2147483647.0, 2147483648.0, -2147483648.0, -2147483904.0,
                            4294967040.0, 4294967295.0, 4294967296.0, 1e20,          -1e20,
                            inf,          -inf,         std::nan("")};
  for (const bool is_double : {false, true})
    for (const bool is_signed : {false, true})
      for (const unsigned bits : {8u, 16u, 32u})
        for (const double number : numbers) {
          const double x = is_double ? number : static_cast<double>(static_cast<float>(number));
          Type* from = is_double ? Type::getDoubleTy(context) : Type::getFloatTy(context);
          auto* vector = FixedVectorType::get(from, 4);
          auto* type = FixedVectorType::get(Type::getIntNTy(context, bits), 4);
          Constant* operand =
              ConstantVector::getSplat(ElementCount::getFixed(4), ConstantFP::get(from, x));
          Constant* made =
              result_of(context, is_signed ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat,
                        {type, vector}, {operand}, type,
                        [](Function& f) { EXPECT_EQ(cucpu::lower_saturating_conversions(f), 1u); });
          auto* got = made ? dyn_cast_or_null<ConstantInt>(made->getSplatValue()) : nullptr;
          ASSERT_NE(got, nullptr) << x;
          const double low = is_signed ? -std::ldexp(1, static_cast<int>(bits) - 1) : 0;
          const double high = std::ldexp(1, static_cast<int>(bits) - (is_signed ? 1 : 0)) - 1;
          const double expected = std::isnan(x) ? 0 : std::trunc(std::min(std::max(x, low), high));
          const double value = is_signed ? static_cast<double>(got->getSExtValue())
                                         : static_cast<double>(got->getZExtValue());
          EXPECT_EQ(value, expected)
              << x << " to " << bits << (is_signed ? " signed" : " unsigned");
        }
}

const char* const kBytes = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry bytes(.param .u64 in, .param .u64 out) {
  .reg .b32 %r<4>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  ld.global.f32 %f1, [%rd4];
  ld.global.f32 %f2, [%rd4+1024];
  min.f32 %f3, %f1, %f2;
  cvt.rzi.u8.f32 %r2, %f3;
  cvt.u64.u32 %rd3, %r1;
  add.s64 %rd5, %rd2, %rd3;
  st.global.u8 [%rd5], %r2;
  ret;
}
)";

TEST(SimtTargets, Avx2ConvertsWholeRegistersToBytes) {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    auto target = machine(cpu);
    if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
    Made made = compile(kBytes, "bytes", {256, 1, 1}, *target);
    EXPECT_GE(count(made.assembly, "\tvcvttps2u?dq\t"), 1u) << made.assembly;
    EXPECT_EQ(count(made.assembly, "\tvcvttss2u?si"), 0u) << made.assembly;
  }
}

// ---- Dot products of bytes ----

const char* const kDots = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry dots(.param .u64 a, .param .u64 b, .param .u64 c) {
  .reg .b32 %r<9>;
  .reg .b64 %d<9>;
  ld.param.u64 %d1, [a];
  ld.param.u64 %d2, [b];
  ld.param.u64 %d3, [c];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d4, %r1, 4;
  add.s64 %d1, %d1, %d4;
  add.s64 %d2, %d2, %d4;
  add.s64 %d3, %d3, %d4;
  ld.global.u32 %r2, [%d1];
  ld.global.u32 %r3, [%d2];
  ld.global.u32 %r4, [%d3];
  dp4a.s32.s32 %r5, %r2, %r3, %r4;
  st.global.u32 [%d3], %r5;
  ret;
}
)";

TEST(SimtTargets, DotProductsOfBytesAreOneInstructionWhereTheTargetHasOne) {
  struct Case {
    const char *cpu, *triple, *instruction;
    bool has;
  };
  for (const Case& one : {Case{"neoverse-n1", "aarch64-unknown-linux-gnu", "\tsdot\t", true},
                          Case{"cortex-a72", "aarch64-unknown-linux-gnu", "\tsdot\t", false},
                          Case{"icelake-server", "x86_64-unknown-linux-gnu", "vpdpbusd", true},
                          Case{"alderlake", "x86_64-unknown-linux-gnu", "vpdpbusd", true},
                          Case{"haswell", "x86_64-unknown-linux-gnu", "vpdpbusd", false}}) {
    SCOPED_TRACE(one.cpu);
    auto target = machine(one.cpu, one.triple);
    if (!target) continue;
    const Made made = compile(kDots, "dots", {64, 1, 1}, *target);
    EXPECT_EQ(count(made.assembly, one.instruction) > 0, one.has) << made.assembly;
  }
}

using Lanes = std::vector<std::uint32_t>;

/// Evaluates straight-line code of vectors of 16 words, with vpdpbusd as Intel documents it.
Lanes evaluate(Function& function, const std::vector<Lanes>& arguments) {
  std::map<const Value*, Lanes> values;
  for (Argument& argument : function.args()) values[&argument] = arguments[argument.getArgNo()];
  const auto of = [&](Value* value) {
    auto* constant = dyn_cast<Constant>(value);
    if (!constant) return values.at(value);
    Lanes lanes;
    for (unsigned i = 0; i < 16; ++i)
      lanes.push_back(static_cast<std::uint32_t>(
          cast<ConstantInt>(constant->getAggregateElement(i))->getZExtValue()));
    return lanes;
  };
  for (Instruction& inst : instructions(function)) {
    if (auto* end = dyn_cast<ReturnInst>(&inst)) return of(end->getReturnValue());
    Lanes out(16);
    const Lanes a = of(inst.getOperand(0)), b = of(inst.getOperand(1));
    for (unsigned i = 0; i < 16; ++i) {
      switch (inst.getOpcode()) {
        case Instruction::Add:
          out[i] = a[i] + b[i];
          break;
        case Instruction::Sub:
          out[i] = a[i] - b[i];
          break;
        case Instruction::Xor:
          out[i] = a[i] ^ b[i];
          break;
        default: {
          EXPECT_EQ(cast<IntrinsicInst>(inst).getCalledFunction()->getName(),
                    "llvm.x86.avx512.vpdpbusd.512");
          out[i] = a[i];
          const std::uint32_t c = of(inst.getOperand(2))[i];
          for (unsigned k = 0; k < 32; k += 8)
            out[i] += static_cast<std::uint32_t>(static_cast<int>(b[i] >> k & 255) *
                                                 static_cast<std::int8_t>(c >> k));
        }
      }
    }
    values[&inst] = out;
  }
  return {};
}

TEST(SimtTargets, DotProductsOfEverySignAreRightOnX86) {
  auto target = machine("icelake-server");
  if (!target) GTEST_SKIP() << "this LLVM makes no x86-64 code";
  for (const bool left : {false, true})
    for (const bool right : {false, true}) {
      LLVMContext context;
      Module module{"dots", context};
      module.setTargetTriple(target->getTargetTriple().str());
      auto* type = FixedVectorType::get(Type::getInt32Ty(context), 16);
      auto* function = Function::Create(FunctionType::get(type, {type, type, type}, false),
                                        Function::ExternalLinkage, "dots", module);
      IRBuilder<> b{BasicBlock::Create(context, "", function)};
      const auto part = [&](Value* v, unsigned k, bool is_signed) {
        Value* low = ConstantInt::get(type, k * 8);
        if (!is_signed) return b.CreateAnd(b.CreateLShr(v, low), ConstantInt::get(type, 255));
        return b.CreateAShr(b.CreateShl(v, ConstantInt::get(type, 24 - k * 8)),
                            ConstantInt::get(type, 24));
      };
      Value* sum = function->getArg(2);
      for (unsigned k = 0; k < 4; ++k)
        sum = b.CreateAdd(sum, b.CreateMul(part(function->getArg(0), k, left),
                                           part(function->getArg(1), k, right)));
      b.CreateRet(sum);
      ASSERT_EQ(cucpu::simt::form_dot_products(*function, target.get()), 1u);
      Lanes x{0x80808080, 0x7f7f7f7f, 0xffffffff, 0,
              0x01020304, 0xfffefdfc, 0x80ff7f00, 0x12345678};
      Lanes y{0x80808080, 0x80808080, 0xffffffff, 7,
              0xff7f8001, 0x01020304, 0x00ff80ff, 0x9abcdef0};
      for (unsigned i = 0; i < 8; ++i) {
        x.push_back(y[i]);
        y.push_back(x[7 - i]);
      }
      Lanes z(16);
      for (unsigned i = 0; i < 16; ++i) z[i] = i * 0x11111111u;
      const Lanes got = evaluate(*function, {x, y, z});
      ASSERT_EQ(got.size(), 16u);
      for (unsigned i = 0; i < 16; ++i) {
        std::uint32_t want = z[i];
        for (unsigned k = 0; k < 32; k += 8) {
          const auto value = [&](std::uint32_t v, bool is_signed) {
            return is_signed ? static_cast<std::int8_t>(v >> k) : static_cast<int>(v >> k & 255);
          };
          want += static_cast<std::uint32_t>(value(x[i], left) * value(y[i], right));
        }
        EXPECT_EQ(got[i], want) << i << left << right;
      }
    }
}

// ---- Groups that run together ----

/// A loop over groups as that of a tiled matrix product: sixteen columns that do not depend on the
/// group. The sum of a group is loaded from `from` and stored to `to`.
std::string group_loop(const std::string& from, const std::string& to, unsigned groups) {
  std::string text = "define void @f(ptr %columns, ptr %row, ptr %a, ptr %b) {\nentry:\n";
  for (int k = 0; k < 16; ++k) {
    const auto n = std::to_string(k);
    text += "  %p" + n + " = getelementptr i8, ptr %columns, i64 " + std::to_string(64 * k) +
            "\n  %c" + n + " = load <16 x float>, ptr %p" + n + ", !noalias !0\n";
  }
  text +=
      "  br label %loop\nloop:\n  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
      "  %at = shl i64 %i, 6\n  %from = getelementptr i8, ptr " +
      from +
      ", i64 %at\n"
      "  %s0 = load <16 x float>, ptr %from, !alias.scope !0\n"
      "  %x = load float, ptr %row, !noalias !0\n"
      "  %x1 = insertelement <16 x float> poison, float %x, i64 0\n"
      "  %xs = shufflevector <16 x float> %x1, <16 x float> poison, <16 x i32> zeroinitializer\n";
  for (int k = 0; k < 16; ++k)
    text += "  %s" + std::to_string(k + 1) +
            " = call <16 x float> @llvm.fma.v16f32(<16 x float> %xs, <16 x float> %c" +
            std::to_string(k) + ", <16 x float> %s" + std::to_string(k) + ")\n";
  text += "  %into = getelementptr i8, ptr " + to +
          ", i64 %at\n"
          "  store <16 x float> %s16, ptr %into, !alias.scope !0\n"
          "  %next = add i64 %i, 1\n  %end = icmp eq i64 %next, " +
          std::to_string(groups) +
          "\n"
          "  br i1 %end, label %done, label %loop\ndone:\n  ret void\n}\n"
          "declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)\n"
          "!0 = !{!1}\n!1 = distinct !{!1, !2}\n!2 = distinct !{!2}\n";
  return text;
}

/// How many groups run at once.
std::size_t jammed(const std::string& text, const char* cpu, const char* triple) {
  auto target = machine(cpu, triple);
  LLVMContext context;
  SMDiagnostic error;
  auto module = parseAssemblyString(text, error, context);
  EXPECT_TRUE(module) << error.getMessage().str();
  if (!module || !target) return 0;
  module->setDataLayout(target->createDataLayout());
  Function& function = *module->getFunction("f");
  {
    cucpu::simt::Analyses analyses{target.get()};
    cucpu::simt::jam_groups(function, analyses);
  }
  EXPECT_FALSE(verifyModule(*module, &errs()));
  return static_cast<std::size_t>(count_if(
             instructions(function), [](Instruction& inst) { return isa<IntrinsicInst>(inst); })) /
         16;
}

TEST(SimtTargets, GroupsThatShareMoreVectorsThanThereAreRegistersRunTogether) {
  constexpr auto kArm = "aarch64-unknown-linux-gnu", kX86 = "x86_64-unknown-linux-gnu";
  if (!machine("neoverse-n1", kArm)) GTEST_SKIP() << "this LLVM makes no AArch64 code";
  EXPECT_EQ(jammed(group_loop("%a", "%a", 16), "neoverse-n1", kArm), 4u);
  EXPECT_EQ(jammed(group_loop("%a", "%a", 6), "neoverse-n1", kArm), 2u);
  EXPECT_EQ(jammed(group_loop("%a", "%a", 15), "neoverse-n1", kArm), 1u) << "an odd number";
  EXPECT_EQ(jammed(group_loop("%a", "%b", 16), "neoverse-n1", kArm), 1u) << "they may overlap";
  EXPECT_EQ(jammed(group_loop("%a", "%row", 16), "neoverse-n1", kArm), 1u) << "they may overlap";
  if (machine("icelake-server", kX86)) {
    EXPECT_EQ(jammed(group_loop("%a", "%a", 16), "icelake-server", kX86), 1u) << "sixteen fit";
  }
}

}  // namespace
