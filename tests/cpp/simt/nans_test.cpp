// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/nans_test.cpp: of all NaNs that arithmetic gives, memory sees the one of a GPU;
// where the processor can choose it with one instruction, block code does. So with min and max.
#include <gtest/gtest.h>

#include <string>

#include "harness.hpp"

namespace simt_test {
namespace {

// Signs, zeros, the smallest numbers, infinities, quiet NaNs and such as signal.
const std::uint32_t kFloats[] = {
    0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x3f800000, 0xc0490fdb, 0x7f7fffff, 0x7f800000,
    0xff800000, 0x7fc00000, 0xffc00123, 0x7fffffff, 0xffffffff, 0x7f800001, 0xff812345, 0x7fbfffff};
constexpr std::uint32_t kCount = std::size(kFloats);

// Every thread: %a and %b, one of all pairs, and %pd, the address of its result.
const char* const kHead = R"(
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.fabs.f32(float)
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.minnum.f32(float, float)
declare half @llvm.maxnum.f16(half, half)
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %tid = call i32 @cucpu.sreg.tid.x()
  %w = zext i32 %tid to i64
  %o = shl i64 %w, 2
  %o8 = shl i64 %w, 3
  %aa = add i64 %in, %o8
  %pa = inttoptr i64 %aa to ptr
  %a = load float, ptr %pa, align 4
  %ab = add i64 %aa, 4
  %pb = inttoptr i64 %ab to ptr
  %b = load float, ptr %pb, align 4
  %d = add i64 %out, %o
  %pd = inttoptr i64 %d to ptr
)";

// What the translator emits after arithmetic: %x with the NaN that is stored.
const char* const kTail = R"(
  %nan = fcmp uno float %x, %x
  %raw = bitcast float %x to i32
  %seen = select i1 %nan, i32 2147483647, i32 %raw
  store i32 %seen, ptr %pd, align 4
  ret void
}
)";

Work pairs() {
  Work work;
  work.block = {kCount * kCount, 1, 1};
  std::vector<std::uint32_t> in;
  for (std::uint32_t a : kFloats)
    for (std::uint32_t b : kFloats) in.insert(in.end(), {a, b});
  work.buffers = {in, std::vector<std::uint32_t>(kCount * kCount, 7)};
  return work;
}

/// Block code of sixteen lanes. What all widths compute is what thread code does.
std::string code_of(const std::string& body) {
  SCOPED_TRACE(body);
  const Build build = parse(kHead + body + kTail);
  compare(build, pairs());
  Work work = pairs();
  std::string code;
  run_vectorized(build, work, 16, &code);
  return code;
}

[[maybe_unused]] std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

void check(const std::string& body, bool shortened) {
  SCOPED_TRACE(body);
  const std::string code = code_of(body);
#if defined(__aarch64__)
  EXPECT_EQ(code.find("call <16 x float> @llvm.experimental.constrained.maxnum") != code.npos,
            shortened)
      << code;
#else
  EXPECT_EQ(code.find("constrained.maxnum"), code.npos);
  (void)shortened;
#endif
}

TEST(SimtNans, ArithmeticProducesTheCanonicalNan) {
  for (const char* body :
       {"%x = fadd float %a, %b", "%x = fsub float %a, %b", "%x = fmul float %a, %b",
        "%x = fdiv float %a, %b", "%x = call float @llvm.sqrt.f32(float %a)",
        "%x = call float @llvm.fma.f32(float %a, float %b, float %a)",
        "%s = fadd float %a, %b\n%p = fmul float %b, %b\n%c = fcmp olt float %a, %b\n"
        "%x = select i1 %c, float %s, float %p"})
    check(body, true);
}

// The processor's choice would be the NaN that signals, made quiet.
TEST(SimtNans, PossibleSignalingNansAreTested) {
  for (const char* body : {"%x = select i1 true, float %a, float %b",
                           "%s = fadd float %a, %b\n%c = icmp ult i32 %tid, 77\n"
                           "%x = select i1 %c, float %s, float %b",
                           "%x = fneg float %a"})
    check(body, false);
}

/// `loud` operands of the min and max in `body` may be NaNs that signal.
void check_extremes(const std::string& body, std::size_t loud) {
  SCOPED_TRACE(body);
  const std::string code = code_of(body);
#if defined(__aarch64__)
  // One for every such operand, one for what memory sees.
  EXPECT_EQ(count(code, "@llvm.experimental.constrained.maxnum.v16f32(<16 x float> %") +
                count(code, "@llvm.experimental.constrained.maxnum.f32(float %"),
            loud)
      << code;
  EXPECT_EQ(count(code, "fcmp uno"), 0u) << code;
  EXPECT_EQ(count(code, " @llvm.maximum"), 0u) << code;
#else
  for (const std::string type : {"float", "<16 x float>"})
    for (const std::string name : {"maxnum", "minnum"})
      EXPECT_EQ(count(code, "call " + type + " @llvm." + name), 0u) << code;
  (void)loud;
#endif
}

TEST(SimtNans, MinAndMaxOfArithmeticAreOneInstruction) {
  const std::string two = "%s = fadd float %a, %b\n%p = fmul float %b, %b\n";
  for (const char* body :
       {"%x = call float @llvm.maxnum.f32(float %s, float %p)",
        "%x = call float @llvm.minnum.f32(float %s, float %p)",
        "%x = call float @llvm.maxnum.f32(float %s, float -0.0)",
        "%n = fneg float %s\n%f = call float @llvm.fabs.f32(float %p)\n"
        "%x = call float @llvm.minnum.f32(float %n, float %f)",
        "%c = fcmp olt float %a, %b\n%t = select i1 %c, float %s, float %p\n"
        "%x = call float @llvm.maxnum.f32(float %t, float %s)",
        "%i = bitcast float %s to i32\n%k = icmp eq i32 %tid, 3\n"
        "%j = select i1 %k, i32 1065353216, i32 %i\n%t = bitcast i32 %j to float\n"
        "%m = call float @llvm.minnum.f32(float %t, float %p)\n"
        "%x = call float @llvm.maxnum.f32(float %m, float %t)"})
    check_extremes(two + body, 0);
}

TEST(SimtNans, MinAndMaxOfLoadedValuesQuietThemOnce) {
  const std::string sum = "%s = fadd float %a, %b\n";
  check_extremes("%x = call float @llvm.maxnum.f32(float %a, float %b)", 2);
  check_extremes(sum + "%x = call float @llvm.minnum.f32(float %s, float %b)", 1);
  check_extremes(sum +
                     "%m = call float @llvm.minnum.f32(float %s, float %b)\n"
                     "%n = call float @llvm.maxnum.f32(float %b, float %m)\n"
                     "%x = call float @llvm.maxnum.f32(float %n, float %s)",
                 1);
  // A choice between bits that may signal is one of them; where a NaN is replaced, it is not.
  check_extremes(sum +
                     "%c = icmp ult i32 %tid, 77\n%t = select i1 %c, float %s, float %b\n"
                     "%x = call float @llvm.minnum.f32(float %t, float %s)",
                 1);
  check_extremes(sum +
                     "%c = fcmp ord float %b, %b\n%t = select i1 %c, float %b, float 2.0\n"
                     "%x = call float @llvm.minnum.f32(float %t, float %s)",
                 0);
}

// All comparisons of a value with a bound, for which one instruction is the choice between the two
// or is not: of two zeros it takes one by its sign, and LLVM takes any.
TEST(SimtNans, ClampsOfArithmeticAreOneInstruction) {
  const auto choice = [](const std::string& how, const std::string& bound, bool keeps,
                         const std::string& of = "%s") {
    const std::string x = "float " + of, other = "float " + bound;
    return "%s = fadd float %a, %b\n%c = fcmp " + how + " " + x + ", " + bound +
           "\n%x = select i1 %c, " + (keeps ? x + ", " + other : other + ", " + x);
  };
  for (const char* how : {"ogt", "oge", "olt", "ole", "ugt", "uge", "ult", "ule"})
    for (const bool keeps : {false, true}) {
      const std::string code = code_of(choice(how, "1.0", keeps));
#if defined(__aarch64__)
      EXPECT_EQ(count(code, "fcmp"), 0u) << code;
#endif
      for (const char* bound : {"0.0", "-0.0", "1.0"})
        for (const char* of : {"%s", "%a"}) EXPECT_NE(code_of(choice(how, bound, keeps, of)), "");
      std::string loud = choice(how, "1.0", keeps, "%a");  // a NaN that signals may pass
      loud.replace(loud.find("%x ="), 4, "%y =");
      EXPECT_NE(code_of(loud + "\n%x = call float @llvm.maxnum.f32(float %y, float %b)"), "");
    }
}

TEST(SimtNans, MinAndMaxOfHalves) {
  const char* const body =
      "%ia = bitcast float %a to i32\n%ib = bitcast float %b to i32\n"
      "%ta = lshr i32 %ia, 13\n%tb = lshr i32 %ib, 16\n"
      "%sa = trunc i32 %ta to i16\n%sb = trunc i32 %tb to i16\n"
      "%ha = bitcast i16 %sa to half\n%hb = bitcast i16 %sb to half\n"
      "%h = call half @llvm.maxnum.f16(half %ha, half %hb)\n%x = fpext half %h to float";
  EXPECT_NE(code_of(body), "");
}

}  // namespace
}  // namespace simt_test
