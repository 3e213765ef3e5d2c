// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/flow_emitter.cpp: blocks, branches and edges, in full and in masked code, and the
// edges between the two.
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/Local.h>

#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

/// In a loop, or (null) anywhere.
bool has_guarded_division(const Plan& plan, const Loop* loop) {
  return any_of(plan.guards, [&](const auto& guard) {
    return (!loop || loop->contains(guard.first)) &&
           any_of(guard.second, [](const Instruction* inst) { return inst->isIntDivRem(); });
  });
}

// Whether a block begins an iteration of a loop with divisions whose guards may fail in some
// iterations: full code is entered again in the next one.
bool starts_guarded_iteration(const Plan& plan, const BasicBlock* block) {
  const Loop* loop = plan.flow.loop_of(block);
  return loop && loop->getHeader() == block && has_guarded_division(plan, loop);
}

}  // namespace

BasicBlock* FlowEmitter::full_block(BasicBlock* block) {
  BasicBlock*& copy = parts_.regions.current()->full[block];
  if (!copy) {
    copy = new_block(block->getName() + ".full");
    parts_.regions.current()->work.push_back({Full, block});
  }
  return copy;
}

// Masked blocks have two entries: one tests whether any lane is on (or all are), the other is for
// edges where some lane is known to be on.
BasicBlock* FlowEmitter::masked_block(BasicBlock* block, bool known_active) {
  BasicBlock*& guard = parts_.regions.current()->guard[block];
  if (!guard) {
    guard = new_block(block->getName() + ".look");
    parts_.regions.current()->body[block] = new_block(block->getName() + ".masked");
    parts_.regions.current()->work.push_back({Masked, block});
    ++report_.masked_blocks;
  }
  return known_active ? parts_.regions.current()->body[block] : guard;
}

// Whether a block may run with no lane on: it has no side effects and cannot fault.
bool FlowEmitter::harmless_without_lanes(BasicBlock* block) const {
  if (barrier_at_end(*block) || isa<ReturnInst>(block->getTerminator())) return false;
  if (block->size() > 24) return false;
  auto* branch = dyn_cast<BranchInst>(block->getTerminator());
  if (!branch) return false;
  if (branch->isConditional() && !plan_.masked.diverges(block)) return false;
  for (BasicBlock* next : successors(block)) {
    if (plan_.flow.is_back_edge(block, next) && !branch->isConditional()) return false;
    for (PHINode& phi : next->phis())
      if (plan_.masked[&phi].scalar()) return false;
  }
  for (Instruction& inst : *block) {
    if (isa<PHINode>(inst) || inst.isTerminator()) continue;
    if (inst.mayReadOrWriteMemory() || inst.isIntDivRem()) return false;
    if (isa<CallInst>(inst) && !isa<IntrinsicInst>(inst)) return false;
  }
  return true;
}

void FlowEmitter::emit_full(BasicBlock* block) {
  b_.SetInsertPoint(parts_.regions.current()->full[block]);
  begin_block(Full);
  for (Instruction& inst : *block)
    if (!inst.isTerminator()) parts_.instructions.emit(inst);
  full_branch(block);
}

void FlowEmitter::emit_masked(BasicBlock* block) {
  BasicBlock* body = parts_.regions.current()->body[block];
  b_.SetInsertPoint(parts_.regions.current()->guard[block]);
  begin_block(Masked);
  const auto& pending = plan_.linear.pending(block);
  bool region_start = parts_.regions.current()->id != 0 && parts_.regions.current()->start == block;
  BasicBlock* rest = body;
  const bool again = starts_guarded_iteration(plan_, block);
  if (!pending.empty() && !isa<ReturnInst>(block->getTerminator()) &&
      (again || !harmless_without_lanes(block))) {
    BasicBlock* skip = masked_block(plan_.flow.order[*pending.begin()]);
    if (again) rest = new_block(block->getName() + ".any");
    IRBuilder<>::InsertPointGuard here{b_};
    if (again) b_.SetInsertPoint(rest);
    b_.CreateCondBr(b_.CreateOrReduce(parts_.masks.load_mask(block)), body, skip);
  }
  const bool meets = pending.empty() && (plan_.linear.reconverges(block) || region_start);
  if ((meets || again) && !isa<ReturnInst>(block->getTerminator())) {
    begin_block(Masked);
    BasicBlock* together = new_block(block->getName() + ".together");
    Value* all = b_.CreateAndReduce(parts_.masks.load_mask(block));
    if (!has_guarded_division(plan_, nullptr)) {
      if (!plan_.guards.empty())
        all = b_.CreateAnd(all,
                           b_.CreateNot(b_.CreateLoad(b_.getInt1Ty(), parts_.masks.deoptimised())));
      b_.CreateCondBr(all, together, rest);
    } else {
      BasicBlock *here = new_block(block->getName() + ".all"),
                 *check = new_block(block->getName() + ".check");
      b_.CreateCondBr(all, here, rest);
      b_.SetInsertPoint(here);
      b_.CreateCondBr(b_.CreateLoad(b_.getInt1Ty(), parts_.masks.deoptimised()), check, together);
      b_.SetInsertPoint(check);
      begin_block(Masked);
      BasicBlock* regular = new_block(block->getName() + ".regular");
      b_.CreateCondBr(have_full_shapes(block), regular, rest);
      b_.SetInsertPoint(regular);
      b_.CreateStore(b_.getFalse(), parts_.masks.deoptimised());
      b_.CreateBr(together);
    }
    b_.SetInsertPoint(together);
    begin_block(Masked);
    convert_to_full(block);
    b_.CreateStore(Constant::getNullValue(parts_.masks.mask_slot(block)->getAllocatedType()),
                   parts_.masks.mask_slot(block));
    b_.CreateBr(full_block(block));
  } else if (!b_.GetInsertBlock()->getTerminator()) {
    b_.CreateBr(body);
  }
  b_.SetInsertPoint(body);
  begin_block(Masked);
  parts_.masks.set_mask(parts_.masks.load_mask(block));
  b_.CreateStore(Constant::getNullValue(parts_.masks.mask_slot(block)->getAllocatedType()),
                 parts_.masks.mask_slot(block));
  if (auto guard = plan_.guards.find(block); guard != plan_.guards.end()) {
    Value* wrapped = any_wraps(guard->second);
    b_.CreateStore(b_.CreateOr(b_.CreateLoad(b_.getInt1Ty(), parts_.masks.deoptimised()), wrapped),
                   parts_.masks.deoptimised());
  }
  for (Instruction& inst : *block)
    if (!inst.isTerminator()) parts_.instructions.emit(inst);
  masked_branch(block);
}

void FlowEmitter::assign_phis(BasicBlock* from, BasicBlock* to, Mode target, Value* mask) {
  const Shapes& shapes = target == Full ? plan_.full : plan_.masked;
  SmallVector<std::tuple<PHINode*, bool, Value*>> values;
  for (PHINode& phi : to->phis()) {
    Value* incoming = phi.getIncomingValueForBlock(from);
    if (isa<UndefValue>(incoming)) continue;
    bool vector = !shapes[&phi].scalar();
    Value* value = vector ? vec(incoming) : scalar(incoming);
    values.push_back({&phi, vector, value});
  }
  const bool blend = mask && needs_blend(from, to);
  for (auto [phi, vector, value] : values) {
    if (vector && blend) {
      AllocaInst* into = parts_.values.slot(phi, true);
      Value* old = b_.CreateLoad(into->getAllocatedType(), into);
      b_.CreateStore(blend_lanes(mask, to_slot_form(value), old), into);
    } else {
      parts_.values.store_slot(phi, vector, value);
    }
  }
}

// Lanes that already wait at `to` keep their values. No blend is needed if no lane can wait there:
// at a loop header, and at a join before the first of its edges.
bool FlowEmitter::needs_blend(BasicBlock* from, BasicBlock* to) const {
  Loop* loop = plan_.flow.loop_of(to);
  if (loop && loop->getHeader() == to) return false;
  if (plan_.flow.loop_of(from) != loop) return true;
  for (BasicBlock* other : predecessors(to))
    if (plan_.flow.at(other) < plan_.flow.at(from)) return true;
  return false;
}

void FlowEmitter::full_edge(BasicBlock* from, BasicBlock* to) {
  assign_phis(from, to, Full, nullptr);
  b_.CreateBr(full_block(to));
}

void FlowEmitter::masked_edge(BasicBlock* from, BasicBlock* to, Value* mask) {
  assign_phis(from, to, Masked, mask);
  parts_.masks.add_to_mask(to, mask);
}

// The incoming values of the second edge are read first: the first edge may start the next
// iteration of a loop and overwrite its phis, which the lanes that leave still need.
void FlowEmitter::masked_edges(BasicBlock* from, BasicBlock* yes, Value* go_yes, BasicBlock* no,
                               Value* go_no) {
  for (PHINode& phi : no->phis()) {
    Value* incoming = phi.getIncomingValueForBlock(from);
    if (isa<UndefValue>(incoming)) continue;
    plan_.masked[&phi].scalar() ? scalar(incoming) : vec(incoming);
  }
  masked_edge(from, yes, go_yes);
  masked_edge(from, no, go_no);
}

void FlowEmitter::convert_to_masked(BasicBlock* to) {
  for (Value* v : plan_.flow.live_in(to))
    if (plan_.full[v].scalar() && !plan_.masked[v].scalar())
      parts_.values.store_slot(v, true, vec(v));
}

// Whether the values with which full code would continue have the shapes that it assumes: after a
// guard has failed they may not. A value that wraps has another shape too.
Value* FlowEmitter::have_full_shapes(BasicBlock* to) {
  Value* all = b_.getTrue();
  const auto look = [&](Value* v) {
    const Shape s = plan_.full[v];
    if (!s.scalar() || plan_.masked[v].scalar()) return;
    Type* type = v->getType();
    if (!type->isIntOrPtrTy() && !type->isFloatingPointTy()) {
      all = b_.getFalse();
      return;
    }
    Value* lanes = b_.CreateFreeze(vec(v));
    const auto bits = static_cast<unsigned>(module_.getDataLayout().getTypeSizeInBits(type));
    Type* number = b_.getIntNTy(bits);
    Type* numbers = vector_type(number);
    lanes =
        type->isPointerTy() ? b_.CreatePtrToInt(lanes, numbers) : b_.CreateBitCast(lanes, numbers);
    Value* first = b_.CreateExtractElement(lanes, std::uint64_t{0});
    Value* expected = splat(first);
    if (s.kind == Shape::Strided) {
      Constant* stride = ConstantInt::get(number, static_cast<std::uint64_t>(s.stride), true);
      Constant* strides = ConstantVector::getSplat(ElementCount::getFixed(width_), stride);
      expected = b_.CreateAdd(expected, b_.CreateMul(lane_numbers(number), strides));
    }
    all = b_.CreateAnd(all, b_.CreateAndReduce(b_.CreateICmpEQ(lanes, expected)));
    if (s.kind != Shape::Strided) return;
    const std::uint64_t span = span_of(s.stride, width_);
    for (const bool is_signed : {false, true})
      if (is_signed ? s.no_signed_wrap : s.no_unsigned_wrap)
        all = b_.CreateAnd(all, b_.CreateNot(leaves_range(first, span, s.stride < 0, is_signed)));
  };
  for (Value* v : plan_.flow.live_in(to)) look(v);
  for (PHINode& phi : to->phis()) look(&phi);
  return all;
}

void FlowEmitter::convert_to_full(BasicBlock* to) {
  auto convert = [&](Value* v) {
    if (plan_.full[v].scalar() && !plan_.masked[v].scalar())
      parts_.values.store_slot(v, false, b_.CreateExtractElement(vec(v), std::uint64_t{0}));
  };
  for (Value* v : plan_.flow.live_in(to)) convert(v);
  for (PHINode& phi : to->phis()) convert(&phi);
}

/// Whether first + span (or first - span) leaves the range of its type. A span that does not
/// fit the type always does.
Value* FlowEmitter::leaves_range(Value* first, std::uint64_t span, bool down, bool is_signed) {
  auto* type = cast<IntegerType>(first->getType());
  const unsigned magnitude_bits = type->getBitWidth() - (is_signed ? 1 : 0);
  if (!isUIntN(std::min(magnitude_bits, 64u), span)) return b_.getTrue();
  Intrinsic::ID id = is_signed
                         ? (down ? Intrinsic::ssub_with_overflow : Intrinsic::sadd_with_overflow)
                         : (down ? Intrinsic::usub_with_overflow : Intrinsic::uadd_with_overflow);
  Value* pair = b_.CreateBinaryIntrinsic(id, first, ConstantInt::get(type, span));
  return b_.CreateExtractValue(pair, 1);
}

/// Whether base + (W - 1) * stride leaves the range of the narrow type.
Value* FlowEmitter::wraps(Instruction& extension) {
  Value* narrow = extension.getOperand(0);
  Shape s = shape(narrow);
  return leaves_range(scalar(narrow), span_of(s.stride, width_), s.stride < 0,
                      isa<SExtInst>(extension));
}

/// The quotient or remainder of the first lane of a group whose lanes all have the same quotient.
/// Signed numbers are not negative then.
Value* FlowEmitter::divide_first_lane(Instruction& division, bool remainder) {
  Value* by = scalar(division.getOperand(1));
  by = b_.CreateBinaryIntrinsic(Intrinsic::umax, by, ConstantInt::get(by->getType(), 1));
  Value* first = scalar(division.getOperand(0));
  return remainder ? b_.CreateURem(first, by) : b_.CreateUDiv(first, by);
}

/// Whether the lanes of a dividend may have different quotients: a multiple of the divisor lies
/// between them, the dividend wraps, or a signed number is negative.
Value* FlowEmitter::quotients_differ(Instruction& division) {
  const Shape s = shape(division.getOperand(0));
  const std::uint64_t span = span_of(s.stride, width_);
  Value *first = scalar(division.getOperand(0)), *by = scalar(division.getOperand(1));
  Constant* none = Constant::getNullValue(by->getType());
  const bool is_signed =
      division.getOpcode() == Instruction::SDiv || division.getOpcode() == Instruction::SRem;
  // The span is at most a sixteenth of the range: the subtraction does not wrap where it counts.
  Constant* distance = ConstantInt::get(by->getType(), span);
  Value* last = b_.CreateSub(by, distance);
  Value* crosses = b_.CreateOr(b_.CreateICmpULE(by, distance),
                               b_.CreateICmpUGE(divide_first_lane(division, true), last));
  if (is_signed)
    crosses = b_.CreateOr(crosses,
                          b_.CreateOr(b_.CreateICmpSLT(first, none), b_.CreateICmpSLT(by, none)));
  if (is_signed ? !s.no_signed_wrap : !s.no_unsigned_wrap)
    crosses = b_.CreateOr(crosses, leaves_range(first, span, false, is_signed));
  return crosses;
}

Value* FlowEmitter::any_wraps(ArrayRef<Instruction*> guarded) {
  Value* any = nullptr;
  for (Instruction* inst : guarded) {
    Value* one = b_.getTrue();
    if (shape(inst->getOperand(0)).kind == Shape::Strided) {
      if (!inst->isIntDivRem())
        one = wraps(*inst);
      else if (shape(inst->getOperand(1)).kind <= Shape::Uniform)
        one = quotients_differ(*inst);
    }
    any = any ? b_.CreateOr(any, one) : one;
  }
  return any;
}

// Scalar tests for a comparison of a strided with a uniform value: the first and the last lane
// determine the result.
std::optional<FlowEmitter::Tests> FlowEmitter::strided_tests(ICmpInst& compare) {
  Value *left = compare.getOperand(0), *right = compare.getOperand(1);
  CmpInst::Predicate predicate = compare.getPredicate();
  if (shape(left).kind == Shape::Uniform || isa<Constant>(left)) {
    std::swap(left, right);
    predicate = CmpInst::getSwappedPredicate(predicate);
  }
  Shape s = shape(left);
  if (s.kind != Shape::Strided || shape(right).kind > Shape::Uniform ||
      !left->getType()->isIntegerTy())
    return {};
  Type* type = left->getType();
  Value *first = scalar(left), *bound = scalar(right);
  const std::uint64_t span = span_of(s.stride, width_);
  const bool up = s.stride > 0;
  if (compare.isEquality()) {
    if (s.stride != 1 && s.stride != -1) return {};
    Value* distance = s.stride == 1 ? b_.CreateSub(bound, first) : b_.CreateSub(first, bound);
    Value* hit = b_.CreateICmpULT(distance, ConstantInt::get(type, width_));
    if (predicate == CmpInst::ICMP_EQ) return Tests{b_.getFalse(), b_.CreateNot(hit)};
    return Tests{b_.CreateNot(hit), b_.getFalse()};
  }
  bool is_signed = CmpInst::isSigned(predicate);
  Value* last = b_.CreateAdd(first, ConstantInt::get(type, up ? span : 0 - span));
  Value* low = b_.CreateICmp(predicate, first, bound);
  Value* high = b_.CreateICmp(predicate, last, bound);
  // The first and last lane determine the result only if no lane wraps between them.
  bool less = predicate == CmpInst::ICMP_SLT || predicate == CmpInst::ICMP_SLE ||
              predicate == CmpInst::ICMP_ULT || predicate == CmpInst::ICMP_ULE;
  bool exact = is_signed ? s.no_signed_wrap : s.no_unsigned_wrap;
  if (exact) {
    Value* all = less == up ? high : low;
    Value* none = b_.CreateNot(less == up ? low : high);
    return Tests{all, none};
  }
  Value* fine = b_.CreateNot(leaves_range(first, span, !up, is_signed));
  return Tests{b_.CreateAnd(fine, less == up ? high : low),
               b_.CreateAnd(fine, b_.CreateNot(less == up ? low : high))};
}

/// Whether a condition consists of comparisons of strided and uniform values only.
bool FlowEmitter::decided_by_index(Value* condition) const {
  using namespace PatternMatch;
  if (shape(condition).scalar()) return true;
  Value *a, *c;
  if (match(condition, m_Not(m_Value(a)))) return decided_by_index(a);
  if (match(condition, m_LogicalAnd(m_Value(a), m_Value(c))) ||
      match(condition, m_LogicalOr(m_Value(a), m_Value(c))))
    return decided_by_index(a) && decided_by_index(c);
  auto* compare = dyn_cast<ICmpInst>(condition);
  return compare && shape(compare->getOperand(0)).scalar() &&
         shape(compare->getOperand(1)).scalar();
}

FlowEmitter::Tests FlowEmitter::tests_of(Value* condition) {
  using namespace PatternMatch;
  if (shape(condition).scalar()) {
    Value* c = scalar(condition);
    return {c, b_.CreateNot(c)};
  }
  Value *a, *c;
  auto* inst = dyn_cast<Instruction>(condition);
  if (inst && is_lazy(inst)) {
    if (auto* compare = dyn_cast<ICmpInst>(inst))
      if (auto tests = strided_tests(*compare)) return *tests;
    if (match(inst, m_Not(m_Value(a)))) {
      Tests inner = tests_of(a);
      return {inner.none, inner.all};
    }
    if (match(inst, m_LogicalAnd(m_Value(a), m_Value(c)))) {
      Tests left = tests_of(a), right = tests_of(c);
      return {b_.CreateAnd(left.all, right.all), b_.CreateOr(left.none, right.none)};
    }
    if (match(inst, m_LogicalOr(m_Value(a), m_Value(c)))) {
      Tests left = tests_of(a), right = tests_of(c);
      return {b_.CreateOr(left.all, right.all), b_.CreateAnd(left.none, right.none)};
    }
  }
  Value* lanes = vec(condition);
  return {b_.CreateAndReduce(lanes), b_.CreateNot(b_.CreateOrReduce(lanes))};
}

void FlowEmitter::full_branch(BasicBlock* block) {
  Instruction* last = block->getTerminator();
  b_.SetCurrentDebugLocation(last->getDebugLoc());
  if (isa<ReturnInst>(last)) return parts_.regions.leave_region(nullptr);
  if (CallInst* barrier = barrier_at_end(*block)) {
    for (RegionEmitter::Region* to : parts_.regions.current()->exits)
      if (to->start == block->getSingleSuccessor()) return parts_.regions.leave_region(to);
    (void)barrier;
  }
  auto* branch = cast<BranchInst>(last);
  const ValueMap::Known saved = parts_.values.known();
  auto in = [&](BasicBlock* at) {
    b_.SetInsertPoint(at);
    parts_.values.restore(saved);
  };
  if (branch->isUnconditional() || branch->getSuccessor(0) == branch->getSuccessor(1)) {
    BasicBlock* to = branch->getSuccessor(0);
    auto guard = plan_.guards.find(to);
    if (guard == plan_.guards.end()) return full_edge(block, to);
    BasicBlock* fine = new_block(block->getName() + ".fine");
    BasicBlock* wrapped = new_block(block->getName() + ".wrapped");
    parts_.strips.branch_if_wrapped(guard->second, wrapped, fine);
    in(fine);
    full_edge(block, to);
    in(wrapped);
    if (const auto* slow = parts_.regions.current()->slow) {
      b_.CreateBr(slow->head);
      return;
    }
    convert_to_masked(to);
    b_.CreateStore(b_.getTrue(), parts_.masks.deoptimised());
    masked_edge(block, to, all_lanes());
    b_.CreateBr(masked_block(to, true));
    return;
  }
  BasicBlock *yes = branch->getSuccessor(0), *no = branch->getSuccessor(1);
  if (plan_.full.diverges(block))
    if (auto one = parts_.partial.one_lane(block)) return parts_.partial.emit_one_lane(block, *one);
  BasicBlock* take_yes = new_block(block->getName() + ".yes");
  BasicBlock* take_no = new_block(block->getName() + ".no");
  BasicBlock *on_yes = take_yes, *on_no = take_no;
  const auto end_at_last_group = [&] {
    PartialGroupEmitter::Last after = parts_.partial.last_group(block);
    if (!after.exit.found) return;
    BasicBlock* leave = new_block(block->getName() + ".last");
    BasicBlock* from = leave;
    BasicBlock*& way = after.on_all ? on_yes : on_no;
    if (after.also) {
      from = new_block(block->getName() + ".last.look");
      IRBuilder<>{from}.CreateCondBr(after.also, leave, way);
    }
    way = from;
    BasicBlock* here = b_.GetInsertBlock();
    in(leave);
    parts_.partial.leave_groups(after.exit);
    in(here);
  };
  if (!plan_.full.diverges(block)) {
    Value* condition = scalar(branch->getCondition());
    if (plan_.block.diverges(block)) end_at_last_group();  // the same in a group, not in all
    b_.CreateCondBr(condition, on_yes, on_no);
    in(take_yes);
    full_edge(block, yes);
    in(take_no);
    full_edge(block, no);
    return;
  }
  Tests tests = tests_of(branch->getCondition());
  end_at_last_group();
  BasicBlock* second = new_block(block->getName() + ".second");
  BasicBlock* mixed = new_block(block->getName() + ".mixed");
  // The test for the side that stays in the loop comes first: it is taken in most iterations.
  Loop* loop = plan_.flow.loop_of(block);
  bool no_first = loop && !loop->contains(yes) && loop->contains(no);
  // Lanes diverge only in the group where an index crosses a bound: that path is cold. Of the
  // others, most lie before the bound.
  MDNode *mostly = nullptr, *seldom = nullptr;
  if (decided_by_index(branch->getCondition())) {
    mostly = MDBuilder{context_}.createBranchWeights(8, 1);
    seldom = MDBuilder{context_}.createBranchWeights(1000, 1);
  }
  b_.CreateCondBr(no_first ? tests.none : tests.all, no_first ? on_no : on_yes, second, mostly);
  b_.SetInsertPoint(second);
  b_.CreateCondBr(no_first ? tests.all : tests.none, no_first ? on_yes : on_no, mixed, seldom);
  in(take_yes);
  full_edge(block, yes);
  in(take_no);
  full_edge(block, no);
  in(mixed);
  if (parts_.partial.emit_tail(block)) return;
  parts_.partial.emit_edge(block);
  Value* lanes = vec(branch->getCondition());
  convert_to_masked(yes);
  convert_to_masked(no);
  masked_edges(block, yes, lanes, no, b_.CreateNot(lanes));
  BasicBlock* next = plan_.flow.order[std::min(plan_.flow.at(yes), plan_.flow.at(no))];
  // Tests of a conjunction are not exact: "mixed" may be reached although one side has no lanes.
  b_.CreateBr(masked_block(next));
}

void FlowEmitter::masked_branch(BasicBlock* block) {
  Instruction* last = block->getTerminator();
  b_.SetCurrentDebugLocation(last->getDebugLoc());
  if (isa<ReturnInst>(last)) return parts_.regions.leave_region(nullptr);
  if (barrier_at_end(*block)) {
    for (RegionEmitter::Region* to : parts_.regions.current()->exits)
      if (to->start == block->getSingleSuccessor()) return parts_.regions.leave_region(to);
  }
  auto* branch = cast<BranchInst>(last);
  const Linear& linear = plan_.linear;
  const ValueMap::Known saved = parts_.values.known();
  auto in = [&](BasicBlock* at) {
    b_.SetInsertPoint(at);
    parts_.values.restore(saved);
  };
  bool active = !harmless_without_lanes(block) || linear.pending(block).empty();
  auto go_on = [&](BasicBlock* to) {
    masked_edge(block, to, mask());
    BasicBlock* next = linear.next(plan_.flow.is_back_edge(block, to) ? nullptr : block, {to});
    b_.CreateBr(masked_block(next, next == to && active && !linear.reconverges(to) &&
                                       !starts_guarded_iteration(plan_, to)));
  };
  if (branch->isUnconditional() || branch->getSuccessor(0) == branch->getSuccessor(1))
    return go_on(branch->getSuccessor(0));
  BasicBlock *yes = branch->getSuccessor(0), *no = branch->getSuccessor(1);
  if (!plan_.masked.diverges(block)) {
    BasicBlock* take_yes = new_block(block->getName() + ".yes");
    BasicBlock* take_no = new_block(block->getName() + ".no");
    b_.CreateCondBr(scalar(branch->getCondition()), take_yes, take_no);
    in(take_yes);
    go_on(yes);
    in(take_no);
    go_on(no);
    return;
  }
  // Lanes that are off may hold poison, so this is a select and not a bitwise and.
  Value* condition = vec(branch->getCondition());
  Constant* none = Constant::getNullValue(condition->getType());
  Value* go_yes = b_.CreateSelect(mask(), condition, none);
  Value* go_no = b_.CreateSelect(mask(), b_.CreateNot(condition), none);
  masked_edges(block, yes, go_yes, no, go_no);
  bool back_yes = plan_.flow.is_back_edge(block, yes), back_no = plan_.flow.is_back_edge(block, no);
  if (back_yes || back_no) {
    BasicBlock* header = back_yes ? yes : no;
    BasicBlock* out = linear.next(block, {back_yes ? no : yes});
    b_.CreateCondBr(b_.CreateOrReduce(back_yes ? go_yes : go_no),
                    masked_block(header, !starts_guarded_iteration(plan_, header)),
                    masked_block(out));
    return;
  }
  b_.CreateBr(masked_block(linear.next(block, {yes, no})));
}

}  // namespace cucpu::simt
