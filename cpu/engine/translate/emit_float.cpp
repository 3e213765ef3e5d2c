// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_float.cpp: f32 and f64 arithmetic.
#include <llvm/IR/Intrinsics.h>

#include "cpu/engine/translate/function_translator.hpp"
#include "cpu/engine/translate/passes.hpp"

namespace cucpu::ir {

namespace Intrinsic = llvm::Intrinsic;

namespace {

constexpr const char* kRoundNames[] = {"rn", "rz", "rm", "rp"};

/// Whether LLVM would fold the instruction to a move or a change of sign: a sum with zero, a
/// product with one, an operation on a known NaN.
bool is_neutral(const llvm::Instruction& i) {
  const bool known = llvm::any_of(i.operands(), [](const llvm::Use& use) {
    const auto* c = llvm::dyn_cast<llvm::ConstantFP>(use.get());
    return c && c->isNaN();
  });
  if (known) return true;
  const auto is = [&](unsigned k, double size) {
    const auto* c = llvm::dyn_cast<llvm::ConstantFP>(i.getOperand(k));
    return c && (c->isExactlyValue(size) || c->isExactlyValue(-size));
  };
  switch (i.getOpcode()) {
    case llvm::Instruction::FAdd:
    case llvm::Instruction::FSub:
      return is(0, 0.0) || is(1, 0.0);
    case llvm::Instruction::FMul:
      return is(0, 1.0) || is(1, 1.0);
    case llvm::Instruction::FDiv:
      return is(1, 1.0);
    default:
      return false;
  }
}

}  // namespace

Value* FunctionTranslator::float_sum(const Instruction& i, Type t, Value* x, Value* y) {
  x = flush_if(i, x);
  y = flush_if(i, y);
  const bool minus = i.row->op == "sub";
  const Round mode = round_of(i);
  if (minus && mode != Round::rn) y = negated(y);
  Value* r = nullptr;
  if (mode == Round::rn) {
    r = with_gpu_nan(minus ? b.CreateFSub(x, y) : b.CreateFAdd(x, y), {y, x});
  } else if (t == Type::f32) {
    r = sum_directed(extend(x), extend(y), mode);
  } else {
    r = call_routine(llvm::Twine("add_f64_").concat(kRoundNames[static_cast<int>(mode)]).str(),
                     x->getType(), {x, y});
  }
  return finish_float(i, r);
}

void FunctionTranslator::emit_add_float(const Instruction& i) {
  const Type t = i.types[0];
  write(i.operands[0], float_sum(i, t, read(i.operands[1], t), read(i.operands[2], t)));
}

void FunctionTranslator::emit_sub_float(const Instruction& i) { emit_add_float(i); }

Value* FunctionTranslator::float_product(const Instruction& i, Type t, Value* x, Value* y) {
  x = flush_if(i, x);
  y = flush_if(i, y);
  const Round mode = round_of(i);
  const bool ftz = t == Type::f32 && i.has(Mod::ftz);
  Value* r = nullptr;
  if (mode == Round::rn) {
    r = with_gpu_nan(b.CreateFMul(x, y), {y, x});
    if (ftz) r = flush_by_double(r, b.CreateFMul(twice(x), y));
  } else if (t == Type::f32) {
    Value* exact = b.CreateFMul(extend(x), extend(y));
    r = round_to_float(exact, nullptr, mode);
    if (ftz) r = flush_by_exact(r, exact, nullptr, mode);
  } else {
    r = call_routine(llvm::Twine("mul_f64_").concat(kRoundNames[static_cast<int>(mode)]).str(),
                     x->getType(), {x, y});
  }
  return saturate_if(i, r);
}

void FunctionTranslator::emit_mul_float(const Instruction& i) {
  const Type t = i.types[0];
  write(i.operands[0], float_product(i, t, read(i.operands[1], t), read(i.operands[2], t)));
}

Value* FunctionTranslator::float_fma(const Instruction& i, Type t, Value* x, Value* y, Value* z) {
  x = flush_if(i, x);
  y = flush_if(i, y);
  z = flush_if(i, z);
  const Round mode = round_of(i);
  const bool ftz = t == Type::f32 && i.has(Mod::ftz);
  Value* r = nullptr;
  if (mode == Round::rn) {
    r = with_gpu_nan(intrinsic(Intrinsic::fma, {x, y, z}), {y, z, x});
    if (ftz) r = flush_by_double(r, double_fma(x, y, z));
  } else if (t == Type::f32) {
    Value* product = b.CreateFMul(extend(x), extend(y));  // exact
    r = sum_directed(product, extend(z), mode);
    if (ftz) {
      const Sum s = exact_sum(product, extend(z));
      r = flush_by_exact(r, s.value, s.error, mode);
    }
    if (mode != Round::rp)
      r = call_marker("fma.down", x->getType(), {x, y, z, r}, ModuleTranslator::Effect::none);
  } else {
    r = call_routine(llvm::Twine("fma_f64_").concat(kRoundNames[static_cast<int>(mode)]).str(),
                     x->getType(), {x, y, z});
  }
  return saturate_if(i, r);
}

void FunctionTranslator::emit_fma_float(const Instruction& i) {
  const Type t = i.types[0];
  write(i.operands[0],
        float_fma(i, t, read(i.operands[1], t), read(i.operands[2], t), read(i.operands[3], t)));
}

// Two f32 in one register of 64 bits; each half is computed by itself.
void FunctionTranslator::emit_float_pair(const Instruction& i) {
  Value* halves[2];
  for (unsigned k = 0; k < 2; ++k) {
    llvm::SmallVector<Value*, 3> v;
    for (std::size_t n = 1; n < i.operands.size(); ++n) {
      Value* both = read(i.operands[n], Type::b64);
      Value* bits = b.CreateTrunc(b.CreateLShr(both, 32 * k), b.getInt32Ty());
      v.push_back(as_type(bits, b.getFloatTy()));
    }
    Value* r = i.row->op == "fma"   ? float_fma(i, Type::f32, v[0], v[1], v[2])
               : i.row->op == "mul" ? float_product(i, Type::f32, v[0], v[1])
                                    : float_sum(i, Type::f32, v[0], v[1]);
    halves[k] = b.CreateZExt(as_bits(r), b.getInt64Ty());
  }
  write(i.operands[0], b.CreateOr(halves[0], b.CreateShl(halves[1], 32)));
}

// f16 or bf16 operands, widened exactly; the last operand and the result are f32.
void FunctionTranslator::emit_float_mixed(const Instruction& i) {
  const Type small = i.types[1];
  const auto wide = [&](std::size_t n) {
    return widen_half(read(i.operands[n], small), small == Type::bf16);
  };
  Value* last = read(i.operands.back(), Type::f32);
  write(i.operands[0], i.row->op == "fma" ? float_fma(i, Type::f32, wide(1), wide(2), last)
                                          : float_sum(i, Type::f32, wide(1), last));
}

void FunctionTranslator::emit_div_float(const Instruction& i) {
  const Type t = i.types[0];
  Value *x = flush_if(i, read(i.operands[1], t)), *y = flush_if(i, read(i.operands[2], t));
  const Round mode = round_of(i);
  Value* r = nullptr;
  if (i.has(Mod::approx)) {
    r = b.CreateFDiv(x, y);
    // The GPU multiplies by a reciprocal, which is 0 for divisors above 2^126.
    Value* size = intrinsic(Intrinsic::fabs, {y});
    Value* large = b.CreateFCmpOGT(size, float_constant(y->getType(), 0x1p126));
    Value* zero = b.CreateIntrinsic(Intrinsic::copysign, {y->getType()},
                                    {float_constant(y->getType(), 0.0), y});
    r = b.CreateSelect(large, b.CreateFMul(x, zero), r);
  } else if (mode == Round::rn) {
    r = with_gpu_nan(b.CreateFDiv(x, y), {x, y});
  } else if (t == Type::f32) {
    // A quotient of floats is either a float or further from every float than double's rounding
    // reaches.
    r = round_to_float(b.CreateFDiv(extend(x), extend(y)), nullptr, mode);
  } else {
    r = call_routine(llvm::Twine("div_f64_").concat(kRoundNames[static_cast<int>(mode)]).str(),
                     x->getType(), {x, y});
  }
  if (t == Type::f32 && i.has(Mod::ftz)) {
    // No quotient of floats lies between the least normal and the number of 24 bits below it, so
    // it is tiny exactly if it is below the least normal: if |x| * 2^24 < |y| * 2^-102. The first
    // product is exact or infinite, and then no quotient is tiny; the second is exact or below any
    // first product that is not zero.
    const auto scaled = [&](Value* v, double by) {
      return b.CreateFMul(intrinsic(Intrinsic::fabs, {v}), float_constant(v->getType(), by));
    };
    Value* tiny = b.CreateFCmpOLT(scaled(x, 0x1p24), scaled(y, 0x1p-102));
    r = marked(zero_where(tiny, r), kFlushed);
  }
  write(i.operands[0], saturate_if(i, r));
}

/// -v; an f64 NaN keeps its sign.
Value* FunctionTranslator::negated(Value* v) {
  Value* r = b.CreateFNeg(v);
  return v->getType()->isDoubleTy() ? b.CreateSelect(is_nan(v), quieted(v), r) : r;
}

/// The result of an f64 instruction with the NaN of a GPU: the first NaN among these operands,
/// quieted, or the NaN of the instruction itself. nan/f64_nan_fixup.cpp corrects the arithmetic of
/// the host later, except for what LLVM folds: constants, sums with zero and products with one.
Value* FunctionTranslator::with_gpu_nan(Value* r, llvm::ArrayRef<Value*> operands) {
  if (!r->getType()->isDoubleTy() || !module.options.gpu_nans) return r;
  if (auto* made = llvm::dyn_cast<llvm::Instruction>(r); made && !is_neutral(*made)) {
    made->setMetadata("cucpu.f64", llvm::MDNode::get(out.getContext(), {}));
    return r;
  }
  // A select between integers: LLVM may treat all NaNs of a float select as equal.
  Value* bits = b.CreateSelect(is_nan(r), b.getInt64(0xfff8000000000000), raw_bits(r));
  for (Value* v : llvm::reverse(operands))
    bits = b.CreateSelect(is_nan(v), raw_bits(quieted(v)), bits);
  return b.CreateBitCast(bits, b.getDoubleTy());
}

Value* FunctionTranslator::quieted(Value* v) {
  return b.CreateBitCast(b.CreateOr(raw_bits(v), b.getInt64(0x0008000000000000)), b.getDoubleTy());
}

void FunctionTranslator::emit_abs_float(const Instruction& i) {
  Value* v = read(i.operands[1], i.types[0]);
  Value* r = intrinsic(Intrinsic::fabs, {v});
  if (i.types[0] == Type::f64) r = b.CreateSelect(is_nan(v), quieted(v), r);
  write(i.operands[0], flush_if(i, r));
}

void FunctionTranslator::emit_neg_float(const Instruction& i) {
  write(i.operands[0], flush_if(i, negated(read(i.operands[1], i.types[0]))));
}

void FunctionTranslator::emit_minmax_float(const Instruction& i) {
  const Type t = i.types[0];
  const bool max = i.row->op == "max";
  Value *x = flush_if(i, read(i.operands[1], t)), *y = flush_if(i, read(i.operands[2], t));
  Value* sign = i.has(Mod::xorsign) ? b.CreateXor(raw_bits(x), raw_bits(y)) : nullptr;
  const auto magnitude = [&](Value* v) {
    return i.has(Mod::abs) ? intrinsic(Intrinsic::fabs, {v}) : v;
  };
  Value* r = fmin_ieee(magnitude(x), magnitude(y), max, i.has(Mod::NaN));
  if (i.operands.size() == 4) {
    if (module.source.target < 100 || module.source.version < 88)
      return error(i.where, "three operands need .target sm_100 and .version 8.8");
    r = fmin_ieee(r, magnitude(flush_if(i, read(i.operands[3], t))), max, i.has(Mod::NaN));
  }
  if (sign != nullptr) {
    Value* with =
        b.CreateIntrinsic(Intrinsic::copysign, {r->getType()}, {r, as_type(sign, r->getType())});
    r = b.CreateSelect(is_nan(r), r, with);
  }
  write(i.operands[0], r);
}

// copysign.f32 d, a, b: the sign of a, the magnitude of b.
void FunctionTranslator::emit_copysign(const Instruction& i) {
  const Type t = i.types[0];
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  // On bits: NaN bits are unchanged.
  Value *sign = as_bits(x), *size = as_bits(y);
  llvm::Type* word = sign->getType();
  const llvm::APInt top = llvm::APInt::getSignMask(word->getIntegerBitWidth());
  Value* r = b.CreateOr(b.CreateAnd(sign, llvm::ConstantInt::get(word, top)),
                        b.CreateAnd(size, llvm::ConstantInt::get(word, ~top)));
  write(i.operands[0], as_type(r, x->getType()));
}

void FunctionTranslator::emit_testp(const Instruction& i) {
  Value* x = read(i.operands[1], i.types[0]);
  llvm::Type* t = x->getType();
  const bool wide = i.types[0] == Type::f64;
  Value* size = intrinsic(Intrinsic::fabs, {x});
  Value* inf = llvm::ConstantFP::getInfinity(t);
  Value* least = float_constant(t, wide ? 0x1p-1022 : 0x1p-126);
  Value* r = nullptr;
  if (i.has(Mod::finite))
    r = b.CreateFCmpOLT(size, inf);
  else if (i.has(Mod::infinite))
    r = b.CreateFCmpOEQ(size, inf);
  else if (i.has(Mod::number))
    r = b.CreateFCmpORD(x, x);
  else if (i.has(Mod::notanumber))
    r = b.CreateFCmpUNO(x, x);
  else if (i.has(Mod::normal)) {  // zero counts
    Value* subnormal =
        b.CreateAnd(b.CreateFCmpOLT(size, least), b.CreateFCmpOGT(size, float_constant(t, 0.0)));
    r = b.CreateAnd(b.CreateNot(subnormal), b.CreateFCmpOLT(size, inf));
  } else
    r = b.CreateAnd(b.CreateFCmpOLT(size, least), b.CreateFCmpOGT(size, float_constant(t, 0.0)));
  write(i.operands[0], r);
}

void FunctionTranslator::emit_rcp(const Instruction& i) {
  const Type t = i.types[0];
  Value* x = read(i.operands[1], t);
  Value* one = float_constant(x->getType(), 1.0);
  const Round mode = round_of(i);
  Value* r = nullptr;
  if (t == Type::f64 && i.has(Mod::approx))
    return write(i.operands[0], coarse_f64(b.CreateFDiv(one, coarse_f64(x))));
  x = flush_if(i, x);
  if (mode == Round::rn || i.has(Mod::approx)) {
    r = with_gpu_nan(b.CreateFDiv(one, x), {x});
  } else if (t == Type::f32) {
    r = round_to_float(b.CreateFDiv(extend(one), extend(x)), nullptr, mode);
  } else {
    r = call_routine(llvm::Twine("div_f64_").concat(kRoundNames[static_cast<int>(mode)]).str(),
                     x->getType(), {one, x});
  }
  if (t == Type::f32 && i.has(Mod::ftz)) {
    Value* large =
        b.CreateFCmpOGT(intrinsic(Intrinsic::fabs, {x}), float_constant(x->getType(), 0x1p126));
    r = marked(zero_where(large, r), kFlushed);
  }
  write(i.operands[0], saturate_if(i, r));
}

// rcp and rsqrt .approx.ftz.f64 read and write the high word only: with ones in the low word,
// infinity is still infinity. Subnormals count as zero, and there is one NaN.
Value* FunctionTranslator::coarse_f64(Value* v) {
  Value* bits = b.CreateAnd(raw_bits(v), b.getInt64(0xffffffff00000000));
  Value* size = b.CreateAnd(bits, b.getInt64(0x7fffffff00000000));
  Value* small = b.CreateICmpULT(size, b.getInt64(0x0010000000000000));
  bits = b.CreateSelect(small, b.CreateAnd(bits, b.getInt64(0x8000000000000000)), bits);
  Value* nan = b.CreateICmpUGT(size, b.getInt64(0x7ff0000000000000));
  return made_float(b.CreateSelect(nan, b.getInt64(0x7fffffff00000000), bits), b.getDoubleTy());
}

void FunctionTranslator::emit_sqrt(const Instruction& i) {
  const Type t = i.types[0];
  Value* x = flush_if(i, read(i.operands[1], t));
  const Round mode = round_of(i);
  Value* r = nullptr;
  if (mode == Round::rn || i.has(Mod::approx)) {
    r = with_gpu_nan(intrinsic(Intrinsic::sqrt, {x}), {x});
  } else if (t == Type::f32) {
    r = round_to_float(intrinsic(Intrinsic::sqrt, {extend(x)}), nullptr, mode);
  } else {
    r = call_routine(llvm::Twine("sqrt_f64_").concat(kRoundNames[static_cast<int>(mode)]).str(),
                     x->getType(), {x});
  }
  write(i.operands[0], r);  // no root is tiny
}

void FunctionTranslator::emit_rsqrt(const Instruction& i) {
  const Type t = i.types[0];
  Value* x = flush_if(i, read(i.operands[1], t));
  Value* one = float_constant(x->getType(), 1.0);
  if (t == Type::f64 && i.has(Mod::ftz)) {
    Value* r = b.CreateFDiv(one, intrinsic(Intrinsic::sqrt, {coarse_f64(x)}));
    return write(i.operands[0], coarse_f64(r));
  }
  Value* r = b.CreateFDiv(one, intrinsic(Intrinsic::sqrt, {x}));
  if (t == Type::f32) marked(r, kFlushed);
  write(i.operands[0], with_gpu_nan(r, {x}));
}

void FunctionTranslator::emit_sin_cos(const Instruction& i) {
  Value* x = flush_if(i, read(i.operands[1], Type::f32));
  write(i.operands[0], flush_if(i, sin_turns(x, i.row->op == "cos")));
}

void FunctionTranslator::emit_lg2(const Instruction& i) {
  write(i.operands[0], flush_if(i, log2_approx(flush_if(i, read(i.operands[1], Type::f32)))));
}

void FunctionTranslator::emit_ex2(const Instruction& i) {
  Value* x = read(i.operands[1], Type::f32);
  write(i.operands[0], i.has(Mod::ftz) ? marked(exp2_flushed(x), kFlushed) : exp2_approx(x));
}

Value* FunctionTranslator::tanh_approx(Value* x) {
  llvm::Type* t = x->getType();
  Value* size = intrinsic(Intrinsic::fabs, {x});
  Value* z = b.CreateFMul(x, x);
  Value* near = b.CreateFMul(x, polynomial(z, {0.9999951124191284, -0.33298036456108093,
                                               0.12927420437335968, -0.03836090490221977}));
  Value* e = exp2_approx(b.CreateFMul(size, float_constant(t, 2.885390043258667)));  // e^(2|x|)
  Value* one = float_constant(t, 1.0);
  Value* far = b.CreateFSub(one, b.CreateFDiv(float_constant(t, 2.0), b.CreateFAdd(e, one)));
  far = b.CreateIntrinsic(Intrinsic::copysign, {t}, {far, x});
  return b.CreateSelect(b.CreateFCmpOLT(size, float_constant(t, 0.65)), near, far);
}

void FunctionTranslator::emit_tanh(const Instruction& i) {
  write(i.operands[0], tanh_approx(read(i.operands[1], Type::f32)));
}

}  // namespace cucpu::ir
