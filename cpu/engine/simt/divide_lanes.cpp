// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/divide_lanes.cpp
#include "cpu/engine/simt/divide_lanes.hpp"

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

namespace cucpu::simt {

using namespace llvm;

namespace {

/// floor(a * 2^32 / d) for a < d < 2^32 (i64). Without a division of integers, which no pass moves
/// out of a loop: it might divide by zero there. The quotient of doubles is off by at most one.
Value* divide_shifted(IRBuilder<>& b, Value* a, Value* d) {
  Type *wide = b.getInt64Ty(), *real = b.getDoubleTy();
  Value* ratio = b.CreateFDiv(b.CreateUIToFP(a, real), b.CreateUIToFP(d, real));
  Value* near = b.CreateFPToUI(b.CreateFMul(ratio, ConstantFP::get(real, 0x1p32)), wide);
  Value* left = b.CreateSub(b.CreateShl(a, b.getInt64(32)), b.CreateMul(near, d));
  Value* low = b.CreateICmpSLT(left, b.getInt64(0));
  Value* high = b.CreateICmpSGE(left, d);
  return b.CreateSub(b.CreateAdd(near, b.CreateZExt(high, wide)), b.CreateZExt(low, wide));
}

/// Unsigned numbers of 32 bits: "Division by Invariant Integers using Multiplication" (Granlund,
/// Montgomery), figure 4.1. With l = ceil(log2 d) and m = floor(2^32 * (2^l - d) / d) + 1 the
/// quotient is (t + (x - t >> min(l, 1))) >> max(l - 1, 0), where t = m * x >> 32.
Value* divide_unsigned(IRBuilder<>& b, Value* x, Value* d) {
  const ElementCount lanes = cast<VectorType>(x->getType())->getElementCount();
  Type* wide = b.getInt64Ty();
  d = b.CreateZExt(b.CreateBinaryIntrinsic(Intrinsic::umax, d, b.getInt32(1)), wide);
  Value* leading =
      b.CreateBinaryIntrinsic(Intrinsic::ctlz, b.CreateSub(d, b.getInt64(1)), b.getFalse());
  Value* log = b.CreateSub(b.getInt64(64), leading);  // 0 to 32
  Value* above = b.CreateSub(b.CreateShl(b.getInt64(1), log), d);
  Value* factor = b.CreateAdd(divide_shifted(b, above, d), b.getInt64(1));
  Value* first = b.CreateBinaryIntrinsic(Intrinsic::umin, log, b.getInt64(1));
  const auto splat = [&](Value* v) {
    return b.CreateVectorSplat(lanes, b.CreateTrunc(v, b.getInt32Ty()));
  };
  Type* wides = VectorType::get(wide, lanes);
  Value* product = b.CreateMul(b.CreateZExt(x, wides), b.CreateZExt(splat(factor), wides));
  Value* t = b.CreateTrunc(b.CreateLShr(product, ConstantInt::get(wides, 32)), x->getType());
  Value* sum = b.CreateAdd(t, b.CreateLShr(b.CreateSub(x, t), splat(first)));
  return b.CreateLShr(sum, splat(b.CreateSub(log, first)));
}

}  // namespace

Value* divide_lanes(IRBuilder<>& b, unsigned opcode, Value* x, Value* d) {
  const bool is_signed = opcode == Instruction::SDiv || opcode == Instruction::SRem;
  Type* const type = x->getType();
  Type* const lanes = type->getWithNewBitWidth(32);
  x = is_signed ? b.CreateSExt(x, lanes) : b.CreateZExt(x, lanes);
  d = is_signed ? b.CreateSExt(d, b.getInt32Ty()) : b.CreateZExt(d, b.getInt32Ty());
  Value* all_d = b.CreateVectorSplat(cast<VectorType>(type)->getElementCount(), d);
  Value* q = nullptr;
  if (is_signed) {
    const auto magnitude = [&](Value* v) {
      return b.CreateBinaryIntrinsic(Intrinsic::abs, v, b.getFalse());
    };
    q = divide_unsigned(b, magnitude(x), magnitude(d));
    Value* sign = b.CreateAShr(b.CreateXor(x, all_d), ConstantInt::get(lanes, 31));
    q = b.CreateSub(b.CreateXor(q, sign), sign);
  } else {
    q = divide_unsigned(b, x, d);
  }
  const bool remainder = opcode == Instruction::SRem || opcode == Instruction::URem;
  return b.CreateTrunc(remainder ? b.CreateSub(x, b.CreateMul(q, all_d)) : q, type);
}

}  // namespace cucpu::simt
