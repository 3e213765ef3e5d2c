// cpu/engine/simt/emit_row.cpp: what is the same for a whole row of a strip is decided once, before
// its groups: rows whose threads all leave at once (`if (y >= height) return;`) are passed over,
// and in the others nobody asks again.
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
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
