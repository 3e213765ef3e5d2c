// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_video.cpp: video instructions: parts of words, widened to 64 bits, with
// an optional second operation.
#include <llvm/IR/Intrinsics.h>

#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

namespace Intrinsic = llvm::Intrinsic;

/// The bits of a selector; the whole register without one.
FunctionTranslator::VideoPart FunctionTranslator::video_selected(const Operand& o) {
  if (o.selector.empty()) return {32, 0};
  const unsigned bits = o.selector[0] == 'b' ? 8 : 16;
  const unsigned shift = static_cast<unsigned>(o.selector[1] - '0') * bits;
  if (o.selector.size() == 2 && shift < 32) return {bits, shift};
  error(o.where, "a selector is one of .b0 .b1 .b2 .b3 .h0 .h1");
  return {bits, 0};
}

/// Byte or half of a register (or all of it), extended by its type.
Value* FunctionTranslator::video_part(const Operand& o, Type type) {
  const auto [bits, shift] = video_selected(o);
  Value* v = b.CreateTrunc(b.CreateLShr(read(o, Type::b32), shift), int_type(bits));
  return is_signed(type) ? b.CreateSExt(v, b.getInt64Ty()) : b.CreateZExt(v, b.getInt64Ty());
}

Value* FunctionTranslator::video_clamp(Value* v, bool sign, unsigned bits) {
  const std::int64_t low = sign ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t high =
      sign ? (std::int64_t{1} << (bits - 1)) - 1 : (std::int64_t{1} << bits) - 1;
  v = b.CreateBinaryIntrinsic(Intrinsic::smax, v, b.getInt64(static_cast<std::uint64_t>(low)));
  return b.CreateBinaryIntrinsic(Intrinsic::smin, v, b.getInt64(static_cast<std::uint64_t>(high)));
}

Value* FunctionTranslator::video_operation(std::string_view op, const Instruction& i, Value* x,
                                           Value* y) {
  if (op == "vadd") return b.CreateAdd(x, y);
  if (op == "vsub") return b.CreateSub(x, y);
  if (op == "vabsdiff") {
    Value* d = b.CreateSub(x, y);
    return b.CreateIntrinsic(Intrinsic::abs, {d->getType()}, {d, b.getFalse()});
  }
  if (op == "vmin") return b.CreateBinaryIntrinsic(Intrinsic::smin, x, y);
  if (op == "vmax") return b.CreateBinaryIntrinsic(Intrinsic::smax, x, y);
  if (op == "vavrg") {  // rounded away from zero
    Value* sum = b.CreateAdd(x, y);
    Value* up = b.CreateZExt(b.CreateICmpSGE(sum, b.getInt64(0)), b.getInt64Ty());
    return b.CreateAShr(b.CreateAdd(sum, up), 1);
  }
  if (op == "vset") {
    llvm::CmpInst::Predicate p = llvm::CmpInst::ICMP_EQ;
    if (i.has(Mod::ne)) p = llvm::CmpInst::ICMP_NE;
    if (i.has(Mod::lt)) p = llvm::CmpInst::ICMP_SLT;
    if (i.has(Mod::le)) p = llvm::CmpInst::ICMP_SLE;
    if (i.has(Mod::gt)) p = llvm::CmpInst::ICMP_SGT;
    if (i.has(Mod::ge)) p = llvm::CmpInst::ICMP_SGE;
    return b.CreateZExt(b.CreateICmp(p, x, y), b.getInt64Ty());
  }
  Value* n = i.has(Mod::wrap) ? b.CreateAnd(y, b.getInt64(31))
                              : b.CreateBinaryIntrinsic(Intrinsic::umin, y, b.getInt64(32));
  return op == "vshl" ? b.CreateShl(x, n) : b.CreateAShr(x, n);
}

/// .sat as ptxas makes it for sm_90. The manual saturates to the part and type of d; instead shifts
/// saturate what 34 bits hold to the whole word, parts saturate at the top alone and take negative
/// values as large ones, and u32 words saturate below alone.
Value* FunctionTranslator::video_saturate(const Instruction& i, Value* v, bool sign,
                                          const Operand& to) {
  if (i.row->op == "vshl" || i.row->op == "vshr")
    return video_clamp(b.CreateAShr(b.CreateShl(v, 30), 30), sign, 32);
  if (!to.selector.empty()) {
    const unsigned bits = video_selected(to).bits - (sign ? 1 : 0);
    return b.CreateBinaryIntrinsic(Intrinsic::umin, v, b.getInt64((1U << bits) - 1));
  }
  return sign ? video_clamp(v, sign, 32)
              : b.CreateBinaryIntrinsic(Intrinsic::smax, v, b.getInt64(0));
}

/// .min and .max with c as ptxas makes them for sm_90: in 64 bits, c extended and compared by the
/// type of d. Sums, differences and saturated shifts are signed words there whatever that type is;
/// other results keep their 64 bits.
Value* FunctionTranslator::video_select(const Instruction& i, Value* v, Value* c, bool sign) {
  const std::string_view op = i.row->op;
  if (op == "vadd" || op == "vsub" || (i.has(Mod::sat) && (op == "vshl" || op == "vshr")))
    v = b.CreateSExt(b.CreateTrunc(v, b.getInt32Ty()), b.getInt64Ty());
  c = sign ? b.CreateSExt(c, b.getInt64Ty()) : b.CreateZExt(c, b.getInt64Ty());
  if (i.has(Mod::min_))
    return b.CreateBinaryIntrinsic(sign ? Intrinsic::smin : Intrinsic::umin, v, c);
  return b.CreateBinaryIntrinsic(sign ? Intrinsic::smax : Intrinsic::umax, v, c);
}

/// d with one of its parts replaced. ptxas fills .h1 with the upper half of the result, every other
/// part with the lowest bits.
Value* FunctionTranslator::video_merge(const Operand& to, Value* r, Value* c) {
  const auto [bits, shift] = video_selected(to);
  const std::uint32_t mask = ((1U << bits) - 1) << shift;
  if (bits == 8) r = b.CreateShl(r, shift);
  return b.CreateOr(b.CreateAnd(r, b.getInt32(mask)), b.CreateAnd(c, b.getInt32(~mask)));
}

/// Saturates, then merges into c or combines with it, then writes.
void FunctionTranslator::video_finish(const Instruction& i, Value* v, Type d) {
  const Operand& to = i.operands[0];
  const bool sign = is_signed(d), second = i.has(Mod::add) || i.has(Mod::min_) || i.has(Mod::max_);
  if (second && !to.selector.empty())
    error(to.where, "a selector of d and a second operation exclude each other");
  if ((second || !to.selector.empty()) && i.operands.size() < 4)
    error(i.where, "a selector of d or a second operation needs the operand c");
  if (i.has(Mod::sat)) v = video_saturate(i, v, sign, to);
  Value* r = b.CreateTrunc(v, b.getInt32Ty());
  if (i.operands.size() > 3) {
    Value* c = read(i.operands[3], Type::b32);
    if (!to.selector.empty())
      r = video_merge(to, r, c);
    else if (i.has(Mod::add))
      r = b.CreateAdd(r, c);
    else if (second)
      r = b.CreateTrunc(video_select(i, v, c, sign), b.getInt32Ty());
  }
  write(to, r);
}

void FunctionTranslator::emit_video(const Instruction& i) {
  Value *x = video_part(i.operands[1], i.types[1]), *y = video_part(i.operands[2], i.types[2]);
  video_finish(i, video_operation(i.row->op, i, x, y), i.types[0]);
}

void FunctionTranslator::emit_video_set(const Instruction& i) {
  Value *x = video_part(i.operands[1], i.types[0]), *y = video_part(i.operands[2], i.types[1]);
  // ptxas takes c of .min and .max by the type of a.
  video_finish(i, video_operation("vset", i, x, y), i.types[0]);
}

// vmad as ptxas makes it for sm_90: in 64 bits, with whole words and c always signed (the manual
// says 128 bits, by their types). Negations act on the bits, with a one added.
void FunctionTranslator::emit_video_mad(const Instruction& i) {
  const Operand &a = i.operands[1], &bo = i.operands[2], &co = i.operands[3];
  if (!i.operands[0].selector.empty()) error(i.operands[0].where, "vmad has no selector of d");
  const bool product_negated = a.minus != bo.minus;
  const bool sign = is_signed(i.types[1]) || is_signed(i.types[2]) || product_negated || co.minus;
  const auto factor = [&](const Operand& o, Type type) {
    return video_part(o, o.selector.empty() ? Type::s32 : type);
  };
  Value* sum = b.CreateMul(factor(a, i.types[1]), factor(bo, i.types[2]));
  Value* c = b.CreateSExt(read(co, Type::b32), b.getInt64Ty());
  bool one = true;
  if (!i.has(Mod::po) && product_negated)
    sum = b.CreateNot(sum);
  else if (!i.has(Mod::po) && co.minus)
    c = b.CreateNot(c);
  else
    one = i.has(Mod::po);
  sum = b.CreateAdd(b.CreateAdd(sum, c), b.getInt64(one ? 1 : 0));
  if (const unsigned by = i.has(Mod::shr7) ? 7 : i.has(Mod::shr15) ? 15 : 0; by != 0)
    sum = sign ? b.CreateAShr(sum, by) : b.CreateLShr(sum, by);
  if (i.has(Mod::sat)) sum = video_clamp(sum, sign, 32);
  write(i.operands[0], b.CreateTrunc(sum, b.getInt32Ty()));
}

// vadd2, vadd4, …: each half or byte alone. d keeps those of c that its mask leaves out; .add sums
// them all onto c.
void FunctionTranslator::emit_video_simd(const Instruction& i) {
  const unsigned lanes = i.row->op.ends_with('2') ? 2 : 4, bits = 32 / lanes;
  const std::string_view op = i.row->op.substr(0, i.row->op.size() - 1);
  const bool set = op == "vset";
  const Type at = i.types[set ? 0 : 1], bt = i.types[set ? 1 : 2];
  const bool sign = !set && is_signed(i.types[0]);
  Value *x = read(i.operands[1], Type::b32), *y = read(i.operands[2], Type::b32),
        *c = read(i.operands[3], Type::b32);
  Value* both =
      b.CreateOr(b.CreateZExt(x, b.getInt64Ty()), b.CreateShl(b.CreateZExt(y, b.getInt64Ty()), 32));
  // Selectors count the parts of a, then those of b; written highest first.
  const auto part = [&](const Operand& o, unsigned lane, Type type, unsigned otherwise) {
    unsigned index = otherwise + lane;
    if (!o.selector.empty()) {
      if (o.selector.size() != lanes + 1)
        error(o.where, "the selector must name every part");
      else
        index = static_cast<unsigned>(o.selector[lanes - lane] - '0') % (2 * lanes);
    }
    Value* v = b.CreateTrunc(b.CreateLShr(both, index * bits), int_type(bits));
    return is_signed(type) ? b.CreateSExt(v, b.getInt64Ty()) : b.CreateZExt(v, b.getInt64Ty());
  };
  const Operand& d = i.operands[0];
  const auto masked = [&](unsigned lane) {
    return d.selector.empty() ||
           d.selector.find(static_cast<char>('0' + lane), 1) != d.selector.npos;
  };
  Value* sum = c;
  Value* r = b.getInt32(0);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Value* v = video_operation(op, i, part(i.operands[1], lane, at, 0),
                               part(i.operands[2], lane, bt, lanes));
    if (i.has(Mod::sat)) v = video_clamp(v, sign, bits);
    const std::uint32_t mask = (bits == 32 ? 0 : (1u << bits)) - 1;
    if (i.has(Mod::add)) {
      if (!masked(lane)) continue;
      sum = b.CreateAdd(
          sum, b.CreateTrunc(
                   v, b.getInt32Ty()));  // the part does not wrap to its size before it is added
      continue;
    }
    Value* word = masked(lane) ? b.CreateAnd(b.CreateTrunc(v, b.getInt32Ty()), b.getInt32(mask))
                               : b.CreateAnd(b.CreateLShr(c, lane * bits), b.getInt32(mask));
    r = b.CreateOr(r, b.CreateShl(word, lane * bits));
  }
  write(d, i.has(Mod::add) ? sum : r);
}

}  // namespace cucpu::ir
