// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/memory_atomics.cpp: atomics: plain instructions in shared memory, and one
// operation for all lanes if they can be combined.
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/LowerAtomic.h>

#include "cpu/engine/simt/deferrable_atomics.hpp"
#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr std::size_t kUnrolledLanes = 32;

/// The neutral element of this operation; null: lanes cannot be combined.
Constant* neutral(AtomicRMWInst::BinOp operation, Type* type) {
  switch (operation) {
    case AtomicRMWInst::Add:
    case AtomicRMWInst::Or:
    case AtomicRMWInst::Xor:
    case AtomicRMWInst::UMax:
      return ConstantInt::get(type, 0);
    case AtomicRMWInst::And:
    case AtomicRMWInst::UMin:
      return Constant::getAllOnesValue(type);
    case AtomicRMWInst::Max:
      return ConstantInt::get(type, APInt::getSignedMinValue(type->getIntegerBitWidth()));
    case AtomicRMWInst::Min:
      return ConstantInt::get(type, APInt::getSignedMaxValue(type->getIntegerBitWidth()));
    case AtomicRMWInst::FAdd:
      return cast<Constant>(ConstantFP::getNegativeZero(type));
    default:
      return nullptr;
  }
}

/// Combines all lanes by an operation that has a neutral element.
Value* folded(IRBuilderBase& b, AtomicRMWInst::BinOp operation, Value* lanes, Value* off) {
  switch (operation) {
    case AtomicRMWInst::Add:
      return b.CreateAddReduce(lanes);
    case AtomicRMWInst::Or:
      return b.CreateOrReduce(lanes);
    case AtomicRMWInst::Xor:
      return b.CreateXorReduce(lanes);
    case AtomicRMWInst::And:
      return b.CreateAndReduce(lanes);
    case AtomicRMWInst::UMax:
    case AtomicRMWInst::Max:
      return b.CreateIntMaxReduce(lanes, operation == AtomicRMWInst::Max);
    case AtomicRMWInst::UMin:
    case AtomicRMWInst::Min:
      return b.CreateIntMinReduce(lanes, operation == AtomicRMWInst::Min);
    default: {
      // The order of atomic additions is not defined: lanes are summed as a tree.
      auto* sum = cast<CallInst>(b.CreateFAddReduce(off, lanes));
      sum->setHasAllowReassoc(true);
      return sum;
    }
  }
}

}  // namespace

Value* new_value(IRBuilderBase& b, const AtomicRMWInst& rmw, Value* old, Value* operand) {
  if (rmw.getOperation() != AtomicRMWInst::FAdd)
    return buildAtomicRMWValue(rmw.getOperation(), b, old, operand);
  // The NaN of a GPU: the canonical one for f32; for f64, of two NaNs the one in memory (the second
  // summand).
  Value* sum = b.CreateFAdd(operand, old);
  if (!sum->getType()->isFloatTy()) return sum;
  const APFloat canonical{APFloat::IEEEsingle(), APInt{32, 0x7fffffff}};
  return b.CreateSelect(b.CreateFCmpUNO(sum, sum), ConstantFP::get(b.getContext(), canonical), sum);
}

void MemoryEmitter::emit_atomic(Instruction& inst) {
  ++report_.atomics;
  auto* rmw = dyn_cast<AtomicRMWInst>(&inst);
  auto* cas = dyn_cast<AtomicCmpXchgInst>(&inst);
  Value* pointer = inst.getOperand(0);
  bool shared = is_shared(inst, pointer);
  // A block runs on one host thread, so its shared memory needs no atomic instructions.
  auto perform = [&](Value* address, Value* first, Value* second) -> Value* {
    if (shared) {
      Align align = rmw ? rmw->getAlign() : cas->getAlign();
      Value* old = b_.CreateAlignedLoad(first->getType(), address, align);
      if (rmw) {
        Value* fresh = new_value(b_, *rmw, old, first);
        b_.CreateAlignedStore(fresh, address, align);
        return old;
      }
      Value* equal = b_.CreateICmpEQ(old, first);
      b_.CreateAlignedStore(b_.CreateSelect(equal, second, old), address, align);
      return b_.CreateInsertValue(b_.CreateInsertValue(PoisonValue::get(inst.getType()), old, 0),
                                  equal, 1);
    }
    Instruction* copy = inst.clone();
    copy->setDebugLoc({});
    copy->dropUnknownNonDebugMetadata();
    copy->setOperand(0, address);
    copy->setOperand(1, first);
    if (second) copy->setOperand(2, second);
    if (rmw && late_.contains(rmw)) copy->setMetadata(kDeferrable, MDNode::get(context_, {}));
    return b_.Insert(copy);
  };
  bool one_value = shape(inst.getOperand(1)).kind <= Shape::Uniform;
  if (rmw && inst.use_empty() && shape(pointer).kind <= Shape::Uniform &&
      !(one_value && rmw->isFloatingPointOperation())) {
    Value* value = vec(rmw->getValOperand());
    Type* type = rmw->getType();
    if (Constant* off = neutral(rmw->getOperation(), type)) {
      if (mask()) value = b_.CreateSelect(mask(), value, splat(off));
      Value* total = folded(b_, rmw->getOperation(), value, off);
      perform(scalar(pointer), total, nullptr);
      return;
    }
  }
  Value* first = inst.getOperand(1);
  Value* second = cas ? inst.getOperand(2) : nullptr;
  if (shared && !mask() && inst.use_empty() && rmw && width_ <= kUnrolledLanes) {
    for (unsigned i = 0; i < width_; ++i)
      perform(lane_address(pointer, i), lane_address(first, i), nullptr);
    return;
  }
  auto prepared = [&](Value* v) -> Value* {
    return shape(v).kind <= Shape::Uniform ? scalar(v) : spill(vec(v), "operand");
  };
  auto lane_value = [&](Value* v, Value* from, Value* lane) {
    return shape(v).kind <= Shape::Uniform ? from : lane_of(from, lane, v->getType());
  };
  Value *addresses = prepared(pointer), *firsts = prepared(first),
        *seconds = second ? prepared(second) : nullptr;
  Type* old_type = rmw ? rmw->getType() : cas->getCompareOperand()->getType();
  AllocaInst* olds = temporary(vector_type(old_type), "old");
  AllocaInst* swapped = cas ? temporary(slot_type(b_.getInt1Ty()), "swapped") : nullptr;
  for_each_lane([&](Value* lane) {
    Value* old = perform(lane_value(pointer, addresses, lane), lane_value(first, firsts, lane),
                         second ? lane_value(second, seconds, lane) : nullptr);
    if (cas) {
      b_.CreateStore(b_.CreateSExt(b_.CreateExtractValue(old, 1), b_.getInt32Ty()),
                     b_.CreateInBoundsGEP(b_.getInt32Ty(), swapped, lane));
      old = b_.CreateExtractValue(old, 0);
    }
    b_.CreateStore(old, b_.CreateInBoundsGEP(old_type, olds, lane));
  });
  Value* result = b_.CreateLoad(olds->getAllocatedType(), olds);
  if (cas) {
    Value* pair = PoisonValue::get(vector_type(inst.getType()));
    pair = b_.CreateInsertValue(pair, result, 0);
    Value* flags =
        from_slot_form(b_.CreateLoad(swapped->getAllocatedType(), swapped), b_.getInt1Ty());
    result = b_.CreateInsertValue(pair, flags, 1);
  }
  define(&inst, result);
}

}  // namespace cucpu::simt
