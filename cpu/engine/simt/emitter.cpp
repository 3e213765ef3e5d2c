// cpu/engine/simt/emitter.cpp: values, slots and masks.
#include "cpu/engine/simt/emitter.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/simt/deferrable_atomics.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

Emitter::Emitter(const Plan& plan, Function& thread, Report& report)
    : plan_{plan},
      thread_{thread},
      report_{report},
      context_{thread.getContext()},
      module_{*thread.getParent()},
      b_{context_},
      entry_{context_},
      width_{plan.lanes.width},
      late_{find_deferrable_atomics(thread)},
      streams_{find_prefetches(plan.flow, plan.full, plan.lanes.width)} {}

void Emitter::begin_block(Mode mode) {
  mode_ = mode;
  mask_ = nullptr;
  scalars_.clear();
  vectors_.clear();
  asked_.clear();
}

Type* Emitter::vector_type(Type* type) const {
  if (auto* structure = dyn_cast<StructType>(type)) {
    SmallVector<Type*> members;
    for (Type* member : structure->elements()) members.push_back(vector_type(member));
    return StructType::get(context_, members);
  }
  return FixedVectorType::get(type, width_);
}

// Masks that live across blocks are kept sign-extended: as i1 vectors they would be held as bytes
// and widened at each use.
Type* Emitter::slot_type(Type* type) const {
  if (type->isIntegerTy(1)) return FixedVectorType::get(Type::getInt32Ty(context_), width_);
  return vector_type(type);
}

Value* Emitter::to_slot_form(Value* v) {
  return v->getType()->isIntOrIntVectorTy(1)
             ? b_.CreateSExt(v, slot_type(Type::getInt1Ty(context_)))
             : v;
}

Value* Emitter::from_slot_form(Value* v, Type* type) {
  return type->isIntegerTy(1) ? b_.CreateICmpSLT(v, Constant::getNullValue(v->getType())) : v;
}

AllocaInst* Emitter::temporary(Type* type, const Twine& name) {
  IRBuilder<> at{&function_->getEntryBlock(), function_->getEntryBlock().begin()};
  return at.CreateAlloca(type, nullptr, name);
}

AllocaInst* Emitter::slot(Value* v, bool vector) {
  AllocaInst*& found = slots_[{v, vector}];
  if (!found)
    found = temporary(vector ? slot_type(v->getType()) : v->getType(), v->getName() + ".slot");
  return found;
}

Value* Emitter::load_slot(Value* v, bool vector) {
  AllocaInst* from = slot(v, vector);
  Value* value = b_.CreateLoad(from->getAllocatedType(), from, v->getName());
  return vector ? from_slot_form(value, v->getType()) : value;
}

void Emitter::store_slot(Value* v, bool vector, Value* value) {
  b_.CreateStore(vector ? to_slot_form(value) : value, slot(v, vector));
}

AllocaInst* Emitter::mask_slot(BasicBlock* block) {
  AllocaInst*& found = mask_slots_[block];
  if (!found) found = temporary(slot_type(Type::getInt1Ty(context_)), block->getName() + ".mask");
  return found;
}

Value* Emitter::load_mask(BasicBlock* block) {
  AllocaInst* from = mask_slot(block);
  return from_slot_form(b_.CreateLoad(from->getAllocatedType(), from), Type::getInt1Ty(context_));
}

void Emitter::add_to_mask(BasicBlock* block, Value* lanes) {
  AllocaInst* into = mask_slot(block);
  Value* old = b_.CreateLoad(into->getAllocatedType(), into);
  b_.CreateStore(b_.CreateOr(old, to_slot_form(lanes)), into);
}

Value* Emitter::all_lanes() const {
  return Constant::getAllOnesValue(FixedVectorType::get(Type::getInt1Ty(context_), width_));
}

Value* Emitter::bits(Value* mask) {
  return b_.CreateBitCast(mask, IntegerType::get(context_, width_));
}

Value* Emitter::lane_numbers(Type* type) const {
  SmallVector<Constant*> lanes;
  for (unsigned i = 0; i < width_; ++i) lanes.push_back(ConstantInt::get(type, i));
  return ConstantVector::get(lanes);
}

Value* Emitter::context_field(Type* type, std::size_t offset, const Twine& name) {
  Value* address = entry_.CreateConstInBoundsGEP1_64(entry_.getInt8Ty(), block_context_, offset);
  return entry_.CreateLoad(type, address, name);
}

bool Emitter::needs_slot(const Instruction* inst) const {
  if (isa<PHINode>(inst)) return true;
  for (const Use& use : inst->uses()) {
    auto* user = cast<Instruction>(use.getUser());
    const BasicBlock* where = user->getParent();
    if (auto* phi = dyn_cast<PHINode>(user)) where = phi->getIncomingBlock(use);
    if (where != inst->getParent()) return true;
  }
  return false;
}

// Conditions are made where they are needed: a branch on one may get along with scalar tests.
// So are addresses that turn out contiguous where lanes are off: their vectors are for the rare
// case that they are not.
bool Emitter::is_lazy(const Instruction* inst) const {
  if (mode_ == Masked && plan_.full[inst].kind == Shape::Strided && !shape(inst).scalar() &&
      !needs_slot(inst) && !inst->isIntDivRem())
    return isa<BinaryOperator, CastInst, GetElementPtrInst>(inst);
  if (!inst->getType()->isIntegerTy(1) || shape(inst).scalar() || needs_slot(inst)) return false;
  if (isa<ICmpInst>(inst)) return true;
  if (isa<SelectInst>(inst)) return true;
  return inst->getOpcode() == Instruction::And || inst->getOpcode() == Instruction::Or ||
         inst->getOpcode() == Instruction::Xor;
}

void Emitter::define(Instruction* inst, Value* value) {
  bool vector = !shape(inst).scalar();
  (vector ? vectors_ : scalars_)[inst] = value;
  if (needs_slot(inst) && !edge_) store_slot(inst, vector, value);
}

Value* Emitter::scalar(Value* v) {
  if (isa<Constant>(v)) return v;
  if (Value* known = scalars_.lookup(v)) return known;
  if (shape(v).kind == Shape::None && !slots_.count({v, false}) && !isa<PHINode>(v))
    return PoisonValue::get(v->getType());
  Value* value = load_slot(v, false);
  scalars_[v] = value;
  return value;
}

Value* Emitter::vec(Value* v) {
  if (isa<PoisonValue>(v)) return PoisonValue::get(vector_type(v->getType()));
  if (isa<UndefValue>(v)) return UndefValue::get(vector_type(v->getType()));
  if (Value* known = vectors_.lookup(v)) return known;
  Shape s = shape(v);
  Value* value;
  if (s.kind == Shape::Varying) {
    if (auto* inst = dyn_cast<Instruction>(v); inst && is_lazy(inst)) {
      emit_vector(*inst);
      return vectors_.lookup(v);
    }
    value = load_slot(v, true);
  } else if (s.kind == Shape::Strided) {
    Value* base = scalar(v);
    Type* type = v->getType();
    Type* number = type->isPointerTy() ? Type::getInt64Ty(context_) : type;
    Constant* stride = ConstantInt::get(number, static_cast<std::uint64_t>(s.stride), true);
    Value* lanes = edge_ ? edge_lanes(number) : lane_numbers(number);
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
  vectors_[v] = value;
  return value;
}

}  // namespace cucpu::simt
