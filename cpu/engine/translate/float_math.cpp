// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/float_math.cpp: rounding, flushing and the approximations, as straight-line
// code that can be widened to vectors. Directed rounding is exact without touching the host's
// rounding mode: the result is computed to nearest together with its error, and moved one step
// where the error says so.
#include <llvm/IR/Intrinsics.h>

#include "cpu/engine/translate/function_translator.hpp"
#include "cpu/engine/translate/passes.hpp"

namespace cucpu::ir {

namespace Intrinsic = llvm::Intrinsic;

FunctionTranslator::Round FunctionTranslator::round_of(const Instruction& i) {
  if (i.has(Mod::rz)) return Round::rz;
  if (i.has(Mod::rm)) return Round::rm;
  if (i.has(Mod::rp)) return Round::rp;
  return Round::rn;
}

Value* FunctionTranslator::sign_bit(Value* v) {
  Value* bits = raw_bits(v);
  return b.CreateICmpSLT(bits, llvm::Constant::getNullValue(bits->getType()));
}

Value* FunctionTranslator::flush(Value* v) {
  if (!v->getType()->isFloatTy() && !v->getType()->isHalfTy()) return v;
  const double least = v->getType()->isFloatTy() ? 0x1p-126 : 0x1p-14;
  Value* small =
      b.CreateFCmpOLT(intrinsic(Intrinsic::fabs, {v}), float_constant(v->getType(), least));
  return marked(zero_where(small, v), kFlush);
}

Value* FunctionTranslator::marked(Value* v, const char* kind) {
  if (auto* i = llvm::dyn_cast<llvm::Instruction>(v))
    i->setMetadata(kind, llvm::MDNode::get(out.getContext(), {}));
  return v;
}

Value* FunctionTranslator::zero_where(Value* condition, Value* r) {
  Value* zero = b.CreateIntrinsic(Intrinsic::copysign, {r->getType()},
                                  {float_constant(r->getType(), 0.0), r});
  return b.CreateSelect(condition, zero, r);
}

// A GPU rounds to the precision of the format with unbounded exponents, then flushes results below
// the least normal. The host has rounded in the subnormal range, which has one bit less just below
// the least normal: it may return the least normal where a GPU returns zero.

Value* FunctionTranslator::flush_by_double(Value* r, Value* doubled) {
  llvm::Type* t = r->getType();
  Value* least = float_constant(t, t->isFloatTy() ? 0x1p-125 : 0x1p-13);
  Value* tiny = b.CreateFCmpOLT(intrinsic(Intrinsic::fabs, {doubled}), least);
  return marked(zero_where(tiny, r), kFlushed);
}

Value* FunctionTranslator::flush_by_exact(Value* r, Value* exact, Value* error, Round mode) {
  llvm::Type* t = exact->getType();
  Value* size = intrinsic(Intrinsic::fabs, {exact});
  if (mode == Round::rn)  // the middle between the least normal and the number below it
    return marked(zero_where(b.CreateFCmpOLT(size, float_constant(t, 0x1.ffffffp-127)), r),
                  kFlushed);
  // Rounding away from zero, every value above the number below rounds to the least normal; towards
  // zero the result of the host is subnormal too.
  Value* below = float_constant(t, 0x1.fffffep-127);
  Value* tiny = b.CreateFCmpOLE(size, below);
  if (error != nullptr) {
    Value* outward = b.CreateICmpEQ(sign_bit(error), sign_bit(exact));
    Value* more = b.CreateAnd(b.CreateFCmpONE(error, float_constant(t, 0.0)), outward);
    tiny = b.CreateAnd(tiny, b.CreateNot(b.CreateAnd(b.CreateFCmpOEQ(size, below), more)));
  }
  return flush(zero_where(tiny, r));
}

Value* FunctionTranslator::twice(Value* v) { return b.CreateFAdd(v, v); }

Value* FunctionTranslator::double_fma(Value* x, Value* y, Value* z) {
  if (llvm::isa<llvm::Constant>(y)) std::swap(x, y);
  return intrinsic(Intrinsic::fma, {twice(x), y, twice(z)});
}

Value* FunctionTranslator::saturate(Value* v) {
  Value *zero = float_constant(v->getType(), 0.0), *one = float_constant(v->getType(), 1.0);
  Value* r = b.CreateSelect(b.CreateFCmpOGT(v, zero), v, zero);
  r = b.CreateSelect(b.CreateFCmpOLT(r, one), r, one);
  // The host's minimum and maximum may forward signaling NaNs.
  r = b.CreateSelect(is_nan(v), zero, r);
  if (auto* i = llvm::dyn_cast<llvm::Instruction>(r))
    i->setMetadata("cucpu.saturated", llvm::MDNode::get(out.getContext(), {}));
  return r;
}

Value* FunctionTranslator::saturate_if(const Instruction& i, Value* v) {
  return i.has(Mod::sat) ? saturate(v) : v;
}

Value* FunctionTranslator::finish_float(const Instruction& i, Value* v) {
  return saturate_if(i, flush_if(i, v));
}

Value* FunctionTranslator::nudge(Value* v, Value* up, Value* down) {
  Value* bits = raw_bits(v);
  llvm::Type* t = bits->getType();
  Value* negative = b.CreateICmpSLT(bits, llvm::ConstantInt::get(t, 0));
  Value* one = llvm::ConstantInt::get(t, 1);
  Value* minus = llvm::Constant::getAllOnesValue(t);
  Value* zero = llvm::ConstantInt::get(t, 0);
  Value* step = b.CreateSelect(up, b.CreateSelect(negative, minus, one),
                               b.CreateSelect(down, b.CreateSelect(negative, one, minus), zero));
  return made_float(b.CreateAdd(bits, step), v->getType());
}

/// v is next to the exact result, `high` above or `low` below it; `negative` is the sign of the
/// exact result.
Value* FunctionTranslator::correct(Value* v, Value* high, Value* low, Value* negative, Round mode) {
  Value* never = b.getFalse();
  switch (mode) {
    case Round::rm:
      return nudge(v, never, high);
    case Round::rp:
      return nudge(v, low, never);
    case Round::rz:
      return nudge(v, b.CreateAnd(low, negative), b.CreateAnd(high, b.CreateNot(negative)));
    case Round::rn:
      break;
  }
  return v;
}

Value* FunctionTranslator::round_to_float(Value* d, Value* error, Round mode) {
  Value* f = b.CreateFPTrunc(d, b.getFloatTy());
  if (mode == Round::rn && error == nullptr) return f;
  Value* back = extend(f);
  Value *high = nullptr, *low = nullptr;
  if (error == nullptr) {
    high = b.CreateFCmpOGT(back, d);
    low = b.CreateFCmpOLT(back, d);
  } else {
    Value* off = b.CreateFSub(back, d);  // exact: f is next to d
    high = b.CreateFCmpOGT(off, error);
    low = b.CreateFCmpOLT(off, error);
  }
  return correct(f, high, low, sign_bit(d), mode);
}

Value* FunctionTranslator::round_to_odd_float(Value* d, Value* error) {
  Value* f = b.CreateFPTrunc(d, b.getFloatTy());
  Value* back = extend(f);
  Value* off = b.CreateFSub(back, d);
  Value* e = error == nullptr ? float_constant(b.getDoubleTy(), 0.0) : error;
  Value *high = b.CreateFCmpOGT(off, e), *low = b.CreateFCmpOLT(off, e);
  Value* cut = correct(f, high, low, sign_bit(d), Round::rz);
  Value* inexact = b.CreateOr(high, low);
  return made_float(b.CreateOr(raw_bits(cut), b.CreateZExt(inexact, b.getInt32Ty())),
                    b.getFloatTy());
}

Value* FunctionTranslator::round_to_half(Value* f, Round mode) {
  Value* h = b.CreateFPTrunc(f, b.getHalfTy());
  if (mode == Round::rn) return h;
  Value* back = b.CreateFPExt(h, b.getFloatTy());
  return correct(h, b.CreateFCmpOGT(back, f), b.CreateFCmpOLT(back, f), sign_bit(f), mode);
}

Value* FunctionTranslator::bf16_to_float(Value* bits) {
  return made_float(b.CreateShl(b.CreateZExt(as_bits(bits), b.getInt32Ty()), 16), b.getFloatTy());
}

Value* FunctionTranslator::round_to_bf16(Value* f, Round mode) {
  Value* bits = raw_bits(f);
  Value* add = nullptr;
  Value* negative = sign_bit(f);
  switch (mode) {
    case Round::rn:
      add = b.CreateAdd(b.getInt32(0x7fff), b.CreateAnd(b.CreateLShr(bits, 16), 1));
      break;
    case Round::rz:
      add = b.getInt32(0);
      break;
    case Round::rp:
      add = b.CreateSelect(negative, b.getInt32(0), b.getInt32(0xffff));
      break;
    case Round::rm:
      add = b.CreateSelect(negative, b.getInt32(0xffff), b.getInt32(0));
      break;
  }
  // Infinity has a zero low half, so only rn's bias and a carry could reach it; neither changes its
  // top half.
  Value* r = b.CreateTrunc(b.CreateLShr(b.CreateAdd(bits, add), 16), b.getInt16Ty());
  return b.CreateSelect(is_nan(f), b.getInt16(0x7fff), r);
}

Value* FunctionTranslator::round_double(Value* d, Value* error, Round mode) {
  Value* zero = float_constant(b.getDoubleTy(), 0.0);
  // The exact value is d + error: d is too high when error < 0.
  return correct(d, b.CreateFCmpOLT(error, zero), b.CreateFCmpOGT(error, zero), sign_bit(d), mode);
}

FunctionTranslator::Sum FunctionTranslator::exact_sum(Value* x, Value* y) {
  Value* s = b.CreateFAdd(x, y);
  Value* yy = b.CreateFSub(s, x);
  Value* xx = b.CreateFSub(s, yy);
  return {s, b.CreateFAdd(b.CreateFSub(x, xx), b.CreateFSub(y, yy))};
}

Value* FunctionTranslator::sum_directed(Value* x, Value* y, Round mode) {
  const Sum s = exact_sum(x, y);
  Value* r = round_to_float(s.value, s.error, mode);
  if (mode != Round::rm) return r;
  // An exact zero is -0 when rounding down, unless both terms are +0.
  Value* none = b.CreateFCmpOEQ(s.value, float_constant(b.getDoubleTy(), 0.0));
  Value* minus = b.CreateOr(sign_bit(x), sign_bit(y));
  Value* zero = b.CreateSelect(minus, float_constant(b.getFloatTy(), -0.0),
                               float_constant(b.getFloatTy(), 0.0));
  return b.CreateSelect(none, zero, r);
}

Value* FunctionTranslator::fmin_ieee(Value* x, Value* y, bool max, bool nan) {
  if (!nan &&
      !x->getType()->isDoubleTy())  // one instruction up to the end: cpu/engine/nan/min_max.hpp
    return b.CreateBinaryIntrinsic(max ? Intrinsic::maxnum : Intrinsic::minnum, x, y);
  Value* r = b.CreateBinaryIntrinsic(max ? Intrinsic::maximum : Intrinsic::minimum, x, y);
  if (nan) return r;
  r = b.CreateSelect(is_nan(y), x, r);
  r = b.CreateSelect(is_nan(x), y, r);
  // Of two f64 NaNs the second is propagated, quieted; f32 and f16 NaNs become canonical later.
  return module.options.gpu_nans ? b.CreateSelect(is_nan(r), quieted(y), r) : r;
}

Value* FunctionTranslator::polynomial(Value* x, llvm::ArrayRef<double> c) {
  Value* r = float_constant(x->getType(), c.back());
  for (std::size_t k = c.size() - 1; k-- > 0;) {
    r = intrinsic(Intrinsic::fma, {r, x, float_constant(x->getType(), c[k])});
  }
  return r;
}

constexpr double kExp2[] = {1.0,
                            0.6931471824645996,
                            0.24022646248340607,
                            0.05550328642129898,
                            0.009618489071726799,
                            0.0013399930903688073,
                            0.0001534580806037411};

// 2^x = 2^n * 2^f with n the nearest integer; relative error of the polynomial 2^-29.
Value* FunctionTranslator::exp2_approx(Value* x) {
  llvm::Type* t = x->getType();
  Value* clamped =
      b.CreateSelect(b.CreateFCmpOGT(x, float_constant(t, 129.0)), float_constant(t, 129.0), x);
  clamped = b.CreateSelect(b.CreateFCmpOLT(clamped, float_constant(t, -151.0)),
                           float_constant(t, -151.0), clamped);
  Value* magic = float_constant(
      t, 12582912.0);  // 1.5 * 2^23: adding it rounds to an integer, held in the low bits
  Value* shifted = b.CreateFAdd(clamped, magic);
  Value* n = b.CreateSub(raw_bits(shifted), b.getInt32(0x4b400000));
  Value* f = b.CreateFSub(clamped, b.CreateFSub(shifted, magic));
  Value* p = polynomial(f, kExp2);
  Value* half = b.CreateAShr(n, 1);  // two steps, so that neither factor leaves the range
  const auto power = [&](Value* k) {
    return as_type(b.CreateShl(b.CreateAdd(k, b.getInt32(127)), 23), b.getFloatTy());
  };
  return b.CreateFMul(b.CreateFMul(p, power(half)), power(b.CreateSub(n, half)));
}

// The same with subnormal results flushed to zero: then the exponent can be added to the bits in
// one step. A subnormal argument needs no flushing: its power is 1 either way.
Value* FunctionTranslator::exp2_flushed(Value* x) {
  llvm::Type* t = x->getType();
  Value* high = float_constant(t, 128.0);
  Value* low = float_constant(t, -127.0);
  Value* clamped = b.CreateSelect(b.CreateFCmpOGT(x, high), high, x);
  clamped = b.CreateSelect(b.CreateFCmpOLT(clamped, low), low, clamped);
  Value* magic = float_constant(t, 12582912.0);
  Value* shifted = b.CreateFAdd(clamped, magic);
  Value* f = b.CreateFSub(clamped, b.CreateFSub(shifted, magic));
  Value* p = polynomial(f, kExp2);
  Value* bits = b.CreateAdd(raw_bits(p), b.CreateShl(raw_bits(shifted), 23));
  Value* normal = b.CreateICmpUGE(bits, b.getInt32(0x00800000));
  bits = b.CreateSelect(normal, bits, b.getInt32(0));
  return made_float(b.CreateSelect(is_nan(x), b.getInt32(0x7fffffff), bits), t);
}

// log2 x = e + log2 m, m in [sqrt(1/2), sqrt 2); relative error of the polynomial 2^-27.
Value* FunctionTranslator::log2_approx(Value* x) {
  llvm::Type* t = x->getType();
  Value* small = b.CreateFCmpOLT(x, float_constant(t, 0x1p-126));
  Value* scaled = b.CreateSelect(small, b.CreateFMul(x, float_constant(t, 0x1p24)), x);
  Value* bits = raw_bits(scaled);
  Value* e = b.CreateAShr(b.CreateSub(bits, b.getInt32(0x3f3504f3)), 23);
  Value* m = as_type(b.CreateSub(bits, b.CreateShl(e, 23)), t);
  e = b.CreateSub(e, b.CreateSelect(small, b.getInt32(24), b.getInt32(0)));
  Value* f = b.CreateFSub(m, float_constant(t, 1.0));
  Value* p = polynomial(
      f, {1.4426950216293335, -0.7213473320007324, 0.4808982312679291, -0.3606966733932495,
          0.28856727480888367, -0.23961684107780457, 0.20460276305675507, -0.19107010960578918,
          0.18616370856761932, -0.10991623252630234});
  Value* r = intrinsic(Intrinsic::fma, {f, p, b.CreateSIToFP(e, t)});
  Value* zero = b.CreateFCmpOEQ(x, float_constant(t, 0.0));
  Value* inf = llvm::ConstantFP::getInfinity(t);
  Value* bad = b.CreateFCmpULT(x, float_constant(t, 0.0));  // negative or NaN
  r = b.CreateSelect(b.CreateFCmpOEQ(x, inf), inf, r);
  r = b.CreateSelect(bad, b.CreateFMul(llvm::ConstantFP::getNaN(t), x), r);
  return b.CreateSelect(zero, llvm::ConstantFP::getInfinity(t, true), r);
}

// sin and cos as a GPU computes them: the angle in turns, rounded to float, then the fraction.
// Large arguments lose the same bits.
Value* FunctionTranslator::sin_turns(Value* x, bool cosine) {
  llvm::Type* t = x->getType();
  Value* turns = b.CreateFMul(x, float_constant(t, 0.15915493667125702));
  Value* r = b.CreateFSub(turns, intrinsic(Intrinsic::rint, {turns}));  // [-0.5, 0.5]
  Value* quarter = float_constant(t, 0.25);
  if (cosine) {
    r = b.CreateFSub(quarter, intrinsic(Intrinsic::fabs, {r}));
  } else {
    Value* beyond = b.CreateFCmpOGT(intrinsic(Intrinsic::fabs, {r}), quarter);
    Value* half = b.CreateIntrinsic(Intrinsic::copysign, {t}, {float_constant(t, 0.5), r});
    r = b.CreateSelect(beyond, b.CreateFSub(half, r), r);
  }
  Value* z = b.CreateFMul(r, r);
  return b.CreateFMul(r, polynomial(z, {6.2831854820251465, -41.341678619384766, 81.60223388671875,
                                        -76.57498931884766, 39.71091842651367}));
}

}  // namespace cucpu::ir
