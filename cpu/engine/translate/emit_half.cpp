// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_half.cpp: f16 and bf16, one or two to a register; pairs of f32.
#include <llvm/IR/Intrinsics.h>

#include "cpu/engine/translate/function_translator.hpp"
#include "cpu/engine/translate/passes.hpp"

namespace cucpu::ir {

namespace Intrinsic = llvm::Intrinsic;

Value* FunctionTranslator::half_part(Value* packed, unsigned k, bool bf16) {
  Value* v = b.CreateTrunc(k == 0 ? packed : b.CreateLShr(packed, 16), b.getInt16Ty());
  return bf16 ? v : as_type(v, b.getHalfTy());
}

Value* FunctionTranslator::join_halves(Value* low, Value* high) {
  Value* l = b.CreateZExt(as_bits(low), b.getInt32Ty());
  Value* h = b.CreateZExt(as_bits(high), b.getInt32Ty());
  return b.CreateOr(l, b.CreateShl(h, 16));
}

/// .ftz of r by the exact result, or that rounded to odd: below the middle between the least normal
/// and the number of 11 bits below it.
Value* FunctionTranslator::flush_half_by_float(Value* r, Value* exact) {
  Value* size = intrinsic(Intrinsic::fabs, {exact});
  Value* tiny = b.CreateFCmpOLT(size, float_constant(size->getType(), 0x1.ffep-15));
  return marked(zero_where(tiny, r), kFlushed);
}

// Rounded once: the exact sum is rounded to odd as a float first, which leaves room for the
// rounding to 16 bits.
Value* FunctionTranslator::half_fma(const Instruction& i, Value* x, Value* y, Value* z, bool bf16) {
  Value* r = nullptr;
  const bool ftz = !bf16 && i.has(Mod::ftz);
  if (!bf16 && module.options.native_half) {
    r = intrinsic(Intrinsic::fma, {x, y, z});
    // Twice a large factor may be infinite; then only multiples of 2^-19 are below the least
    // normal, and they are subnormal as they are.
    if (ftz) r = flush(flush_by_double(r, double_fma(x, y, z)));
  } else {
    Value *dx = extend(widen_half(x, bf16)), *dy = extend(widen_half(y, bf16)),
          *dz = extend(widen_half(z, bf16));
    const Sum s = exact_sum(b.CreateFMul(dx, dy), dz);
    // Infinities: their error term is NaN, and nothing is to be corrected.
    Value* error = b.CreateSelect(is_nan(s.error), float_constant(b.getDoubleTy(), 0.0), s.error);
    Value* f = round_to_odd_float(s.value, error);
    r = bf16 ? round_to_bf16(f, Round::rn) : round_to_half(f, Round::rn);
    if (ftz) r = flush_half_by_float(r, f);
  }
  if (!i.has(Mod::relu) && !i.has(Mod::sat)) return r;
  if (!bf16) return i.has(Mod::relu) ? relu(r) : r;
  return round_to_bf16(relu(bf16_to_float(r)), Round::rn);
}

Value* FunctionTranslator::half_operation(const Instruction& i, llvm::ArrayRef<Value*> in,
                                          bool bf16) {
  llvm::SmallVector<Value*, 3> v{in.begin(), in.end()};
  if (!bf16 && i.has(Mod::ftz)) {
    for (Value*& x : v) x = flush(x);
  }
  const std::string_view op = i.row->op;
  const auto done = [&](Value* r) {
    if (bf16) return r;
    if (i.has(Mod::ftz)) r = flush(r);
    return i.has(Mod::sat) ? saturate(r) : r;
  };
  if (op == "neg" || op == "abs") {
    Value* bits = as_bits(v[0]);
    Value* size = b.CreateAnd(bits, b.getInt16(0x7fff));
    Value* nan = b.CreateICmpUGT(size, b.getInt16(bf16 ? 0x7f80 : 0x7c00));
    bits = b.CreateSelect(nan, b.getInt16(0x7fff),
                          op == "neg" ? b.CreateXor(bits, b.getInt16(0x8000)) : size);
    return done(as_type(bits, v[0]->getType()));
  }
  if (op == "fma") {
    Value* r = half_fma(i, v[0], v[1], v[2], bf16);
    if (!bf16) r = saturate_if(i, r);
    if (!i.has(Mod::oob)) return r;
    // The NaN with which tensor copies fill elements outside the tensor gives zero.
    const auto outside = [&](Value* x) {
      return b.CreateICmpEQ(b.CreateAnd(as_bits(x), b.getInt16(0x7fff)), b.getInt16(0x7ff7));
    };
    Value* none = b.CreateOr(outside(in[0]), outside(in[1]));
    return b.CreateSelect(none, llvm::Constant::getNullValue(r->getType()), r);
  }
  if (op == "add" || op == "sub" || op == "mul") {
    Value *x = bf16 ? bf16_to_float(v[0]) : v[0], *y = bf16 ? bf16_to_float(v[1]) : v[1];
    Value* r = op == "add"   ? b.CreateFAdd(x, y)
               : op == "sub" ? b.CreateFSub(x, y)
                             : b.CreateFMul(x, y);
    if (bf16) return round_to_bf16(r, Round::rn);
    if (op != "mul" || !i.has(Mod::ftz)) return done(r);
    r = module.options.native_half
            ? flush_by_double(r, b.CreateFMul(twice(x), y))
            : flush_half_by_float(r, b.CreateFMul(widen_half(x, false), widen_half(y, false)));
    return saturate_if(i, r);
  }
  if (op == "min" || op == "max") {
    Value* sign = nullptr;
    if (i.has(Mod::xorsign))
      sign = b.CreateAnd(b.CreateXor(as_bits(v[0]), as_bits(v[1])), b.getInt16(0x8000));
    Value *x = widen_half(v[0], bf16), *y = widen_half(v[1], bf16);
    if (sign != nullptr) x = intrinsic(Intrinsic::fabs, {x}), y = intrinsic(Intrinsic::fabs, {y});
    Value* r = fmin_ieee(x, y, op == "max", i.has(Mod::NaN));
    Value* h = bf16 ? round_to_bf16(r, Round::rn) : round_to_half(r, Round::rn);
    if (sign == nullptr) return h;
    Value* with = b.CreateOr(b.CreateAnd(as_bits(h), b.getInt16(0x7fff)), sign);
    return as_type(b.CreateSelect(is_nan(r), b.getInt16(0x7fff), with), h->getType());
  }
  Value* f = widen_half(v[0], bf16);
  f = op == "ex2" ? exp2_approx(f) : tanh_approx(f);
  Value* r =
      bf16 ? round_to_bf16(i.has(Mod::ftz) ? flush(f) : f, Round::rn) : round_to_half(f, Round::rn);
  return done(r);
}

void FunctionTranslator::emit_half_arith(const Instruction& i) {
  const Type t = i.types[0];
  const bool bf16 = t == Type::bf16 || t == Type::bf16x2;
  const bool packed = t == Type::f16x2 || t == Type::bf16x2;
  llvm::SmallVector<Value*, 3> v;
  for (std::size_t k = 1; k < i.operands.size(); ++k) v.push_back(read(i.operands[k], t));
  if (!packed) return write(i.operands[0], half_operation(i, v, bf16));
  Value* parts[2];
  for (unsigned k = 0; k < 2; ++k) {
    llvm::SmallVector<Value*, 3> p;
    for (Value* x : v) p.push_back(half_part(x, k, bf16));
    parts[k] = half_operation(i, p, bf16);
  }
  write(i.operands[0], join_halves(parts[0], parts[1]));
}

void FunctionTranslator::emit_setp_packed(const Instruction& i) {
  const bool bf16 = i.types[0] == Type::bf16x2;
  const Type element = bf16 ? Type::bf16 : Type::f16;
  Value *x = read(i.operands[1], i.types[0]), *y = read(i.operands[2], i.types[0]);
  Value* p[2];
  for (unsigned k = 0; k < 2; ++k) {
    p[k] = combine(i, compare(i, half_part(x, k, bf16), half_part(y, k, bf16), element), 3);
  }
  const Operand& d = i.operands[0];
  if (d.kind != Operand::Kind::pair) return write(d, p[0]);
  write(d.parts[0], p[0]);
  write(d.parts[1], p[1]);
}

void FunctionTranslator::emit_set_packed(const Instruction& i) {
  const Type to = i.types[0];
  const bool bf16 = i.types[1] == Type::bf16x2;
  const Type element = bf16 ? Type::bf16 : Type::f16;
  Value *x = read(i.operands[1], i.types[1]), *y = read(i.operands[2], i.types[1]);
  Value* parts[2];
  const std::uint16_t one = to == Type::f16x2 ? 0x3c00 : to == Type::bf16x2 ? 0x3f80 : 0xffff;
  for (unsigned k = 0; k < 2; ++k) {
    Value* p = combine(i, compare(i, half_part(x, k, bf16), half_part(y, k, bf16), element), 3);
    parts[k] = b.CreateSelect(p, b.getInt16(one), b.getInt16(0));
  }
  write(i.operands[0], join_halves(parts[0], parts[1]));
}

}  // namespace cucpu::ir
