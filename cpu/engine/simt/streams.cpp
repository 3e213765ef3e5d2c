// cpu/engine/simt/streams.cpp
#include "cpu/engine/simt/streams.hpp"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {
constexpr std::uint64_t kLine = 64;  // bytes of a line of the cache
constexpr unsigned kMost = 4;        // streams that are worth it
}  // namespace

Streams find_streams(const Flow& flow, const Shapes& full, unsigned width) {
  Streams found;
  const llvm::Module& module = *flow.function.getParent();
  if (!Triple{module.getTargetTriple()}.isAArch64() || !flow.loops.empty()) return found;
  for (const BasicBlock* block : flow.order) {
    const LoadInst* last = nullptr;
    for (const Instruction& inst : *block) {
      const auto* load = dyn_cast<LoadInst>(&inst);
      if (!load || !load->isSimple()) continue;
      const Value* pointer = load->getPointerOperand();
      const Shape shape = full[pointer];
      const std::uint64_t size = module.getDataLayout().getTypeStoreSize(load->getType());
      if (shape.kind != Shape::Strided || shape.stride != static_cast<std::int64_t>(size) ||
          size * width < kLine || is_shared(*load, pointer) ||
          isa<AllocaInst>(getUnderlyingObject(pointer)))
        continue;
      if (found.size() == kMost) return Streams{};
      found[load] = false;
      last = load;
    }
    if (last) found[last] = true;
  }
  return found;
}

// Puts the computation of an address before an instruction of its block; false: it cannot stand
// there.
static bool hoist(Value* value, Instruction* before) {
  auto* inst = dyn_cast<Instruction>(value);
  if (!inst || inst->getParent() != before->getParent() || inst->comesBefore(before)) return true;
  if (!isa<BinaryOperator, CastInst, GetElementPtrInst>(inst) || inst->isIntDivRem() ||
      !all_of(inst->operands(), [&](Value* operand) { return hoist(operand, before); }))
    return false;
  inst->moveBefore(before);
  return true;
}

// Hints to the processor, which no address can make fault. They come together, before the loads of
// the block: one between two loads costs more than it saves (saxpy on a Neoverse N1: 1.22 times
// native code, 1.14 without hints, 1.01 so).
void Emitter::ask_ahead(LoadInst& load, LoadInst* made, std::uint64_t bytes) {
  const auto stream = streams_.find(&load);
  if (stream == streams_.end() || mode_ != Full) return;
  asked_.push_back({made, bytes});
  if (!stream->second) return;
  Instruction* const first = asked_.front().first;
  if (all_of(asked_, [&](const auto& asked) {
        return asked.first->getParent() == first->getParent() &&
               hoist(asked.first->getPointerOperand(), first);
      })) {
    const IRBuilderBase::InsertPointGuard here{b_};
    b_.SetInsertPoint(first);
    for (const auto& [from, size] : asked_)
      for (std::uint64_t line = 0; line < size; line += kLine) {
        Value* where =
            b_.CreateGEP(b_.getInt8Ty(), from->getPointerOperand(), b_.getInt64(kAhead + line));
        b_.CreateIntrinsic(Intrinsic::prefetch, {where->getType()},
                           {where, b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
      }
  }
  asked_.clear();
}

}  // namespace cucpu::simt
