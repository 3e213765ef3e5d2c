// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_memory.cpp: addresses, loads, stores, moves.
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Effect = ModuleTranslator::Effect;
using Kind = Operand::Kind;

Space FunctionTranslator::space_of(const Instruction& i) {
  for (Mod m : i.mods) {
    switch (m) {
      case Mod::global:
        return Space::global;
      case Mod::shared:
      case Mod::shared_cta:
      case Mod::shared_cluster:
        return Space::shared;
      case Mod::local:
        return Space::local;
      case Mod::const_:
        return Space::constant;
      case Mod::param:
      case Mod::param_entry:
      case Mod::param_func:
        return Space::param;
      default:
        break;
    }
  }
  return Space::generic;
}

Value* FunctionTranslator::shared_base() {
  if (shared_base_ == nullptr) {
    const llvm::IRBuilder<>::InsertPointGuard guard{b};
    b.SetInsertPoint(entry_, entry_->getFirstInsertionPt());
    shared_base_ = call_marker("shared", b.getPtrTy(), {}, Effect::none);
  }
  return shared_base_;
}

Value* FunctionTranslator::params_base() {
  if (params_base_ == nullptr) {
    const llvm::IRBuilder<>::InsertPointGuard guard{b};
    b.SetInsertPoint(entry_, entry_->getFirstInsertionPt());
    params_base_ = call_marker("params", b.getPtrTy(), {}, Effect::none);
  }
  return params_base_;
}

Value* FunctionTranslator::offset_pointer(Value* ptr, std::uint64_t bytes) {
  return bytes == 0 ? ptr : b.CreateGEP(b.getInt8Ty(), ptr, b.getInt64(bytes));
}

std::uint64_t FunctionTranslator::shared_offset(const Operand& o, bool& dynamic) {
  if (o.kind == Kind::local) return variable_offset_[o.index];
  const std::int64_t at = module_shared_[o.index];
  dynamic = at == -2;
  return dynamic ? dynamic_shared_offset : static_cast<std::uint64_t>(at);
}

namespace {

std::int32_t low_half(std::uint64_t offset) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(offset));
}

}  // namespace

// A shared::cluster address is an offset, with 1 + the rank of the block in bits 24 and up when
// mapa made it. Without a rank it is a signed distance from this block's memory: cvta.to.shared of
// an address in another block's memory gives one, and it is negative for blocks of lower rank.
Value* FunctionTranslator::cluster_pointer(Value* a) {
  Value* low = b.CreateTrunc(a, b.getInt32Ty());
  Value* tag = b.CreateLShr(low, 24);
  Value* own =
      b.CreateOr(b.CreateICmpEQ(tag, b.getInt32(0)), b.CreateICmpEQ(tag, b.getInt32(0xff)));
  Value* other = call_marker(
      "cluster.shared", b.getPtrTy(),
      {b.CreateSelect(own, call_marker("sreg.cluster_ctarank", b.getInt32Ty(), {}, Effect::none),
                      b.CreateSub(tag, b.getInt32(1)))},
      Effect::none);
  Value* offset = b.CreateSelect(own, low, b.CreateAnd(low, b.getInt32(0xffffff)));
  return b.CreateGEP(b.getInt8Ty(), other, b.CreateSExt(offset, b.getInt64Ty()));
}

// [r + offset] of a 32-bit register wraps at 32 bits: compilers write `s[i + 4]` with a register
// that may be negative. After an access to [r + less] in this basic block, that address was in
// shared memory (else the thread has ended), and the larger one follows without wrapping: one
// extension of the register serves all accesses, and LLVM knows the distances between them.
Value* FunctionTranslator::shared_pointer(const Operand& base, std::uint64_t offset) {
  if (const auto known = accessed_.find(base.index); known != accessed_.end()) {
    const std::int64_t further = std::int64_t{low_half(offset)} - known->second.offset;
    if (further >= 0 && further <= INT32_MAX)
      return offset_pointer(known->second.pointer, static_cast<std::uint64_t>(further));
  }
  return b.CreateGEP(b.getInt8Ty(), shared_base(), wrapped_address(base, offset));
}

void FunctionTranslator::remember_access(const Operand& address, Space space, bool cluster,
                                         Value* pointer) {
  const Operand& base = address.parts[0];
  if (space != Space::shared || cluster || base.kind != Kind::reg ||
      ptx::bits_of(source.registers[base.index].type) != 32)
    return;
  const std::int32_t at = low_half(address.value);
  const auto [known, fresh] = accessed_.try_emplace(base.index, Accessed{pointer, at});
  if (!fresh && at < known->second.offset) known->second = {pointer, at};
}

Value* FunctionTranslator::wrapped_address(const Operand& base, std::uint64_t offset) {
  Value* a = read(base, Type::b32);
  a = b.CreateAdd(a, b.getInt32(static_cast<std::uint32_t>(offset)));
  return b.CreateZExt(a, b.getInt64Ty());
}

Value* FunctionTranslator::pointer(const Operand& address, Space space, bool cluster) {
  const Operand& base = address.parts[0];
  const std::uint64_t offset = address.value;
  if (base.kind == Kind::local || base.kind == Kind::global) {
    const ptx::Variable& v = base.kind == Kind::global ? module.source.variables[base.index]
                                                       : source.variables[base.index];
    if (v.space == Space::shared) {
      Value* at = b.CreateAdd(address_of(base), b.getInt64(offset));
      if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(at))
        at = b.getInt64(static_cast<std::uint32_t>(c->getZExtValue()));
      return b.CreateGEP(b.getInt8Ty(), shared_base(), at);
    }
    if (base.kind == Kind::global) return offset_pointer(module.variables[base.index], offset);
    if (v.space == Space::param && source.entry && variable_ptr_[base.index] == nullptr) {
      return offset_pointer(params_base(), variable_offset_[base.index] + offset);
    }
    return offset_pointer(variable_ptr_[base.index], offset);
  }
  Value* a = nullptr;
  if (base.kind == Kind::integer) {
    a = b.getInt64(base.value + offset);
    if (space == Space::shared) a = b.getInt64(static_cast<std::uint32_t>(base.value + offset));
  } else if (base.kind == Kind::reg && ptx::bits_of(source.registers[base.index].type) == 32) {
    if (space == Space::shared && !cluster) return shared_pointer(base, offset);
    if (space == Space::generic || space == Space::global)
      error(base.where, "an address of global memory has 64 bits");
    a = wrapped_address(base, offset);
  } else if (base.kind == Kind::reg || base.kind == Kind::special) {
    a = b.CreateAdd(read(base, Type::b64), b.getInt64(offset));
  } else {
    error(base.where, "expected a register or a variable in an address");
    return llvm::PoisonValue::get(b.getPtrTy());
  }
  if (space != Space::shared) return b.CreateIntToPtr(a, b.getPtrTy());
  return cluster ? cluster_pointer(a) : b.CreateGEP(b.getInt8Ty(), shared_base(), a);
}

void FunctionTranslator::mark(llvm::Instruction* access, Space space) {
  llvm::LLVMContext& c = out.getContext();
  const std::string_view name = ptx::name_of(space);
  access->setMetadata("cucpu.space",
                      llvm::MDNode::get(c, llvm::MDString::get(c, {name.data(), name.size()})));
}

namespace {

struct Order {
  bool is_volatile = false;
  llvm::AtomicOrdering ordering = llvm::AtomicOrdering::NotAtomic;
};

Order order_of(const Instruction& i) {
  Order o;
  // `.cv`: every load reads memory, because the host may have written it.
  if (i.has(Mod::volatile_) || i.has(Mod::cv)) o.is_volatile = true;
  if (i.has(Mod::mmio)) o = {true, llvm::AtomicOrdering::Monotonic};
  if (i.has(Mod::relaxed)) o.ordering = llvm::AtomicOrdering::Monotonic;
  if (i.has(Mod::acquire)) o.ordering = llvm::AtomicOrdering::Acquire;
  if (i.has(Mod::release)) o.ordering = llvm::AtomicOrdering::Release;
  return o;
}

unsigned vector_of(const Instruction& i) {
  return i.has(Mod::v2) ? 2 : i.has(Mod::v4) ? 4 : i.has(Mod::v8) ? 8 : 1;
}

}  // namespace

Value* FunctionTranslator::load(llvm::Type* type, Value* ptr, unsigned align, Space space,
                                const Instruction& i) {
  const Order order = order_of(i);
  auto* l = b.CreateAlignedLoad(type, ptr, llvm::Align(align), order.is_volatile);
  if (order.ordering != llvm::AtomicOrdering::NotAtomic) l->setAtomic(order.ordering);
  mark(l, space);
  return l;
}

void FunctionTranslator::store(Value* value, Value* ptr, unsigned align, Space space,
                               const Instruction& i) {
  const Order order = order_of(i);
  auto* s = b.CreateAlignedStore(value, ptr, llvm::Align(align), order.is_volatile);
  if (order.ordering != llvm::AtomicOrdering::NotAtomic) s->setAtomic(order.ordering);
  mark(s, space);
}

void FunctionTranslator::emit_ld(const Instruction& i) {
  const Space space = space_of(i);
  const Type type = i.types[0];
  const unsigned n = vector_of(i), bytes = ptx::bytes_of(type);
  if (const auto wrong = wrong_access(i, i.operands[1], n * bytes); !wrong.empty())
    return error(i.where, std::string{wrong});
  Value* ptr = pointer(i.operands[1], space, i.has(Mod::shared_cluster));
  remember_access(i.operands[1], space, i.has(Mod::shared_cluster), ptr);
  const Operand& d = i.operands[0];
  if (n > 1 && (d.kind != Kind::vector || d.parts.size() != n)) {
    return error(d.where, "expected a vector of " + std::to_string(n) + " registers");
  }
  const bool atomic = order_of(i).ordering != llvm::AtomicOrdering::NotAtomic;
  const auto fits = [&](const Operand& o) {  // the register's own type, where it has the size
    llvm::Type* t = type_of(type);
    if (atomic || o.kind != Kind::reg)
      return t->isFloatingPointTy() ? t : static_cast<llvm::Type*>(int_type(bytes * 8));
    llvm::Type* own = registers_[o.index]->getAllocatedType();
    return own->getPrimitiveSizeInBits() == bytes * 8 ? own : t;
  };
  if (n == 1) return write(d, load(fits(d), ptr, bytes, space, i), is_signed(type));
  if (atomic && n * bytes <= 16) {  // one access: look-back in CUB relies on it
    Value* all = load(int_type(n * bytes * 8), ptr, n * bytes, space, i);
    for (unsigned k = 0; k < n; ++k) {
      Value* part = b.CreateTrunc(b.CreateLShr(all, k * bytes * 8), int_type(bytes * 8));
      write(d.parts[k], part, is_signed(type));
    }
    return;
  }
  std::vector<Value*> parts;
  for (unsigned k = 0; k < n; ++k) {
    const unsigned align = k == 0 ? n * bytes : (k * bytes) & (~(k * bytes) + 1);
    parts.push_back(
        load(fits(d.parts[k]), offset_pointer(ptr, std::uint64_t{k} * bytes), align, space, i));
  }
  for (unsigned k = 0; k < n; ++k) write(d.parts[k], parts[k], is_signed(type));
}

void FunctionTranslator::emit_st(const Instruction& i) {
  const Space space = space_of(i);
  const Type type = i.types[0];
  const unsigned n = vector_of(i), bytes = ptx::bytes_of(type);
  if (const auto wrong = wrong_access(i, i.operands[0], n * bytes); !wrong.empty())
    return error(i.where, std::string{wrong});
  Value* ptr = pointer(i.operands[0], space, i.has(Mod::shared_cluster));
  remember_access(i.operands[0], space, i.has(Mod::shared_cluster), ptr);
  const Operand& a = i.operands[1];
  if (n > 1 && (a.kind != Kind::vector || a.parts.size() != n)) {
    return error(a.where, "expected a vector of " + std::to_string(n) + " values");
  }
  const bool atomic = order_of(i).ordering != llvm::AtomicOrdering::NotAtomic;
  const auto value_of = [&](const Operand& o) -> Value* {
    if (o.kind == Kind::reg && !atomic) {
      Value* v = read_register(o);
      if (v->getType()->getPrimitiveSizeInBits() == bytes * 8) return v;
    }
    Value* v = read(o, type, true);
    return atomic ? as_bits(v) : v;
  };
  if (n == 1) return store(value_of(a), ptr, bytes, space, i);
  if (atomic && n * bytes <= 16) {
    Value* all = nullptr;
    for (unsigned k = 0; k < n; ++k) {
      Value* p =
          b.CreateShl(b.CreateZExt(value_of(a.parts[k]), int_type(n * bytes * 8)), k * bytes * 8);
      all = all == nullptr ? p : b.CreateOr(all, p);
    }
    return store(all, ptr, n * bytes, space, i);
  }
  for (unsigned k = 0; k < n; ++k) {
    const unsigned align = k == 0 ? n * bytes : (k * bytes) & (~(k * bytes) + 1);
    store(value_of(a.parts[k]), offset_pointer(ptr, std::uint64_t{k} * bytes), align, space, i);
  }
}

// Zeroes a number of bytes in shared memory.
void FunctionTranslator::emit_st_bulk(const Instruction& i) {
  const Operand& value = i.operands[2];
  if (value.kind != Kind::integer || value.value != 0)
    return error(value.where, "the value of 'st.bulk' is 0");
  const Space space = i.has(Mod::shared_cta) ? Space::shared : Space::generic;
  Value* ptr = pointer(i.operands[0], space, false);
  b.CreateMemSet(ptr, b.getInt8(0), read(i.operands[1], Type::b64), llvm::MaybeAlign(8));
}

void FunctionTranslator::emit_mov(const Instruction& i) {
  const Operand &d = i.operands[0], &a = i.operands[1];
  const Type type = i.types[0];
  if (type == Type::pred) return write(d, read_pred(a));
  if (d.kind == Kind::reg && a.kind == Kind::reg &&
      registers_[d.index]->getAllocatedType() == registers_[a.index]->getAllocatedType()) {
    return write(d, read_register(a));
  }
  write(d, read(a, type));
}

// All elements are read before the first is written: mov.v2.b32 {%a, %b}, {%b, %a} exchanges them.
void FunctionTranslator::emit_mov_vector(const Instruction& i) {
  const Operand &d = i.operands[0], &a = i.operands[1];
  const Type type = i.types[0];
  const unsigned n = vector_of(i);
  if (n * ptx::bits_of(type) > 128) return error(i.where, "a vector has at most 128 bits");
  for (const Operand* o : {&d, &a}) {
    if (o->kind != Kind::vector || o->parts.size() != n)
      return error(o->where, "expected a vector of " + std::to_string(n) + " elements");
  }
  llvm::SmallVector<Value*, 4> values;
  for (const Operand& part : a.parts) values.push_back(read(part, type));
  for (unsigned k = 0; k < n; ++k) write(d.parts[k], values[k]);
}

void FunctionTranslator::emit_cvta(const Instruction& i) {
  const Type type = i.types[0];
  Value* a = read(i.operands[1], type);
  if (space_of(i) == Space::shared) {
    if (type == Type::u32) {
      error(i.where, "32-bit generic addresses do not exist on this device");
      return;
    }
    if (i.has(Mod::shared_cluster)) {
      a = i.has(Mod::to) ? call_routine("cluster_address", b.getInt64Ty(), {a}, false)
                         : b.CreatePtrToInt(cluster_pointer(a), b.getInt64Ty());
    } else {
      Value* base = b.CreatePtrToInt(shared_base(), b.getInt64Ty());
      a = i.has(Mod::to) ? b.CreateSub(a, base) : b.CreateAdd(a, base);
    }
  }
  write(i.operands[0], a);
}

// Shared memory is one range per block; an address outside of it and of stacks counts as global.
void FunctionTranslator::emit_isspacep(const Instruction& i) {
  const Operand& address = i.operands[1];
  const bool narrow =
      address.kind == Kind::reg && ptx::bits_of(source.registers[address.index].type) == 32;
  Value* a =
      narrow ? b.CreateZExt(read(address, Type::b32), b.getInt64Ty()) : read(address, Type::b64);
  Value* base = b.CreatePtrToInt(shared_base(), b.getInt64Ty());
  const auto in_shared = [&] {
    Value* size = call_marker("sreg.total_smem_size", b.getInt32Ty(), {}, Effect::none);
    return b.CreateICmpULT(b.CreateSub(a, base), b.CreateZExt(size, b.getInt64Ty()));
  };
  const auto in_local = [&] { return call_routine("is_local", b.getInt1Ty(), {a}, false); };
  const auto in_constants = [&] { return call_routine("is_constant", b.getInt1Ty(), {a}, false); };
  const auto in_params = [&] {
    return b.CreateICmpULT(b.CreateSub(a, b.CreatePtrToInt(params_base(), b.getInt64Ty())),
                           b.getInt64(param_bytes));
  };
  Value* r = nullptr;
  if (i.has(Mod::shared_cluster))
    r = call_routine("is_cluster_shared", b.getInt1Ty(), {a}, false);
  else if (space_of(i) == Space::shared)
    r = in_shared();
  else if (i.has(Mod::local))
    r = in_local();
  else if (i.has(Mod::const_))
    r = in_constants();
  else if (space_of(i) == Space::param)
    r = in_params();
  else
    r = b.CreateNot(b.CreateOr(b.CreateOr(in_shared(), in_local()), in_constants()));
  write(i.operands[0], r);
}

void FunctionTranslator::emit_nothing(const Instruction& i) {
  for (const Operand& o : i.operands) {
    if (o.kind == Kind::address) (void)pointer(o, space_of(i));  // reports a wrong address
  }
  if (i.row->op == "cp" && i.has(Mod::prefetch)) (void)read(i.operands[1], Type::b32);
}

void FunctionTranslator::emit_setmaxnreg(const Instruction& i) {
  const std::uint64_t count = i.operands[0].value;
  constexpr std::uint64_t kLeast = 24, kMost = 256, kStep = 8;
  if (count < kLeast || count > kMost || count % kStep != 0)
    error(i.operands[0].where, "a number of registers is a multiple of 8 from 24 to 256");
}

}  // namespace cucpu::ir
