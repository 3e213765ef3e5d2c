// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_packed_int.cpp: integers of 8 and 16 bits that share a register.
#include <llvm/IR/Intrinsics.h>

#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

namespace Intrinsic = llvm::Intrinsic;

// Four bytes or two halves of a register, each with its own result; .sat clamps to the range of the
// type.
void FunctionTranslator::emit_packed_int(const Instruction& i) {
  const Type t = i.types[0];
  const unsigned bits = t == Type::u8x4 || t == Type::s8x4 ? 8 : 16;
  const bool sign = t == Type::s8x4 || t == Type::s16x2;
  const std::string_view op = i.row->op;
  const auto constant = [&](int v) { return b.getInt32(static_cast<std::uint32_t>(v)); };
  const auto element = [&](Value* v, unsigned k) -> Value* {
    Value* part = b.CreateTrunc(b.CreateLShr(v, k * bits), b.getIntNTy(bits));
    return sign ? b.CreateSExt(part, b.getInt32Ty()) : b.CreateZExt(part, b.getInt32Ty());
  };
  Value* x = read(i.operands[1], Type::b32);
  Value* y = op == "neg" ? b.getInt32(0) : read(i.operands[2], Type::b32);
  Value* result = b.getInt32(0);
  for (unsigned k = 0; k < 32 / bits; ++k) {
    Value *u = element(x, k), *v = element(y, k), *r = nullptr;
    if (op == "add") r = b.CreateAdd(u, v);
    if (op == "sub") r = b.CreateSub(u, v);
    if (op == "neg") r = b.CreateSub(v, u);
    if (op == "min") r = intrinsic(Intrinsic::smin, {u, v});
    if (op == "max") r = intrinsic(Intrinsic::smax, {u, v});
    if (i.has(Mod::relu)) r = intrinsic(Intrinsic::smax, {r, constant(0)});
    if (i.has(Mod::sat)) {
      r = intrinsic(Intrinsic::smax, {r, constant(sign ? -(1 << (bits - 1)) : 0)});
      r = intrinsic(Intrinsic::smin, {r, constant((1 << (sign ? bits - 1 : bits)) - 1)});
    }
    r = b.CreateAnd(r, constant((1 << bits) - 1));
    result = b.CreateOr(result, b.CreateShl(r, k * bits));
  }
  write(i.operands[0], result);
}

void FunctionTranslator::emit_add_packed_int(const Instruction& i) {
  Value *x = read(i.operands[1], Type::b32), *y = read(i.operands[2], Type::b32);
  Value* low = b.CreateAnd(b.CreateAdd(x, y), b.getInt32(0xffff));
  Value* high =
      b.CreateAdd(b.CreateAnd(x, b.getInt32(0xffff0000)), b.CreateAnd(y, b.getInt32(0xffff0000)));
  write(i.operands[0], b.CreateOr(low, high));
}

}  // namespace cucpu::ir
