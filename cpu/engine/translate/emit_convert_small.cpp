// cpu/engine/translate/emit_convert_small.cpp: cvt to and from packed halves, tf32, fp8, fp6, fp4,
// and cvt.pack.
#include <llvm/IR/Intrinsics.h>

#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

namespace Intrinsic = llvm::Intrinsic;

namespace {

struct Small {
  unsigned bits, mantissa, bias;
  const char* name;
};

Small small_of(Type t) {
  switch (t) {
    case Type::e4m3x2:
      return {8, 3, 7, "e4m3"};
    case Type::e5m2x2:
      return {8, 2, 15, "e5m2"};
    case Type::e2m1x2:
      return {4, 1, 1, "e2m1"};
    case Type::e2m3x2:
      return {6, 3, 1, "e2m3"};
    case Type::e3m2x2:
      return {6, 2, 3, "e3m2"};
    default:
      return {8, 0, 127, "ue8m0"};
  }
}

}  // namespace

/// f32 to half or bf16 (as i16) with .relu, .satfinite and, given random bits, stochastic rounding.
Value* FunctionTranslator::half_of(Value* f, const Instruction& i, bool bf16, Value* random) {
  if (i.has(Mod::relu)) f = relu(f);
  if (random != nullptr) {
    // Add the random bits below the kept mantissa, then cut.
    const unsigned cut = bf16 ? 16 : 13;
    Value* bits = b.CreateAdd(raw_bits(f), b.CreateAnd(random, b.getInt32((1u << cut) - 1)));
    Value* sum = made_float(bits, b.getFloatTy());
    Value* inf = b.CreateFCmpUEQ(intrinsic(Intrinsic::fabs, {f}),
                                 llvm::ConstantFP::getInfinity(b.getFloatTy()));
    f = b.CreateSelect(b.CreateOr(inf, is_nan(f)), f, sum);
  }
  const Round mode = random != nullptr ? Round::rz : round_of(i);
  Value* r = bf16 ? round_to_bf16(f, mode) : as_bits(round_to_half(f, mode));
  if (i.has(Mod::satfinite)) {
    const std::uint16_t inf = bf16 ? 0x7f80 : 0x7c00;
    Value* size = b.CreateAnd(r, b.getInt16(0x7fff));
    Value* finite = b.CreateSub(r, b.getInt16(1));
    r = b.CreateSelect(b.CreateICmpEQ(size, b.getInt16(inf)), finite, r);
  }
  return r;
}

void FunctionTranslator::emit_cvt_relu(const Instruction& i) {
  const bool bf16 = i.types[0] == Type::bf16;
  Value* r = half_of(read(i.operands[1], Type::f32), i, bf16);
  write(i.operands[0], bf16 ? r : as_type(r, b.getHalfTy()));
}

// The second operand goes to the low half.
void FunctionTranslator::emit_cvt_pair(const Instruction& i) {
  const bool bf16 = i.types[0] == Type::bf16x2;
  Value* random = i.has(Mod::rs) ? read(i.operands[3], Type::b32) : nullptr;
  Value* random_high = random == nullptr ? nullptr : b.CreateLShr(random, 16);
  Value* high = half_of(read(i.operands[1], Type::f32), i, bf16, random_high);
  Value* low = half_of(read(i.operands[2], Type::f32), i, bf16, random);
  write(i.operands[0], join_halves(low, high));
}

// tf32: a float with 10 bits of mantissa.
void FunctionTranslator::emit_cvt_tf32(const Instruction& i) {
  Value* f = read(i.operands[1], Type::f32);
  if (i.has(Mod::relu)) f = relu(f);
  Value* bits = raw_bits(f);
  Value* add = b.getInt32(0);
  if (i.has(Mod::rna)) add = b.getInt32(0x1000);
  if (i.has(Mod::rn)) add = b.CreateAdd(b.getInt32(0xfff), b.CreateAnd(b.CreateLShr(bits, 13), 1));
  Value* r = b.CreateAnd(b.CreateAdd(bits, add), b.getInt32(0xffffe000));
  const auto top = [&](Value* v) {
    return b.CreateICmpUGE(b.CreateAnd(v, b.getInt32(0x7fffffff)), b.getInt32(0x7f800000));
  };
  r = b.CreateSelect(top(bits), b.CreateAnd(bits, b.getInt32(0xffffe000)), r);
  // .rna cuts a NaN's payload like a number's, whatever that makes of it, and .satfinite takes one
  // step down from there.
  if (i.has(Mod::satfinite)) r = b.CreateSelect(top(r), b.CreateSub(r, b.getInt32(0x2000)), r);
  if (!i.has(Mod::rna)) r = b.CreateSelect(is_nan(f), b.getInt32(0x7fffe000), r);
  write(i.operands[0], r);
}

void FunctionTranslator::emit_cvt_to_small(const Instruction& i) {
  const Small s = small_of(i.types[0]);
  Value *high = nullptr, *low = nullptr;
  if (i.types[1] == Type::f32) {
    high = read(i.operands[1], Type::f32);
    low = read(i.operands[2], Type::f32);
  } else {
    const bool bf16 = i.types[1] == Type::bf16x2;
    Value* both = read(i.operands[1], Type::b32);
    low = widen_half(half_part(both, 0, bf16), bf16);
    high = widen_half(half_part(both, 1, bf16), bf16);
  }
  const auto one = [&](Value* f) {
    if (i.has(Mod::relu)) f = relu(f);
    return call_routine(ptx::cat("cvt_", s.name,
                                 i.has(Mod::rp)   ? "_rp"
                                 : i.has(Mod::rz) ? "_rz"
                                                  : ""),
                        b.getInt32Ty(), {f});
  };
  const unsigned shift = s.bits == 4 ? 4 : 8;
  Value* r = b.CreateOr(one(low), b.CreateShl(one(high), shift));
  // e2m1x2 is one byte in a .b8 part of a register; everything else fills 16 bits.
  write(i.operands[0], b.CreateTrunc(r, s.bits == 4 ? b.getInt8Ty() : b.getInt16Ty()));
}

// All small formats fit into half: move the bits to half's places, then scale by the difference of
// the biases.
Value* FunctionTranslator::small_to_half(Value* bits, Type element) {
  const Small s = small_of(element);
  Value* v = b.CreateAnd(bits, (1u << s.bits) - 1);
  Value* sign = b.CreateShl(b.CreateLShr(v, s.bits - 1), 15);
  Value* rest = b.CreateAnd(v, (1u << (s.bits - 1)) - 1);
  Value* h = b.CreateOr(b.CreateTrunc(sign, b.getInt16Ty()),
                        b.CreateTrunc(b.CreateShl(rest, 10 - s.mantissa), b.getInt16Ty()));
  Value* f = as_type(h, b.getHalfTy());
  if (s.bias != 15)
    f = b.CreateFMul(f, float_constant(b.getHalfTy(), static_cast<double>(1u << (15 - s.bias))));
  if (element == Type::e4m3x2) {
    f = b.CreateSelect(b.CreateICmpEQ(rest, b.getInt32(0x7f)),
                       as_type(b.getInt16(0x7fff), b.getHalfTy()), f);
  } else if (element == Type::e5m2x2) {
    f = b.CreateSelect(is_nan(f), as_type(b.getInt16(0x7fff), b.getHalfTy()), f);
  }
  return f;
}

void FunctionTranslator::emit_cvt_from_small(const Instruction& i) {
  const Type from = i.types[1];
  const Small s = small_of(from);
  Value* v =
      from == Type::e2m1x2 ? read(i.operands[1], Type::b8, true) : read(i.operands[1], Type::b16);
  v = b.CreateZExt(v, b.getInt32Ty());
  const unsigned shift = s.bits == 4 ? 4 : 8;
  Value* parts[2];
  for (unsigned k = 0; k < 2; ++k) {
    Value* bits = b.CreateAnd(b.CreateLShr(v, k * shift), (1u << shift) - 1);
    if (from == Type::ue8m0x2) {  // an exponent: bf16 with no mantissa, 2^-127 being subnormal
      Value* r = b.CreateSelect(b.CreateICmpEQ(bits, b.getInt32(0)), b.getInt32(0x40),
                                b.CreateShl(bits, 7));
      r = b.CreateSelect(b.CreateICmpEQ(bits, b.getInt32(0xff)), b.getInt32(0x7fff), r);
      parts[k] = b.CreateTrunc(r, b.getInt16Ty());
    } else {
      Value* h = small_to_half(bits, from);
      parts[k] = i.has(Mod::relu) ? relu(h) : h;
    }
  }
  write(i.operands[0], join_halves(parts[0], parts[1]));
}

// cvt.pack.sat.T.s32{.b32} d, a, b {, c}: b lowest, then a, then what c already holds.
void FunctionTranslator::emit_cvt_pack(const Instruction& i) {
  const Type t = i.types[0];
  const unsigned bits = ptx::bits_of(t);
  const bool sign = ptx::name_of(t).starts_with('s');
  const auto clamp = [&](Value* v) {
    const int low = sign ? -(1 << (bits - 1)) : 0;
    const int high = sign ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    v = b.CreateBinaryIntrinsic(Intrinsic::smax, v, b.getInt32(static_cast<std::uint32_t>(low)));
    v = b.CreateBinaryIntrinsic(Intrinsic::smin, v, b.getInt32(static_cast<std::uint32_t>(high)));
    return b.CreateAnd(v, b.getInt32((1u << bits) - 1));
  };
  Value* r = b.CreateOr(clamp(read(i.operands[2], Type::b32)),
                        b.CreateShl(clamp(read(i.operands[1], Type::b32)), bits));
  if (i.operands.size() > 3)
    r = b.CreateOr(r, b.CreateShl(read(i.operands[3], Type::b32), 2 * bits));
  write(i.operands[0], r);
}

}  // namespace cucpu::ir
