// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/deferred_atomics.cpp: two host threads that add to one address for every block
// spend most of their time on exchanging its cache line. Deferred operands are applied with one
// compare-and-swap that computes the same sums in the same order, each rounded: memory holds a
// value that it could have held with one atomic operation for each. Operands for a new address are
// applied at once, so that an invalid address is a fault of the block that used it.
#include "cpu/engine/jit/deferred_atomics.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/LowerAtomic.h>

#include "cpu/engine/jit/float_atomics.hpp"
#include "cpu/engine/simt/deferrable_atomics.hpp"

namespace cucpu {
namespace {

using namespace llvm;

// Two threads that write at the same time cost each other a cache line and one of them its sums, so
// writing must be a small part of the time even of many threads and blocks of some 100 ns.
constexpr unsigned kKept = 256;

/// A loop over the buffered operands: totals = step(totals, kept[i]), starting with `start`. The
/// first total has the type of the operands.
SmallVector<Value*, 2> fold(
    IRBuilder<>& b, ArrayRef<Value*> start, Value* kept, Value* count,
    const std::function<SmallVector<Value*, 2>(ArrayRef<PHINode*> totals, Value* x)>& step) {
  BasicBlock* before = b.GetInsertBlock();
  Function* function = before->getParent();
  BasicBlock *loop = BasicBlock::Create(b.getContext(), "fold", function),
             *after = BasicBlock::Create(b.getContext(), "folded", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  Type* type = start.front()->getType();
  PHINode* at = b.CreatePHI(b.getInt32Ty(), 2);
  SmallVector<PHINode*, 2> totals;
  for (Value* value : start) totals.push_back(b.CreatePHI(value->getType(), 2));
  Value* x = b.CreateLoad(type, b.CreateInBoundsGEP(type, kept, at));
  SmallVector<Value*, 2> next = step(totals, x);
  Value* following = b.CreateAdd(at, b.getInt32(1));
  at->addIncoming(b.getInt32(0), before);
  at->addIncoming(following, loop);
  for (auto [total, first, value] : zip(totals, start, next)) {
    total->addIncoming(first, before);
    total->addIncoming(value, loop);
  }
  b.CreateCondBr(b.CreateICmpULT(following, count), loop, after);
  b.SetInsertPoint(after);
  return next;
}

void write_integers(IRBuilder<>& b, const AtomicRMWInst& atomic, Value* to, Value* kept,
                    Value* count) {
  const AtomicRMWInst::BinOp op = atomic.getOperation();
  // The first operand is applied twice where that is idempotent; else the start value is zero.
  const bool from_zero = op == AtomicRMWInst::Add || op == AtomicRMWInst::Xor;
  Value* start = from_zero ? static_cast<Value*>(Constant::getNullValue(atomic.getType()))
                           : b.CreateLoad(atomic.getType(), kept);
  auto totals = fold(b, {start}, kept, count, [&](ArrayRef<PHINode*> t, Value* x) {
    return SmallVector<Value*, 2>{buildAtomicRMWValue(op, b, t[0], x)};
  });
  b.CreateAtomicRMW(op, to, totals[0], atomic.getAlign(), AtomicOrdering::Monotonic);
}

void write_floats(IRBuilder<>& b, const AtomicRMWInst& atomic, Value* to, Value* kept,
                  Value* count) {
  LLVMContext& context = b.getContext();
  Function* function = b.GetInsertBlock()->getParent();
  Type* type = atomic.getType();
  Type* word = b.getIntNTy(type->getPrimitiveSizeInBits());
  LoadInst* first = b.CreateAlignedLoad(word, to, atomic.getAlign());
  first->setAtomic(AtomicOrdering::Monotonic);
  BasicBlock *before = b.GetInsertBlock(), *again = BasicBlock::Create(context, "again", function),
             *exact = BasicBlock::Create(context, "exact", function),
             *swap = BasicBlock::Create(context, "swap", function),
             *end = BasicBlock::Create(context, "end", function);
  b.CreateBr(again);
  b.SetInsertPoint(again);
  PHINode* bits = b.CreatePHI(word, 2);
  bits->addIncoming(first, before);
  Value* old = b.CreateBitCast(bits, type);
  // Plain sums first. They equal those of a GPU unless an operand is subnormal (zero counts as
  // subnormal, which costs only time) or a NaN.
  auto odd = [&](Value* x) -> Value* {
    if (!type->isFloatTy()) return b.CreateFCmpUNO(x, x);
    return b.CreateFCmpULT(b.CreateUnaryIntrinsic(Intrinsic::fabs, x),
                           ConstantFP::get(type, 0x1p-126));
  };
  auto plain = fold(b, {old, odd(old)}, kept, count, [&](ArrayRef<PHINode*> t, Value* x) {
    Value* total = b.CreateFAdd(t[0], x);
    return SmallVector<Value*, 2>{total, b.CreateOr(t[1], b.CreateOr(odd(x), odd(total)))};
  });
  BasicBlock* plain_end = b.GetInsertBlock();
  b.CreateCondBr(plain[1], exact, swap);
  b.SetInsertPoint(exact);
  auto slow = fold(b, {old}, kept, count, [&](ArrayRef<PHINode*> t, Value* x) {
    return SmallVector<Value*, 2>{float_sum(b, t[0], x, false)};
  });
  BasicBlock* slow_end = b.GetInsertBlock();
  b.CreateBr(swap);
  b.SetInsertPoint(swap);
  PHINode* fresh = b.CreatePHI(type, 2);
  fresh->addIncoming(plain[0], plain_end);
  fresh->addIncoming(slow[0], slow_end);
  AtomicCmpXchgInst* exchange =
      b.CreateAtomicCmpXchg(to, bits, b.CreateBitCast(fresh, word), atomic.getAlign(),
                            AtomicOrdering::Monotonic, AtomicOrdering::Monotonic);
  bits->addIncoming(b.CreateExtractValue(exchange, 0), swap);
  b.CreateCondBr(b.CreateExtractValue(exchange, 1), end, again);
  b.SetInsertPoint(end);
}

/// void (ptr to, ptr kept, i32 count), for a count that is not zero.
Function* make_writer(const AtomicRMWInst& atomic) {
  Module& module = *const_cast<Module*>(atomic.getModule());
  IRBuilder<> b{module.getContext()};
  auto* type =
      FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getInt32Ty()}, false);
  Function* writer =
      Function::Create(type, GlobalValue::InternalLinkage, "cucpu.write_late", module);
  writer->addFnAttr(Attribute::NoUnwind);
  for (const char* name : {"target-cpu", "target-features"})
    if (atomic.getFunction()->hasFnAttribute(name))
      writer->addFnAttr(atomic.getFunction()->getFnAttribute(name));
  b.SetInsertPoint(BasicBlock::Create(module.getContext(), "entry", writer));
  (atomic.isFloatingPointOperation() ? write_floats : write_integers)(
      b, atomic, writer->getArg(0), writer->getArg(1), writer->getArg(2));
  b.CreateRetVoid();
  return writer;
}

}  // namespace

void combine_deferred_atomics(Function& function) {
  SmallVector<AtomicRMWInst*, 4> marked;
  for (Instruction& inst : instructions(function))
    if (auto* atomic = dyn_cast<AtomicRMWInst>(&inst);
        atomic && atomic->getMetadata(simt::kDeferrable))
      marked.push_back(atomic);
  if (marked.empty()) return;
  AtomicRMWInst* model = marked.front();
  Function* writer = make_writer(*model);
  BasicBlock* entry = &function.getEntryBlock();
  IRBuilder<> b{entry, entry->getFirstInsertionPt()};
  Type *value = model->getType(), *number = b.getInt32Ty();
  AllocaInst* kept = b.CreateAlloca(ArrayType::get(value, kKept), nullptr, "kept");
  AllocaInst* place = b.CreateAlloca(b.getPtrTy(), nullptr, "kept.for");
  AllocaInst* count = b.CreateAlloca(number, nullptr, "kept.count");
  b.CreateStore(kept, place);  // to which no thread adds
  b.CreateStore(b.getInt32(0), count);
  MDNode* rarely = MDBuilder{function.getContext()}.createBranchWeights(1, kKept);
  auto write_kept = [&](Instruction* before) {
    b.SetInsertPoint(before);
    Value* n = b.CreateLoad(number, count);
    Instruction* then =
        SplitBlockAndInsertIfThen(b.CreateICmpNE(n, b.getInt32(0)), before, false, rarely);
    b.SetInsertPoint(then);
    b.CreateCall(writer, {b.CreateLoad(b.getPtrTy(), place), kept, n});
    b.CreateStore(b.getInt32(0), count);
  };
  SmallVector<ReturnInst*, 2> ends;
  for (Instruction& inst : instructions(function))
    if (auto* end = dyn_cast<ReturnInst>(&inst)) ends.push_back(end);
  for (AtomicRMWInst* atomic : marked) {
    atomic->setMetadata(simt::kDeferrable, nullptr);
    if (atomic->getType() != value || atomic->getOperation() != model->getOperation()) continue;
    b.SetInsertPoint(atomic);
    Value* to = atomic->getPointerOperand();
    Value* same = b.CreateICmpEQ(to, b.CreateLoad(b.getPtrTy(), place));
    Instruction *keep = nullptr, *write = nullptr;
    SplitBlockAndInsertIfThenElse(same, atomic, &keep, &write);
    b.SetInsertPoint(keep);
    Value* n = b.CreateLoad(number, count);
    b.CreateStore(atomic->getValOperand(), b.CreateInBoundsGEP(value, kept, n));
    Value* more = b.CreateAdd(n, b.getInt32(1));
    b.CreateStore(more, count);
    Instruction* full =
        SplitBlockAndInsertIfThen(b.CreateICmpEQ(more, b.getInt32(kKept)), keep, false, rarely);
    b.SetInsertPoint(full);
    b.CreateCall(writer, {to, kept, more});
    b.CreateStore(b.getInt32(0), count);
    write_kept(write);
    b.SetInsertPoint(write);
    b.CreateStore(to, place);
    atomic->moveBefore(write);
  }
  for (ReturnInst* end : ends) write_kept(end);
}

}  // namespace cucpu
