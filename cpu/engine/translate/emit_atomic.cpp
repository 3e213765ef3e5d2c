// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_atomic.cpp: atom and red.
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using llvm::AtomicOrdering;
using llvm::AtomicRMWInst;
using Kind = Operand::Kind;

namespace {

AtomicOrdering ordering_of(const Instruction& i) {
  if (i.has(Mod::acquire)) return AtomicOrdering::Acquire;
  if (i.has(Mod::release)) return AtomicOrdering::Release;
  if (i.has(Mod::acq_rel)) return AtomicOrdering::AcquireRelease;
  return AtomicOrdering::Monotonic;
}

}  // namespace

Value* FunctionTranslator::atomic(const Instruction& i, Value* ptr, Value* x, Value* y, Type type) {
  const AtomicOrdering order = ordering_of(i);
  const llvm::MaybeAlign align{ptx::bytes_of(type)};
  const Space space = space_of(i);
  if (i.has(Mod::cas)) {
    const AtomicOrdering failure = llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(order);
    auto* c = b.CreateAtomicCmpXchg(ptr, x, y, align, order, failure);
    mark(c, space);
    return b.CreateExtractValue(c, 0);
  }
  const bool packed =
      type == Type::f16x2 || type == Type::bf16x2 || type == Type::f16 || type == Type::bf16;
  const bool floating = ptx::class_of(type) == ptx::Class::floating;
  const bool settled = module.options.exact_nans && type == Type::f64;
  if (packed || (floating && (settled || !i.has(Mod::add)))) {
    // Few hosts have these instructions: a compare-and-swap loop in the runtime.
    const std::string name = ptx::cat("atom_",
                                      i.has(Mod::add)    ? "add_"
                                      : i.has(Mod::min_) ? "min_"
                                                         : "max_",
                                      ptx::name_of(type));
    llvm::Type* t = x->getType();
    return as_type(call_routine(name, as_bits(x)->getType(), {ptr, as_bits(x)}, false), t);
  }
  if (i.has(Mod::inc) ||
      i.has(Mod::dec)) {  // LLVM 19 cannot select uinc_wrap and udec_wrap on AArch64
    return call_routine(ptx::cat("atom_", i.has(Mod::inc) ? "inc_u" : "dec_u",
                                 ptx::bits_of(type) == 32 ? "32" : "64"),
                        x->getType(), {ptr, x}, false);
  }
  AtomicRMWInst::BinOp op = AtomicRMWInst::Xchg;
  const bool sign = is_signed(type);
  if (i.has(Mod::add))
    op = floating ? AtomicRMWInst::FAdd : AtomicRMWInst::Add;
  else if (i.has(Mod::min_))
    op = sign ? AtomicRMWInst::Min : AtomicRMWInst::UMin;
  else if (i.has(Mod::max_))
    op = sign ? AtomicRMWInst::Max : AtomicRMWInst::UMax;
  else if (i.has(Mod::and_))
    op = AtomicRMWInst::And;
  else if (i.has(Mod::or_))
    op = AtomicRMWInst::Or;
  else if (i.has(Mod::xor_))
    op = AtomicRMWInst::Xor;
  // LLVM folds a sum with a known NaN to an exchange, so the NaN must be the one that a GPU stores.
  if (auto* known = llvm::dyn_cast<llvm::ConstantFP>(x);
      known && op == AtomicRMWInst::FAdd && known->isNaN()) {
    if (type == Type::f32)
      x = b.CreateBitCast(b.getInt32(0x7fffffff), x->getType());
    else if (space == Space::shared)
      x = llvm::ConstantFP::get(out.getContext(), known->getValue().makeQuiet());
  }
  auto* r = b.CreateAtomicRMW(op, ptr, x, align, order);
  mark(r, space);
  if (i.has(Mod::sys))  // system scope: the host may poll for it
    r->setMetadata("cucpu.system", llvm::MDNode::get(out.getContext(), {}));
  return r;
}

// Vectors are not atomic as a whole, only element by element (as on a GPU).
Value* FunctionTranslator::atomic_all(const Instruction& i, const Operand& address,
                                      const Operand& x, const Operand* y, const Operand* d) {
  const Type t = i.types[0];
  if (const auto wrong = wrong_atomic(i, x); !wrong.empty()) {
    error(i.where, std::string{wrong});
    return nullptr;
  }
  Value* ptr = pointer(address, space_of(i), i.has(Mod::shared_cluster));
  if (x.kind == Kind::vector && t != Type::b128) {
    for (unsigned k = 0; k < x.parts.size(); ++k) {
      Value* old = atomic(i, offset_pointer(ptr, std::uint64_t{k} * ptx::bytes_of(t)),
                          read(x.parts[k], t), nullptr, t);
      if (d != nullptr && d->kind == Kind::vector && k < d->parts.size()) write(d->parts[k], old);
    }
    return nullptr;
  }
  return atomic(i, ptr, read(x, t), y == nullptr ? nullptr : read(*y, t), t);
}

void FunctionTranslator::emit_atom(const Instruction& i) {
  const Operand* y = i.has(Mod::cas) ? &i.operands[3] : nullptr;
  Value* old = atomic_all(i, i.operands[1], i.operands[2], y, &i.operands[0]);
  if (old != nullptr) write(i.operands[0], old);
}

void FunctionTranslator::emit_red(const Instruction& i) {
  (void)atomic_all(i, i.operands[0], i.operands[1], nullptr, nullptr);
}

}  // namespace cucpu::ir
