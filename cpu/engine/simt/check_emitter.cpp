// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/check_emitter.cpp
#include "cpu/engine/simt/check_emitter.hpp"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cpu/engine/check/history.hpp"
#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/check/lane_access.hpp"
#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;
using namespace check;
using namespace marker;

namespace {

/// An address as a value and a constant distance from it.
std::pair<Value*, std::int64_t> base_of(Value* address) {
  std::int64_t distance = 0;
  for (;;) {
    Value* next = nullptr;
    const ConstantInt* added = nullptr;
    auto* const op = dyn_cast<Operator>(address);
    if (!op) return {address, distance};
    switch (op->getOpcode()) {
      case Instruction::PtrToInt:
      case Instruction::IntToPtr:
        next = op->getOperand(0);
        break;
      case Instruction::Or:
        if (!cast<PossiblyDisjointInst>(op)->isDisjoint()) return {address, distance};
        [[fallthrough]];
      case Instruction::Add:
        next = op->getOperand(0);
        added = dyn_cast<ConstantInt>(op->getOperand(1));
        if (!added) return {address, distance};
        break;
      case Instruction::GetElementPtr:
        if (op->getNumOperands() != 2 ||
            !cast<GEPOperator>(op)->getSourceElementType()->isIntegerTy(8))
          return {address, distance};
        next = op->getOperand(0);
        added = dyn_cast<ConstantInt>(op->getOperand(1));
        if (!added) return {address, distance};
        break;
      default:
        return {address, distance};
    }
    const unsigned bits =
        next->getType()->isPointerTy() ? 64 : next->getType()->getIntegerBitWidth();
    if (bits != 64) return {address, distance};
    if (added) distance += added->getSExtValue();
    address = next;
  }
}

/// Whether what follows is executed by the same lanes, and after no synchronization.
bool lets_pass(const Instruction& i) {
  if (i.isAtomic() || i.isTerminator()) return false;
  const auto* call = dyn_cast<CallInst>(&i);
  if (!call) return true;
  if (isa<IntrinsicInst>(call)) return !call->mayHaveSideEffects();
  const Function* callee = call->getCalledFunction();
  return callee && (callee->getName().starts_with("cucpu.check.a") ||
                    callee->getName().starts_with("cucpu.sreg."));
}

}  // namespace

bool CheckEmitter::is_checked(const CallInst& call) const {
  const bool image = (number(call, kFlags) & kImage) != 0;
  return (plan_.check & (image ? kRace | kInit : kMemory | kRace | kInit)) != 0;
}

bool CheckEmitter::has_state() const { return (plan_.check & (kRace | kInit)) != 0; }

Value* CheckEmitter::lanes_on() {
  return mask() ? b_.CreateZExt(bits(mask()), b_.getInt64Ty())
                : b_.getInt64((std::uint64_t{1} << width_) - 1);
}

FunctionCallee CheckEmitter::routine(StringRef name, ArrayRef<Type*> arguments) {
  FunctionCallee callee =
      module_.getOrInsertFunction(name, FunctionType::get(b_.getVoidTy(), arguments, false));
  if (auto* function = dyn_cast<Function>(callee.getCallee())) {
    function->setDoesNotThrow();
    // They read spilled addresses and values, and the memory that a store would change.
    function->setMemoryEffects(MemoryEffects::inaccessibleOrArgMemOnly() |
                               MemoryEffects::readOnly());
  }
  return callee;
}

// Saturating: a range that is smaller than the span contains nothing.
Value* CheckEmitter::is_inside(const CallInst& call, Value* first, std::uint64_t span) {
  Value *low = nullptr, *room = nullptr;
  if (const std::uint64_t bytes = number(call, kVariableBytes); bytes != 0) {
    Value* shared = parts_.instructions.special_register("shared", b_.getPtrTy());
    low = b_.CreateAdd(b_.CreatePtrToInt(shared, b_.getInt64Ty()),
                       b_.getInt64(number(call, kVariableOffset)));
    room = b_.getInt64(bytes < span ? 0 : bytes - span + 1);
  } else {
    return is_inside(range(number(call, kRange)), first, span);
  }
  return is_between(first, low, room);
}

Value* CheckEmitter::is_inside(Value* range, Value* first, std::uint64_t span) {
  Value* low = field_of(range, b_.getInt64Ty(), offsetof(CheckRange, low));
  Value* limit = field_of(range, b_.getInt64Ty(), offsetof(CheckRange, limit));
  return is_between(first, low,
                    b_.CreateBinaryIntrinsic(Intrinsic::usub_sat, limit, b_.getInt64(span)));
}

Value* CheckEmitter::is_between(Value* first, Value* low, Value* room) {
  if (!first->getType()->isVectorTy()) return b_.CreateICmpULT(b_.CreateSub(first, low), room);
  Value* inside = b_.CreateICmpULT(b_.CreateSub(first, splat(low)), splat(room));
  if (mask()) inside = b_.CreateSelect(mask(), inside, all_lanes());
  return b_.CreateAndReduce(inside);
}

// Lanes that are off may lie outside: then the routine checks the others one by one.
Value* CheckEmitter::is_inside(CallInst& call) {
  const std::uint64_t bytes = number(call, kBytes);
  Value* address = call.getArgOperand(kAddress);
  const Shape s = shape(address);
  if (s.kind > Shape::Strided) return is_inside(call, vec(address), bytes);
  if (s.kind != Shape::Strided) return is_inside(call, scalar(address), bytes);
  const std::int64_t last = s.stride * static_cast<std::int64_t>(width_ - 1);
  Value* first = scalar(address);
  if (last < 0) first = b_.CreateAdd(first, b_.getInt64(static_cast<std::uint64_t>(last)));
  return is_inside(call, first, bytes + static_cast<std::uint64_t>(std::abs(last)));
}

/// What the slow path computes is not known after it.
void CheckEmitter::emit_slow_path(BasicBlock* check, BasicBlock* after,
                                  const std::function<void()>& slow) {
  b_.SetInsertPoint(check);
  const ValueMap::Known saved = parts_.values.known();
  slow();
  parts_.values.restore(saved);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void CheckEmitter::unless(Value* inside, const std::function<void()>& slow) {
  BasicBlock *check = new_block("check"), *after = new_block("checked");
  branch(inside, after, check);
  emit_slow_path(check, after, slow);
}

bool CheckEmitter::unless_known(CheckedGroup group, const std::function<void()>& slow) {
  constexpr std::uint64_t kMostBytes = 256, kRow = 4 * touch::kRowWords;
  const std::uint64_t flags = group.flags(), bytes = group.bytes();
  const bool race = (plan_.check & kRace) != 0, init = (plan_.check & kInit) != 0;
  if (number(group.call, kRange) >= kCheckRanges || group.span > kMostBytes) return false;
  bool settles = false, rows = false, uniform = false;
  if (race) {
    if (bytes % 4 != 0 || (flags & kStrong) != 0 || (flags & (kSharedSpace | kGlobalSpace)) == 0)
      return false;
    const bool fits =
        (bytes == 4 || bytes == 8 || bytes == 16) && number(group.call, kSite) < kCheckedSites;
    settles = (flags & kWrite) == 0 && (group.dense || group.span == bytes);
    rows = group.dense && group.span % kRow == 0 && fits;
    uniform = group.uniform && settles && fits;
    if (!settles && !rows) return false;
  }
  // Other host threads may set bits of device memory.
  group.sets_initialized = init && group.is_shared() && group.dense && (flags & kRead) == 0;
  BasicBlock *look = new_block("look"), *check = new_block("check"), *after = new_block("checked");
  group.range = range(number(group.call, kRange));
  // A .shared variable lies in the range of the shared memory.
  Value* inside = (plan_.check & kMemory) != 0 && number(group.call, kVariableBytes) != 0
                      ? is_inside(group.call, group.first, group.span)
                      : is_inside(group.range, group.first, group.span);
  if (mask() && (group.dense || group.uniform) && (race || group.sets_initialized))
    inside = b_.CreateAnd(inside, b_.CreateAndReduce(mask()));
  branch(inside, look, check);
  b_.SetInsertPoint(look);
  group.offset =
      b_.CreateSub(group.first, field_of(group.range, b_.getInt64Ty(), offsetof(CheckRange, low)));
  if (group.sets_initialized) parts_.init_checks.set_initialized(group);
  if (!race) {
    if (group.sets_initialized)
      b_.CreateBr(after);
    else
      branch(parts_.init_checks.is_initialized(group), after, check);
    emit_slow_path(check, after, slow);
    return true;
  }
  if ((flags & kReadOnly) != 0 && (group.dense || group.span == bytes))
    parts_.race_checks.emit_read_only(group, after, check);
  BasicBlock* const settled = settles ? new_block("settled") : check;
  if (rows)
    parts_.race_checks.emit_rows(group, after, settled);
  else if (uniform)
    parts_.race_checks.emit_uniform(group, after, settled);
  else
    b_.CreateBr(settled);
  if (settles) {
    b_.SetInsertPoint(settled);
    parts_.race_checks.branch_to_settled(group, after, check);
  }
  emit_slow_path(check, after, slow);
  return true;
}

Value* CheckEmitter::field(std::size_t offset) {
  Value*& access = parts_.instructions.registers()["check.frame"];
  if (!access) {
    AllocaInst* memory =
        temporary(ArrayType::get(b_.getInt64Ty(), sizeof(LaneAccess) / 8), "check.access");
    memory->setAlignment(Align{8});
    access = memory;
  }
  return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), access, offset);
}

/// Stores what is the same for one lane and for a group, and calls the routine.
void CheckEmitter::call_routine(CallInst& call, Value* lanes, Value* first_thread, Value* root) {
  const auto store = [&](Value* value, std::size_t offset) {
    b_.CreateStore(value, field(offset));
  };
  store(lanes, offsetof(LaneAccess, lanes));
  store(root, offsetof(LaneAccess, root));
  store(call.getArgOperand(kBytes), offsetof(LaneAccess, bytes));
  store(call.getArgOperand(kFlags), offsetof(LaneAccess, flags));
  store(call.getArgOperand(kSite), offsetof(LaneAccess, site));
  store(call.getArgOperand(kRange), offsetof(LaneAccess, range));
  store(call.getArgOperand(kVariableOffset), offsetof(LaneAccess, variable_offset));
  store(call.getArgOperand(kVariableBytes), offsetof(LaneAccess, variable_bytes));
  store(call.getArgOperand(kWritten), offsetof(LaneAccess, written));
  store(first_thread, offsetof(LaneAccess, first_thread));
  store(parts_.instructions.special_register("sreg.ctaid.x", b_.getInt32Ty()),
        offsetof(LaneAccess, block_x));
  Type* pointer = b_.getPtrTy();
  // The routine finds the line of the access by its return address: calls must not be merged.
  b_.CreateCall(routine("cucpu_rt_check_lanes", {pointer, pointer, pointer}),
                {state_.block_context, range(0), field(0)})
      ->addFnAttr(Attribute::NoMerge);
}

/// The routine for a group. `first`: the address of lane 0, unless addresses are varying.
void CheckEmitter::call_routine(CallInst& call, Value* first) {
  Value* address = call.getArgOperand(kAddress);
  Value* none = ConstantPointerNull::get(b_.getPtrTy());
  const Shape s = shape(address);
  if (s.kind > Shape::Strided) {
    b_.CreateStore(spill(vec(address), "addresses"), field(offsetof(LaneAccess, addresses)));
  } else {
    const std::int64_t stride = s.kind == Shape::Strided ? s.stride : 0;
    b_.CreateStore(first, field(offsetof(LaneAccess, address)));
    b_.CreateStore(b_.getInt64(static_cast<std::uint64_t>(stride)),
                   field(offsetof(LaneAccess, stride)));
    b_.CreateStore(none, field(offsetof(LaneAccess, addresses)));
  }
  const bool valued = (plan_.check & kRace) != 0 && (number(call, kFlags) & kHasValue) != 0;
  b_.CreateStore(valued ? spill(vec(call.getArgOperand(kValue)), "values") : none,
                 field(offsetof(LaneAccess, values)));
  call_routine(call, lanes_on(), parts_.instructions.first_thread(),
               scalar(call.getArgOperand(kRoot)));
}

/// The accesses after this one, in its basic block, that are compared with the same range and lie
/// at constant distances from it.
SmallVector<CheckEmitter::Neighbor, 8> CheckEmitter::neighbors(CallInst& call) {
  constexpr std::int64_t kMostBytes = 1 << 16;
  const Shape own = shape(call.getArgOperand(kAddress));
  const auto [base, start] = base_of(call.getArgOperand(kAddress));
  SmallVector<Neighbor, 8> all;
  if (own.kind > Shape::Strided || number(call, kRange) >= kCheckRanges) return all;
  for (Instruction* i = call.getNextNode(); i && lets_pass(*i); i = i->getNextNode()) {
    auto* const other = dyn_cast<CallInst>(i);
    if (!other || other->getCalledFunction() != call.getCalledFunction()) continue;
    if (!isa<ConstantInt>(other->getArgOperand(kBytes)) || !is_checked(*other)) continue;
    const bool same = all_of(
        ArrayRef<Argument>{kRoot, kRange, kVariableOffset, kVariableBytes},
        [&](Argument which) { return other->getArgOperand(which) == call.getArgOperand(which); });
    const Shape shape_of_other = shape(other->getArgOperand(kAddress));
    const auto [its_base, its_start] = base_of(other->getArgOperand(kAddress));
    if (!same || its_base != base || shape_of_other.kind != own.kind ||
        shape_of_other.stride != own.stride || together_.contains(other))
      continue;
    if (std::abs(its_start - start) < kMostBytes) all.push_back({other, its_start - start});
  }
  return all;
}

/// Memory checks of several accesses: one comparison of all of their bytes.
void CheckEmitter::emit_together(CallInst& call, ArrayRef<Neighbor> others) {
  Value* const lane0 = scalar(call.getArgOperand(kAddress));
  const Shape s = shape(call.getArgOperand(kAddress));
  const std::int64_t last =
      s.kind == Shape::Strided ? s.stride * static_cast<std::int64_t>(width_ - 1) : 0;
  const auto bytes_of = [](const CallInst& one) {
    return static_cast<std::int64_t>(number(one, kBytes));
  };
  std::int64_t low = 0, end = bytes_of(call);
  for (const Neighbor& other : others) {
    low = std::min(low, other.distance);
    end = std::max(end, other.distance + bytes_of(*other.call));
    together_.insert(other.call);
  }
  low += std::min<std::int64_t>(last, 0);
  end += std::max<std::int64_t>(last, 0);
  const auto at = [&](std::int64_t distance) {
    return b_.CreateAdd(lane0, b_.getInt64(static_cast<std::uint64_t>(distance)));
  };
  unless(is_inside(call, at(low), static_cast<std::uint64_t>(end - low)), [&] {
    const DebugLoc line = b_.getCurrentDebugLocation();
    const auto one = [&](CallInst& access, std::int64_t distance) {
      b_.SetCurrentDebugLocation(access.getDebugLoc());
      Value* inside = is_inside(access, at(distance + std::min<std::int64_t>(last, 0)),
                                static_cast<std::uint64_t>(bytes_of(access) + std::abs(last)));
      unless(inside, [&] { call_routine(access, at(distance)); });
    };
    one(call, 0);
    for (const Neighbor& other : others) one(*other.call, other.distance);
    b_.SetCurrentDebugLocation(line);
  });
}

void CheckEmitter::emit_access(CallInst& call) {
  if (!is_checked(call) || together_.erase(&call)) return;
  if (!isa<ConstantInt>(call.getArgOperand(kBytes)))
    return refuse("check mode: an access of variable size");
  Value* address = call.getArgOperand(kAddress);
  const auto slow = [&] {
    call_routine(call, shape(address).kind > Shape::Strided ? nullptr : scalar(address));
  };
  if (has_state()) {
    const Shape s = shape(address);
    const std::uint64_t bytes = number(call, kBytes);
    if (s.kind > Shape::Strided) return slow();
    const std::int64_t stride = s.kind == Shape::Strided ? s.stride : 0;
    const std::int64_t last = stride * static_cast<std::int64_t>(width_ - 1);
    Value* first = scalar(address);
    if (last < 0) first = b_.CreateAdd(first, b_.getInt64(static_cast<std::uint64_t>(last)));
    CheckedGroup group{.call = call, .first = first};
    group.span = bytes + static_cast<std::uint64_t>(std::abs(last));
    group.dense = stride == static_cast<std::int64_t>(bytes);
    group.uniform = stride == 0;
    if (!unless_known(group, slow)) slow();
    return;
  }
  if (number(call, kRange) >= kCheckRanges) return slow();
  if (const auto others = neighbors(call); !others.empty()) return emit_together(call, others);
  unless(is_inside(call), slow);
}

void CheckEmitter::emit_access_in_lane(CallInst& call, Value* lane,
                                       const std::function<Value*(Value*)>& value_of) {
  if (!is_checked(call)) return;
  if (!isa<ConstantInt>(call.getArgOperand(kBytes)))
    return refuse("check mode: an access of variable size");
  Value* address = value_of(call.getArgOperand(kAddress));
  const auto slow = [&] {
    Value* none = ConstantPointerNull::get(b_.getPtrTy());
    b_.CreateStore(address, field(offsetof(LaneAccess, address)));
    b_.CreateStore(b_.getInt64(0), field(offsetof(LaneAccess, stride)));
    b_.CreateStore(none, field(offsetof(LaneAccess, addresses)));
    const bool valued = (plan_.check & kRace) != 0 && (number(call, kFlags) & kHasValue) != 0;
    Value* values = none;
    if (valued) {
      values = temporary(b_.getInt64Ty(), "value");
      b_.CreateStore(value_of(call.getArgOperand(kValue)), values);
    }
    b_.CreateStore(values, field(offsetof(LaneAccess, values)));
    Value* thread = b_.CreateAdd(parts_.instructions.first_thread(),
                                 b_.CreateZExtOrTrunc(lane, b_.getInt32Ty()));
    call_routine(call, b_.getInt64(1), thread, value_of(call.getArgOperand(kRoot)));
  };
  if (has_state()) {
    if (!unless_known({.call = call, .first = address, .span = number(call, kBytes)}, slow)) slow();
    return;
  }
  if (number(call, kRange) >= kCheckRanges) return slow();
  unless(is_inside(call, address, number(call, kBytes)), slow);
}

void CheckEmitter::emit_fence() {
  if ((plan_.check & kRace) == 0) return;
  b_.CreateCall(
      routine("cucpu_rt_check_lanes_fence", {b_.getPtrTy(), b_.getInt32Ty(), b_.getInt64Ty()}),
      {state_.block_context, parts_.instructions.first_thread(), lanes_on()});
}

void CheckEmitter::emit_interval() {
  if ((plan_.check & kRace) == 0) return;
  const auto place = [&](std::size_t offset) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), state_.block_context, offset);
  };
  Value* clock = b_.CreateLoad(b_.getPtrTy(), place(offsetof(BlockContext, check_clock)));
  Value* interval = b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), clock), b_.getInt32(1));
  b_.CreateStore(interval, clock);
  b_.CreateStore(interval, place(offsetof(BlockContext, check_interval)));
  b_.CreateStore(b_.CreateShl(b_.CreateZExt(interval, b_.getInt64Ty()), touch::kIntervalShift),
                 place(offsetof(BlockContext, check_now)));
}

// In full code all lanes of the warp take part, so each must be in its own mask.
void CheckEmitter::emit_warp(CallInst& call, StringRef name) {
  if ((plan_.check & (kRace | kSync)) == 0 || name == "activemask" || call.arg_size() == 0) return;
  const bool sync = (plan_.check & kSync) != 0;
  if (sync && mask()) return refuse("check mode: a warp operation of some lanes");
  Value* members = call.getArgOperand(call.arg_size() - 1);
  if (!members->getType()->isIntegerTy(32)) return refuse("check mode: cucpu." + name);
  Value *missing = b_.getInt32(0), *named = b_.getInt32(~0U);
  if (sync && shape(members).kind <= Shape::Uniform) {
    named = scalar(members);
    missing = b_.CreateNot(named);
  } else if (sync) {
    Value* all = vec(members);
    Value* own = b_.CreateShl(splat(b_.getInt32(1)), lane_numbers(b_.getInt32Ty()));
    Value* absent = b_.CreateICmpEQ(b_.CreateAnd(all, own), Constant::getNullValue(all->getType()));
    missing = bits(absent);
    Value* first = b_.CreateBinaryIntrinsic(Intrinsic::cttz, missing, b_.getFalse());
    named = b_.CreateExtractElement(all, b_.CreateAnd(first, b_.getInt32(31)));
  }
  const auto slow = [&] {
    Type* word = b_.getInt32Ty();
    b_.CreateCall(routine("cucpu_rt_check_lanes_warp", {b_.getPtrTy(), word, word, word}),
                  {state_.block_context, parts_.instructions.first_thread(), missing, named});
  };
  if ((plan_.check & kRace) != 0) return slow();
  Value* fine = b_.CreateICmpEQ(missing, b_.getInt32(0));
  if (auto* known = dyn_cast<ConstantInt>(fine); known && known->isOne()) return;
  unless(fine, slow);
}

}  // namespace cucpu::simt
