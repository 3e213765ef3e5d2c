// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/target_conversions_test.cpp: minima, maxima and conversions for other machines.
#include <gtest/gtest.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <bit>
#include <cmath>
#include <limits>

#include "cpu/engine/nan/min_max.hpp"
#include "cpu/engine/nan/saturating_convert.hpp"
#include "target_code.hpp"

namespace {

using namespace llvm;

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
    EXPECT_GE(matches(made.assembly, "\tvcvttps2u?dq\t"), 1u) << made.assembly;
    EXPECT_EQ(matches(made.assembly, "\tvcvttss2u?si"), 0u) << made.assembly;
  }
}

}  // namespace
