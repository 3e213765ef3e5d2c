// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/emit_state.cpp
#include "cpu/engine/simt/emit_state.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;

EmitterPart::EmitterPart(EmitterParts& parts)
    : parts_{parts},
      state_{parts.state},
      plan_{state_.plan},
      report_{state_.report},
      context_{state_.context},
      module_{state_.module},
      b_{state_.b},
      entry_{state_.entry},
      width_{state_.width} {}

Shape EmitterPart::shape(const Value* v) const { return parts_.values.shape(v); }
Value* EmitterPart::scalar(Value* v) { return parts_.values.scalar(v); }
Value* EmitterPart::vec(Value* v) { return parts_.values.vec(v); }
void EmitterPart::define(Instruction* inst, Value* value) { parts_.values.define(inst, value); }
bool EmitterPart::is_lazy(const Instruction* inst) const { return parts_.values.is_lazy(inst); }
Value* EmitterPart::mask() const { return parts_.masks.mask(); }
EmitterPart::Mode EmitterPart::mode() const { return parts_.masks.mode(); }

void EmitterPart::begin_block(Mode mode) {
  parts_.masks.begin(mode);
  parts_.values.clear();
  parts_.memory.begin_block();
}

Type* EmitterPart::vector_type(Type* type) const {
  if (auto* structure = dyn_cast<StructType>(type)) {
    SmallVector<Type*> members;
    for (Type* member : structure->elements()) members.push_back(vector_type(member));
    return StructType::get(context_, members);
  }
  return FixedVectorType::get(type, width_);
}

Type* EmitterPart::slot_type(Type* type) const {
  if (type->isIntegerTy(1)) return FixedVectorType::get(Type::getInt32Ty(context_), width_);
  return vector_type(type);
}

Value* EmitterPart::to_slot_form(Value* v) {
  return v->getType()->isIntOrIntVectorTy(1)
             ? b_.CreateSExt(v, slot_type(Type::getInt1Ty(context_)))
             : v;
}

Value* EmitterPart::from_slot_form(Value* v, Type* type) {
  return type->isIntegerTy(1) ? b_.CreateICmpSLT(v, Constant::getNullValue(v->getType())) : v;
}

AllocaInst* EmitterPart::temporary(Type* type, const Twine& name) {
  IRBuilder<> at{&state_.function->getEntryBlock(), state_.function->getEntryBlock().begin()};
  return at.CreateAlloca(type, nullptr, name);
}

Value* EmitterPart::all_lanes() const {
  return Constant::getAllOnesValue(FixedVectorType::get(Type::getInt1Ty(context_), width_));
}

Value* EmitterPart::bits(Value* mask) {
  return b_.CreateBitCast(mask, IntegerType::get(context_, width_));
}

Value* EmitterPart::lane_numbers(Type* type) const {
  SmallVector<Constant*> lanes;
  for (unsigned i = 0; i < width_; ++i) lanes.push_back(ConstantInt::get(type, i));
  return ConstantVector::get(lanes);
}

Value* EmitterPart::context_field(Type* type, std::size_t offset, const Twine& name) {
  Value* address =
      entry_.CreateConstInBoundsGEP1_64(entry_.getInt8Ty(), state_.block_context, offset);
  return entry_.CreateLoad(type, address, name);
}

Value* EmitterPart::blend_lanes(Value* mask, Value* yes, Value* no) {
  auto* structure = dyn_cast<StructType>(yes->getType());
  if (!structure) return b_.CreateSelect(mask, yes, no);
  Value* result = PoisonValue::get(structure);
  for (unsigned i = 0; i < structure->getNumElements(); ++i)
    result = b_.CreateInsertValue(
        result, blend_lanes(mask, b_.CreateExtractValue(yes, i), b_.CreateExtractValue(no, i)), i);
  return result;
}

Value* EmitterPart::spill(Value* vector, const Twine& name) {
  Value* form = to_slot_form(vector);
  AllocaInst* memory = temporary(form->getType(), name);
  b_.CreateStore(form, memory);
  return memory;
}

Value* EmitterPart::lane_of(Value* spilled, Value* lane, Type* type) {
  bool flag = type->isIntegerTy(1);
  Type* element = flag ? b_.getInt32Ty() : type;
  Value* value = b_.CreateLoad(element, b_.CreateInBoundsGEP(element, spilled, lane));
  return flag ? b_.CreateICmpNE(value, b_.getInt32(0)) : value;
}

BranchInst* EmitterPart::for_each_lane(const std::function<void(Value* lane)>& body) {
  return for_each_lane(mask() ? b_.CreateZExt(bits(mask()), b_.getInt64Ty()) : nullptr, body);
}

BranchInst* EmitterPart::for_each_lane(Value* on, const std::function<void(Value* lane)>& body) {
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* loop = new_block("lane");
  BasicBlock* after = new_block("lanes.done");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  PHINode* at = b_.CreatePHI(b_.getInt64Ty(), 2);
  Value* lane = at;
  if (on) {
    at->addIncoming(on, before);
    lane = b_.CreateBinaryIntrinsic(Intrinsic::cttz, at, b_.getTrue());
  } else {
    at->addIncoming(b_.getInt64(0), before);
  }
  body(lane);
  Value *following, *more;
  if (on) {
    following = b_.CreateAnd(at, b_.CreateSub(at, b_.getInt64(1)));
    more = b_.CreateICmpNE(following, b_.getInt64(0));
  } else {
    following = b_.CreateAdd(at, b_.getInt64(1));
    more = b_.CreateICmpNE(following, b_.getInt64(width_));
  }
  at->addIncoming(following, b_.GetInsertBlock());
  BranchInst* latch = b_.CreateCondBr(more, loop, after);
  b_.SetInsertPoint(after);
  return latch;
}

}  // namespace cucpu::simt
