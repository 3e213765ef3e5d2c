// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_compare.cpp: comparison and selection.
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using llvm::CmpInst;

Value* FunctionTranslator::compare(const Instruction& i, Value* x, Value* y, Type type) {
  const bool floating = ptx::class_of(type) == ptx::Class::floating;
  const bool sign = is_signed(type);
  if (type == Type::bf16) x = bf16_to_float(x), y = bf16_to_float(y);
  if (floating && i.has(Mod::ftz)) x = flush(x), y = flush(y);
  for (Mod m : i.mods) {
    CmpInst::Predicate p = CmpInst::BAD_FCMP_PREDICATE;
    switch (m) {
      case Mod::eq:
        p = floating ? CmpInst::FCMP_OEQ : CmpInst::ICMP_EQ;
        break;
      case Mod::ne:
        p = floating ? CmpInst::FCMP_ONE : CmpInst::ICMP_NE;
        break;
      case Mod::lt:
        p = floating ? CmpInst::FCMP_OLT : sign ? CmpInst::ICMP_SLT : CmpInst::ICMP_ULT;
        break;
      case Mod::le:
        p = floating ? CmpInst::FCMP_OLE : sign ? CmpInst::ICMP_SLE : CmpInst::ICMP_ULE;
        break;
      case Mod::gt:
        p = floating ? CmpInst::FCMP_OGT : sign ? CmpInst::ICMP_SGT : CmpInst::ICMP_UGT;
        break;
      case Mod::ge:
        p = floating ? CmpInst::FCMP_OGE : sign ? CmpInst::ICMP_SGE : CmpInst::ICMP_UGE;
        break;
      case Mod::lo:
        p = CmpInst::ICMP_ULT;
        break;
      case Mod::ls:
        p = CmpInst::ICMP_ULE;
        break;
      case Mod::hi:
        p = CmpInst::ICMP_UGT;
        break;
      case Mod::hs:
        p = CmpInst::ICMP_UGE;
        break;
      case Mod::equ:
        p = CmpInst::FCMP_UEQ;
        break;
      case Mod::neu:
        p = CmpInst::FCMP_UNE;
        break;
      case Mod::ltu:
        p = CmpInst::FCMP_ULT;
        break;
      case Mod::leu:
        p = CmpInst::FCMP_ULE;
        break;
      case Mod::gtu:
        p = CmpInst::FCMP_UGT;
        break;
      case Mod::geu:
        p = CmpInst::FCMP_UGE;
        break;
      case Mod::num:
        p = CmpInst::FCMP_ORD;
        break;
      case Mod::nan:
        p = CmpInst::FCMP_UNO;
        break;
      default:
        continue;
    }
    return floating ? b.CreateFCmp(p, x, y) : b.CreateICmp(p, x, y);
  }
  error(i.where, "the comparison has no operator");
  return b.getFalse();
}

Value* FunctionTranslator::combine(const Instruction& i, Value* p, std::size_t operand) {
  if (i.operands.size() <= operand) return p;
  Value* c = read_pred(i.operands[operand]);
  if (i.has(Mod::and_)) return b.CreateAnd(p, c);
  if (i.has(Mod::or_)) return b.CreateOr(p, c);
  return b.CreateXor(p, c);
}

void FunctionTranslator::emit_setp(const Instruction& i) {
  const Type t = i.types[0];
  Value* p = compare(i, read(i.operands[1], t), read(i.operands[2], t), t);
  const Operand& d = i.operands[0];
  if (d.kind != Operand::Kind::pair) return write(d, combine(i, p, 3));
  Value *first = combine(i, p, 3), *second = combine(i, b.CreateNot(p), 3);
  write(d.parts[0], first);
  write(d.parts[1], second);
}

// Like setp, into a register: all ones or zero; 1.0 or 0.0 for float destinations.
void FunctionTranslator::emit_set(const Instruction& i) {
  const Type d = i.types[0], t = i.types[1];
  Value* p = combine(i, compare(i, read(i.operands[1], t), read(i.operands[2], t), t), 3);
  if (d == Type::bf16)
    return write(i.operands[0], b.CreateSelect(p, b.getInt16(0x3f80), b.getInt16(0)));
  llvm::Type* type = type_of(d);
  if (type->isFloatingPointTy()) {
    return write(i.operands[0],
                 b.CreateSelect(p, float_constant(type, 1.0), float_constant(type, 0.0)));
  }
  write(i.operands[0], b.CreateSExt(p, type));
}

void FunctionTranslator::emit_selp(const Instruction& i) {
  const Type t = i.types[0];
  // A select forwards bits; reading them in the type of the destination avoids casts.
  const Operand& d = i.operands[0];
  llvm::Type* type =
      d.kind == Operand::Kind::reg ? registers_[d.index]->getAllocatedType() : type_of(t);
  Value *x = read(i.operands[1], t), *y = read(i.operands[2], t);
  if (type->getPrimitiveSizeInBits() == x->getType()->getPrimitiveSizeInBits()) {
    x = as_type(x, type), y = as_type(y, type);
  }
  write(d, b.CreateSelect(read_pred(i.operands[3]), x, y));
}

void FunctionTranslator::emit_slct(const Instruction& i) {
  const Type t = i.types[0], c = i.types[1];
  Value* v = read(i.operands[3], c);
  Value* p = nullptr;
  if (c == Type::f32) {
    v = flush_if(i, v);
    p = b.CreateFCmpOGE(v, float_constant(v->getType(), 0.0));
  } else {
    p = b.CreateICmpSGE(v, b.getInt32(0));
  }
  write(i.operands[0], b.CreateSelect(p, read(i.operands[1], t), read(i.operands[2], t)));
}

}  // namespace cucpu::ir
