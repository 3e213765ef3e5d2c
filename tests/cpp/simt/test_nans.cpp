// tests/cpp/simt/test_nans.cpp: of all NaNs that arithmetic gives, memory sees the one of a GPU;
// where the processor can choose it with one instruction, block code does.
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

// Every thread: %a and %b, one of all pairs, and %pd, where its result goes.
const char* const kHead = R"(
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.sqrt.f32(float)
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

// What the translator writes behind arithmetic: %x as memory shall see it.
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

void check(const std::string& body, bool shortened) {
  SCOPED_TRACE(body);
  const Build build = parse(kHead + body + kTail);
  compare(build, pairs());
  Work work = pairs();
  std::string code;
  run_vectorized(build, work, 16, &code);
#if defined(__aarch64__)
  EXPECT_EQ(code.find("call <16 x float> @llvm.experimental.constrained.maxnum") != code.npos,
            shortened)
      << code;
#else
  EXPECT_EQ(code.find("constrained.maxnum"), code.npos);
  (void)shortened;
#endif
}

TEST(SimtNans, OfArithmeticAreThoseOfAGpu) {
  for (const char* body :
       {"%x = fadd float %a, %b", "%x = fsub float %a, %b", "%x = fmul float %a, %b",
        "%x = fdiv float %a, %b", "%x = call float @llvm.sqrt.f32(float %a)",
        "%x = call float @llvm.fma.f32(float %a, float %b, float %a)",
        "%s = fadd float %a, %b\n%p = fmul float %b, %b\n%c = fcmp olt float %a, %b\n"
        "%x = select i1 %c, float %s, float %p"})
    check(body, true);
}

// The processor's choice would be the NaN that signals, made quiet.
TEST(SimtNans, ThatMaySignalAreReplacedByATest) {
  for (const char* body : {"%x = select i1 true, float %a, float %b",
                           "%s = fadd float %a, %b\n%c = icmp ult i32 %tid, 77\n"
                           "%x = select i1 %c, float %s, float %b",
                           "%x = fneg float %a"})
    check(body, false);
}

}  // namespace
}  // namespace simt_test
