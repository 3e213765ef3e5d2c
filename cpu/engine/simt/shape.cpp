// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/shape.cpp: the shape analysis: data flow over the lattice None < Uniform, Strided
// < Varying, together with divergent branches, joins and loops.
#include "cpu/engine/simt/shape.hpp"

#include <llvm/Analysis/SimplifyQuery.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Analysis/WithCache.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/ConstantRange.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/GetElementPtrTypeIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/Support/KnownBits.h>
#include <llvm/Support/MathExtras.h>

#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr Shape kUniform{Shape::Uniform};
constexpr Shape kVarying{Shape::Varying};

// Types of strided values: every lane number fits into the type, and its values fit into a stride.
constexpr unsigned kNarrowest = 8, kWidest = 64;

Shape strided(std::int64_t stride, bool nsw, bool nuw, unsigned align) {
  if (stride == 0) return kUniform;
  return {Shape::Strided, nsw, nuw, static_cast<std::uint8_t>(std::min(align, 63u)), stride};
}

Shape join(Shape a, Shape b) {
  if (a.kind == Shape::None) return b;
  if (b.kind == Shape::None) return a;
  if (a.kind == Shape::Uniform && b.kind == Shape::Uniform) return kUniform;
  if (a.kind == Shape::Strided && b.kind == Shape::Strided && a.stride == b.stride)
    return strided(a.stride, a.no_signed_wrap && b.no_signed_wrap,
                   a.no_unsigned_wrap && b.no_unsigned_wrap, std::min(a.align, b.align));
  return kVarying;
}

struct NoWrap {
  bool is_signed = false, is_unsigned = false;
};

/// Known bits of a value for every thread. Branches and poison-generating flags do not count,
/// because they hold only for threads that reach the instruction and use its result.
SimplifyQuery facts_of_all_threads(const Instruction& inst) {
  return {inst.getModule()->getDataLayout(),
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          /*UseInstrInfo=*/false};
}

/// The range of a value over all threads.
ConstantRange range_for_all_threads(const Value* value, bool is_signed, const SimplifyQuery& facts,
                                    unsigned depth = 0) {
  constexpr unsigned kDepth = 6;
  const auto kind = is_signed ? ConstantRange::Signed : ConstantRange::Unsigned;
  const ConstantRange known = computeConstantRangeIncludingKnownBits(value, is_signed, facts);
  auto* inst = dyn_cast<Instruction>(value);
  if (!inst || depth >= kDepth) return known;
  const auto operand = [&](unsigned i) {
    return range_for_all_threads(inst->getOperand(i), is_signed, facts, depth + 1);
  };
  if (auto* binary = dyn_cast<BinaryOperator>(inst))
    return operand(0).binaryOp(binary->getOpcode(), operand(1)).intersectWith(known, kind);
  if (isa<SExtInst, ZExtInst, TruncInst>(inst))
    return operand(0)
        .castOp(cast<CastInst>(inst)->getOpcode(), inst->getType()->getIntegerBitWidth())
        .intersectWith(known, kind);
  return known;
}

NoWrap never_wraps(const Instruction& inst) {
  const SimplifyQuery facts = facts_of_all_threads(inst);
  const Value *a = inst.getOperand(0), *b = inst.getOperand(1);
  const auto within = [&](bool is_signed) {
    const unsigned flag = is_signed ? OverflowingBinaryOperator::NoSignedWrap
                                    : OverflowingBinaryOperator::NoUnsignedWrap;
    return ConstantRange::makeGuaranteedNoWrapRegion(
               static_cast<Instruction::BinaryOps>(inst.getOpcode()),
               range_for_all_threads(b, is_signed, facts), flag)
        .contains(range_for_all_threads(a, is_signed, facts));
  };
  switch (inst.getOpcode()) {
    case Instruction::Add:
    case Instruction::Sub:
    case Instruction::Mul:
    case Instruction::Shl:
      return {within(true), within(false)};
    case Instruction::Or: {  // an addition when no bit is set in both
      bool apart = KnownBits::haveNoCommonBitsSet(computeKnownBits(a, 0, facts),
                                                  computeKnownBits(b, 0, facts));
      return {apart, apart};
    }
    default:
      return {};
  }
}

// Strides are signed numbers modulo the width of the value.
std::int64_t wrap(std::uint64_t stride, const Type* type) {
  unsigned bits = type->isIntegerTy() ? type->getIntegerBitWidth() : 64;
  return bits >= 64 ? static_cast<std::int64_t>(stride) : SignExtend64(stride, bits);
}

std::uint64_t modular(std::int64_t stride) { return static_cast<std::uint64_t>(stride); }

}  // namespace

std::uint64_t lane_stride(const AllocaInst& alloca) {
  const auto size = alloca.getAllocationSize(alloca.getModule()->getDataLayout());
  return alignTo(size->getFixedValue(), std::max(Align{16}, alloca.getAlign()));
}

std::uint64_t span_of(std::int64_t stride, unsigned width) {
  const std::uint64_t step = stride < 0 ? 0 - modular(stride) : modular(stride);
  bool overflows = false;
  const std::uint64_t span = SaturatingMultiply<std::uint64_t>(step, width - 1, &overflows);
  return overflows ? UINT64_MAX : span;
}

Shape thread_index_shape(const Lanes& lanes, unsigned dimension) {
  const std::uint32_t size[3] = {lanes.block.x, lanes.block.y, lanes.block.z};
  if (size[dimension] == 1) return kUniform;
  unsigned first = 0;  // the first dimension larger than 1 varies over lanes
  while (first < 3 && size[first] == 1) ++first;
  bool only = true;
  for (unsigned d = 0; d < 3; ++d) only &= d == first || size[d] == 1;
  if (!only && size[first] % lanes.width != 0) return kVarying;
  return dimension == first ? strided(1, true, true, Log2_32(lanes.width)) : kUniform;
}

Shapes::Shapes(const Flow& flow, const Lanes& lanes, Scope scope)
    : flow_{flow}, lanes_{lanes}, scope_{scope} {
  if (scope == Scope::Block) block_loads_.emplace(flow);
  do iterate();
  while (give_shapes_to_undefined_values());
}

void Shapes::iterate() {
  bool changed = true;
  while (changed) {
    changed = false;
    for (BasicBlock* block : flow_.order) {
      for (Instruction& inst : *block) {
        if (inst.getType()->isVoidTy()) continue;
        Shape& known = shapes_[&inst];
        Shape next = join(known, transfer(inst));
        if (next == known) continue;
        shapes_[&inst] = next;
        changed = true;
      }
      auto* branch = dyn_cast<BranchInst>(block->getTerminator());
      if (!branch || !branch->isConditional() || branch->getSuccessor(0) == branch->getSuccessor(1))
        continue;
      Shape condition = (*this)[branch->getCondition()];
      if (condition.kind <= Shape::Uniform || !divergent_branches_.insert(block).second) continue;
      spread({{block, branch->getSuccessor(0)}, {block, branch->getSuccessor(1)}},
             flow_.loop_of(block));
      changed = true;
    }
  }
}

// A phi that depends only on undefined inputs and on itself: its value before the loop is
// undefined, so it may be one value for all lanes.
bool Shapes::give_shapes_to_undefined_values() {
  for (BasicBlock* block : flow_.order)
    for (PHINode& phi : block->phis()) {
      if ((*this)[&phi].kind != Shape::None) continue;
      if (none_of(phi.incoming_values(), [](Value* value) { return isa<UndefValue>(value); }))
        continue;
      shapes_[&phi] = kUniform;
      return true;
    }
  return false;
}

Shape Shapes::operator[](const Value* value) const {
  if (isa<UndefValue>(value)) return {};
  if (!isa<Instruction>(value)) return kUniform;
  return shapes_.lookup(value);
}

bool Shapes::needs_guard(const Instruction* inst) const {
  if (scope_ != Scope::FullGroup) return false;
  if (inst->isIntDivRem())
    return (*this)[inst].scalar() && (*this)[inst->getOperand(0)].kind == Shape::Strided;
  if (!isa<SExtInst, ZExtInst>(inst)) return false;
  if ((*this)[inst].kind != Shape::Strided) return false;
  Shape from = (*this)[inst->getOperand(0)];
  if (isa<SExtInst>(inst)) return !from.no_signed_wrap;
  return !from.no_unsigned_wrap && !(inst->hasNonNeg() && from.no_signed_wrap);
}

// From a divergent branch on, every edge carries a label. A block that two labels reach is a join,
// whose phis vary. A loop with two labels on its exits and its back edge, which some lanes leave
// while others continue, diverges, and its exits diverge again.
void Shapes::spread(ArrayRef<std::pair<BasicBlock*, BasicBlock*>> edges, Loop* inside) {
  constexpr int kNone = -1;
  std::vector<int> label(flow_.size(), kNone);
  DenseMap<std::pair<BasicBlock*, BasicBlock*>, int> edge_label;
  unsigned start = flow_.size();
  auto reach = [&](BasicBlock* from, BasicBlock* to, int with) {
    edge_label[{from, to}] = with;
    if (flow_.is_back_edge(from, to)) return;
    unsigned i = flow_.at(to);
    start = std::min(start, i);
    if (label[i] == kNone) {
      label[i] = with;
    } else if (label[i] != with) {
      joins_.insert(to);
      label[i] = static_cast<int>(i);
    }
  };
  int fresh = static_cast<int>(flow_.size());
  for (auto [from, to] : edges)
    reach(from, to, flow_.is_back_edge(from, to) ? fresh++ : static_cast<int>(flow_.at(to)));
  for (unsigned i = start; i < flow_.size(); ++i) {
    if (label[i] == kNone) continue;
    for (BasicBlock* next : successors(flow_.order[i]))
      if (!edge_label.count({flow_.order[i], next})) reach(flow_.order[i], next, label[i]);
  }
  for (Loop* loop = inside; loop; loop = loop->getParentLoop()) {
    SmallVector<std::pair<BasicBlock*, BasicBlock*>> exits;
    for (BasicBlock* block : loop->blocks())
      for (BasicBlock* next : successors(block))
        if (!loop->contains(next)) exits.push_back({block, next});
    int seen = kNone;
    bool diverges = false;
    auto look = [&](BasicBlock* from, BasicBlock* to) {
      auto it = edge_label.find({from, to});
      if (it == edge_label.end()) return;
      diverges |= seen != kNone && seen != it->second;
      seen = it->second;
    };
    for (auto [from, to] : exits) look(from, to);
    for (BasicBlock* from : predecessors(loop->getHeader()))
      if (loop->contains(from)) look(from, loop->getHeader());
    if (diverges && divergent_loops_.insert(loop).second) spread(exits, loop->getParentLoop());
  }
}

Shape Shapes::transfer(Instruction& inst) {
  if (auto* phi = dyn_cast<PHINode>(&inst)) return transfer_phi(*phi);
  if (auto* call = dyn_cast<CallInst>(&inst)) return transfer_call(*call);
  bool uniform = true;
  for (Value* operand : inst.operands()) {
    if (isa<BasicBlock>(operand)) continue;
    Shape s = (*this)[operand];
    if (s.kind == Shape::None && isa<Instruction>(operand)) return {};
    uniform &= s.kind <= Shape::Uniform;
  }
  if (auto* alloca = dyn_cast<AllocaInst>(&inst)) {
    const auto size = alloca->getAllocationSize(inst.getModule()->getDataLayout());
    if (scope_ == Scope::Block || !size || size->isScalable()) return kVarying;
    return strided(static_cast<std::int64_t>(lane_stride(*alloca)), false, false, 4);
  }
  if (isa<AtomicRMWInst, AtomicCmpXchgInst>(inst)) return kVarying;
  if (auto* load = dyn_cast<LoadInst>(&inst))
    return uniform && (!block_loads_ || block_loads_->is_uniform(load)) ? kUniform : kVarying;
  if (uniform) return kUniform;
  if (scope_ == Scope::Block) return kVarying;
  if (inst.getType()->isIntegerTy() && inst.getType()->getIntegerBitWidth() > kWidest)
    return kVarying;
  if (inst.isCast()) return transfer_cast(inst);
  if (isa<GetElementPtrInst>(inst)) {
    auto& gep = cast<GEPOperator>(inst);
    Shape sum = (*this)[gep.getPointerOperand()];
    const DataLayout& layout = inst.getModule()->getDataLayout();
    for (auto it = gep_type_begin(gep), end = gep_type_end(gep); it != end; ++it) {
      Shape index = (*this)[it.getOperand()];
      if (index.kind == Shape::Varying || sum.kind == Shape::Varying) return kVarying;
      if (index.kind == Shape::Uniform) continue;
      if (it.isStruct()) return kVarying;
      if (it.getOperand()->getType() != layout.getIndexType(gep.getType())) return kVarying;
      std::uint64_t size = layout.getTypeAllocSize(it.getIndexedType());
      std::uint64_t before = sum.kind == Shape::Strided ? modular(sum.stride) : 0;
      sum = strided(wrap(before + modular(index.stride) * size, inst.getType()), false, false, 0);
    }
    return sum;
  }
  if (auto* select = dyn_cast<SelectInst>(&inst)) {
    if (select->getTrueValue() == select->getFalseValue()) return (*this)[select->getTrueValue()];
    if ((*this)[select->getCondition()].kind > Shape::Uniform) return kVarying;
    return join((*this)[select->getTrueValue()], (*this)[select->getFalseValue()]);
  }
  if (isa<FreezeInst>(inst)) return (*this)[inst.getOperand(0)];
  if (auto* compare = dyn_cast<ICmpInst>(&inst)) return transfer_comparison(*compare);
  if (inst.isBinaryOp() && inst.getType()->isIntegerTy()) return transfer_binary(inst);
  return kVarying;
}

// Lane offsets smaller than the alignment of the base never carry into its bits.
bool Shapes::stays_aligned(const Shape& s) const {
  if (s.kind != Shape::Strided || s.stride <= 0 || s.align >= 63) return false;
  const std::uint64_t end = std::uint64_t{1} << s.align;
  return modular(s.stride) < end && modular(s.stride) * (lanes_.width - 1) < end;
}

// `tid < 32` is uniform in a group that starts at a multiple of 32: no multiple of the width lies
// between its first and its last lane.
Shape Shapes::transfer_comparison(ICmpInst& inst) {
  auto* bound = dyn_cast<ConstantInt>(inst.getOperand(1));
  Shape s = (*this)[inst.getOperand(0)];
  if (!lanes_.whole_comparisons || !bound || inst.isEquality() || !stays_aligned(s))
    return kVarying;
  // A full range has both signs.
  if (inst.isSigned() && s.align >= bound->getBitWidth()) return kVarying;
  APInt first = bound->getValue();  // where the result of the comparison changes
  CmpInst::Predicate predicate = inst.getPredicate();
  bool up = ICmpInst::isGT(predicate) || ICmpInst::isGE(predicate);
  if (CmpInst::isStrictPredicate(predicate) == up) ++first;
  return first.countr_zero() >= s.align ? kUniform : kVarying;
}

// `i / n` of neighbouring threads: a guard tests that no multiple of n lies between the first and
// the last lane. Then the quotient is uniform, and the remainder is strided like the dividend. A
// constant divisor that is not much larger than the group would fail too often.
Shape Shapes::transfer_division(Instruction& inst) const {
  constexpr std::uint64_t kGroups = 4;  // between two multiples of a constant divisor
  const Shape a = (*this)[inst.getOperand(0)], b = (*this)[inst.getOperand(1)];
  if (scope_ != Scope::FullGroup || a.kind != Shape::Strided || b.kind != Shape::Uniform ||
      a.stride < 0)
    return kVarying;
  const std::uint64_t span = span_of(a.stride, lanes_.width);
  const unsigned bits = inst.getType()->getIntegerBitWidth();
  if (span >= std::uint64_t{1} << (bits - 4)) return kVarying;
  if (auto* n = dyn_cast<ConstantInt>(inst.getOperand(1));
      n && (n->isNegative() || n->getValue().ult(kGroups * span)))
    return kVarying;
  const bool is_signed =
      inst.getOpcode() == Instruction::SDiv || inst.getOpcode() == Instruction::SRem;
  if (inst.getOpcode() == Instruction::SDiv || inst.getOpcode() == Instruction::UDiv)
    return kUniform;
  return strided(a.stride, is_signed, true, 0);
}

Shape Shapes::transfer_binary(Instruction& inst) {
  Shape a = (*this)[inst.getOperand(0)], b = (*this)[inst.getOperand(1)];
  if (a.kind == Shape::Varying || b.kind == Shape::Varying) return kVarying;
  if (inst.isIntDivRem()) return transfer_division(inst);
  // `blockIdx.x * 256` is a multiple of 256: a thread index added to it never carries into the
  // upper bits.
  auto uniform_align = [&](const Value* v) {
    const KnownBits known = computeKnownBits(v, 0, facts_of_all_threads(inst));
    return std::min({63u, known.countMinTrailingZeros(), inst.getType()->getIntegerBitWidth()});
  };
  if (a.kind == Shape::Uniform)
    a = {Shape::Uniform, true, true, static_cast<std::uint8_t>(uniform_align(inst.getOperand(0))),
         0};
  if (b.kind == Shape::Uniform)
    b = {Shape::Uniform, true, true, static_cast<std::uint8_t>(uniform_align(inst.getOperand(1))),
         0};
  // A flag of the instruction holds only for active lanes.
  bool trust = scope_ == Scope::FullGroup;
  auto* overflowing = dyn_cast<OverflowingBinaryOperator>(&inst);
  NoWrap holds;
  if (trust && overflowing)
    holds = {overflowing->hasNoSignedWrap(), overflowing->hasNoUnsignedWrap()};
  else
    holds = never_wraps(inst);
  bool nsw = holds.is_signed && a.no_signed_wrap && b.no_signed_wrap;
  bool nuw = holds.is_unsigned && a.no_unsigned_wrap && b.no_unsigned_wrap;
  unsigned align = std::min(a.align, b.align);
  auto* constant = dyn_cast<ConstantInt>(inst.getOperand(1));
  Type* type = inst.getType();
  const unsigned bits = type->getIntegerBitWidth();
  bool contained = stays_aligned(a);
  switch (inst.getOpcode()) {
    case Instruction::Add:
      return strided(wrap(modular(a.stride) + modular(b.stride), type), nsw, nuw, align);
    case Instruction::Sub:
      return strided(wrap(modular(a.stride) - modular(b.stride), type), nsw, nuw && b.stride == 0,
                     align);
    case Instruction::Or:
      if (!holds.is_signed && !(trust && cast<PossiblyDisjointInst>(inst).isDisjoint()))
        return kVarying;
      return strided(wrap(modular(a.stride) + modular(b.stride), type),
                     a.no_signed_wrap && b.no_signed_wrap, a.no_unsigned_wrap && b.no_unsigned_wrap,
                     align);
    case Instruction::Mul:
      if (!constant || constant->getValue().getSignificantBits() > 63) return kVarying;
      return strided(wrap(modular(a.stride) * modular(constant->getSExtValue()), type), nsw,
                     nuw && constant->getSExtValue() > 0,
                     std::min(a.align + constant->getValue().countr_zero(), bits));
    case Instruction::Shl:
      if (!constant || constant->getZExtValue() > 40) return kVarying;
      return strided(wrap(modular(a.stride) << constant->getZExtValue(), type), nsw, nuw,
                     std::min(a.align + static_cast<unsigned>(constant->getZExtValue()), bits));
    case Instruction::LShr:
    case Instruction::AShr:
      if (constant && contained && constant->getZExtValue() >= a.align) return kUniform;
      return kVarying;
    case Instruction::And: {
      if (!constant || !contained) return kVarying;
      // Low bits that are zero in every lane do not matter.
      unsigned low = std::min<unsigned>(
          static_cast<unsigned>(countr_zero(static_cast<std::uint64_t>(a.stride))), a.align);
      APInt mask = constant->getValue();
      mask.setLowBits(std::min(low, mask.getBitWidth()));
      if (mask.countr_one() >= a.align) return strided(a.stride, true, true, a.align);
      if (constant->getValue().countr_zero() >= a.align) return kUniform;
      return kVarying;
    }
    default:
      return kVarying;
  }
}

Shape Shapes::transfer_cast(Instruction& inst) {
  Shape from = (*this)[inst.getOperand(0)];
  if (from.kind != Shape::Strided) return from;
  switch (inst.getOpcode()) {
    case Instruction::Trunc: {
      if (inst.getType()->getIntegerBitWidth() < kNarrowest) return kVarying;
      std::int64_t stride = wrap(modular(from.stride), inst.getType());
      return strided(stride, false, false,
                     std::min<unsigned>(from.align, inst.getType()->getIntegerBitWidth()));
    }
    case Instruction::SExt:
    case Instruction::ZExt: {
      if (inst.getOperand(0)->getType()->isIntegerTy(1)) return kVarying;
      bool is_signed = isa<SExtInst>(inst);
      bool exact = is_signed ? from.no_signed_wrap : from.no_unsigned_wrap;
      if (!is_signed && scope_ == Scope::FullGroup && inst.hasNonNeg())
        exact |= from.no_signed_wrap;
      // Guards are for indices, which almost never wrap. Values that wrap often (hashes) are
      // varying.
      const unsigned bits = inst.getOperand(0)->getType()->getIntegerBitWidth();
      const bool rarely_wraps = span_of(from.stride, lanes_.width) < std::uint64_t{1} << (bits - 4);
      // A strided value with both flags is in [0, 2^(n-1)), where both extensions are equal.
      if (exact || (scope_ == Scope::FullGroup && rarely_wraps))
        return strided(from.stride, true, !is_signed || from.no_unsigned_wrap, from.align);
      return kVarying;
    }
    case Instruction::PtrToInt:
    case Instruction::IntToPtr:
      return inst.getType()->isPointerTy() || inst.getType()->isIntegerTy(64)
                 ? strided(from.stride, false, false, from.align)
                 : kVarying;
    case Instruction::BitCast:
      return inst.getType()->isIntOrPtrTy() ? from : kVarying;
    default:
      return kVarying;
  }
}

Shape Shapes::transfer_call(CallInst& call) {
  StringRef name = marker_name(&call);
  bool block_scope = scope_ == Scope::Block;
  auto lane_shape = [&](unsigned dimension) -> Shape {
    Shape s = thread_index_shape(lanes_, dimension);
    const std::uint32_t size[3] = {lanes_.block.x, lanes_.block.y, lanes_.block.z};
    return block_scope && size[dimension] > 1 ? kVarying : s;
  };
  if (name.consume_front("sreg.")) {
    if (name.consume_front("tid.")) return lane_shape(static_cast<unsigned>(name[0] - 'x'));
    if (name == "laneid")
      return block_scope ? kVarying : strided(1, true, true, Log2_32(lanes_.width));
    if (name == "warpid") return block_scope ? kVarying : kUniform;
    if (name.starts_with("lanemask")) return kVarying;
    return kUniform;
  }
  if (name == "params" || name == "shared") return kUniform;
  if (is_barrier(name)) return kUniform;  // a reduction over the block
  bool uniform = true;
  for (Value* operand : call.args()) {
    Shape s = (*this)[operand];
    if (s.kind == Shape::None && isa<Instruction>(operand)) return {};
    uniform &= s.kind <= Shape::Uniform;
  }
  if (!name.empty()) {
    if (block_scope) return kVarying;
    if (name == "activemask") return kUniform;
    auto uniform_mask = [&] {
      return (*this)[call.getArgOperand(call.arg_size() - 1)].kind <= Shape::Uniform;
    };
    if (name.starts_with("vote.") || name.starts_with("redux."))
      return uniform_mask() ? kUniform : kVarying;
    return kVarying;
  }
  if (isa<IntrinsicInst>(call)) return uniform && !call.mayHaveSideEffects() ? kUniform : kVarying;
  return uniform && call.doesNotAccessMemory() ? kUniform : kVarying;
}

Shape Shapes::transfer_phi(PHINode& phi) {
  if (Value* same = phi.hasConstantValue(); same && isa<Constant>(same)) return kUniform;
  // Live-out values of a divergent loop differ between lanes.
  for (unsigned i = 0; i < phi.getNumIncomingValues(); ++i) {
    auto* value = dyn_cast<Instruction>(phi.getIncomingValue(i));
    if (!value) continue;
    for (Loop* loop = flow_.loop_of(value->getParent()); loop && !loop->contains(phi.getParent());
         loop = loop->getParentLoop())
      if (divergent_loops_.contains(loop) && (*this)[value].kind != Shape::None) return kVarying;
  }
  // Lanes with an undefined value may take the value of the other lanes of the group. Over the
  // block it counts as a different value, because it must not replace the value of groups that have
  // one.
  if (joins_.contains(phi.getParent())) {
    SmallPtrSet<Value*, 4> different;
    for (Value* value : phi.incoming_values())
      if (scope_ == Scope::Block || !isa<UndefValue>(value)) different.insert(value);
    if (different.size() > 1) return kVarying;
  }
  Shape sum;
  for (Value* value : phi.incoming_values()) sum = join(sum, (*this)[value]);
  return sum;
}

}  // namespace cucpu::simt
