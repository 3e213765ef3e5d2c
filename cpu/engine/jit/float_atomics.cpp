// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/float_atomics.cpp: on a GPU f32 sums in global memory flush subnormals, and f64
// sums propagate NaNs unchanged, that of the operand before that of memory (in shared memory that
// of memory first, quieted); f32 NaNs are canonical everywhere. No host has such an instruction, so
// each is a compare-and-swap loop, as LLVM's own expansion would be. Until this pass they are plain
// atomicrmw, which LLVM's passes understand.
#include "cpu/engine/jit/float_atomics.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "cpu/engine/simt/markers.hpp"

namespace cucpu {

using namespace llvm;

namespace {

/// Vector code executes shared atomics as plain instructions, so an atomic without a state space is
/// not shared.
bool is_shared(const AtomicRMWInst& atomic) { return simt::space_of(atomic) == "shared"; }

Value* flushed(IRBuilderBase& b, Value* v) {
  Value* size = b.CreateUnaryIntrinsic(Intrinsic::fabs, v);
  Value* tiny = b.CreateFCmpOLT(size, ConstantFP::get(v->getType(), 0x1p-126));
  Value* zero = b.CreateBinaryIntrinsic(Intrinsic::copysign, ConstantFP::getZero(v->getType()), v);
  return b.CreateSelect(tiny, zero, v);
}

}  // namespace

Value* float_sum(IRBuilderBase& b, Value* old, Value* x, bool shared) {
  if (old->getType()->isDoubleTy()) {
    // A select between integers: LLVM may treat all NaNs of a float select as equal.
    const auto bits = [&](Value* v) { return b.CreateBitCast(v, b.getInt64Ty()); };
    const auto nan_of = [&](Value* v, Value* otherwise) {
      Value* quiet = shared ? b.CreateOr(bits(v), b.getInt64(0x0008000000000000)) : bits(v);
      return b.CreateSelect(b.CreateFCmpUNO(v, v), quiet, otherwise);
    };
    Value* total = b.CreateFAdd(old, x);
    Value* r =
        b.CreateSelect(b.CreateFCmpUNO(total, total), b.getInt64(0xfff8000000000000), bits(total));
    r = shared ? nan_of(old, nan_of(x, r)) : nan_of(x, nan_of(old, r));
    return b.CreateBitCast(r, b.getDoubleTy());
  }
  Value* total =
      shared ? b.CreateFAdd(old, x) : flushed(b, b.CreateFAdd(flushed(b, old), flushed(b, x)));
  Value* bits = b.CreateBitCast(total, b.getInt32Ty());  // a select between integers again
  bits = b.CreateSelect(b.CreateFCmpUNO(total, total), b.getInt32(0x7fffffff), bits);
  return b.CreateBitCast(bits, b.getFloatTy());
}

namespace {

void expand(AtomicRMWInst& atomic) {
  const bool shared = is_shared(atomic);
  Type* type = atomic.getType();
  BasicBlock* before = atomic.getParent();
  BasicBlock* after = before->splitBasicBlock(atomic.getIterator(), "");
  BasicBlock* loop = BasicBlock::Create(atomic.getContext(), "", before->getParent(), after);
  before->getTerminator()->eraseFromParent();
  IRBuilder<> b{before};
  b.SetCurrentDebugLocation(atomic.getDebugLoc());
  Type* word = b.getIntNTy(type->getPrimitiveSizeInBits());
  Value* pointer = atomic.getPointerOperand();
  LoadInst* first = b.CreateAlignedLoad(word, pointer, atomic.getAlign());
  first->setAtomic(AtomicOrdering::Monotonic);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  PHINode* bits = b.CreatePHI(word, 2);
  bits->addIncoming(first, before);
  Value* fresh = b.CreateBitCast(
      float_sum(b, b.CreateBitCast(bits, type), atomic.getValOperand(), shared), word);
  const AtomicOrdering order = atomic.getOrdering();
  AtomicCmpXchgInst* swap =
      b.CreateAtomicCmpXchg(pointer, bits, fresh, atomic.getAlign(), order,
                            AtomicCmpXchgInst::getStrongestFailureOrdering(order));
  Value* seen = b.CreateExtractValue(swap, 0);
  bits->addIncoming(seen, loop);
  b.CreateCondBr(b.CreateExtractValue(swap, 1), after, loop);
  b.SetInsertPoint(&atomic);
  atomic.replaceAllUsesWith(b.CreateBitCast(seen, type));
  atomic.eraseFromParent();
}

}  // namespace

void expand_float_atomics(Module& module) {
  SmallVector<AtomicRMWInst*, 8> found;
  for (Function& function : module)
    for (Instruction& instruction : instructions(function))
      if (auto* atomic = dyn_cast<AtomicRMWInst>(&instruction);
          atomic && atomic->getOperation() == AtomicRMWInst::FAdd &&
          (atomic->getType()->isFloatTy() || atomic->getType()->isDoubleTy()))
        found.push_back(atomic);
  for (AtomicRMWInst* atomic : found) expand(*atomic);
}

}  // namespace cucpu
