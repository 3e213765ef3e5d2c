// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_integer.cpp: integer arithmetic, bits, shifts. Nothing here can trap
// the host.
#include <llvm/IR/Intrinsics.h>

#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

namespace Intrinsic = llvm::Intrinsic;
using llvm::ConstantInt;

namespace {

Value* all_ones(llvm::Type* t) { return llvm::Constant::getAllOnesValue(t); }
Value* zero(llvm::Type* t) { return llvm::Constant::getNullValue(t); }

}  // namespace

Value* FunctionTranslator::intrinsic(Intrinsic::ID id, llvm::ArrayRef<Value*> args) {
  return b.CreateIntrinsic(id, {args[0]->getType()}, args);
}

void FunctionTranslator::emit_add_int(const Instruction& i) {
  const Type t = i.types[0];
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  const auto clamped = t == Type::u32 ? Intrinsic::uadd_sat : Intrinsic::sadd_sat;
  write(i.operands[0], i.has(Mod::sat) ? intrinsic(clamped, {x, y}) : b.CreateAdd(x, y));
}

// d = half of the product of a and b without carries, xor c. Of every four bits one is multiplied
// at a time: sums of at most 16 products stay in the four bits of their place, whose lowest is the
// result without carries. The upper half is the lower one of the reversed factors, reversed.
void FunctionTranslator::emit_clmad(const Instruction& i) {
  constexpr std::uint64_t kEveryFourth = 0x1111111111111111;
  const bool high = i.has(Mod::hi);
  Value* factors[2] = {read(i.operands[1], Type::u64), read(i.operands[2], Type::u64)};
  Value* parts[2][4];
  for (unsigned f = 0; f < 2; ++f) {
    if (high) factors[f] = b.CreateUnaryIntrinsic(Intrinsic::bitreverse, factors[f]);
    for (unsigned k = 0; k < 4; ++k)
      parts[f][k] = b.CreateAnd(factors[f], b.getInt64(kEveryFourth << k));
  }
  Value* product = b.getInt64(0);
  for (unsigned k = 0; k < 4; ++k) {
    Value* sum = b.getInt64(0);
    for (unsigned j = 0; j < 4; ++j)
      sum = b.CreateXor(sum, b.CreateMul(parts[0][j], parts[1][(k - j) % 4]));
    product = b.CreateOr(product, b.CreateAnd(sum, b.getInt64(kEveryFourth << k)));
  }
  if (high) product = b.CreateLShr(b.CreateUnaryIntrinsic(Intrinsic::bitreverse, product), 1);
  write(i.operands[0], b.CreateXor(product, read(i.operands[3], Type::u64)));
}

void FunctionTranslator::emit_sub_int(const Instruction& i) {
  const Type t = i.types[0];
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  write(i.operands[0],
        i.has(Mod::sat) ? intrinsic(Intrinsic::ssub_sat, {x, y}) : b.CreateSub(x, y));
}

Value* FunctionTranslator::multiply(const Instruction& i, Value* x, Value* y, Type type) {
  if (i.has(Mod::lo)) return b.CreateMul(x, y);
  const unsigned bits = ptx::bits_of(type);
  llvm::Type* wide = int_type(bits * 2);
  Value* p = is_signed(type)
                 ? b.CreateMul(b.CreateSExt(x, wide), b.CreateSExt(y, wide), "", false, true)
                 : b.CreateMul(b.CreateZExt(x, wide), b.CreateZExt(y, wide), "", true, false);
  if (i.has(Mod::wide)) return p;
  return b.CreateTrunc(b.CreateLShr(p, bits), int_type(bits));
}

void FunctionTranslator::emit_mul_int(const Instruction& i) {
  const Type t = i.types[0];
  write(i.operands[0], multiply(i, read(i.operands[1], t), read(i.operands[2], t), t));
}

void FunctionTranslator::emit_mad_int(const Instruction& i) {
  const Type t = i.types[0];
  Value* p = multiply(i, read(i.operands[1], t), read(i.operands[2], t), t);
  Value* c = read_bits(i.operands[3], p->getType()->getIntegerBitWidth());
  write(i.operands[0],
        i.has(Mod::sat) ? intrinsic(Intrinsic::sadd_sat, {p, c}) : b.CreateAdd(p, c));
}

void FunctionTranslator::carry_out(Value* c) {
  if (carry_ == nullptr) {
    const llvm::IRBuilder<>::InsertPointGuard guard{b};
    b.SetInsertPoint(entry_, entry_->begin());
    carry_ = b.CreateAlloca(b.getInt1Ty());
    b.SetInsertPoint(entry_, std::next(carry_->getIterator()));
    b.CreateStore(b.getFalse(), carry_);
  }
  if (c == nullptr) return;
  if (select_guard_ != nullptr)
    c = b.CreateSelect(select_guard_, c, b.CreateLoad(b.getInt1Ty(), carry_));
  b.CreateStore(c, carry_);
}

/// x + y, and the carry of the instruction before where `adds_carry`.
void FunctionTranslator::write_sum_and_carry(const Instruction& i, Value* x, Value* y,
                                             bool adds_carry) {
  Value* sum = b.CreateAdd(x, y);
  Value* c = b.CreateICmpULT(sum, x);
  if (adds_carry) {
    Value* in = b.CreateZExt(b.CreateLoad(b.getInt1Ty(), carry_), sum->getType());
    Value* more = b.CreateAdd(sum, in);
    c = b.CreateOr(c, b.CreateICmpULT(more, sum));
    sum = more;
  }
  if (i.has(Mod::cc)) carry_out(c);
  write(i.operands[0], sum);
}

void FunctionTranslator::emit_add_carry(const Instruction& i) {
  const Type t = i.types[0];
  carry_out(nullptr);
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  write_sum_and_carry(i, x, y, i.row->op == "addc");
}

// A subtraction is the sum with the complement: CC.CF is set where nothing was borrowed. Chains of
// subtractions alone cannot tell; NVRTC's division of 128-bit numbers reads the flag with addc.
void FunctionTranslator::emit_sub_carry(const Instruction& i) {
  const Type t = i.types[0];
  carry_out(nullptr);
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  Value* difference = b.CreateSub(x, y);
  Value* borrowed = b.CreateICmpULT(x, y);
  if (i.row->op == "subc") {
    Value* in = b.CreateZExt(b.CreateNot(b.CreateLoad(b.getInt1Ty(), carry_)), x->getType());
    Value* less = b.CreateSub(difference, in);
    borrowed = b.CreateOr(borrowed, b.CreateICmpULT(difference, in));
    difference = less;
  }
  if (i.has(Mod::cc)) carry_out(b.CreateNot(borrowed));
  write(i.operands[0], difference);
}

void FunctionTranslator::emit_mad_carry(const Instruction& i) {
  const Type t = i.types[0];
  carry_out(nullptr);
  Value* p = multiply(i, read(i.operands[1], t), read(i.operands[2], t), t);
  write_sum_and_carry(i, p, read(i.operands[3], t), i.row->op == "madc");
}

Value* FunctionTranslator::multiply24(const Instruction& i) {
  Value *x = read(i.operands[1], i.types[0]), *y = read(i.operands[2], i.types[0]);
  const bool sign = is_signed(i.types[0]);
  const auto cut = [&](Value* v) {
    v = b.CreateShl(v, 8);
    v = sign ? b.CreateAShr(v, 8) : b.CreateLShr(v, 8);
    return sign ? b.CreateSExt(v, b.getInt64Ty()) : b.CreateZExt(v, b.getInt64Ty());
  };
  Value* p = b.CreateMul(cut(x), cut(y));
  if (i.has(Mod::hi)) p = b.CreateLShr(p, 16);
  return b.CreateTrunc(p, b.getInt32Ty());
}

void FunctionTranslator::emit_mul24(const Instruction& i) { write(i.operands[0], multiply24(i)); }

void FunctionTranslator::emit_mad24(const Instruction& i) {
  Value* p = multiply24(i);
  Value* c = read(i.operands[3], i.types[0]);
  write(i.operands[0],
        i.has(Mod::sat) ? intrinsic(Intrinsic::sadd_sat, {p, c}) : b.CreateAdd(p, c));
}

void FunctionTranslator::emit_sad(const Instruction& i) {
  const Type t = i.types[0];
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t), *c = read(i.operands[3], t);
  Value* less = is_signed(t) ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
  write(i.operands[0], b.CreateAdd(c, b.CreateSelect(less, b.CreateSub(y, x), b.CreateSub(x, y))));
}

// The result of the GPU's division routine for a zero divisor: all ones, for the quotient and for
// the 32-bit remainder; 16- and 64-bit remainders come from the same routine. INT_MIN / -1 wraps.
// Special results are made from the result of the division by 1, not from the dividend or by a
// select: a quotient that is the same for all lanes then stays so, and a remainder that grows from
// lane to lane too.
void FunctionTranslator::emit_div_int(const Instruction& i) {
  const Type t = i.types[0];
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  llvm::Type* ty = x->getType();
  Value* none = b.CreateICmpEQ(y, zero(ty));
  Value* q = nullptr;
  if (is_signed(t)) {
    Value* minus = b.CreateICmpEQ(y, all_ones(ty));
    Value* safe = b.CreateSelect(b.CreateOr(none, minus), ConstantInt::get(ty, 1), y);
    q = b.CreateSDiv(x, safe);
    q = b.CreateSelect(minus, b.CreateNeg(q), q);
  } else {
    q = b.CreateUDiv(x, b.CreateSelect(none, ConstantInt::get(ty, 1), y));
  }
  write(i.operands[0], b.CreateSelect(none, all_ones(ty), q), is_signed(t));
}

void FunctionTranslator::emit_rem_int(const Instruction& i) {
  const Type t = i.types[0];
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  llvm::Type* ty = x->getType();
  Value* none = b.CreateICmpEQ(y, zero(ty));
  Value* r = nullptr;
  if (is_signed(t)) {
    Value* minus = b.CreateICmpEQ(y, all_ones(ty));
    Value* safe = b.CreateSelect(b.CreateOr(none, minus), ConstantInt::get(ty, 1), y);
    r = b.CreateSRem(x, safe);  // x % 1 = 0 is also x % -1
  } else {
    r = b.CreateURem(x, b.CreateSelect(none, ConstantInt::get(ty, 1), y));
  }
  write(i.operands[0], b.CreateAdd(r, b.CreateSExt(none, ty)), is_signed(t));  // x % 1 - 1
}

void FunctionTranslator::emit_abs_int(const Instruction& i) {
  Value* x = read(i.operands[1], i.types[0]);
  write(i.operands[0], b.CreateIntrinsic(Intrinsic::abs, {x->getType()}, {x, b.getFalse()}));
}

void FunctionTranslator::emit_neg_int(const Instruction& i) {
  write(i.operands[0], b.CreateNeg(read(i.operands[1], i.types[0])));
}

void FunctionTranslator::emit_minmax_int(const Instruction& i) {
  const Type t = i.types[0];
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  const bool packed = t == Type::s16x2 || t == Type::u16x2;
  const bool sign = is_signed(t) || t == Type::s16x2;
  const bool max = i.row->op == "max";
  const Intrinsic::ID id =
      max ? (sign ? Intrinsic::smax : Intrinsic::umax) : (sign ? Intrinsic::smin : Intrinsic::umin);
  const auto one = [&](Value* u, Value* v) {
    Value* r = intrinsic(id, {u, v});
    return i.has(Mod::relu) ? intrinsic(Intrinsic::smax, {r, zero(r->getType())}) : r;
  };
  if (!packed) return write(i.operands[0], one(x, y));
  const auto half = [&](Value* v, unsigned k) {
    return b.CreateTrunc(b.CreateLShr(v, k * 16), b.getInt16Ty());
  };
  Value* lo = b.CreateZExt(one(half(x, 0), half(y, 0)), b.getInt32Ty());
  Value* hi = b.CreateZExt(one(half(x, 1), half(y, 1)), b.getInt32Ty());
  write(i.operands[0], b.CreateOr(lo, b.CreateShl(hi, 16)));
}

void FunctionTranslator::emit_popc(const Instruction& i) {
  Value* n = intrinsic(Intrinsic::ctpop, {read(i.operands[1], i.types[0])});
  write(i.operands[0], b.CreateZExtOrTrunc(n, b.getInt32Ty()));
}

void FunctionTranslator::emit_clz(const Instruction& i) {
  Value* x = read(i.operands[1], i.types[0]);
  Value* n = b.CreateIntrinsic(Intrinsic::ctlz, {x->getType()}, {x, b.getFalse()});
  write(i.operands[0], b.CreateZExtOrTrunc(n, b.getInt32Ty()));
}

void FunctionTranslator::emit_brev(const Instruction& i) {
  write(i.operands[0], intrinsic(Intrinsic::bitreverse, {read(i.operands[1], i.types[0])}));
}

void FunctionTranslator::emit_bfind(const Instruction& i) {
  const Type t = i.types[0];
  Value* x = read(i.operands[1], t);
  if (is_signed(t)) x = b.CreateXor(x, b.CreateAShr(x, ptx::bits_of(t) - 1));
  Value* n = b.CreateIntrinsic(Intrinsic::ctlz, {x->getType()}, {x, b.getFalse()});
  n = b.CreateZExtOrTrunc(n, b.getInt32Ty());
  Value* none = b.CreateICmpEQ(x, zero(x->getType()));
  Value* r = i.has(Mod::shiftamt) ? n : b.CreateSub(b.getInt32(ptx::bits_of(t) - 1), n);
  write(i.operands[0], b.CreateSelect(none, b.getInt32(0xffffffff), r));
}

void FunctionTranslator::emit_fns(const Instruction& i) {
  write(i.operands[0], call_routine("fns", b.getInt32Ty(),
                                    {read(i.operands[1], Type::b32), read(i.operands[2], Type::b32),
                                     read(i.operands[3], Type::b32)}));
}

void FunctionTranslator::emit_bfe(const Instruction& i) {
  const Type t = i.types[0];
  const unsigned bits = ptx::bits_of(t);
  Value* x = read(i.operands[1], t);
  llvm::Type* ty = x->getType();
  // As on a GPU, 32-bit fields use the low byte of position and length, 64-bit fields all of it.
  const std::uint32_t low = bits == 32 ? 0xff : 0xffffffff;
  Value* pos = b.CreateAnd(read(i.operands[2], Type::b32), b.getInt32(low));
  Value* len = b.CreateAnd(read(i.operands[3], Type::b32), b.getInt32(low));
  const auto wide = [&](Value* v) { return b.CreateZExtOrTrunc(v, ty); };
  Value* len_zero = b.CreateICmpEQ(len, b.getInt32(0));
  // Keep `len` bits of x >> pos: shift them to the top and back down.
  Value* shifted = is_signed(t) ? clamped_shift(llvm::Instruction::AShr, x, pos)
                                : clamped_shift(llvm::Instruction::LShr, x, pos);
  Value* keep = b.CreateSelect(b.CreateICmpUGE(len, b.getInt32(bits)), b.getInt32(0),
                               b.CreateSub(b.getInt32(bits), len));
  Value* safe = wide(b.CreateSelect(len_zero, b.getInt32(0), keep));
  Value* up = b.CreateShl(shifted, safe);
  Value* r = is_signed(t) ? b.CreateAShr(up, safe) : b.CreateLShr(up, safe);
  write(i.operands[0], b.CreateSelect(len_zero, zero(ty), r));
}

void FunctionTranslator::emit_bfi(const Instruction& i) {
  const Type t = i.types[0];
  const unsigned bits = ptx::bits_of(t);
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  llvm::Type* ty = x->getType();
  const std::uint32_t low = bits == 32 ? 0xff : 0xffffffff;  // as in bfe
  Value* pos = b.CreateAnd(read(i.operands[3], Type::b32), b.getInt32(low));
  Value* len = b.CreateAnd(read(i.operands[4], Type::b32), b.getInt32(low));
  Value* ones = b.CreateSelect(
      b.CreateICmpUGE(len, b.getInt32(bits)), all_ones(ty),
      b.CreateSub(
          b.CreateShl(ConstantInt::get(ty, 1), b.CreateAnd(b.CreateZExtOrTrunc(len, ty), bits - 1)),
          ConstantInt::get(ty, 1)));
  Value* mask = clamped_shift(llvm::Instruction::Shl, ones, pos);
  Value* in = clamped_shift(llvm::Instruction::Shl, x, pos);
  write(i.operands[0], b.CreateOr(b.CreateAnd(in, mask), b.CreateAnd(y, b.CreateNot(mask))));
}

// The value's low n bits, sign- or zero-extended; n taken modulo 32 (wrap) or clamped to 32.
void FunctionTranslator::emit_szext(const Instruction& i) {
  Value *x = read(i.operands[1], i.types[0]), *n = read(i.operands[2], Type::b32);
  const bool sign = is_signed(i.types[0]);
  if (i.has(Mod::wrap)) n = b.CreateAnd(n, 31);
  Value* none = b.CreateICmpEQ(n, b.getInt32(0));
  Value* full = b.CreateICmpUGE(n, b.getInt32(32));
  Value* shift =
      b.CreateSelect(b.CreateOr(none, full), b.getInt32(0), b.CreateSub(b.getInt32(32), n));
  Value* up = b.CreateShl(x, shift);
  Value* r = sign ? b.CreateAShr(up, shift) : b.CreateLShr(up, shift);
  write(i.operands[0], b.CreateSelect(none, b.getInt32(0), r));
}

// b ones from bit a on.
void FunctionTranslator::emit_bmsk(const Instruction& i) {
  Value *pos = read(i.operands[1], Type::b32), *n = read(i.operands[2], Type::b32);
  if (i.has(Mod::wrap)) {
    pos = b.CreateAnd(pos, 31);
    n = b.CreateAnd(n, 31);
  }
  Value* full = b.CreateICmpUGE(n, b.getInt32(32));
  Value* ones = b.CreateSub(b.CreateShl(b.getInt32(1), b.CreateAnd(n, 31)), b.getInt32(1));
  ones = b.CreateSelect(full, b.getInt32(0xffffffff), ones);
  write(i.operands[0], clamped_shift(llvm::Instruction::Shl, ones, pos));
}

void FunctionTranslator::emit_dp4a(const Instruction& i) {
  Value *x = read(i.operands[1], Type::b32), *y = read(i.operands[2], Type::b32),
        *sum = read(i.operands[3], Type::b32);
  const auto part = [&](Value* v, unsigned k, bool sign) {
    if (!sign) return b.CreateAnd(b.CreateLShr(v, k * 8), 0xff);
    return b.CreateAShr(b.CreateShl(v, 24 - k * 8), 24);
  };
  for (unsigned k = 0; k < 4; ++k) {
    sum = b.CreateAdd(
        sum, b.CreateMul(part(x, k, is_signed(i.types[0])), part(y, k, is_signed(i.types[1]))));
  }
  write(i.operands[0], sum);
}

void FunctionTranslator::emit_dp2a(const Instruction& i) {
  Value *x = read(i.operands[1], Type::b32), *y = read(i.operands[2], Type::b32),
        *sum = read(i.operands[3], Type::b32);
  const auto part = [&](Value* v, unsigned shift, unsigned width, bool sign) {
    if (!sign) return b.CreateAnd(b.CreateLShr(v, shift), (1u << width) - 1);
    return b.CreateAShr(b.CreateShl(v, 32 - width - shift), 32 - width);
  };
  const unsigned first = i.has(Mod::hi) ? 16 : 0;
  for (unsigned k = 0; k < 2; ++k) {
    sum = b.CreateAdd(sum, b.CreateMul(part(x, k * 16, 16, is_signed(i.types[0])),
                                       part(y, first + k * 8, 8, is_signed(i.types[1]))));
  }
  write(i.operands[0], sum);
}

void FunctionTranslator::emit_logic(const Instruction& i) {
  const Type t = i.types[0];
  Value* x = t == Type::pred ? read_pred(i.operands[1]) : read(i.operands[1], t);
  Value* y = t == Type::pred ? read_pred(i.operands[2]) : read(i.operands[2], t);
  write(i.operands[0], i.row->op == "and"  ? b.CreateAnd(x, y)
                       : i.row->op == "or" ? b.CreateOr(x, y)
                                           : b.CreateXor(x, y));
}

void FunctionTranslator::emit_not_(const Instruction& i) {
  const Type t = i.types[0];
  write(i.operands[0],
        b.CreateNot(t == Type::pred ? read_pred(i.operands[1]) : read(i.operands[1], t)));
}

void FunctionTranslator::emit_cnot(const Instruction& i) {
  Value* x = read(i.operands[1], i.types[0]);
  write(i.operands[0], b.CreateZExt(b.CreateICmpEQ(x, zero(x->getType())), x->getType()));
}

void FunctionTranslator::emit_lop3(const Instruction& i) {
  Value *x = read(i.operands[1], Type::b32), *y = read(i.operands[2], Type::b32),
        *z = read(i.operands[3], Type::b32);
  const auto lut = static_cast<unsigned>(i.operands[4].value & 0xff);
  // A sum of products, or that of the complement when it is shorter.
  const bool invert = __builtin_popcount(lut) > 4;
  const unsigned terms = invert ? ~lut & 0xff : lut;
  Value* r = b.getInt32(0);
  for (unsigned k = 0; k < 8; ++k) {
    if ((terms >> k & 1) == 0) continue;
    Value* term = b.CreateAnd(
        b.CreateAnd((k & 4) != 0 ? x : b.CreateNot(x), (k & 2) != 0 ? y : b.CreateNot(y)),
        (k & 1) != 0 ? z : b.CreateNot(z));
    r = b.CreateOr(r, term);
  }
  if (invert) r = b.CreateNot(r);
  if (i.operands.size() < 6) return write(i.operands[0], r);
  Value* any = b.CreateICmpNE(r, b.getInt32(0));
  Value* q = read_pred(i.operands[5]);
  Value* p = i.has(Mod::and_) ? b.CreateAnd(any, q) : b.CreateOr(any, q);
  if (i.operands[0].kind != Operand::Kind::pair) return write(i.operands[0], r);
  write(i.operands[0].parts[0], r);
  write(i.operands[0].parts[1], p);
}

// Shift amounts are 32-bit and clamp at the width.
Value* FunctionTranslator::clamped_shift(llvm::Instruction::BinaryOps op, Value* v, Value* amount) {
  llvm::Type* t = v->getType();
  const unsigned bits = t->getIntegerBitWidth();
  if (const auto* c = llvm::dyn_cast<ConstantInt>(amount)) {
    if (c->getValue().ult(bits))
      return b.CreateBinOp(op, v, ConstantInt::get(t, c->getZExtValue()));
    return op == llvm::Instruction::AShr ? b.CreateAShr(v, bits - 1) : zero(t);
  }
  Value* most =
      b.CreateIntrinsic(Intrinsic::umin, {amount->getType()}, {amount, b.getInt32(bits - 1)});
  Value* r = b.CreateBinOp(op, v, b.CreateZExtOrTrunc(most, t));
  if (op == llvm::Instruction::AShr) return r;
  return b.CreateSelect(b.CreateICmpUGE(amount, b.getInt32(bits)), zero(t), r);
}

void FunctionTranslator::emit_shl(const Instruction& i) {
  write(i.operands[0], clamped_shift(llvm::Instruction::Shl, read(i.operands[1], i.types[0]),
                                     read(i.operands[2], Type::b32)));
}

void FunctionTranslator::emit_shr(const Instruction& i) {
  const auto op = is_signed(i.types[0]) ? llvm::Instruction::AShr : llvm::Instruction::LShr;
  write(i.operands[0],
        clamped_shift(op, read(i.operands[1], i.types[0]), read(i.operands[2], Type::b32)));
}

// d = the high (l) or low (r) word of {b, a} shifted; clamp stops at 32.
void FunctionTranslator::emit_funnel_shift(const Instruction& i) {
  Value *lo = read(i.operands[1], Type::b32), *hi = read(i.operands[2], Type::b32),
        *n = read(i.operands[3], Type::b32);
  const bool left = i.has(Mod::l);
  if (i.has(Mod::wrap)) {
    n = b.CreateAnd(n, 31);
    return write(i.operands[0], b.CreateIntrinsic(left ? Intrinsic::fshl : Intrinsic::fshr,
                                                  {n->getType()}, {hi, lo, n}));
  }
  Value* beyond = b.CreateICmpUGE(n, b.getInt32(32));
  Value* shifted =
      b.CreateIntrinsic(left ? Intrinsic::fshl : Intrinsic::fshr, {n->getType()}, {hi, lo, n});
  write(i.operands[0], b.CreateSelect(beyond, left ? lo : hi, shifted));
}

void FunctionTranslator::emit_prmt(const Instruction& i) {
  Value *x = read(i.operands[1], Type::b32), *y = read(i.operands[2], Type::b32),
        *s = read(i.operands[3], Type::b32);
  Value* both =
      b.CreateOr(b.CreateZExt(x, b.getInt64Ty()), b.CreateShl(b.CreateZExt(y, b.getInt64Ty()), 32));
  Value* s64 = b.CreateZExt(s, b.getInt64Ty());
  Value* r = b.getInt64(0);
  const auto byte_at = [&](Value* index) {
    return b.CreateAnd(b.CreateLShr(both, b.CreateShl(index, 3)), 0xff);
  };
  for (unsigned k = 0; k < 4; ++k) {
    Value* byte = nullptr;
    Value* n = b.CreateAnd(s64, 3);
    if (i.has(Mod::f4e)) {
      byte = byte_at(b.CreateAdd(n, b.getInt64(k)));
    } else if (i.has(Mod::b4e)) {
      byte = byte_at(b.CreateAnd(b.CreateSub(n, b.getInt64(k)), 7));
    } else if (i.has(Mod::rc8)) {
      byte = byte_at(n);
    } else if (i.has(Mod::ecl)) {
      byte = byte_at(intrinsic(Intrinsic::umax, {n, b.getInt64(k)}));
    } else if (i.has(Mod::ecr)) {
      byte = byte_at(intrinsic(Intrinsic::umin, {n, b.getInt64(k)}));
    } else if (i.has(Mod::rc16)) {
      byte = byte_at(b.CreateAdd(b.CreateShl(b.CreateAnd(s64, 1), 1), b.getInt64(k & 1)));
    } else {
      Value* nibble = b.CreateAnd(b.CreateLShr(s64, k * 4), 0xf);
      byte = byte_at(b.CreateAnd(nibble, 7));
      Value* sign = b.CreateAnd(b.CreateSub(b.getInt64(0), b.CreateLShr(byte, 7)), 0xff);
      byte = b.CreateSelect(b.CreateICmpUGE(nibble, b.getInt64(8)), sign, byte);
    }
    r = b.CreateOr(r, b.CreateShl(byte, k * 8));
  }
  write(i.operands[0], b.CreateTrunc(r, b.getInt32Ty()));
}

}  // namespace cucpu::ir
