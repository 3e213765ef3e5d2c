// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/check_emitter.cpp
#include "cpu/engine/simt/check_emitter.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/check/lane_access.hpp"
#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;
using namespace check;

namespace {

enum Argument : unsigned {
  kAddress,
  kBytes,
  kFlags,
  kValue,
  kRoot,
  kSite,
  kRange,
  kVariableOffset,
  kVariableBytes
};

std::uint64_t number(const CallInst& call, Argument which) {
  return cast<ConstantInt>(call.getArgOperand(which))->getZExtValue();
}

}  // namespace

bool CheckEmitter::calls_always() const { return (plan_.check & (kRace | kInit)) != 0; }

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

Value* CheckEmitter::range(std::uint64_t number) {
  Value*& ranges = parts_.instructions.registers()["check.ranges"];
  if (!ranges)
    ranges = context_field(b_.getPtrTy(), offsetof(BlockContext, check_ranges), "check.ranges");
  return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), ranges, number * sizeof(CheckRange));
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
  Value* low = b_.CreateLoad(b_.getInt64Ty(), range, "check.low");
  Value* limit =
      b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), range, 1));
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
  b_.CreateCondBr(inside, after, check, MDBuilder{context_}.createBranchWeights(1 << 20, 1));
  emit_slow_path(check, after, slow);
}

bool CheckEmitter::unless_settled(const CallInst& call, Value* first, std::uint64_t words,
                                  const std::function<void()>& slow) {
  const std::uint64_t flags = number(call, kFlags), bytes = number(call, kBytes);
  if ((plan_.check & kRace) == 0 || number(call, kRange) >= kCheckRanges || bytes % 4 != 0 ||
      (flags & (kRead | kWrite | kStrong)) != kRead || (flags & (kSharedSpace | kGlobalSpace)) == 0)
    return false;
  BasicBlock *look = new_block("look"), *check = new_block("check"), *after = new_block("checked");
  const auto likely = MDBuilder{context_}.createBranchWeights(1 << 20, 1);
  Value* at = range(number(call, kRange));
  Value* inside = is_inside(at, first, words * 4);
  if ((plan_.check & kMemory) != 0 && number(call, kVariableBytes) != 0)
    inside = b_.CreateAnd(inside, is_inside(call, first, words * 4));
  b_.CreateCondBr(inside, look, check, likely);
  b_.SetInsertPoint(look);
  Value* low = b_.CreateLoad(b_.getInt64Ty(), at);
  Value* settled = b_.CreateLoad(
      b_.getPtrTy(),
      b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), at, offsetof(CheckRange, settled)));
  Value* now = b_.CreateLoad(b_.getInt32Ty(),
                             b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), state_.block_context,
                                                           offsetof(BlockContext, check_interval)));
  Type* type = FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(words));
  Value* tags = b_.CreateAlignedLoad(
      type, b_.CreateGEP(b_.getInt8Ty(), settled, b_.CreateSub(first, low)), Align{4});
  Value* same = b_.CreateICmpEQ(tags, b_.CreateVectorSplat(static_cast<unsigned>(words), now));
  b_.CreateCondBr(b_.CreateAndReduce(same), after, check, likely);
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
  store(first_thread, offsetof(LaneAccess, first_thread));
  store(parts_.instructions.special_register("sreg.ctaid.x", b_.getInt32Ty()),
        offsetof(LaneAccess, block_x));
  Type* pointer = b_.getPtrTy();
  b_.CreateCall(routine("cucpu_rt_check_lanes", {pointer, pointer, pointer}),
                {state_.block_context, range(0), field(0)});
}

void CheckEmitter::emit_access(CallInst& call) {
  if ((plan_.check & (kMemory | kRace | kInit)) == 0) return;
  if (!isa<ConstantInt>(call.getArgOperand(kBytes)))
    return refuse("check mode: an access of variable size");
  Value* address = call.getArgOperand(kAddress);
  const auto slow = [&] {
    Value* none = ConstantPointerNull::get(b_.getPtrTy());
    const Shape s = shape(address);
    if (s.kind > Shape::Strided) {
      b_.CreateStore(spill(vec(address), "addresses"), field(offsetof(LaneAccess, addresses)));
    } else {
      const std::int64_t stride = s.kind == Shape::Strided ? s.stride : 0;
      b_.CreateStore(scalar(address), field(offsetof(LaneAccess, address)));
      b_.CreateStore(b_.getInt64(static_cast<std::uint64_t>(stride)),
                     field(offsetof(LaneAccess, stride)));
      b_.CreateStore(none, field(offsetof(LaneAccess, addresses)));
    }
    const bool valued = (plan_.check & kRace) != 0 && (number(call, kFlags) & kHasValue) != 0;
    b_.CreateStore(valued ? spill(vec(call.getArgOperand(kValue)), "values") : none,
                   field(offsetof(LaneAccess, values)));
    call_routine(call, lanes_on(), parts_.instructions.first_thread(),
                 scalar(call.getArgOperand(kRoot)));
  };
  if (calls_always()) {
    const Shape s = shape(address);
    const std::uint64_t bytes = number(call, kBytes);
    const bool together =
        s.kind == Shape::Strided && !mask() && s.stride == static_cast<std::int64_t>(bytes);
    if ((together || s.kind <= Shape::Uniform) &&
        unless_settled(call, scalar(address), (together ? width_ : 1) * bytes / 4, slow))
      return;
    return slow();
  }
  if (number(call, kRange) >= kCheckRanges) return slow();
  unless(is_inside(call), slow);
}

void CheckEmitter::emit_access_in_lane(CallInst& call, Value* lane,
                                       const std::function<Value*(Value*)>& value_of) {
  if ((plan_.check & (kMemory | kRace | kInit)) == 0) return;
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
  if (calls_always()) {
    if (!unless_settled(call, address, number(call, kBytes) / 4, slow)) slow();
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
  b_.CreateCall(routine("cucpu_rt_check_lanes_interval", {b_.getPtrTy()}), {state_.block_context});
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
