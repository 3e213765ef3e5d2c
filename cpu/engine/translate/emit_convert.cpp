// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_convert.cpp: cvt between integers and floats of all sizes.
#include <llvm/IR/Intrinsics.h>

#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

namespace Intrinsic = llvm::Intrinsic;

namespace {

bool is_float(Type t) { return ptx::class_of(t) == ptx::Class::floating; }

}  // namespace

Value* FunctionTranslator::saturate_int(Value* v, Type from, Type to) {
  const unsigned have = ptx::bits_of(from), want = ptx::bits_of(to);
  llvm::Type* t = v->getType();
  const auto limit = [&](const llvm::APInt& x) { return llvm::ConstantInt::get(t, x); };
  if (is_signed(from)) {
    if (is_signed(to)) {
      if (want >= have) return v;
      v = b.CreateBinaryIntrinsic(Intrinsic::smax, v,
                                  limit(llvm::APInt::getSignedMinValue(want).sext(have)));
      return b.CreateBinaryIntrinsic(Intrinsic::smin, v,
                                     limit(llvm::APInt::getSignedMaxValue(want).sext(have)));
    }
    v = b.CreateBinaryIntrinsic(Intrinsic::smax, v, limit(llvm::APInt(have, 0)));
    if (want >= have) return v;
    return b.CreateBinaryIntrinsic(Intrinsic::smin, v,
                                   limit(llvm::APInt::getMaxValue(want).zext(have)));
  }
  const unsigned bits = is_signed(to) ? want - 1 : want;
  if (bits >= have) return v;
  return b.CreateBinaryIntrinsic(Intrinsic::umin, v,
                                 limit(llvm::APInt::getMaxValue(bits).zext(have)));
}

Value* FunctionTranslator::round_to_integral(const Instruction& i, Value* v) {
  if (i.has(Mod::rni)) return intrinsic(Intrinsic::roundeven, {v});
  if (i.has(Mod::rzi)) return intrinsic(Intrinsic::trunc, {v});
  if (i.has(Mod::rmi)) return intrinsic(Intrinsic::floor, {v});
  if (i.has(Mod::rpi)) return intrinsic(Intrinsic::ceil, {v});
  return v;
}

Value* FunctionTranslator::float_to_int(const Instruction& i, Value* v, Type from, Type to) {
  if (from == Type::bf16) v = bf16_to_float(v);
  if (from == Type::f16) v = b.CreateFPExt(v, b.getFloatTy());
  v = round_to_integral(i, flush_if(i, v));
  llvm::Type* t = type_of(to);
  Value* r = b.CreateIntrinsic(is_signed(to) ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat,
                               {t, v->getType()}, {v});
  const unsigned bits = ptx::bits_of(to);
  if (from == Type::f64 || bits == 64) {
    r = b.CreateSelect(is_nan(v), llvm::ConstantInt::get(t, llvm::APInt::getSignedMinValue(bits)),
                       r);
  }
  return r;
}

Value* FunctionTranslator::int_to_float(const Instruction& i, Value* v, Type from, Type to) {
  const Round mode = round_of(i);
  const bool sign = is_signed(from), wide = ptx::bits_of(from) == 64;
  const auto plain = [&](llvm::Type* t) {
    return sign ? b.CreateSIToFP(v, t) : b.CreateUIToFP(v, t);
  };
  if (mode == Round::rn && to == Type::f32) return plain(b.getFloatTy());
  if (to == Type::f64 && (mode == Round::rn || !wide)) return plain(b.getDoubleTy());
  Value *d = nullptr, *error = nullptr;
  if (!wide) {
    d = plain(b.getDoubleTy());  // exact
  } else {
    Value* high = sign ? b.CreateAShr(v, 32) : b.CreateLShr(v, 32);
    high = sign ? b.CreateSIToFP(high, b.getDoubleTy()) : b.CreateUIToFP(high, b.getDoubleTy());
    Value* low = b.CreateUIToFP(b.CreateAnd(v, b.getInt64(0xffffffff)), b.getDoubleTy());
    const Sum s = exact_sum(b.CreateFMul(high, float_constant(b.getDoubleTy(), 0x1p32)), low);
    d = s.value;
    error = s.error;
  }
  if (to == Type::f64) return round_double(d, error, mode);
  if (to == Type::f32) return round_to_float(d, error, mode);
  Value* f = round_to_odd_float(d, error);
  return to == Type::bf16 ? round_to_bf16(f, mode) : round_to_half(f, mode);
}

Value* FunctionTranslator::float_to_float(const Instruction& i, Value* v, Type from, Type to) {
  const Round mode = round_of(i);
  if (from == to) {
    if (to == Type::bf16) {
      Value* f = round_to_integral(i, bf16_to_float(v));
      if (i.has(Mod::sat)) f = saturate(f);
      return round_to_bf16(f, Round::rn);
    }
    if (to == Type::f32 && i.has(Mod::ftz)) v = canonical_nan(v);
    if (to == Type::f16) v = as_type(canonical_half(as_bits(v)), v->getType());
    v = round_to_integral(i, flush_if(i, v));
    return finish_float(i, v);
  }
  const bool to_half = to == Type::f16 || to == Type::bf16;
  if (from == Type::bf16) {  // a shift, which keeps NaN bits unless .ftz makes it arithmetic
    v = i.has(Mod::ftz) || to_half
            ? bf16_to_float(v)
            : as_type(b.CreateShl(b.CreateZExt(as_bits(v), b.getInt32Ty()), 16), b.getFloatTy());
  }
  if (from == Type::f16) v = b.CreateFPExt(v, b.getFloatTy());
  if (from == Type::f32 && !to_half) v = flush_if(i, v);  // to f16, .ftz changes nothing
  Value* r = nullptr;
  switch (to) {
    case Type::f64: {
      if (from == Type::f32 && i.has(Mod::ftz)) v = canonical_nan(v);
      Value* d = extend(v);
      if (auto* e = llvm::dyn_cast<llvm::FPExtInst>(d); e != nullptr && from == Type::f32) {
        e->setMetadata(
            "cucpu.seen",
            llvm::MDNode::get(out.getContext(), {}));  // the bits of an f32 NaN are observed here
      }
      return i.has(Mod::sat) ? saturate(d) : d;
    }
    case Type::f32:
      r = v;
      if (from == Type::f64) {
        r = round_to_float(v, nullptr, mode);
        if (mode != Round::rn) r = b.CreateSelect(is_nan(v), b.CreateFPTrunc(v, b.getFloatTy()), r);
        return saturate_if(i, i.has(Mod::ftz) ? flush_by_exact(r, v, nullptr, mode) : r);
      }
      return finish_float(i, r);
    default:
      break;
  }
  Value* wide = v;
  if (from == Type::f64) v = round_to_odd_float(v, nullptr);
  if (i.has(Mod::sat)) v = saturate(v);
  if (i.has(Mod::relu)) v = relu(v);
  r = to == Type::bf16 ? round_to_bf16(v, mode) : round_to_half(v, mode);
  if (from != Type::f64 || i.has(Mod::sat)) return r;
  // An f64 NaN keeps its sign and the top of its payload.
  Value* bits = raw_bits(wide);
  Value* sign = b.CreateAnd(b.CreateLShr(bits, 48), 0x8000);
  Value* payload = to == Type::bf16
                       ? b.CreateOr(b.CreateAnd(b.CreateLShr(bits, 45), 0x7f), 0x7fc0)
                       : b.CreateOr(b.CreateAnd(b.CreateLShr(bits, 42), 0x3ff), 0x7e00);
  Value* nan = b.CreateTrunc(b.CreateOr(sign, payload), b.getInt16Ty());
  return as_type(b.CreateSelect(is_nan(wide), nan, as_bits(r)), r->getType());
}

/// v, or the canonical f32 NaN.
Value* FunctionTranslator::canonical_nan(Value* v) {
  return b.CreateBitCast(b.CreateSelect(is_nan(v), b.getInt32(0x7fffffff), raw_bits(v)),
                         b.getFloatTy());
}

Value* FunctionTranslator::canonical_half(Value* bits) {
  Value* nan = b.CreateICmpUGT(b.CreateAnd(bits, b.getInt16(0x7fff)), b.getInt16(0x7c00));
  return b.CreateSelect(nan, b.getInt16(0x7fff), bits);
}

/// max(v, 0); a NaN stays a NaN.
Value* FunctionTranslator::relu(Value* v) {
  Value* zero = float_constant(v->getType(), 0.0);
  return b.CreateSelect(b.CreateFCmpULE(v, zero), b.CreateSelect(is_nan(v), v, zero), v);
}

void FunctionTranslator::emit_cvt(const Instruction& i) {
  const Type to = i.types[0], from = i.types[1];
  // A larger register may hold the operand, but not where bf16 is involved.
  Value* v = read(i.operands[1], from, from != Type::bf16 && to != Type::bf16);
  Value* r = nullptr;
  if (is_float(from)) {
    r = is_float(to) ? float_to_float(i, v, from, to) : float_to_int(i, v, from, to);
  } else if (is_float(to)) {
    r = int_to_float(i, v, from, to);
    if (i.has(Mod::sat) && r->getType()->isFloatingPointTy()) r = saturate(r);
  } else {
    if (i.has(Mod::sat)) v = saturate_int(v, from, to);
    const unsigned want = ptx::bits_of(to);
    r = is_signed(from) ? b.CreateSExtOrTrunc(v, int_type(want))
                        : b.CreateZExtOrTrunc(v, int_type(want));
  }
  write(i.operands[0], r, is_signed(to));
}

}  // namespace cucpu::ir
