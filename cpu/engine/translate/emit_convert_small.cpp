// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_convert_small.cpp: cvt to and from packed halves, tf32, fp8, and
// cvt.pack.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <cmath>

#include "cpu/engine/runtime/small_quad.hpp"
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

namespace Intrinsic = llvm::Intrinsic;

/// f32 to half or bf16 (as i16) with .relu and .satfinite.
Value* FunctionTranslator::half_of(Value* f, const Instruction& i, bool bf16) {
  if (i.has(Mod::relu)) f = relu(f);
  const Round mode = round_of(i);
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

// The second operand becomes the low half.
void FunctionTranslator::emit_cvt_pair(const Instruction& i) {
  const bool bf16 = i.types[0] == Type::bf16x2;
  Value* high = half_of(read(i.operands[1], Type::f32), i, bf16);
  Value* low = half_of(read(i.operands[2], Type::f32), i, bf16);
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
  // `.rna` truncates the payload of a NaN like a mantissa, and `.satfinite` subtracts one from the
  // result.
  if (i.has(Mod::satfinite)) r = b.CreateSelect(top(r), b.CreateSub(r, b.getInt32(0x2000)), r);
  if (!i.has(Mod::rna)) r = b.CreateSelect(is_nan(f), b.getInt32(0x7fffe000), r);
  write(i.operands[0], r);
}

namespace {

/// A float of at most 8 bits.
struct SmallFormat {
  Type packed;  ///< the type of a pair
  unsigned exponent_bits, mantissa_bits;
  const char* routine;  ///< converts from f32
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  unsigned bits() const { return 1 + exponent_bits + mantissa_bits; }
  /// Bits of one element of a pair: the 6-bit formats take a byte.
  unsigned place() const { return bits() == 4 ? 4 : 8; }
};
constexpr SmallFormat kSmallFormats[] = {
    {Type::e4m3x2, 4, 3, "cvt_e4m3"}, {Type::e5m2x2, 5, 2, "cvt_e5m2"},
    {Type::e2m1x2, 2, 1, "cvt_e2m1"}, {Type::e2m3x2, 2, 3, "cvt_e2m3"},
    {Type::e3m2x2, 3, 2, "cvt_e3m2"},
};
const SmallFormat& small_format(Type packed) {
  for (const SmallFormat& format : kSmallFormats)
    if (format.packed == packed) return format;
  llvm_unreachable("the rows of api/ptx.json allow no other type");
}

}  // namespace

/// The two source values of a conversion to a pair as f32: operands a (high) and b (low), or the
/// halves of one register.
std::pair<Value*, Value*> FunctionTranslator::pair_of_floats(const Instruction& i) {
  if (i.types[1] == Type::f32)
    return {read(i.operands[1], Type::f32), read(i.operands[2], Type::f32)};
  const bool bf16 = i.types[1] == Type::bf16x2;
  Value* both = read(i.operands[1], Type::b32);
  return {widen_half(half_part(both, 1, bf16), bf16), widen_half(half_part(both, 0, bf16), bf16)};
}

void FunctionTranslator::emit_cvt_to_small(const Instruction& i) {
  const auto [high, low] = pair_of_floats(i);
  const SmallFormat& format = small_format(i.types[0]);
  const auto one = [&](Value* f) {
    if (i.has(Mod::relu)) f = relu(f);
    return call_routine(format.routine, b.getInt32Ty(), {f});
  };
  Value* r = b.CreateOr(one(low), b.CreateShl(one(high), format.place()));
  write(i.operands[0], b.CreateTrunc(r, b.getIntNTy(2 * format.place())));
}

/// One element as f32. The bits move to the places of f32, and a multiplication corrects the bias,
/// also of denormals.
Value* FunctionTranslator::small_to_float(Value* bits, unsigned exponent_bits,
                                          unsigned mantissa_bits, int bias) {
  const unsigned size_bits = exponent_bits + mantissa_bits;
  Value* size = b.CreateAnd(bits, (1u << size_bits) - 1);
  Value* sign = b.CreateShl(b.CreateLShr(bits, size_bits), 31);
  Value* f = as_type(b.CreateOr(sign, b.CreateShl(size, 23 - mantissa_bits)), b.getFloatTy());
  return b.CreateFMul(f, float_constant(b.getFloatTy(), std::ldexp(1.0, 127 - bias)));
}

// e4m3 and e5m2 fit into half: e5m2 is its upper byte; of e4m3 move the bits to half's places, then
// scale by the difference of the biases.
Value* FunctionTranslator::small_to_half(Value* byte, bool e4m3) {
  Value* rest = b.CreateAnd(byte, 0x7f);
  Value* sign = b.CreateShl(b.CreateAnd(byte, 0x80), 8);
  Value* h = b.CreateTrunc(b.CreateOr(sign, b.CreateShl(rest, e4m3 ? 7 : 8)), b.getInt16Ty());
  Value* f = as_type(h, b.getHalfTy());
  if (e4m3) f = b.CreateFMul(f, float_constant(b.getHalfTy(), 256.0));
  Value* no_number = e4m3 ? b.CreateICmpEQ(rest, b.getInt32(0x7f)) : is_nan(f);
  return b.CreateSelect(no_number, as_type(b.getInt16(0x7fff), b.getHalfTy()), f);
}

void FunctionTranslator::emit_cvt_from_small(const Instruction& i) {
  const SmallFormat& format = small_format(i.types[1]);
  const unsigned place = format.place();
  const bool bf16 = i.types[0] == Type::bf16x2;
  Value* v = b.CreateZExt(read(i.operands[1], place == 4 ? Type::b8 : Type::b16), b.getInt32Ty());
  Value* parts[2];
  for (unsigned k = 0; k < 2; ++k) {
    Value* element = b.CreateAnd(b.CreateLShr(v, k * place), (1u << format.bits()) - 1);
    Value* h = format.bits() == 8 ? small_to_half(element, i.types[1] == Type::e4m3x2) : nullptr;
    if (h && !bf16) {
      parts[k] = i.has(Mod::relu) ? relu(h) : h;
      continue;
    }
    Value* f =
        h ? widen_half(h, false)
          : small_to_float(element, format.exponent_bits, format.mantissa_bits, format.bias());
    parts[k] = half_of(scaled_by_exponent(i, f, k), i, bf16);
  }
  write(i.operands[0], join_halves(parts[0], parts[1]));
}

/// .scaled::n2::ue8m0: f times 2^(element k of the third operand - 127). A scale of 255 is a NaN.
Value* FunctionTranslator::scaled_by_exponent(const Instruction& i, Value* f, unsigned k) {
  if (!i.has(Mod::scaled_n2_ue8m0)) return f;
  Value* both = b.CreateZExt(read(i.operands[2], Type::b16), b.getInt32Ty());
  Value* e = b.CreateAnd(b.CreateLShr(both, k * 8), 0xff);
  Value* bits = b.CreateShl(e, 23);
  bits = b.CreateSelect(b.CreateICmpEQ(e, b.getInt32(0)), b.getInt32(0x00400000), bits);
  bits = b.CreateSelect(b.CreateICmpEQ(e, b.getInt32(0xff)), b.getInt32(0x7fffffff), bits);
  return b.CreateFMul(f, as_type(bits, b.getFloatTy()));
}

// s2f6: a signed byte in units of 2^-6.
void FunctionTranslator::emit_cvt_from_fixed(const Instruction& i) {
  Value* v = read(i.operands[1], Type::b16);
  Value* parts[2];
  for (unsigned k = 0; k < 2; ++k) {
    Value* number = b.CreateTrunc(b.CreateLShr(v, k * 8), b.getInt8Ty());
    Value* f = b.CreateFMul(b.CreateSIToFP(number, b.getFloatTy()),
                            float_constant(b.getFloatTy(), 1.0 / 64));
    parts[k] = half_of(scaled_by_exponent(i, f, k), i, true);
  }
  write(i.operands[0], join_halves(parts[0], parts[1]));
}

// The scale divides: the factor is 2^(127 - element of the last operand).
void FunctionTranslator::emit_cvt_to_fixed(const Instruction& i) {
  const auto [high, low] = pair_of_floats(i);
  const auto one = [&](Value* f, unsigned k) {
    if (i.has(Mod::scaled_n2_ue8m0)) {
      Value* both = b.CreateZExt(read(i.operands.back(), Type::b16), b.getInt32Ty());
      Value* e = b.CreateAnd(b.CreateLShr(both, k * 8), 0xff);
      Value* bits = b.CreateShl(b.CreateSub(b.getInt32(254), e), 23);
      bits = b.CreateSelect(b.CreateICmpEQ(e, b.getInt32(254)), b.getInt32(0x00400000), bits);
      bits = b.CreateSelect(b.CreateICmpEQ(e, b.getInt32(255)), b.getInt32(0x7fffffff), bits);
      f = b.CreateFMul(f, as_type(bits, b.getFloatTy()));
    }
    return call_routine("cvt_s2f6", b.getInt32Ty(), {i.has(Mod::relu) ? relu(f) : f});
  };
  Value* r = b.CreateOr(one(low, 0), b.CreateShl(one(high, 1), 8));
  write(i.operands[0], b.CreateTrunc(r, b.getInt16Ty()));
}

// cvt.rs d, a, b, random   or   cvt.rs d, {a, b, e, f}, random: the first value comes highest. f16
// has 13 random bits for each value, bf16 16; of four values, a and b share 16 bits, e and f too.
void FunctionTranslator::emit_cvt_stochastic(const Instruction& i) {
  struct Format {
    Type packed;
    unsigned exponent_bits, mantissa_bits, place;
  };
  constexpr Format kFormats[] = {
      {Type::f16x2, 5, 10, 16}, {Type::bf16x2, 8, 7, 16}, {Type::e4m3x4, 4, 3, 8},
      {Type::e5m2x4, 5, 2, 8},  {Type::e2m1x4, 2, 1, 4},  {Type::e2m3x4, 2, 3, 8},
      {Type::e3m2x4, 3, 2, 8},
  };
  const Type type = i.types[0];
  const Format& format =
      *std::ranges::find_if(kFormats, [&](const Format& f) { return f.packed == type; });
  const bool four = i.operands.size() == 3;
  llvm::SmallVector<const Operand*, 4> values;
  if (four) {
    const Operand& list = i.operands[1];
    if (list.kind != Operand::Kind::vector || list.parts.size() != 4)
      return error(list.where, "expected four values");
    for (const Operand& part : list.parts) values.push_back(&part);
  } else {
    values = {&i.operands[1], &i.operands[2]};
  }
  Value* random = read(i.operands[four ? 2 : 3], Type::b32);
  const std::uint32_t what =
      format.exponent_bits | format.mantissa_bits << 4 | (i.has(Mod::satfinite) ? 256u : 0u);
  Value* result = b.getInt32(0);
  for (std::size_t k = 0; k < values.size(); ++k) {  // from the highest
    const bool upper = four ? k < 2 : k == 0;
    Value* bits = b.CreateAnd(b.CreateLShr(random, upper ? 16 : 0), 0xffff);
    if (type == Type::f16x2) bits = b.CreateAnd(b.CreateShl(bits, 3), 0xffff);
    if (type == Type::e2m1x4) {  // the same byte of both halves
      const unsigned byte = upper ? 8 : 0;
      bits = b.CreateOr(b.CreateAnd(b.CreateLShr(random, byte), 0xff),
                        b.CreateAnd(b.CreateLShr(random, byte + 8), 0xff00));
    }
    Value* f = read(*values[k], Type::f32);
    if (i.has(Mod::relu)) f = relu(f);
    Value* code = call_routine("cvt_stochastic", b.getInt32Ty(), {f, bits, b.getInt32(what)});
    const auto shift = static_cast<unsigned>(values.size() - 1 - k) * format.place;
    result = b.CreateOr(result, b.CreateShl(code, shift));
  }
  write(i.operands[0], type == Type::e2m1x4 ? b.CreateTrunc(result, b.getInt16Ty()) : result);
}

// ue8m0: the exponent field of f32 alone. The sign is dropped.
void FunctionTranslator::emit_cvt_to_exponent(const Instruction& i) {
  const auto [high, low] = pair_of_floats(i);
  const auto one = [&](Value* f) {
    Value* size = b.CreateAnd(as_bits(f), 0x7fffffff);
    Value* r = b.CreateLShr(size, 23);
    Value* infinite = b.getInt32(0x7f800000);
    if (i.has(Mod::rp)) {  // 2^-127 is the least value
      Value* rest = b.CreateICmpNE(b.CreateAnd(size, 0x7fffff), b.getInt32(0));
      Value* above = b.CreateICmpUGT(size, b.getInt32(0x00400000));
      Value* finite = b.CreateICmpULT(size, infinite);
      r = b.CreateAdd(r, b.CreateZExt(b.CreateAnd(b.CreateAnd(rest, above), finite), r->getType()));
    }
    if (i.has(Mod::satfinite)) {
      Value* over =
          b.CreateAnd(b.CreateICmpEQ(r, b.getInt32(0xff)), b.CreateICmpULE(size, infinite));
      r = b.CreateSelect(over, b.getInt32(0xfe), r);
    }
    return r;
  };
  Value* r = b.CreateOr(one(low), b.CreateShl(one(high), 8));
  write(i.operands[0], b.CreateTrunc(r, b.getInt16Ty()));
}

void FunctionTranslator::emit_cvt_from_exponent(const Instruction& i) {
  Value* v = read(i.operands[1], Type::b16);
  Value* parts[2];
  for (unsigned k = 0; k < 2; ++k) {
    Value* e = b.CreateAnd(b.CreateLShr(v, k * 8), 0xff);
    Value* r = b.CreateShl(e, 7);
    r = b.CreateSelect(b.CreateICmpEQ(e, b.getInt16(0)), b.getInt16(0x0040), r);  // 2^-127
    parts[k] = b.CreateSelect(b.CreateICmpEQ(e, b.getInt16(0xff)), b.getInt16(0x7fff), r);
  }
  write(i.operands[0], join_halves(parts[0], parts[1]));
}

// add, sub, mul and fma of four small floats; the result is rounded once.
void FunctionTranslator::emit_small_quad(const Instruction& i) {
  const auto format = [](Type t) {
    switch (t) {
      case Type::e4m3x4:
        return SmallQuad::e4m3;
      case Type::e5m2x4:
        return SmallQuad::e5m2;
      case Type::e3m2x4:
        return SmallQuad::e3m2;
      case Type::e2m3x4:
        return SmallQuad::e2m3;
      case Type::e2m1x4:
        return SmallQuad::e2m1;
      case Type::e2m1p4x4:
        return SmallQuad::e2m1p4;
      default:
        return SmallQuad::ue8m0;
    }
  };
  const std::string_view op = i.row->op;
  const bool product = op == "mul" || op == "fma";
  const Type types[] = {i.types[1], product ? i.types[2] : i.types[0], i.types[0]};
  Value* values[3] = {b.getInt32(0), b.getInt32(0), b.getInt32(0)};
  std::uint32_t what = (product ? kQuadMul : 0) | (op == "sub" ? kQuadSub : 0) |
                       (op == "add" || op == "fma" ? kQuadAdd : 0) |
                       (i.has(Mod::satfinite) ? kQuadFinite : 0) |
                       (i.types[0] == Type::e5m2x4 ? kQuadE5M2 : 0);
  for (unsigned k = 0; k + 1 < i.operands.size(); ++k) {
    const Operand& o = i.operands[k + 1];
    values[k] = types[k] == Type::e2m1x4 ? b.CreateZExt(read(o, Type::b16), b.getInt32Ty())
                                         : read(o, Type::b32);
    if (k < 2) what |= static_cast<std::uint32_t>(format(types[k])) << (kQuadFormats + 4 * k);
  }
  if (!product) std::swap(values[1], values[2]);  // the second operand is c
  write(i.operands[0], call_routine("small_quad", b.getInt32Ty(),
                                    {values[0], values[1], values[2], b.getInt32(what)}));
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
