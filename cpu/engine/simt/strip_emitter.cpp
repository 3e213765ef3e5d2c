// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/strip_emitter.cpp: strips, and tests that have one result for a whole row of a
// strip. They run once, before the groups of the row: rows whose threads all return (`if (y >=
// height) return;`) are skipped, and groups of other rows do not repeat the tests.
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/PatternMatch.h>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kDepth = 8;       // of expressions computed for a row
constexpr unsigned kBranches = 8;    // in sequence
constexpr unsigned kConditions = 8;  // that are tested for a row

}  // namespace

/// Whether the value is the same for all threads of a row of the strip, and can be computed
/// speculatively before the row.
bool StripEmitter::same_in_row(Value* v, unsigned depth) const {
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

/// The parts of a condition, uniform over a row, each of which alone makes it `wanted`.
void StripEmitter::row_parts(Value* condition, bool wanted,
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

/// The conditions under which all threads of a row return without side effects.
SmallMapVector<Value*, bool, 8> StripEmitter::ends_of_row() const {
  SmallMapVector<Value*, bool, 8> parts;
  BasicBlock* at = parts_.regions.current()->start;
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
      const bool on_yes = parts_.partial.plain_exit(branch->getSuccessor(0)).found;
      if (!on_yes && !parts_.partial.plain_exit(branch->getSuccessor(1)).found) return parts;
      row_parts(branch->getCondition(), on_yes, parts);
      next = branch->getSuccessor(on_yes ? 1 : 0);
    }
    if (next->getSinglePredecessor() != at) return parts;
    at = next;
  }
  return parts;
}

/// The increments of a value from thread to thread and from block to block of a row, modulo its
/// width; nullopt if they are not constant.
std::optional<StripEmitter::RowGrowth> StripEmitter::row_growth(Value* v, unsigned depth) const {
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

/// Computes whether an index that is sign- or zero-extended wraps anywhere in the row. If not, its
/// groups need no test.
void StripEmitter::guard_row() {
  const std::uint32_t size = plan_.lanes.block.x;
  Type* wide = b_.getInt64Ty();
  Value* steps = nullptr;
  for (BasicBlock* block : plan_.flow.order) {
    const auto guards = plan_.guards.find(block);
    if (guards == plan_.guards.end()) continue;
    for (Instruction* extension : guards->second) {
      if (!isa<SExtInst, ZExtInst>(extension)) continue;
      Value* narrow = extension->getOperand(0);
      const auto growth = row_growth(narrow);
      if (!growth || narrow->getType()->getIntegerBitWidth() > 32 ||
          std::abs(growth->thread) >= std::int64_t{1} << 31 ||
          growth->block != growth->thread * static_cast<std::int64_t>(size))
        continue;
      if (!steps) {
        b_.CreateStore(b_.getInt32(0), parts_.regions.group());  // the values of the first thread
        Value* blocks = b_.CreateZExt(b_.CreateSub(strip_->end, strip_->first), wide);
        steps = b_.CreateSub(b_.CreateMul(blocks, b_.getInt64(size)), b_.getInt64(1));
      }
      parts_.regions.rematerialise(narrow);
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

/// Branches to `wrapped` if one of these wraps inside the group, or may (it is not strided then).
void StripEmitter::branch_if_wrapped(ArrayRef<Instruction*> extensions, BasicBlock* wrapped,
                                     BasicBlock* fine) {
  MDNode* rarely = MDBuilder{context_}.createBranchWeights(1, 100'000);
  const ValueMap::Known saved = parts_.values.known();
  if (all_of(extensions, [&](Instruction* one) { return row_guards_.contains(one); })) {
    BasicBlock* look = new_block("row.wraps");
    b_.CreateCondBr(row_wraps_, look, fine, rarely);
    b_.SetInsertPoint(look);
  }
  b_.CreateCondBr(parts_.flow.any_wraps(extensions), wrapped, fine, rarely);
  parts_.values.restore(saved);
}

/// Emits the start of a row: continues with its groups unless all its threads return.
void StripEmitter::begin_row() {
  Value* ends = nullptr;
  const unsigned loads =
      report_.loads_uniform;  // they are counted where they are emitted for groups
  for (auto [part, wanted] : ends_of_row()) {
    parts_.regions.rematerialise(part);
    Value* one = wanted ? scalar(part) : b_.CreateNot(scalar(part));
    ends = ends ? b_.CreateOr(ends, one) : one;
    decided_[part] = !wanted;
    ++report_.row_tests;
  }
  guard_row();
  report_.loads_uniform = loads;
  // These are speculative: threads that return earlier do not compute them.
  for (auto [from, to] : parts_.values.known().scalars)
    if (auto* made = dyn_cast<Instruction>(to)) made->dropPoisonGeneratingFlags();
  if (ends)
    b_.CreateCondBr(ends, strip_->next_row, strip_->blocks);
  else
    b_.CreateBr(strip_->blocks);
}

// The number of blocks of a strip. A row has at most 256 threads, so that data written column by
// column still fits in the cache. Blocks of one row run in the same order as without strips.
unsigned StripEmitter::strip_length() const {
  constexpr unsigned kThreads = 256, kBlocks = 64;
  const std::uint32_t row = plan_.lanes.block.x;
  return row == plan_.lanes.threads() ? kBlocks : kThreads / row;
}

// A strip only changes the order of independent threads.
bool StripEmitter::can_run_across() const {
  // Race checks number the blocks, one after the other: a second row would count as another block.
  if ((plan_.check & check::kRace) != 0 || plan_.by_columns || parts_.regions.says_group() ||
      parts_.regions.all().size() != 1 || plan_.lanes.block.x % width_ != 0 || strip_length() < 2)
    return false;
  return none_of(instructions(state_.thread), [](Instruction& inst) {
    StringRef name = marker_name(&inst);
    return name == "shared" || name.starts_with("sreg.cluster") ||
           name.starts_with("sreg.ncluster");
  });
}

void StripEmitter::begin_strip() {
  Type* number = entry_.getInt32Ty();
  AllocaInst* before = temporary(number, "before");
  CallInst* blocks = entry_.CreateCall(
      parts_.regions.routine("cucpu_rt_next_strip", number, {entry_.getPtrTy(), number, number}),
      {state_.block_context, entry_.CreateLoad(number, before), entry_.getInt32(strip_length())});
  blocks->addRangeRetAttr(ConstantRange{APInt{32, 0}, APInt{32, strip_length() + 1}});
  BasicBlock *none = new_block("end"), *strip = new_block("strip");
  entry_.CreateCondBr(entry_.CreateICmpEQ(blocks, entry_.getInt32(0)), none, strip,
                      MDBuilder{context_}.createBranchWeights(1, 63));
  entry_.SetInsertPoint(strip);
  Value* x = context_field(number, offsetof(BlockContext, index), "first.column");
  Value* end = entry_.CreateAdd(x, blocks, "end.column", true);
  strip_ = Strip{.column = temporary(number, "column"),
                 .row = temporary(number, "row"),
                 .before = before,
                 .first = x,
                 .end = end,
                 .none = none,
                 .rows = new_block("rows"),
                 .blocks = new_block("blocks"),
                 .next_block = new_block("blocks.next"),
                 .next_row = new_block("rows.next")};
  entry_.CreateStore(entry_.getInt32(0), strip_->row);
  b_.SetInsertPoint(strip_->rows);
  b_.CreateStore(strip_->first, strip_->column);
  parts_.regions.set_current(parts_.regions.all().front().get());
  begin_block(Full);
  begin_row();
  b_.SetInsertPoint(strip_->blocks);
  b_.CreateStore(b_.getInt32(0), parts_.regions.group());
  b_.CreateBr(parts_.regions.all().front()->enter);
}

void StripEmitter::finish_strip(RegionEmitter::Region& region) {
  Type* number = b_.getInt32Ty();
  const auto advance = [&](AllocaInst* counter, Value* last, BasicBlock* again, BasicBlock* end) {
    Value* next = b_.CreateAdd(b_.CreateLoad(number, counter), b_.getInt32(1), "", true, true);
    b_.CreateStore(next, counter);
    parts_.regions.leave_as_it_is(b_.CreateCondBr(b_.CreateICmpNE(next, last), again, end));
  };
  const std::uint32_t rows = plan_.lanes.threads() / plan_.lanes.block.x;
  const std::uint32_t groups = plan_.lanes.block.x / width_;
  b_.SetInsertPoint(region.next);
  if (groups == 1)
    b_.CreateBr(strip_->next_block);
  else
    advance(parts_.regions.group(), b_.getInt32(groups), region.head, strip_->next_block);
  b_.SetInsertPoint(strip_->next_block);
  advance(strip_->column, strip_->end, strip_->blocks, strip_->next_row);
  b_.SetInsertPoint(strip_->next_row);
  if (rows == 1)
    b_.CreateBr(region.after);
  else
    advance(strip_->row, b_.getInt32(rows), strip_->rows, region.after);
  b_.SetInsertPoint(region.after);
  b_.CreateBr(parts_.regions.done());
}

}  // namespace cucpu::simt
