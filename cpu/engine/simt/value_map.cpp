// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/value_map.cpp
#include "cpu/engine/simt/value_map.hpp"

#include <llvm/IR/Constants.h>

#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;

Shape ValueMap::shape(const Value* v) const {
  return mode() == Full ? plan_.full[v] : plan_.masked[v];
}

AllocaInst* ValueMap::slot(Value* v, bool vector) {
  AllocaInst*& found = slots_[{v, vector}];
  if (!found)
    found = temporary(vector ? slot_type(v->getType()) : v->getType(), v->getName() + ".slot");
  return found;
}

Value* ValueMap::load_slot(Value* v, bool vector) {
  AllocaInst* from = slot(v, vector);
  Value* value = b_.CreateLoad(from->getAllocatedType(), from, v->getName());
  return vector ? from_slot_form(value, v->getType()) : value;
}

void ValueMap::store_slot(Value* v, bool vector, Value* value) {
  b_.CreateStore(vector ? to_slot_form(value) : value, slot(v, vector));
}

bool ValueMap::needs_slot(const Instruction* inst) const {
  if (isa<PHINode>(inst)) return true;
  for (const Use& use : inst->uses()) {
    auto* user = cast<Instruction>(use.getUser());
    const BasicBlock* where = user->getParent();
    if (auto* phi = dyn_cast<PHINode>(user)) where = phi->getIncomingBlock(use);
    if (where != inst->getParent()) return true;
  }
  return false;
}

// Conditions are lazy: a branch may need only scalar tests of them. So are addresses in masked code
// that are strided in full code: their vectors are needed only if they are not contiguous at run
// time. So are addresses in full code whose pieces are contiguous unless a test fails.
bool ValueMap::is_lazy(const Instruction* inst) const {
  if (mode() == Full && parts_.memory.is_of_pieces(inst)) return true;
  if (mode() == Masked && plan_.full[inst].kind == Shape::Strided && !shape(inst).scalar() &&
      !needs_slot(inst) && !inst->isIntDivRem())
    return isa<BinaryOperator, CastInst, GetElementPtrInst>(inst);
  if (!inst->getType()->isIntegerTy(1) || shape(inst).scalar() || needs_slot(inst)) return false;
  if (isa<ICmpInst>(inst)) return true;
  if (isa<SelectInst>(inst)) return true;
  return inst->getOpcode() == Instruction::And || inst->getOpcode() == Instruction::Or ||
         inst->getOpcode() == Instruction::Xor;
}

void ValueMap::define(Instruction* inst, Value* value) {
  bool vector = !shape(inst).scalar();
  (vector ? known_.vectors : known_.scalars)[inst] = value;
  if (needs_slot(inst) && !parts_.partial.edge()) store_slot(inst, vector, value);
}

Value* ValueMap::scalar(Value* v) {
  if (isa<Constant>(v)) return v;
  if (Value* known = known_.scalars.lookup(v)) return known;
  if (shape(v).kind == Shape::None && !slots_.count({v, false}) && !isa<PHINode>(v))
    return PoisonValue::get(v->getType());
  Value* value = load_slot(v, false);
  known_.scalars[v] = value;
  return value;
}

Value* ValueMap::vec(Value* v) {
  if (isa<PoisonValue>(v)) return PoisonValue::get(vector_type(v->getType()));
  if (isa<UndefValue>(v)) return UndefValue::get(vector_type(v->getType()));
  if (Value* known = known_.vectors.lookup(v)) return known;
  Shape s = shape(v);
  Value* value;
  if (s.kind == Shape::Varying) {
    if (auto* inst = dyn_cast<Instruction>(v); inst && is_lazy(inst)) {
      parts_.instructions.emit_vector(*inst);
      return known_.vectors.lookup(v);
    }
    value = load_slot(v, true);
  } else if (s.kind == Shape::Strided) {
    Value* base = scalar(v);
    Type* type = v->getType();
    Type* number = type->isPointerTy() ? Type::getInt64Ty(context_) : type;
    Constant* stride = ConstantInt::get(number, static_cast<std::uint64_t>(s.stride), true);
    Value* lanes = parts_.partial.edge() ? parts_.partial.edge_lanes(number) : lane_numbers(number);
    Value* all =
        b_.CreateMul(lanes, ConstantVector::getSplat(ElementCount::getFixed(width_), stride));
    value = type->isPointerTy() ? b_.CreateGEP(b_.getInt8Ty(), base, all)
                                : b_.CreateAdd(splat(base), all);
  } else {
    Value* one = scalar(v);
    if (auto* structure = dyn_cast<StructType>(v->getType())) {
      value = PoisonValue::get(vector_type(structure));
      for (unsigned i = 0; i < structure->getNumElements(); ++i)
        value = b_.CreateInsertValue(value, splat(b_.CreateExtractValue(one, i)), i);
    } else {
      value = splat(one);
    }
  }
  known_.vectors[v] = value;
  return value;
}

const Value* ValueMap::find_undefined() const {
  for (const auto& [key, alloca] : slots_)
    if (!alloca->use_empty() &&
        all_of(alloca->users(), [](User* user) { return isa<LoadInst>(user); }))
      return key.first;
  return nullptr;
}

void ValueMap::clear_slots() {
  for (auto& [key, alloca] : slots_)
    b_.CreateStore(PoisonValue::get(alloca->getAllocatedType()), alloca);
}

}  // namespace cucpu::simt
