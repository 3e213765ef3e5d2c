// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/partial_group_lane.cpp: branches that one lane takes run as scalar code for that
// lane. Where the active threads are those up to some index, the loop over groups ends with the
// last of them. Both in full code only.
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/LowerAtomic.h>

#include "cpu/engine/simt/deferrable_atomics.hpp"
#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

/// The only comparison that a block's branch depends on, and whether it is negated. Both operands
/// are available in the block: of a comparison in an earlier region only the result may be.
ICmpInst* PartialGroupEmitter::comparison_of(BasicBlock* block, bool& negated) const {
  using namespace PatternMatch;
  negated = false;
  Value* condition = cast<BranchInst>(block->getTerminator())->getCondition();
  Value* inner;
  while (match(condition, m_Not(m_Value(inner)))) {
    condition = inner;
    negated = !negated;
  }
  auto* compare = dyn_cast<ICmpInst>(condition);
  if (!compare) return nullptr;
  if (!parts_.regions.current() || parts_.regions.current()->id == 0) return compare;
  for (Value* operand : compare->operands()) {
    auto* inst = dyn_cast<Instruction>(operand);
    if (!inst || inst->getParent() == block || inst->getParent() == parts_.regions.current()->start)
      continue;
    // enter_region restores the values that the region uses.
    bool used = any_of(inst->users(), [&](User* user) {
      return parts_.regions.current()->blocks.contains(cast<Instruction>(user)->getParent());
    });
    if (!used || !is_contained(plan_.flow.live_in(parts_.regions.current()->start), operand))
      return nullptr;
  }
  return compare;
}

// ---- one lane ----

/// Matches `if (index == bound) body;` with a body that can run for a single lane.
std::optional<PartialGroupEmitter::OneLane> PartialGroupEmitter::one_lane(BasicBlock* block) {
  constexpr std::size_t kLongest = 32;
  auto* branch = cast<BranchInst>(block->getTerminator());
  bool negated;
  ICmpInst* compare = comparison_of(block, negated);
  if (!compare || !compare->isEquality()) return {};
  bool taken_when_equal = (compare->getPredicate() == CmpInst::ICMP_EQ) != negated;
  BasicBlock* body = branch->getSuccessor(taken_when_equal ? 0 : 1);
  BasicBlock* join = branch->getSuccessor(taken_when_equal ? 1 : 0);
  if (body->getSinglePredecessor() != block || body->getSingleSuccessor() != join ||
      body->size() > kLongest)
    return {};
  if (barrier_at_end(*body) || plan_.guards.count(join)) return {};
  for (Instruction& inst : *body) {
    if (inst.isTerminator() || isa<PHINode>(inst)) continue;
    if (isa<AllocaInst, FenceInst>(inst)) return {};
    for (Value* used : inst.operands()) {  // lanes of a structure cannot be extracted
      auto* from = dyn_cast<Instruction>(used);
      if (from && from->getParent() != body && from->getType()->isStructTy()) return {};
    }
    if (isa<CallInst>(inst) && !isa<IntrinsicInst>(inst)) {
      StringRef name = marker_name(&inst);
      if (name == "check.access") continue;
      if (!(name.starts_with("sreg.") || name == "params" || name == "shared") ||
          !shape(&inst).scalar())
        return {};
    }
  }
  for (PHINode& phi : join->phis())
    if (phi.getType()->isStructTy()) return {};
  Value *index = compare->getOperand(0), *bound = compare->getOperand(1);
  if (shape(index).kind != Shape::Strided) std::swap(index, bound);
  Shape s = shape(index);
  if (s.kind != Shape::Strided || shape(bound).kind > Shape::Uniform ||
      !index->getType()->isIntegerTy())
    return {};
  if (s.stride != 1 && s.stride != -1) return {};
  Value *first = scalar(index), *wanted = scalar(bound);
  Value* lane = s.stride == 1 ? b_.CreateSub(wanted, first) : b_.CreateSub(first, wanted);
  Value* hit = b_.CreateICmpULT(lane, ConstantInt::get(lane->getType(), width_));
  return OneLane{hit, lane, body, join};
}

/// The value in one lane whose number is known at run time only.
Value* PartialGroupEmitter::value_at(Value* v, Value* lane) {
  if (isa<Constant>(v)) return v;
  Shape s = shape(v);
  if (s.kind <= Shape::Uniform) return scalar(v);
  if (s.kind == Shape::Varying) {
    auto* inst = dyn_cast<Instruction>(v);
    if (inst && is_lazy(inst)) parts_.instructions.emit_vector(*inst);
    return b_.CreateExtractElement(vec(v), lane);
  }
  Type* type = v->getType();
  Type* number = type->isPointerTy() ? b_.getInt64Ty() : type;
  Value* offset =
      b_.CreateMul(b_.CreateZExtOrTrunc(lane, number),
                   ConstantInt::get(number, static_cast<std::uint64_t>(s.stride), true));
  return type->isPointerTy() ? b_.CreateGEP(b_.getInt8Ty(), scalar(v), offset)
                             : b_.CreateAdd(scalar(v), offset);
}

/// The inverse of value_at: the scalar form of a uniform or strided value, given one lane's.
Value* PartialGroupEmitter::base_of(Shape s, Value* value, Value* lane) {
  if (s.kind != Shape::Strided) return value;
  Type* type = value->getType();
  Type* number = type->isPointerTy() ? b_.getInt64Ty() : type;
  Value* offset =
      b_.CreateMul(b_.CreateZExtOrTrunc(lane, number),
                   ConstantInt::get(number, 0 - static_cast<std::uint64_t>(s.stride), true));
  return type->isPointerTy() ? b_.CreateGEP(b_.getInt8Ty(), value, offset)
                             : b_.CreateAdd(value, offset);
}

Value* PartialGroupEmitter::value_in_lane(Value* v, Value* lane, const LaneCopies& made) {
  Value* known = made.lookup(v);
  return known ? known : value_at(v, lane);
}

void PartialGroupEmitter::copy_for_lane(BasicBlock& block, Value* lane, LaneCopies& made) {
  for (Instruction& inst : block) {
    if (inst.isTerminator() || isa<DbgInfoIntrinsic>(inst)) continue;
    if (auto* phi = dyn_cast<PHINode>(&inst)) {  // with one predecessor phis are copies
      made[phi] = value_in_lane(phi->getIncomingValue(0), lane, made);
      continue;
    }
    if (StringRef name = marker_name(&inst); !name.empty()) {
      if (name == "check.access") {
        b_.SetCurrentDebugLocation(inst.getDebugLoc());
        parts_.checks.emit_access_in_lane(cast<CallInst>(inst), lane,
                                          [&](Value* v) { return value_in_lane(v, lane, made); });
        continue;
      }
      parts_.instructions.emit_marker(cast<CallInst>(inst), name);
      made[&inst] = value_at(&inst, lane);
      continue;
    }
    Instruction* copy = inst.clone();
    copy->setDebugLoc({});
    if (!isa<CallInst>(inst)) copy->dropUnknownNonDebugMetadata();
    for (Use& use : copy->operands())
      if (!isa<BasicBlock>(use.get()) && !isa<Function>(use.get()) &&
          !isa<MetadataAsValue>(use.get()))
        use.set(value_in_lane(use.get(), lane, made));
    if (auto* rmw = dyn_cast<AtomicRMWInst>(&inst); rmw && parts_.memory.is_late(rmw))
      copy->setMetadata(kDeferrable, MDNode::get(context_, {}));
    b_.Insert(copy, inst.getName());
    made[&inst] = copy;
  }
}

void PartialGroupEmitter::emit_one_lane(BasicBlock* block, const OneLane& one) {
  ++report_.one_lane;
  BasicBlock* alone = new_block(one.body->getName() + ".one");
  BasicBlock* skip = new_block(one.body->getName() + ".skip");
  const ValueMap::Known saved = parts_.values.known();
  Last last = last_group(block);
  b_.CreateCondBr(one.hit, alone, skip);
  b_.SetInsertPoint(skip);
  if (last.exit.found) {
    BasicBlock* leave = new_block(one.body->getName() + ".last");
    BasicBlock* go_on = new_block(one.body->getName() + ".before");
    b_.CreateCondBr(last.also, leave, go_on);
    b_.SetInsertPoint(leave);
    leave_groups(last.exit);
    b_.SetInsertPoint(go_on);
  }
  parts_.values.restore(saved);
  parts_.flow.full_edge(block, one.join);
  parts_.values.restore(saved);
  b_.SetInsertPoint(alone);
  LaneCopies made;
  copy_for_lane(*one.body, one.lane, made);
  // Shared memory needs no atomic instructions: a block runs on one host thread.
  for (auto& [from, to] : SmallVector<std::pair<Value*, Value*>>(made.begin(), made.end())) {
    auto* access = dyn_cast<Instruction>(from);
    if (!access || !isa<AtomicRMWInst, AtomicCmpXchgInst>(access) ||
        !is_shared(*access, access->getOperand(0)))
      continue;
    made.erase(from);  // lowering replaces the copy; users of it are updated, this table is not
    bool used_by_phi = false;
    for (User* user : access->users()) used_by_phi |= isa<PHINode>(user);
    if (used_by_phi) {
      made[from] = to;
      continue;
    }
    if (auto* rmw = dyn_cast<AtomicRMWInst>(to)) {
      IRBuilder<> b{rmw};
      Value* pointer = rmw->getPointerOperand();
      Value* old = b.CreateAlignedLoad(rmw->getType(), pointer, rmw->getAlign());
      b.CreateAlignedStore(new_value(b, *rmw, old, rmw->getValOperand()), pointer, rmw->getAlign());
      rmw->replaceAllUsesWith(old);
      rmw->eraseFromParent();
    } else
      lowerAtomicCmpXchgInst(cast<AtomicCmpXchgInst>(to));
  }
  if (last.exit.found)
    return leave_groups(last.exit);  // it was the only active thread of the block
  SmallVector<std::tuple<PHINode*, bool, Value*>> values;
  for (PHINode& phi : one.join->phis()) {
    Value* in_lane = phi.getIncomingValueForBlock(one.body);
    Value* elsewhere = phi.getIncomingValueForBlock(block);
    bool vector = !plan_.full[&phi].scalar();
    if (!vector)  // the same value on both edges, unless one is undefined (Shapes::transfer_phi)
      values.push_back(
          {&phi, false,
           isa<UndefValue>(elsewhere)
               ? base_of(plan_.full[&phi], value_in_lane(in_lane, one.lane, made), one.lane)
               : scalar(elsewhere)});
    else
      values.push_back({&phi, true,
                        b_.CreateInsertElement(vec(elsewhere),
                                               value_in_lane(in_lane, one.lane, made), one.lane)});
  }
  for (auto [phi, vector, value] : values) parts_.values.store_slot(phi, vector, value);
  b_.CreateBr(parts_.flow.full_block(one.join));
}

// ---- the last group ----

/// Whether the value increases from thread to thread over the whole block without wrapping.
bool PartialGroupEmitter::grows_with_groups(Value* v, unsigned depth) const {
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst || depth > 8 || plan_.full[inst].kind != Shape::Strided || plan_.full[inst].stride <= 0)
    return false;
  StringRef name = marker_name(inst);
  if (name.consume_front("sreg.tid.")) {
    const std::uint32_t size[3] = {plan_.lanes.block.x, plan_.lanes.block.y, plan_.lanes.block.z};
    return size[name[0] - 'x'] == plan_.lanes.threads();
  }
  auto one_of_two = [&] {
    Value *a = inst->getOperand(0), *b = inst->getOperand(1);
    if (plan_.block[a].kind == Shape::Uniform) std::swap(a, b);
    return plan_.block[b].kind == Shape::Uniform && grows_with_groups(a, depth + 1);
  };
  switch (inst->getOpcode()) {
    case Instruction::Add:
    case Instruction::Or:  // strided, so without carries
    case Instruction::Mul:
    case Instruction::Shl:
      return one_of_two();
    case Instruction::Sub:
      return plan_.block[inst->getOperand(1)].kind == Shape::Uniform &&
             grows_with_groups(inst->getOperand(0), depth + 1);
    case Instruction::SExt:
      return plan_.full[inst->getOperand(0)].no_signed_wrap &&
             grows_with_groups(inst->getOperand(0), depth + 1);
    case Instruction::ZExt:
      return plan_.full[inst->getOperand(0)].no_unsigned_wrap &&
             grows_with_groups(inst->getOperand(0), depth + 1);
    default:
      return false;
  }
}

/// if (blockIdx.x * blockDim.x + threadIdx.x < n): only one group of the grid can
/// diverge.
bool PartialGroupEmitter::ends_the_grid(BasicBlock* block) const {
  bool negated;
  ICmpInst* compare = comparison_of(block, negated);
  if (!compare || compare->isEquality() || plan_.flow.loop_of(block)) return false;
  Value *index = compare->getOperand(0), *bound = compare->getOperand(1);
  if (plan_.block[index].kind == Shape::Uniform) std::swap(index, bound);
  auto* load = dyn_cast<LoadInst>(bound);
  if (!grows_with_groups(index) || !(isa<Constant>(bound) || (load && is_parameter_load(*load))))
    return false;
  SmallVector<Value*> work{index};
  while (!work.empty()) {
    auto* inst = dyn_cast<Instruction>(work.pop_back_val());
    if (!inst) continue;
    if (marker_name(inst).starts_with("sreg.ctaid.")) return true;
    if (isa<BinaryOperator, CastInst>(inst)) append_range(work, inst->operands());
  }
  return false;
}

/// Whether every group that enters the region reaches the end of this block, once, without side
/// effects before it.
bool PartialGroupEmitter::all_groups_come(BasicBlock* block) const {
  SmallPtrSet<BasicBlock*, 8> chain;
  auto inside = [&](BasicBlock* from) {
    return parts_.regions.current()->blocks.contains(from) && !barrier_at_end(*from);
  };
  for (BasicBlock* at = block;;) {
    if (!chain.insert(at).second) return false;
    for (Instruction& inst : *at) {
      if (inst.mayWriteToMemory()) return false;
      if (auto* load = dyn_cast<LoadInst>(&inst); load && !load->isSimple()) return false;
      StringRef name = marker_name(&inst);
      if (!name.empty() && !name.starts_with("sreg.") && name != "params" && name != "shared")
        return false;
    }
    if (at == parts_.regions.current()->start) break;
    BasicBlock* before = nullptr;
    for (BasicBlock* from : predecessors(at)) {
      if (!inside(from)) continue;
      if (before && before != from) return false;
      before = from;
    }
    if (!before || plan_.block.diverges(before)) return false;
    at = before;
  }
  for (BasicBlock* from : predecessors(parts_.regions.current()->start))
    if (inside(from)) return false;
  return true;
}

/// Whether nothing is executed from here to the end of the region, and which region follows.
PartialGroupEmitter::Exit PartialGroupEmitter::plain_exit(BasicBlock* block) const {
  for (unsigned steps = 0; steps < 8; ++steps) {
    if (!parts_.regions.current()->blocks.contains(block) || isa<PHINode>(block->front()))
      return {};
    if (isa<ReturnInst>(block->front())) return {true, nullptr};
    if (CallInst* barrier = barrier_at_end(*block)) {
      if (&block->front() != barrier || marker_name(barrier) != "barrier.sync") return {};
      for (RegionEmitter::Region* to : parts_.regions.current()->exits) {
        if (to->start != block->getSingleSuccessor()) continue;
        for (Value* v : plan_.flow.live_in(to->start)) {
          if (!parts_.regions.current()->blocks.contains(cast<Instruction>(v)->getParent()))
            continue;
          // A later group may enter in masked code, where the value has another form.
          if (parts_.regions.modes() && !plan_.masked[v].scalar()) return {};
          if (parts_.regions.rematerialisable(v)) continue;
          if (plan_.block[v].kind != Shape::Uniform || !plan_.full[v].scalar()) return {};
        }
        return {true, to};
      }
      return {};
    }
    if (!isa<BranchInst>(block->front()) || !block->getSingleSuccessor()) return {};
    block = block->getSingleSuccessor();
  }
  return {};
}

PartialGroupEmitter::Last PartialGroupEmitter::last_group(BasicBlock* block) {
  if (!plan_.groups_agree || plan_.lanes.groups() < 2) return {};
  auto* branch = cast<BranchInst>(block->getTerminator());
  bool negated;
  ICmpInst* compare = comparison_of(block, negated);
  if (!compare) return {};
  Value *index = compare->getOperand(0), *bound = compare->getOperand(1);
  CmpInst::Predicate predicate = compare->getPredicate();
  if (plan_.block[index].kind == Shape::Uniform) {
    std::swap(index, bound);
    predicate = CmpInst::getSwappedPredicate(predicate);
  }
  if (negated) predicate = CmpInst::getInversePredicate(predicate);
  if (plan_.block[bound].kind != Shape::Uniform || !grows_with_groups(index) ||
      !all_groups_come(block))
    return {};
  Shape s = plan_.full[index];
  bool is_signed = CmpInst::isSigned(predicate);
  if (CmpInst::isEquality(predicate) ? !s.no_unsigned_wrap
                                     : !(is_signed ? s.no_signed_wrap : s.no_unsigned_wrap))
    return {};
  Last last;
  switch (predicate) {
    case CmpInst::ICMP_EQ:
    case CmpInst::ICMP_SLT:
    case CmpInst::ICMP_SLE:
    case CmpInst::ICMP_ULT:
    case CmpInst::ICMP_ULE:
      last.on_none = true;
      break;
    default:
      last.on_all = true;
  }
  if (CmpInst::isEquality(predicate)) last.also = b_.CreateICmpUGT(scalar(index), scalar(bound));
  last.exit = plain_exit(branch->getSuccessor(last.on_all ? 0 : 1));
  return last;
}

/// Ends the loop over groups: this group and the later ones have only values to store that are
/// uniform over the block. They keep their modes. Where other rows run first, only this group ends.
void PartialGroupEmitter::leave_groups(const Exit& exit) {
  ++report_.last_groups;
  if (parts_.regions.current()->id == 0 && exit.to) parts_.regions.modes_before() = true;
  constexpr unsigned kDone = 0xffff;  // as in regions.cpp
  b_.CreateStore(b_.getInt32(exit.to ? exit.to->id : kDone), parts_.regions.exit_state());
  if (exit.to) {
    for (Value* v : plan_.flow.live_in(exit.to->start)) {
      if (!parts_.regions.current()->blocks.contains(cast<Instruction>(v)->getParent()) ||
          parts_.regions.rematerialisable(v))
        continue;
      auto& [kept, leaving] = parts_.regions.block_values()[v];
      if (!kept) {
        kept = temporary(v->getType(), v->getName() + ".kept");
        leaving = temporary(v->getType(), v->getName() + ".leaving");
      }
      b_.CreateStore(scalar(v), leaving);
    }
  }
  if (plan_.by_columns)
    b_.CreateBr(parts_.regions.current()->next);
  else
    b_.CreateBr(parts_.strips.strip() ? parts_.strips.strip()->next_block
                                      : parts_.regions.current()->after);
}

}  // namespace cucpu::simt
