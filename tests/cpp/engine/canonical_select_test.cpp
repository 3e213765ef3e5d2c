// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/canonical_select_test.cpp: which selects of the canonical NaN nothing sees.
#include "cpu/engine/nan/canonical_select.hpp"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>

#include <string>

namespace cucpu::test {
namespace {

/// The names of the selects that are left of a function's body, each with a space behind it.
std::string kept(const std::string& body) {
  const std::string text =
      "declare float @llvm.fma.f32(float, float, float)\n"
      "declare float @llvm.maxnum.f32(float, float)\n"
      "define void @f(ptr %p, float %a, float %b, <4 x float> %v, i1 %which) {\n" +
      body + "\n}";
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  const auto module = llvm::parseAssemblyString(text, problem, context);
  if (!module)
    return problem.getMessage().str() + " in line " + std::to_string(problem.getLineNo());
  llvm::Function& function = *module->getFunction("f");
  drop_canonical_selects(function);
  std::string problems;
  llvm::raw_string_ostream out{problems};
  if (llvm::verifyFunction(function, &out)) return problems;
  std::string names;
  for (const llvm::Instruction& inst : llvm::instructions(function))
    if (llvm::isa<llvm::SelectInst>(inst)) names += inst.getName().str() + " ";
  return names;
}

/// %NAME: %x, or the canonical NaN.
std::string canonical(const std::string& name, const std::string& x) {
  return "%t" + name + " = fcmp uno float " + x + ", " + x + "\n%r" + name + " = bitcast float " +
         x + " to i32\n%i" + name + " = select i1 %t" + name + ", i32 2147483647, i32 %r" + name +
         "\n%" + name + " = bitcast i32 %i" + name + " to float\n";
}

TEST(CanonicalSelect, OnlyTheLastOfASumIsSeen) {
  EXPECT_EQ(
      kept("%s = fadd float %a, %b\n" + canonical("c", "%s") + "%u = fmul float %c, %b\n" +
           canonical("d", "%u") + "%w = call float @llvm.fma.f32(float %d, float %c, float %a)\n" +
           canonical("e", "%w") + "store float %e, ptr %p\nret void"),
      "ie ");
}

TEST(CanonicalSelect, AStoreOfAnEarlierSumSeesIt) {
  EXPECT_EQ(kept("%s = fadd float %a, %b\n" + canonical("c", "%s") + "%u = fadd float %c, %b\n" +
                 canonical("d", "%u") +
                 "store float %c, ptr %p\n%q = getelementptr float, ptr %p, i64 1\n"
                 "store float %d, ptr %q\nret void"),
            "ic id ");
}

TEST(CanonicalSelect, ARawSumThatIsStoredShowsTheNanOfItsOperand) {
  EXPECT_EQ(kept("%s = fadd float %a, %b\n" + canonical("c", "%s") +
                 "%u = fadd float %c, %b\nstore float %u, ptr %p\nret void"),
            "ic ");
}

TEST(CanonicalSelect, IntegersMaximumsAndConversionsSeeBits) {
  const std::string sum = "%s = fadd float %a, %b\n" + canonical("c", "%s");
  EXPECT_EQ(kept(sum + "%n = add i32 %ic, 1\nstore i32 %n, ptr %p\nret void"), "ic ");
  EXPECT_EQ(kept(sum + "%m = call float @llvm.maxnum.f32(float %c, float %a)\n" +
                 canonical("d", "%m") + "store float %d, ptr %p\nret void"),
            "ic id ");
  EXPECT_EQ(kept(sum + "%m = fpext float %c to double\nstore double %m, ptr %p\nret void"), "ic ");
  EXPECT_EQ(kept(sum + "%m = fptosi float %c to i32\nstore i32 %m, ptr %p\nret void"), "ic ");
}

TEST(CanonicalSelect, AComparisonDoesNot) {
  EXPECT_EQ(kept("%s = fadd float %a, %b\n" + canonical("c", "%s") + canonical("d", "%c") +
                 "%m = fcmp olt float %d, %b\n%n = zext i1 %m to i32\n"
                 "store i32 %n, ptr %p\nret void"),
            "");
}

TEST(CanonicalSelect, VectorsAndTheirPieces) {
  const std::string pair = R"(
    %s = fadd <4 x float> %v, %v
    %t = fcmp uno <4 x float> %s, zeroinitializer
    %c = select <4 x i1> %t, <4 x float> splat (float 0x7FFFFFFFE0000000), <4 x float> %s
    %u = shufflevector <4 x float> %c, <4 x float> %v, <2 x i32> <i32 2, i32 5>
    %l = extractelement <4 x float> %c, i32 1
  )";
  EXPECT_EQ(kept(pair + "%m = fadd float %l, %a\n" + canonical("d", "%m") +
                 "store float %d, ptr %p\nret void"),
            "id ");
  EXPECT_EQ(kept(pair + "store <2 x float> %u, ptr %p\nret void"), "c ");
}

TEST(CanonicalSelect, LoopsAndChoices) {
  const std::string loop = R"(
      br label %loop
    loop:
      %x = phi float [ %a, %0 ], [ %c, %loop ]
      %s = fadd float %x, %b
  )" + canonical("c", "%s") +
                           "br i1 %tc, label %loop, label %end\nend:\n";
  EXPECT_EQ(kept(loop + "store float %s, ptr %p\nret void"), "ic ");
  EXPECT_EQ(kept(loop + "%y = fneg float %x\n" + canonical("d", "%y") +
                 "store float %d, ptr %p\nret void"),
            "id ");
  EXPECT_EQ(kept("%s = fadd float %a, %b\n" + canonical("k", "%s") +
                 "%y = select i1 %which, float %k, float %a\nstore float %y, ptr %p\nret void"),
            "ik y ");
}

}  // namespace
}  // namespace cucpu::test
