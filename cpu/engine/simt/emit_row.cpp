// cpu/engine/simt/emit_row.cpp: what is the same for a whole row of a strip is decided once, before
// its groups: rows whose threads all leave at once (`if (y >= height) return;`) are passed over,
// and in the others nobody asks again.
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/PatternMatch.h>

#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kDepth = 8;       // of what is computed for a row
constexpr unsigned kBranches = 8;    // one behind the other
constexpr unsigned kConditions = 8;  // that are worth it

}  // namespace

/// Whether all threads of a row, of all blocks of the strip, have this value, and it can be
/// computed before any of them runs, also if none would.
bool Emitter::same_in_row(Value* v, unsigned depth) const {
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst) return isa<ConstantInt>(v);
  if (depth > kDepth) return false;
  if (StringRef name = marker_name(inst); !name.empty())
    return name == "params" || name.starts_with("sreg.nctaid.") ||
           ((name.consume_front("sreg.tid.") || name.consume_front("sreg.ctaid.")) && name != "x");
  if (auto* load = dyn_cast<LoadInst>(inst)) return is_parameter_load(*load);
  if (inst->isIntDivRem() && !isa<ConstantInt>(inst->getOperand(1))) return false;
  if (!isa<BinaryOperator, CastInst, ICmpInst, SelectInst>(inst) || !inst->getType()->isIntegerTy())
    return false;
  return all_of(inst->operands(), [&](Value* one) { return same_in_row(one, depth + 1); });
}

/// The parts of a condition of which each alone makes it `wanted`, as far as they are the same for
/// a row.
void Emitter::row_parts(Value* condition, bool wanted,
                        SmallMapVector<Value*, bool, 8>& parts) const {
  using namespace PatternMatch;
  Value *a, *c;
  if (match(condition, m_Not(m_Value(a)))) return row_parts(a, !wanted, parts);
  if (wanted ? match(condition, m_LogicalOr(m_Value(a), m_Value(c)))
             : match(condition, m_LogicalAnd(m_Value(a), m_Value(c)))) {
    row_parts(a, wanted, parts);
    row_parts(c, wanted, parts);
    return;
  }
  if (isa<Instruction>(condition) && parts.size() < kConditions && same_in_row(condition))
    parts.insert({condition, wanted});
}

/// The conditions that make all threads of a row return before anything can be seen of them.
SmallMapVector<Value*, bool, 8> Emitter::ends_of_row() const {
  SmallMapVector<Value*, bool, 8> parts;
  BasicBlock* at = region_->start;
  for (unsigned i = 0; i < kBranches; ++i) {
    for (Instruction& inst : *at) {
      if (isa<PHINode>(inst) || inst.mayWriteToMemory()) return parts;
      auto* load = dyn_cast<LoadInst>(&inst);
      if (load && !is_parameter_load(*load)) return parts;  // which may fault
      StringRef name = marker_name(&inst);
      if (!name.empty() && !name.starts_with("sreg.") && name != "params") return parts;
    }
    auto* branch = dyn_cast<BranchInst>(at->getTerminator());
    if (!branch) return parts;
    BasicBlock* next = at->getSingleSuccessor();
    if (!next) {
      const bool on_yes = plain_exit(branch->getSuccessor(0)).found;
      if (!on_yes && !plain_exit(branch->getSuccessor(1)).found) return parts;
      row_parts(branch->getCondition(), on_yes, parts);
      next = branch->getSuccessor(on_yes ? 1 : 0);
    }
    if (next->getSinglePredecessor() != at) return parts;
    at = next;
  }
  return parts;
}

/// By how much a value grows from thread to thread and from block to block of a row, as it counts
/// in its own bits; nothing where that differs from place to place.
std::optional<Emitter::RowGrowth> Emitter::row_growth(Value* v, unsigned depth) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (same_in_row(v)) return RowGrowth{};
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst || depth > kDepth) return {};
  if (StringRef name = marker_name(inst); !name.empty()) {
    if (name == "sreg.tid.x") return RowGrowth{1, 0};
    if (name == "sreg.ctaid.x") return RowGrowth{0, 1};
    return {};
  }
  if (!isa<BinaryOperator>(inst)) return {};
  const auto left = row_growth(inst->getOperand(0), depth + 1);
  if (!left) return {};
  const auto sum = [&](std::int64_t sign) -> std::optional<RowGrowth> {
    const auto right = row_growth(inst->getOperand(1), depth + 1);
    if (!right) return {};
    return RowGrowth{left->thread + sign * right->thread, left->block + sign * right->block};
  };
  const auto product = [&](std::int64_t factor) -> std::optional<RowGrowth> {
    if (std::abs(factor) >= kMost || std::abs(left->thread) >= kMost ||
        std::abs(left->block) >= kMost)
      return {};
    return RowGrowth{left->thread * factor, left->block * factor};
  };
  auto* constant = dyn_cast<ConstantInt>(inst->getOperand(1));
  switch (inst->getOpcode()) {
    case Instruction::Add:
      return sum(1);
    case Instruction::Or:
      return cast<PossiblyDisjointInst>(inst)->isDisjoint() ? sum(1) : std::nullopt;
    case Instruction::Sub:
      return sum(-1);
    case Instruction::Mul:
      return constant && constant->getBitWidth() <= 64 ? product(constant->getSExtValue())
                                                       : std::nullopt;
    case Instruction::Shl:
      return constant && constant->getValue().ult(31)
                 ? product(std::int64_t{1} << constant->getZExtValue())
                 : std::nullopt;
    default:
      return {};
  }
}

/// Whether an index that some group extends wraps anywhere in the row: from its first thread on
/// there are so many steps. Groups of other rows need not look.
void Emitter::guard_row() {
  const std::uint32_t size = plan_.lanes.block.x;
  Type* wide = b_.getInt64Ty();
  Value* steps = nullptr;
  for (BasicBlock* block : plan_.flow.order) {
    const auto guards = plan_.guards.find(block);
    if (guards == plan_.guards.end()) continue;
    for (Instruction* extension : guards->second) {
      Value* narrow = extension->getOperand(0);
      const auto growth = row_growth(narrow);
      if (!growth || narrow->getType()->getIntegerBitWidth() > 32 ||
          std::abs(growth->thread) >= std::int64_t{1} << 31 ||
          growth->block != growth->thread * static_cast<std::int64_t>(size))
        continue;
      if (!steps) {
        b_.CreateStore(b_.getInt32(0), group_);  // the values of the first thread
        Value* blocks = b_.CreateZExt(b_.CreateSub(strip_->end, strip_->first), wide);
        steps = b_.CreateSub(b_.CreateMul(blocks, b_.getInt64(size)), b_.getInt64(1));
      }
      rematerialise(narrow);
      const auto extend = [&](Value* v) {
        return isa<SExtInst>(extension) ? b_.CreateSExt(v, wide) : b_.CreateZExt(v, wide);
      };
      Value* by = b_.CreateMul(steps, b_.getInt64(static_cast<std::uint64_t>(growth->thread)));
      Value* last = b_.CreateAdd(extend(scalar(narrow)), by);
      Value* one = b_.CreateICmpNE(extend(b_.CreateTrunc(last, narrow->getType())), last);
      row_wraps_ = row_wraps_ ? b_.CreateOr(row_wraps_, one) : one;
      row_guards_.insert(extension);
      ++report_.row_tests;
    }
  }
}

/// Where one of these wraps inside the group (or might: it is not strided then).
void Emitter::branch_if_wrapped(ArrayRef<Instruction*> extensions, BasicBlock* wrapped,
                                BasicBlock* fine) {
  MDNode* rarely = MDBuilder{context_}.createBranchWeights(1, 100'000);
  auto saved_scalars = scalars_;
  if (all_of(extensions, [&](Instruction* one) { return row_guards_.contains(one); })) {
    BasicBlock* look = new_block("row.wraps");
    b_.CreateCondBr(row_wraps_, look, fine, rarely);
    b_.SetInsertPoint(look);
  }
  b_.CreateCondBr(any_wraps(extensions), wrapped, fine, rarely);
  scalars_ = std::move(saved_scalars);
}

/// At the start of a row: goes on to its groups, unless all its threads return.
void Emitter::begin_row() {
  Value* ends = nullptr;
  const unsigned loads = report_.loads_uniform;  // each is counted where it stands
  for (auto [part, wanted] : ends_of_row()) {
    rematerialise(part);
    Value* one = wanted ? scalar(part) : b_.CreateNot(scalar(part));
    ends = ends ? b_.CreateOr(ends, one) : one;
    decided_[part] = !wanted;
    ++report_.row_tests;
  }
  guard_row();
  report_.loads_uniform = loads;
  // Threads that return before would not have computed these.
  for (auto [from, to] : scalars_)
    if (auto* made = dyn_cast<Instruction>(to)) made->dropPoisonGeneratingFlags();
  if (ends)
    b_.CreateCondBr(ends, strip_->next_row, strip_->blocks);
  else
    b_.CreateBr(strip_->blocks);
}

}  // namespace cucpu::simt
