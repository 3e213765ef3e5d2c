// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/prefetch.cpp
#include "cpu/engine/simt/prefetch.hpp"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr std::uint64_t kLine = 64;  // bytes of a cache line
constexpr unsigned kMost = 4;        // streams; more do not pay

bool is_x86(const Function& function) {
  return Triple{function.getParent()->getTargetTriple()}.isX86();
}

bool ends_with_barrier(BasicBlock* block) { return barrier_at_end(*block) != nullptr; }

/// How far ahead, and into which cache (of llvm.prefetch: 3 the first, 2 the second level).
struct Distance {
  std::uint64_t bytes;  ///< of consecutive lines
  std::int64_t turns;   ///< of a loop
  unsigned cache = 3;
};

Distance distance(const Flow& flow, const LoadInst& load) {
  if (!is_x86(flow.function)) return {512, 4};
  // All groups of a block do one iteration between two barriers, which takes longer than a line
  // from the last level of the caches. Lines of a tile may all be in one set of the first level.
  const Loop* loop = flow.loop_of(load.getParent());
  if (loop && any_of(loop->blocks(), ends_with_barrier)) return {2048, 1, 2};
  return {2048, 8};
}

/// By how much a value grows per iteration: `step` times a constant. Wrapping and sign do not
/// matter, because the result is a hint.
std::optional<Prefetch> growth(Value* value, const Loop& loop, unsigned depth = 0) {
  if (loop.isLoopInvariant(value)) return Prefetch{};
  auto* inst = dyn_cast<Instruction>(value);
  if (!inst || depth > 8) return {};
  const auto of = [&](Value* v) { return growth(v, loop, depth + 1); };
  const auto times = [](std::optional<Prefetch> by, std::int64_t factor) {
    if (by) by->factor *= factor;
    return by;
  };
  if (auto* phi = dyn_cast<PHINode>(inst)) {
    const BasicBlock* latch = loop.getLoopLatch();
    if (phi->getParent() != loop.getHeader() || !latch) return {};
    auto* next = dyn_cast<Instruction>(phi->getIncomingValueForBlock(latch));
    if (!next || !is_contained(next->operands(), phi)) return {};
    if (next->getOpcode() == Instruction::Add) {
      Value* step = next->getOperand(next->getOperand(0) == phi ? 1 : 0);
      if (loop.isLoopInvariant(step)) return Prefetch{false, step, 1};
    }
    return {};
  }
  if (isa<SExtInst, ZExtInst, IntToPtrInst, PtrToIntInst>(inst)) return of(inst->getOperand(0));
  if (auto* pointer = dyn_cast<GetElementPtrInst>(inst)) {
    if (pointer->getNumIndices() != 1) return {};
    const DataLayout& layout = pointer->getModule()->getDataLayout();
    const auto size =
        static_cast<std::int64_t>(layout.getTypeAllocSize(pointer->getSourceElementType()));
    if (loop.isLoopInvariant(pointer->getPointerOperand()))
      return times(of(pointer->getOperand(1)), size);
    return loop.isLoopInvariant(pointer->getOperand(1)) ? of(pointer->getPointerOperand())
                                                        : std::nullopt;
  }
  if (!isa<BinaryOperator>(inst)) return {};
  auto* constant = dyn_cast<ConstantInt>(inst->getOperand(1));
  switch (inst->getOpcode()) {
    case Instruction::Add:
      for (unsigned fixed : {0U, 1U})
        if (loop.isLoopInvariant(inst->getOperand(fixed))) return of(inst->getOperand(1 - fixed));
      return {};
    case Instruction::Mul:
      return constant ? times(of(inst->getOperand(0)), constant->getSExtValue()) : std::nullopt;
    case Instruction::Shl:
      return constant && constant->getZExtValue() < 32
                 ? times(of(inst->getOperand(0)), std::int64_t{1} << constant->getZExtValue())
                 : std::nullopt;
    default:
      return {};
  }
}

std::optional<Prefetch> stream_of(LoadInst& load, const Flow& flow, const Shapes& full,
                                  unsigned width) {
  Value* pointer = load.getPointerOperand();
  const Shape shape = full[pointer];
  const std::uint64_t size = load.getModule()->getDataLayout().getTypeStoreSize(load.getType());
  if (!load.isSimple() || shape.kind != Shape::Strided ||
      shape.stride != static_cast<std::int64_t>(size) || is_shared(load, pointer) ||
      isa<AllocaInst>(getUnderlyingObject(pointer)))
    return {};
  if (flow.loops.empty()) return size * width >= kLine ? std::optional{Prefetch{}} : std::nullopt;
  const Loop* loop = flow.loop_of(load.getParent());
  auto found = loop ? growth(pointer, *loop) : std::nullopt;
  if (!found || !found->step || isa<Constant>(found->step) ||
      full[found->step].kind > Shape::Uniform)
    return {};
  return found;
}

}  // namespace

Prefetches find_prefetches(const Flow& flow, const Shapes& full, unsigned width) {
  Prefetches found;
  // Processors of x86-64 detect consecutive lines early enough if nothing else is between the
  // loads, but no long strides either.
  const Triple triple{flow.function.getParent()->getTargetTriple()};
  const bool interrupted = any_of(flow.order, ends_with_barrier);
  if (!triple.isAArch64() && !(triple.isX86() && (!flow.loops.empty() || interrupted)))
    return found;
  for (BasicBlock* block : flow.order) {
    const LoadInst* last = nullptr;
    for (Instruction& inst : *block) {
      auto* load = dyn_cast<LoadInst>(&inst);
      const auto stream = load ? stream_of(*load, flow, full, width) : std::nullopt;
      if (!stream) continue;
      if (found.size() == kMost) return Prefetches{};
      found[load] = *stream;
      last = load;
    }
    if (last) found[last].last = true;
  }
  return found;
}

namespace {

/// By how many bytes an address grows from one block to its neighbor in x. Clamps count as if they
/// had no effect, so the result is a hint.
class BlockGrowth {
 public:
  /// Nullopt: not known.
  std::optional<std::int64_t> of(const Value* value) {
    constexpr unsigned kMostValues = 64;
    const auto* inst = dyn_cast<Instruction>(value);
    if (!inst) return 0;
    const auto [found, fresh] = known_.try_emplace(inst, std::nullopt);
    if (!fresh) return found->second;
    if (known_.size() > kMostValues) return {};
    const auto growth = find(*inst);
    return known_[inst] = growth;
  }

 private:
  std::optional<std::int64_t> find(const Instruction& inst) {
    switch (inst.getOpcode()) {
      case Instruction::PHI:  // an index of a loop: what it begins with
        for (const Value* incoming : cast<PHINode>(inst).incoming_values())
          if (const auto growth = of(incoming)) return growth;
        return {};
      case Instruction::Add:
      case Instruction::Or:
        return sum(inst.getOperand(0), inst.getOperand(1));
      case Instruction::Mul:
      case Instruction::Shl:
        if (const auto* by = dyn_cast<ConstantInt>(inst.getOperand(1));
            by && by->getBitWidth() <= 64)
          return times(of(inst.getOperand(0)),
                       inst.getOpcode() == Instruction::Mul
                           ? by->getSExtValue()
                           : std::int64_t{1} << std::min<std::uint64_t>(by->getZExtValue(), 62));
        break;
      case Instruction::SExt:
      case Instruction::ZExt:
      case Instruction::Trunc:
      case Instruction::IntToPtr:
      case Instruction::PtrToInt:
        return of(inst.getOperand(0));
      case Instruction::GetElementPtr: {
        const auto& gep = cast<GetElementPtrInst>(inst);
        if (gep.getNumIndices() != 1) return {};
        const auto size = static_cast<std::int64_t>(
            inst.getModule()->getDataLayout().getTypeAllocSize(gep.getSourceElementType()));
        const auto base = of(inst.getOperand(0)), index = times(of(inst.getOperand(1)), size);
        return base && index ? std::optional{*base + *index} : std::nullopt;
      }
      case Instruction::Call:
        if (const StringRef name = marker_name(&inst); !name.empty())
          return name == "sreg.ctaid.x" ? 1 : 0;
        return isa<MinMaxIntrinsic>(inst) ? sum(inst.getOperand(0), inst.getOperand(1))
                                          : std::nullopt;
      case Instruction::Load:
        return is_parameter_load(cast<LoadInst>(inst)) ? std::optional<std::int64_t>{0}
                                                       : std::nullopt;
      default:
        break;
    }
    // Anything else, of values that are the same in all blocks of a row.
    for (const Value* operand : inst.operands())
      if (of(operand) != 0) return {};
    return 0;
  }

  std::optional<std::int64_t> sum(const Value* a, const Value* b) {
    const auto left = of(a), right = of(b);
    return left && right ? std::optional{*left + *right} : std::nullopt;
  }

  static std::optional<std::int64_t> times(std::optional<std::int64_t> growth, std::int64_t by) {
    constexpr std::int64_t kMost = 1 << 24;  // no stride of a matrix; small enough for sums
    if (!growth || std::abs(*growth) >= kMost || std::abs(by) >= kMost) return {};
    const std::int64_t product = *growth * by;
    return std::abs(product) < kMost ? std::optional{product} : std::nullopt;
  }

  /// Nullopt also while a growth is computed.
  DenseMap<const Value*, std::optional<std::int64_t>> known_;
};

}  // namespace

// Moves the computation of an address before an instruction of its block; returns false where that
// is impossible.
static bool hoist(Value* value, Instruction* before) {
  auto* inst = dyn_cast<Instruction>(value);
  if (!inst || inst->getParent() != before->getParent() || inst->comesBefore(before)) return true;
  if (!isa<BinaryOperator, CastInst, GetElementPtrInst>(inst) || inst->isIntDivRem() ||
      !all_of(inst->operands(), [&](Value* operand) { return hoist(operand, before); }))
    return false;
  inst->moveBefore(before);
  return true;
}

// Prefetches never fault. They come together before the loads of the block: a prefetch between two
// loads costs more than it saves.
void MemoryEmitter::emit_prefetch(LoadInst& load, LoadInst* made, std::uint64_t bytes) {
  const auto found = prefetches_.find(&load);
  if (found == prefetches_.end() || mode() != Full) return;
  pending_prefetches_.push_back({found->second, made, bytes});
  if (!found->second.last) return;
  Instruction* const first = pending_prefetches_.front().load;
  if (all_of(pending_prefetches_, [&](const PendingPrefetch& pending) {
        return pending.load->getParent() == first->getParent() &&
               hoist(pending.load->getPointerOperand(), first);
      })) {
    const IRBuilderBase::InsertPointGuard here{b_};
    b_.SetInsertPoint(first);
    const Distance ahead = distance(plan_.flow, load);
    for (const PendingPrefetch& pending : pending_prefetches_) {
      Value* from = pending.load->getPointerOperand();
      if (Value* step = pending.prefetch.step ? scalar(pending.prefetch.step) : nullptr) {
        if (!hoist(step, first)) continue;
        const auto turns = static_cast<std::uint64_t>(pending.prefetch.factor * ahead.turns);
        from = b_.CreateGEP(
            b_.getInt8Ty(), from,
            b_.CreateMul(b_.CreateSExtOrTrunc(step, b_.getInt64Ty()), b_.getInt64(turns)));
      } else {
        from = b_.CreateGEP(b_.getInt8Ty(), from, b_.getInt64(ahead.bytes));
      }
      for (std::uint64_t line = 0; line < pending.bytes; line += kLine)
        b_.CreateIntrinsic(Intrinsic::prefetch, {from->getType()},
                           {b_.CreateGEP(b_.getInt8Ty(), from, b_.getInt64(line)), b_.getInt32(0),
                            b_.getInt32(ahead.cache), b_.getInt32(1)});
    }
  }
  pending_prefetches_.clear();
}

// The rows of a tile are more streams than the hardware prefetcher follows, each of which continues
// in the tile of the next block. `start`: an address that a lane group loads from.
void MemoryEmitter::prefetch_for_later_block(Value* start, const LoadInst& load) {
  constexpr std::int64_t kBlocks = 4, kMostBytes = 1024;
  if (!is_x86(*state_.function)) return;
  const auto growth = BlockGrowth{}.of(load.getPointerOperand());
  if (!growth || *growth == 0 || std::abs(*growth) > kMostBytes) return;
  Value* ahead = b_.CreateGEP(b_.getInt8Ty(), start,
                              b_.getInt64(static_cast<std::uint64_t>(kBlocks * *growth)));
  b_.CreateIntrinsic(Intrinsic::prefetch, {ahead->getType()},
                     {ahead, b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
}

}  // namespace cucpu::simt
