// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/target_groups_test.cpp: lane groups that run together on other machines.
#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>

#include "cpu/engine/simt/analyses.hpp"
#include "cpu/engine/simt/jam_groups.hpp"
#include "target_code.hpp"

namespace {

using namespace llvm;

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
