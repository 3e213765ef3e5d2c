// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/target_dot_products_test.cpp: dot products of bytes for other machines.
#include <gtest/gtest.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <map>
#include <vector>

#include "cpu/engine/simt/dot_products.hpp"
#include "target_code.hpp"

namespace {

using namespace llvm;

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
    EXPECT_EQ(matches(made.assembly, one.instruction) > 0, one.has) << made.assembly;
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

}  // namespace
