// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/passes_test.cpp: single passes on textual code.
#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>

#include <optional>
#include <string>
#include <vector>

#include "cpu/engine/jit/shift_amounts.hpp"
#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/simt/dead_shared_stores.hpp"
#include "cpu/engine/simt/forward_shared_stores.hpp"
#include "cpu/engine/simt/linear_sum.hpp"
#include "cpu/engine/simt/lower_gathers.hpp"
#include "cpu/engine/simt/narrow_integers.hpp"
#include "cpu/engine/simt/recover_divisions.hpp"
#include "cpu/engine/simt/share_offsets.hpp"

namespace {

using namespace llvm;

struct Parsed {
  LLVMContext context;
  std::unique_ptr<Module> module;
  Function* function;

  explicit Parsed(const std::string& text) {
    SMDiagnostic error;
    module = parseAssemblyString(text, error, context);
    if (!module) ADD_FAILURE() << error.getMessage().str() << "\n" << text;
    function = module ? module->getFunction("f") : nullptr;
  }
};

/// The divisor of the only division that the pass makes of this code.
std::optional<std::uint64_t> divisor(const std::string& body, unsigned opcode) {
  Parsed code{"define i32 @f(i32 %x) {\n" + body + "  ret i32 %q\n}\n"};
  cucpu::simt::recover_divisions(*code.function);
  EXPECT_FALSE(verifyFunction(*code.function, &errs()));
  for (Instruction& inst : instructions(*code.function))
    if (inst.getOpcode() == opcode) {
      EXPECT_EQ(inst.getOperand(0), code.function->getArg(0));
      return cast<ConstantInt>(inst.getOperand(1))->getZExtValue();
    }
  return {};
}

std::string signed_code(std::int64_t factor, unsigned shift) {
  return "  %w = sext i32 %x to i64\n  %p = mul nsw i64 %w, " + std::to_string(factor) +
         "\n  %h = lshr i64 %p, 32\n  %t = trunc i64 %h to i32\n  %s = lshr i32 %t, 31\n  %a = "
         "ashr i32 %t, " +
         std::to_string(shift) + "\n  %q = add i32 %a, %s\n";
}

std::string unsigned_code(std::uint64_t factor, unsigned shift, const std::string& x = "%x") {
  return "  %w = zext i32 " + x + " to i64\n  %p = mul i64 %w, " + std::to_string(factor) +
         "\n  %h = lshr i64 %p, " + std::to_string(shift) + "\n  %q = trunc i64 %h to i32\n";
}

TEST(SimtPasses, ProductsThatAreQuotientsBecomeDivisions) {
  EXPECT_EQ(divisor(signed_code(954437177, 2), Instruction::SDiv), 18);
  EXPECT_EQ(divisor(signed_code(1717986919, 2), Instruction::SDiv), 10);
  EXPECT_EQ(divisor(unsigned_code(954437177, 34), Instruction::UDiv), 18);
  EXPECT_EQ(divisor(unsigned_code(3435973837, 35), Instruction::UDiv), 10);
  // The factor of 7 has 32 bits: as a negative number, it needs the dividend added.
  EXPECT_EQ(
      divisor("  %w = sext i32 %x to i64\n  %p = mul nsw i64 %w, -1840700269\n  %h = lshr i64 "
              "%p, 32\n  %t = trunc i64 %h to i32\n  %u = add i32 %t, %x\n  %s = lshr i32 %u, "
              "31\n  %a = ashr i32 %u, 2\n  %q = add i32 %a, %s\n",
              Instruction::SDiv),
      7);
}

TEST(SimtPasses, ProductsThatAreExtendedQuotientsBecomeExtendedDivisions) {
  Parsed code{
      "define i64 @f(i32 %x) {\n  %w = zext i32 %x to i64\n  %p = mul i64 %w, 3817748708\n"
      "  %q = lshr i64 %p, 36\n  %t = trunc i64 %q to i32\n  %u = mul i32 %t, 7\n"
      "  %v = zext i32 %u to i64\n  %s = add i64 %q, %v\n  ret i64 %s\n}\n"};
  cucpu::simt::recover_divisions(*code.function);
  EXPECT_FALSE(verifyFunction(*code.function, &errs()));
  std::string text;
  for (Instruction& inst : instructions(*code.function))
    text += std::string{inst.getOpcodeName()} + " ";
  EXPECT_EQ(text, "udiv zext mul zext add ret ");
}

TEST(SimtPasses, OtherProductsStay) {
  // One more or less than the factor of 18 is wrong for some dividend.
  for (const std::int64_t factor : {954437176, 954437178, 954437181})
    EXPECT_FALSE(divisor(signed_code(factor, 2), Instruction::SDiv)) << factor;
  EXPECT_FALSE(divisor(unsigned_code(954437176, 34), Instruction::UDiv));
  // Powers of two: shifts, which round negative numbers down.
  EXPECT_FALSE(divisor(signed_code(1 << 30, 2), Instruction::SDiv));
  // Without the addition for negative numbers.
  EXPECT_FALSE(
      divisor("  %w = sext i32 %x to i64\n  %p = mul nsw i64 %w, 954437177\n  %h = ashr i64 "
              "%p, 34\n  %q = trunc i64 %h to i32\n",
              Instruction::SDiv));
  // The factor of 7 rounded up to 32 bits is too large for the largest dividends, but not for
  // small ones.
  EXPECT_FALSE(divisor(unsigned_code(2454267027, 34), Instruction::UDiv));
  Parsed small{"define i32 @f(i32 %x) {\n  %y = and i32 %x, 65535\n" +
               unsigned_code(2454267027, 34, "%y") + "  ret i32 %q\n}\n"};
  cucpu::simt::recover_divisions(*small.function);
  EXPECT_TRUE(any_of(instructions(*small.function),
                     [](Instruction& inst) { return inst.getOpcode() == Instruction::UDiv; }));
}

/// The address of row q and column i - 18 * q, where q is i / 18, after the pass. NVRTC 13.4
/// computes it with 32 bits, NVRTC 13.0 with 64.
std::string address(const std::string& extend, const std::string& divide, int row,
                    const std::string& remainder = "mul i32 %q, -18",
                    const std::string& index = "i32") {
  Parsed code{"define ptr @f(ptr %tile, " + index + " %i) {\n  %q = " + divide +
              " i32 %i, 18\n  %m = " + remainder + "\n  %r = add i32 %m, %i\n  %q64 = " + extend +
              " i32 %q to i64\n  %r64 = " + extend + " i32 %r to i64\n  %a = mul i64 %q64, " +
              std::to_string(row) +
              "\n  %b = shl i64 %r64, 2\n  %p = getelementptr i8, ptr %tile, i64 %a\n"
              "  %end = getelementptr i8, ptr %p, i64 %b\n  ret ptr %end\n}\n"};
  cucpu::simt::cancel_terms(*code.function);
  EXPECT_FALSE(verifyFunction(*code.function, &errs()));
  std::string text;
  for (Instruction& inst : instructions(*code.function))
    text += std::string{inst.getOpcodeName()} + " ";
  return text;
}

TEST(SimtPasses, AnIndexThatIsDividedAndPutTogetherAgainIsTheIndex) {
  EXPECT_EQ(address("sext", "sdiv", 72), "sext shl getelementptr ret ");
  EXPECT_EQ(address("zext", "udiv", 72), "zext shl getelementptr ret ");
  EXPECT_EQ(address("zext nneg", "sdiv", 72), "sext shl getelementptr ret ");
  EXPECT_EQ(address("sext", "udiv", 72, "mul i32 %q, -18", "i32 range(i32 0, 1024)"),
            "sext shl getelementptr ret ")
      << "not negative";
}

TEST(SimtPasses, OtherAddressesInTilesStay) {
  const std::string same = "mul add sext sext mul shl getelementptr getelementptr ret ";
  EXPECT_EQ(address("sext", "sdiv", 76), "sdiv " + same) << "rows of 19 numbers";
  EXPECT_EQ(address("sext", "sdiv", 72, "mul i32 %q, -17"), "sdiv " + same) << "no remainder";
  EXPECT_EQ(address("sext", "udiv", 72), "udiv " + same) << "may wrap";
  EXPECT_EQ(address("zext", "sdiv", 72),
            "sdiv mul add zext zext mul shl getelementptr "
            "getelementptr ret ")
      << "may be negative";
}

/// Block code with the address of shared memory in %shared.
std::string block_code(const std::string& body) {
  return "declare i1 @cucpu_rt_next_block(ptr)\ndeclare void @other()\ndefine void @f(ptr "
         "%context) {\nentry:\n  br label %block\nblock:\n  %field = getelementptr i8, ptr "
         "%context, i64 " +
         std::to_string(offsetof(cucpu::BlockContext, shared)) +
         "\n  %shared = load ptr, ptr %field\n  %four = getelementptr i8, ptr %shared, i64 4\n" +
         body +
         "  %more = call i1 @cucpu_rt_next_block(ptr %context)\n  br i1 %more, label %block, "
         "label %end\nend:\n  ret void\n}\n";
}

/// How many stores vanish.
unsigned dead_stores(const std::string& body) {
  Parsed code{block_code(body)};
  const unsigned count = cucpu::simt::remove_dead_shared_stores(*code.function);
  EXPECT_FALSE(verifyFunction(*code.function, &errs()));
  return count;
}

TEST(SimtPasses, StoresToSharedMemoryThatNothingReadsVanish) {
  EXPECT_EQ(dead_stores("  store i32 1, ptr %shared\n  store i32 2, ptr %four\n"), 2u);
  // What is written again on every way to a load; but not a part of it.
  EXPECT_EQ(dead_stores("  store i32 1, ptr %four\n  store i64 2, ptr %shared\n  %v = load i64, "
                        "ptr %shared\n"),
            1u);
  EXPECT_EQ(dead_stores("  store i64 1, ptr %shared\n  store i32 2, ptr %four\n  %v = load i64, "
                        "ptr %shared\n"),
            0u);
  // The next block reads what it has written itself.
  EXPECT_EQ(dead_stores("  %v = load i32, ptr %shared\n  store i32 %v, ptr %shared\n"), 1u);
  // Other places, and global memory.
  EXPECT_EQ(dead_stores("  store i32 1, ptr %shared\n  %v = load i32, ptr %four\n  %p = inttoptr "
                        "i64 4096 to ptr\n  store i32 %v, ptr %p\n"),
            1u);
}

/// The shuffle that a load of four numbers, 4 bytes after the beginning, becomes; empty: it stays.
/// %a and %b are vectors of four numbers, %p is any address.
std::vector<int> forwarded(const std::string& body, const std::string& load = "load <4 x i32>") {
  Parsed code{block_code(
      "  %a = load <4 x i32>, ptr %context\n  %pb = getelementptr i8, ptr %context, i64 "
      "16\n  %b = load <4 x i32>, ptr %pb\n  %eight = getelementptr i8, ptr %shared, i64 8\n  "
      "%sixteen = getelementptr i8, ptr %shared, i64 16\n  %p = load ptr, ptr %context\n" +
      body + "  %v = " + load + ", ptr %four\n  store <4 x i32> %v, ptr %p\n")};
  const unsigned count = cucpu::simt::forward_shared_stores(*code.function);
  EXPECT_FALSE(verifyFunction(*code.function, &errs()));
  for (Instruction& inst : instructions(*code.function))
    if (auto* shuffle = dyn_cast<ShuffleVectorInst>(&inst)) {
      EXPECT_EQ(count, 1u);
      EXPECT_EQ(shuffle->getOperand(0)->getName(), "a");
      return {shuffle->getShuffleMask().begin(), shuffle->getShuffleMask().end()};
    }
  EXPECT_EQ(count, 0u);
  return {};
}

TEST(SimtPasses, LoadsOfTwoStoredVectorsAreShuffles) {
  const std::string a = "  store <4 x i32> %a, ptr %shared\n",
                    b = "  store <4 x i32> %b, ptr %sixteen\n";
  const std::vector<int> across{1, 2, 3, 4};
  EXPECT_EQ(forwarded(a + b), across);
  EXPECT_EQ(forwarded(b + a), across);
  // The later of two stores counts, and loads do not change anything.
  EXPECT_EQ(forwarded("  store <4 x i32> %b, ptr %shared\n" + b + a + "  %x = load i32, ptr %p\n"),
            across);
  EXPECT_EQ(forwarded(a + "  store <4 x i32> %b, ptr %eight\n"), (std::vector<int>{1, 4, 5, 6}));
  EXPECT_EQ(forwarded("  store <4 x i32> %a, ptr %four\n"), (std::vector<int>{0, 1, 2, 3}));
}

TEST(SimtPasses, LoadsOfOtherNumbersStay) {
  const std::string a = "  store <4 x i32> %a, ptr %shared\n",
                    b = "  store <4 x i32> %b, ptr %sixteen\n";
  const std::vector<int> none;
  EXPECT_EQ(forwarded(a), none) << "its last number is unknown";
  EXPECT_EQ(forwarded(a + b + "  call void @other()\n"), none) << "a call may write";
  EXPECT_EQ(forwarded(a + b + "  store i32 1, ptr %p\n"), none) << "somewhere";
  EXPECT_EQ(forwarded(a + b + "  store i8 1, ptr %eight\n"), none) << "a part of it";
  EXPECT_EQ(forwarded(a + b + "  store volatile <4 x i32> %b, ptr %four\n"), none);
  EXPECT_EQ(forwarded(a + b, "load volatile <4 x i32>"), none);
  EXPECT_EQ(forwarded(a + b + "  br label %later\nlater:\n"), none) << "another block of code";
  EXPECT_EQ(forwarded("  %f = bitcast <4 x i32> %a to <4 x float>\n  store <4 x float> %f, ptr "
                      "%shared\n" +
                      b),
            none)
      << "another type";
  EXPECT_EQ(forwarded(a + "  %c = xor <4 x i32> %b, %b\n  store <4 x i32> %c, ptr %eight\n"
                          "  store i32 1, ptr %sixteen\n"),
            none)
      << "a number that is no vector";
}

TEST(SimtPasses, StoresToSharedMemoryThatMayBeReadStay) {
  const std::string store = "  store i64 1, ptr %shared\n";
  EXPECT_EQ(dead_stores(store + "  %v = load i32, ptr %four\n"), 0u) << "a part of it";
  EXPECT_EQ(dead_stores(store + "  %n = load i64, ptr %context\n  %p = getelementptr i8, ptr "
                                "%shared, i64 %n\n  %v = load i8, ptr %p\n"),
            0u)
      << "somewhere";
  EXPECT_EQ(dead_stores(store + "  call void @other()\n"), 0u) << "by a call";
  EXPECT_EQ(dead_stores(store + "  store ptr %shared, ptr %context\n"), 0u)
      << "the address escapes";
  EXPECT_EQ(dead_stores(store + "  %n = ptrtoint ptr %four to i64\n"), 0u) << "a generic address";
  EXPECT_EQ(dead_stores(store + "  %c = icmp eq ptr %four, null\n  br i1 %c, label %a, label %b\n"
                                "a:\n  br label %b\nb:\n  %v = load i32, ptr %shared\n"),
            0u)
      << "in a later block of code";
  EXPECT_EQ(dead_stores("  store volatile i32 1, ptr %shared\n"), 0u);
  EXPECT_EQ(dead_stores(store + "  %v = atomicrmw add ptr %four, i32 1 monotonic\n"), 0u);
}

/// The bits of the numbers that are compared, and how many saturating sums there are.
struct Narrow {
  unsigned bits = 0, saturating = 0;
  friend bool operator==(const Narrow&, const Narrow&) = default;
};

/// What becomes of a comparison of a number %v, which is made from bytes %x0 to %x3 and words %y0
/// and %y1, with a number or value.
Narrow narrowed(const std::string& made, const std::string& comparison) {
  std::string text = "define i1 @f(i8 %a, i8 %b, i8 %c, i8 %d, i16 %e, i16 %g) {\n";
  for (const auto* one : {"0 = zext i8 %a", "1 = zext i8 %b", "2 = zext i8 %c", "3 = zext i8 %d"})
    text += "  %x" + std::string{one} + " to i32\n";
  text += "  %y0 = zext i16 %e to i32\n  %y1 = zext i16 %g to i32\n" + made + "  %r = icmp " +
          comparison + "\n  ret i1 %r\n}\ndeclare i32 @llvm.smin.i32(i32, i32)\n";
  Parsed code{text};
  cucpu::simt::narrow_integers(*code.function);
  EXPECT_FALSE(verifyFunction(*code.function, &errs()));
  Narrow found;
  for (Instruction& inst : instructions(*code.function)) {
    if (isa<ICmpInst>(inst))
      found.bits = std::max(found.bits, inst.getOperand(0)->getType()->getIntegerBitWidth());
    if (auto* call = dyn_cast<IntrinsicInst>(&inst))
      found.saturating += call->getIntrinsicID() == Intrinsic::uadd_sat;
  }
  return found;
}

// A sum of bytes that stops at 255 compares with smaller numbers as the sum itself.
TEST(SimtPasses, SumsThatAreOnlyComparedSaturate) {
  const std::string sum =
      "  %s = add i32 %x0, %x1\n  %t = add i32 %s, %x2\n  %v = add i32 %t, %x3\n";
  for (const char* predicate : {"eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge"})
    EXPECT_EQ(narrowed(sum, std::string{predicate} + " i32 %v, 254"), (Narrow{8, 3})) << predicate;
  for (const char* predicate : {"ult", "uge", "slt", "sge"})
    EXPECT_EQ(narrowed(sum, std::string{predicate} + " i32 %v, 255"), (Narrow{8, 3})) << predicate;
  for (const char* predicate : {"ugt", "ule", "sgt", "sle"})
    EXPECT_EQ(narrowed(sum, std::string{predicate} + " i32 255, %v"), (Narrow{8, 3})) << predicate;
  // 255 may stand for 256.
  for (const char* predicate : {"eq", "ne", "ule", "ugt", "sle", "sgt"})
    EXPECT_EQ(narrowed(sum, std::string{predicate} + " i32 %v, 255"), (Narrow{16, 0})) << predicate;
  EXPECT_EQ(narrowed(sum, "eq i32 %v, 256"), (Narrow{16, 0}));
  EXPECT_EQ(narrowed(sum, "eq i32 %v, 700"), (Narrow{16, 0}));
  // A byte that may be 255 as well; two sums.
  EXPECT_EQ(narrowed("  %v = add i32 %x0, %x1\n  %w = add i32 %x2, 0\n", "ult i32 %v, %w").bits,
            8U);
  EXPECT_EQ(narrowed(sum + "  %w = and i32 %x3, 127\n", "eq i32 %v, %w"), (Narrow{8, 3}));
  EXPECT_EQ(narrowed(sum + "  %w = and i32 %x3, 255\n", "eq i32 %v, %w"), (Narrow{16, 0}));
  EXPECT_EQ(narrowed(sum, "eq i32 %v, %s"), (Narrow{16, 0}));
  // A minimum of sums; sums of which one fits.
  const std::string least =
      "  %s = add i32 %x0, %x1\n  %t = add i32 %x2, %x3\n"
      "  %v = call i32 @llvm.smin.i32(i32 %s, i32 %t)\n";
  EXPECT_EQ(narrowed(least, "slt i32 %v, 100"), (Narrow{8, 2}));
  const std::string half =
      "  %h0 = lshr i32 %x0, 1\n  %h1 = lshr i32 %x1, 1\n  %s = add i32 %h0, %h1\n"
      "  %v = add i32 %s, %x2\n";
  EXPECT_EQ(narrowed(half, "slt i32 %v, 100"), (Narrow{8, 1}));
  // Bits of a sum, a difference and a product are others where it has stopped.
  EXPECT_EQ(narrowed(sum + "  %w = and i32 %v, 15\n", "eq i32 %w, 3"), (Narrow{16, 0}));
  EXPECT_EQ(narrowed(sum + "  %w = lshr i32 %v, 2\n", "ult i32 %w, 3"), (Narrow{16, 0}));
  EXPECT_EQ(narrowed(sum + "  %w = sub i32 %v, %x0\n", "slt i32 %w, 3"), (Narrow{16, 0}));
  EXPECT_EQ(narrowed("  %s = mul i32 %x0, %x1\n  %v = add i32 %s, %x2\n", "ult i32 %v, 9"),
            (Narrow{16, 0}));
  // Words, and words with bytes.
  const std::string words = "  %s = add i32 %y0, %y1\n  %v = add i32 %s, %x0\n";
  EXPECT_EQ(narrowed(words, "ult i32 %v, 65535"), (Narrow{16, 2}));
  EXPECT_EQ(narrowed(words, "eq i32 %v, 65535"), (Narrow{32, 0}));
  EXPECT_EQ(narrowed(words, "eq i32 %v, -1"), (Narrow{32, 0}));
}

/// How many 64-bit phis are left of a loop that moves two pointers from `start` and `other`.
unsigned pointers_of_loop(const std::string& start, const std::string& other,
                          const std::string& step = "16") {
  Parsed code{R"(
declare ptr @cucpu.params()
declare i32 @cucpu.sreg.tid.x()
define void @f() {
entry:
  %params = call ptr @cucpu.params()
  %a = load i64, ptr %params, align 8
  %at.b = getelementptr i8, ptr %params, i64 8
  %b = load i64, ptr %at.b, align 8
  %t = call i32 @cucpu.sreg.tid.x()
  %tid = zext i32 %t to i64
  %place = add i64 %a, %tid
  %pointer = inttoptr i64 %place to ptr
  %loaded = load i64, ptr %pointer, align 8
  %twice = shl i64 %loaded, 1
  %p0 = )" + start +
              "\n  %q0 = " + other + R"(
  br label %loop
loop:
  %p = phi i64 [ %p0, %entry ], [ %p1, %loop ]
  %q = phi i64 [ %q0, %entry ], [ %q1, %loop ]
  %at.p = inttoptr i64 %p to ptr
  %at.q = inttoptr i64 %q to ptr
  %v = load i64, ptr %at.p, align 8
  store i64 %v, ptr %at.q, align 8
  %p1 = add i64 %p, 16
  %q1 = add i64 %q, )" +
              step + R"(
  %more = icmp ne i64 %v, 0
  br i1 %more, label %loop, label %end
end:
  %last = phi i64 [ %p1, %loop ]
  store i64 %last, ptr %params, align 8
  ret void
})"};
  cucpu::simt::share_offsets(*code.function);
  EXPECT_FALSE(verifyFunction(*code.function, &errs()));
  for (BasicBlock& block : *code.function)
    if (block.getName() == "loop")
      return static_cast<unsigned>(std::distance(block.phis().begin(), block.phis().end()));
  return 0;
}

TEST(SimtPasses, PointersThatALoopMovesTogetherShareTheirOffset) {
  EXPECT_EQ(pointers_of_loop("add i64 %a, %loaded", "add i64 %loaded, %b"), 1u);
  EXPECT_EQ(pointers_of_loop("add i64 %a, %twice", "add i64 %b, %twice"), 1u);
}

TEST(SimtPasses, OtherPointersStay) {
  EXPECT_EQ(pointers_of_loop("add i64 %a, %loaded", "add i64 %b, %loaded", "8"), 2u);
  EXPECT_EQ(pointers_of_loop("add i64 %a, %loaded", "add i64 %b, %twice"), 2u);
  EXPECT_EQ(pointers_of_loop("add i64 %a, %loaded", "add i64 %tid, %loaded"), 2u)
      << "a base that differs between lanes";
  EXPECT_EQ(pointers_of_loop("add i64 %a, %tid", "add i64 %b, %tid"), 2u) << "scalars";
}

/// How many loads of single lanes replace a gather from this address.
unsigned loads_of_gather(const std::string& address, const std::string& mask = "true",
                         const cucpu::simt::VectorTarget& target = {}) {
  Parsed code{"define <4 x float> @f(ptr %x, <4 x i32> %i, <4 x i64> %j, <4 x ptr> %p) {\n" +
              address +
              "  %g = call <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr> %at, i32 4, <4 x "
              "i1> <i1 true, i1 true, i1 true, i1 " +
              mask +
              ">, <4 x float> poison)\n  ret <4 x float> %g\n}\n"
              "declare <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr>, i32, <4 x i1>, "
              "<4 x float>)\n"};
  cucpu::simt::lower_gathers(*code.function, target);
  EXPECT_FALSE(verifyFunction(*code.function, &errs()));
  return static_cast<unsigned>(count_if(
      instructions(*code.function), [](const Instruction& inst) { return isa<LoadInst>(inst); }));
}

TEST(SimtPasses, GathersByIndicesAreLoadsOfLanesWhereTheTargetHasNone) {
  const std::string by_sign = "  %k = sext <4 x i32> %i to <4 x i64>\n",
                    by_zero = "  %k = zext <4 x i32> %i to <4 x i64>\n",
                    at = "  %at = getelementptr float, ptr %x, <4 x i64> ";
  const std::string four = "<i64 4, i64 4, i64 4, i64 4>";
  EXPECT_EQ(loads_of_gather(by_sign + at + "%k\n"), 4u);
  EXPECT_EQ(loads_of_gather(by_zero + at + "%k\n"), 4u);
  EXPECT_EQ(loads_of_gather(by_sign + "  %s = shl <4 x i64> %k, " + four + "\n" + at + "%s\n"), 4u);
  EXPECT_EQ(loads_of_gather(by_sign + "  %s = mul <4 x i64> %k, " + four + "\n" + at + "%s\n"), 4u);
  cucpu::simt::VectorTarget gathers;
  gathers.gathers = true;
  EXPECT_EQ(loads_of_gather(by_sign + at + "%k\n", "true", gathers), 0u);
  EXPECT_EQ(loads_of_gather(by_sign + at + "%k\n", "false"), 0u) << "not all lanes";
  EXPECT_EQ(loads_of_gather(at + "%j\n"), 0u) << "indices of 64 bits";
  EXPECT_EQ(loads_of_gather("  %at = getelementptr i8, <4 x ptr> %p, i64 0\n"), 0u);
}

// LLVM 19 leaves the lane of a shift by 32 as it is, although zero is inserted there.
TEST(SimtPasses, ConstantAmountsOfVectorShiftsAreSmallerThanTheNumberOfBits) {
  Parsed code{R"(
define <4 x i32> @f(<4 x i32> %x, <4 x i32> %n) {
  %a = ashr <4 x i32> %x, <i32 32, i32 31, i32 poison, i32 -1>
  %b = shl <4 x i32> %a, <i32 0, i32 1, i32 2, i32 40>
  %c = lshr <4 x i32> %b, %n
  %r = insertelement <4 x i32> %c, i32 0, i64 0
  ret <4 x i32> %r
})"};
  cucpu::bound_shift_amounts(*code.function);
  EXPECT_FALSE(verifyFunction(*code.function, &errs()));
  std::vector<std::uint64_t> amounts;
  for (Instruction& inst : instructions(*code.function))
    if (auto* by = inst.isShift() ? dyn_cast<ConstantDataVector>(inst.getOperand(1)) : nullptr)
      for (unsigned lane = 0; lane < 4; ++lane) amounts.push_back(by->getElementAsInteger(lane));
  EXPECT_EQ(amounts, (std::vector<std::uint64_t>{0, 31, 0, 0, 0, 1, 2, 0}));
}

}  // namespace
