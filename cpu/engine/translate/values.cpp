// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/values.cpp: operands to LLVM values, values to registers.
#include <bit>

#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Effect = ModuleTranslator::Effect;
using Kind = Operand::Kind;

// bf16 is an i16: few hosts support it, and its conversions are shifts.
llvm::Type* FunctionTranslator::type_of(Type type) {
  switch (type) {
    case Type::f16:
      return b.getHalfTy();
    case Type::f32:
    case Type::tf32:
      return b.getFloatTy();
    case Type::f64:
      return b.getDoubleTy();
    case Type::none:
      return b.getVoidTy();
    default:
      return int_type(ptx::bits_of(type));
  }
}

Value* FunctionTranslator::as_bits(Value* v) {
  llvm::Type* t = v->getType();
  if (t->isIntegerTy()) return v;
  return b.CreateBitCast(v, int_type(static_cast<unsigned>(t->getPrimitiveSizeInBits())));
}

Value* FunctionTranslator::as_type(Value* v, llvm::Type* t) {
  return v->getType() == t ? v : b.CreateBitCast(v, t);
}

Value* FunctionTranslator::raw_bits(Value* v) {
  Value* bits = as_bits(v);
  if (auto* i = llvm::dyn_cast<llvm::BitCastInst>(bits))
    i->setMetadata("cucpu.raw", llvm::MDNode::get(out.getContext(), {}));
  return bits;
}

Value* FunctionTranslator::made_float(Value* bits, llvm::Type* t) {
  Value* v = b.CreateBitCast(bits, t);
  if (auto* i = llvm::dyn_cast<llvm::BitCastInst>(v))
    i->setMetadata("cucpu.made", llvm::MDNode::get(out.getContext(), {}));
  return v;
}

Value* FunctionTranslator::constant(const Operand& o, Type type) {
  llvm::Type* t = type_of(type);
  std::uint64_t bits = o.value;
  if (type == Type::f32 && o.kind == Kind::f64) {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(o.value)));
  } else if (type == Type::f64 && o.kind == Kind::f32) {
    bits = std::bit_cast<std::uint64_t>(
        static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(o.value))));
  } else if (type == Type::f16 && o.kind != Kind::integer) {
    llvm::APFloat f =
        o.kind == Kind::f64
            ? llvm::APFloat(std::bit_cast<double>(o.value))
            : llvm::APFloat(std::bit_cast<float>(static_cast<std::uint32_t>(o.value)));
    bool lossy = false;
    f.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    return llvm::ConstantFP::get(t, f);
  }
  const unsigned width = ptx::bits_of(type);
  llvm::APInt value(64, bits, true);
  value = value.sextOrTrunc(width);
  llvm::Constant* c = llvm::ConstantInt::get(int_type(width), value);
  return t->isIntegerTy() ? c : llvm::ConstantExpr::getBitCast(c, t);
}

Value* FunctionTranslator::read_register(std::uint32_t reg) {
  return b.CreateLoad(registers_[reg]->getAllocatedType(), registers_[reg]);
}

Value* FunctionTranslator::read_register(const Operand& o) {
  Value* v = read_register(o.index);
  if (o.value == 0) return v;
  const Type declared = source.registers[o.index].type;
  if (declared == Type::pred || ptx::class_of(declared) == ptx::Class::floating) {
    error(o.where, ptx::cat("a number cannot be added to a .", ptx::name_of(declared),
                            " register in an operand"));
    return v;
  }
  Value* bits = as_bits(v);
  auto* number = llvm::ConstantInt::get(bits->getType(), o.value, true);
  return as_type(b.CreateAdd(bits, number), v->getType());
}

Value* FunctionTranslator::read(const Operand& o, Type type, bool narrow) {
  llvm::Type* t = type_of(type);
  const unsigned bits = ptx::bits_of(type);
  switch (o.kind) {
    case Kind::integer:
    case Kind::f32:
    case Kind::f64:
      return constant(o, type);
    case Kind::reg: {
      Value* v = read_register(o);
      const Type declared = source.registers[o.index].type;
      const unsigned have = ptx::bits_of(declared);
      if ((declared == Type::pred) != (type == Type::pred) || have < bits ||
          (have > bits && !narrow)) {
        error(o.where, ptx::cat("a .", ptx::name_of(declared), " register cannot be used here: .",
                                ptx::name_of(type), " is needed"));
        return llvm::PoisonValue::get(t);
      }
      if (type == Type::pred) return o.negated ? b.CreateNot(v) : v;
      if (have > bits) v = b.CreateTrunc(as_bits(v), int_type(bits));
      return as_type(v, t);
    }
    case Kind::special: {
      Value* v = special(o.index);
      const unsigned have = v->getType()->getIntegerBitWidth();
      if (have != bits) v = b.CreateZExtOrTrunc(v, int_type(bits));
      if (o.negated) v = b.CreateNot(v);
      return as_type(v, t);
    }
    case Kind::local:
    case Kind::global:
    case Kind::function:
      return as_type(b.CreateZExtOrTrunc(address_of(o), int_type(bits)), t);
    case Kind::vector: {  // packed into one value, first element lowest
      if (o.parts.empty() || bits % o.parts.size() != 0) break;
      const auto part_bits = static_cast<unsigned>(bits / o.parts.size());
      Value* v = nullptr;
      for (std::size_t k = 0; k < o.parts.size(); ++k) {
        Value* p = b.CreateZExt(read_bits(o.parts[k], part_bits), int_type(bits));
        if (k != 0) p = b.CreateShl(p, k * part_bits, "", true);
        v = v == nullptr ? p : b.CreateOr(v, p);
      }
      return as_type(v, t);
    }
    default:
      break;
  }
  error(o.where, ptx::cat("this operand cannot be used here: .", ptx::name_of(type), " is needed"));
  return llvm::PoisonValue::get(t);
}

Value* FunctionTranslator::read_bits(const Operand& o, unsigned bits) {
  switch (bits) {
    case 1:
      return read(o, Type::pred);
    case 8:
      return read(o, Type::b8, true);
    case 16:
      return read(o, Type::b16);
    case 32:
      return read(o, Type::b32);
    case 64:
      return read(o, Type::b64);
    default:
      return read(o, Type::b128);
  }
}

Value* FunctionTranslator::read_pred(const Operand& o) {
  if (o.kind == Kind::integer) return b.getInt1((o.value != 0) != o.negated);
  return read(o, Type::pred);
}

Value* FunctionTranslator::special(std::uint32_t index) {
  const ptx::Special& s = ptx::all_specials()[index];
  const std::string name{s.name};
  const bool clock =
      name.starts_with("clock") || name.starts_with("globaltimer") || name.starts_with("pm");
  if (name.starts_with("lanemask_")) {
    Value* lane = call_marker("sreg.laneid", b.getInt32Ty(), {}, Effect::none);
    Value* bit = b.CreateShl(b.getInt32(1), lane);
    if (name == "lanemask_eq") return bit;
    if (name == "lanemask_lt") return b.CreateSub(bit, b.getInt32(1));
    if (name == "lanemask_ge") return b.CreateNeg(bit);
    Value* gt = b.CreateShl(b.getInt32(0xfffffffe), lane);
    return name == "lanemask_gt" ? gt : b.CreateNot(gt);
  }
  // Memory of a block from the driver: 0 bytes is the answer of a driver that gives none.
  if (name.starts_with("perctamemory")) {
    if (source.minperctamemory == 0)
      error(source.where, "%" + name + " needs the directive .minperctamemory");
    return llvm::ConstantInt::get(type_of(s.type), 0);
  }
  if (name == "current_graph_exec") return call_routine("current_graph", b.getInt64Ty(), {}, false);
  llvm::Type* t = type_of(s.type);
  return call_marker("sreg." + name, t, {}, clock ? Effect::any : Effect::none);
}

Value* FunctionTranslator::address_of(const Operand& o) {
  Value* p = nullptr;
  if (o.kind == Kind::function) {
    llvm::Function* f = module.function(o.index, o.where);
    if (f == nullptr) return llvm::PoisonValue::get(b.getInt64Ty());
    return b.CreatePtrToInt(f, b.getInt64Ty());
  }
  const ptx::Variable& v =
      o.kind == Kind::global ? module.source.variables[o.index] : source.variables[o.index];
  if (v.space == Space::shared) {
    bool dynamic = false;
    const std::uint64_t offset = shared_offset(o, dynamic) + o.value;
    if (dynamic && !source.entry) {
      return b.CreateAdd(call_marker("sreg.dynamic_smem_offset", b.getInt64Ty(), {}, Effect::none),
                         b.getInt64(o.value));
    }
    if (!module.options.shared_variables || dynamic || v.unsized) return b.getInt64(offset);
    return call_marker("shared.variable", b.getInt64Ty(),
                       {b.getInt64(offset), b.getInt64(offset - o.value), b.getInt64(v.size)},
                       Effect::none);
  }
  if (o.kind == Kind::global) {
    p = module.variables[o.index];
  } else if (v.space == Space::param && source.entry && variable_ptr_[o.index] == nullptr) {
    p = offset_pointer(params_base(), variable_offset_[o.index]);
  } else {
    p = variable_ptr_[o.index];
  }
  return b.CreatePtrToInt(offset_pointer(p, o.value), b.getInt64Ty());
}

void FunctionTranslator::write(const Operand& o, Value* value, bool is_signed) {
  if (o.kind == Kind::sink) return;
  if (o.kind == Kind::reg) return write_register(o.index, value, is_signed, o.where);
  if (o.kind == Kind::vector && !o.parts.empty()) {  // unpack, lowest part first
    Value* bits = as_bits(value);
    const unsigned width = bits->getType()->getIntegerBitWidth();
    const auto part = static_cast<unsigned>(width / o.parts.size());
    if (part * o.parts.size() != width || part < 8)
      return error(o.where, "the vector does not divide the value evenly");
    for (std::size_t k = 0; k < o.parts.size(); ++k) {
      Value* p = k == 0 ? bits : b.CreateLShr(bits, k * part);
      write(o.parts[k], b.CreateTrunc(p, int_type(part)));
    }
    return;
  }
  error(o.where, "expected a register to write to");
}

void FunctionTranslator::write_register(std::uint32_t reg, Value* value, bool is_signed,
                                        ptx::Location where) {
  llvm::AllocaInst* slot = registers_[reg];
  llvm::Type* t = slot->getAllocatedType();
  const auto have = static_cast<unsigned>(value->getType()->getPrimitiveSizeInBits());
  const auto want = static_cast<unsigned>(t->getPrimitiveSizeInBits());
  const bool pred = source.registers[reg].type == Type::pred;
  if (have > want || pred != value->getType()->isIntegerTy(1)) {
    return error(where, ptx::cat("the result does not fit a .",
                                 ptx::name_of(source.registers[reg].type), " register"));
  }
  if (have < want && !widens_) {
    return error(where, ptx::cat("a .", ptx::name_of(source.registers[reg].type),
                                 " register is too large for the result: one of ",
                                 std::to_string(have), " bits is needed"));
  }
  if (have < want) {
    value = is_signed ? b.CreateSExt(as_bits(value), int_type(want))
                      : b.CreateZExt(as_bits(value), int_type(want));
  }
  value = as_type(value, t);
  if (select_guard_ != nullptr) value = b.CreateSelect(select_guard_, value, b.CreateLoad(t, slot));
  b.CreateStore(value, slot);
  accessed_.erase(reg);
}

Value* FunctionTranslator::call_marker(llvm::StringRef name, llvm::Type* result,
                                       llvm::ArrayRef<Value*> args, Effect effect) {
  llvm::SmallVector<llvm::Type*, 8> types;
  for (Value* a : args) types.push_back(a->getType());
  return b.CreateCall(module.marker(("cucpu." + name).str(), result, types, effect), args);
}

Value* FunctionTranslator::call_routine(llvm::StringRef name, llvm::Type* result,
                                        llvm::ArrayRef<Value*> args, bool pure) {
  llvm::SmallVector<llvm::Type*, 8> types;
  for (Value* a : args) types.push_back(a->getType());
  return b.CreateCall(
      module.marker(("cucpu_rt_" + name).str(), result, types, pure ? Effect::none : Effect::any),
      args);
}

}  // namespace cucpu::ir
