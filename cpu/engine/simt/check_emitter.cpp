// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/check_emitter.cpp
#include "cpu/engine/simt/check_emitter.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/check/history.hpp"
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
  kVariableBytes,
  kWritten
};

std::uint64_t number(const CallInst& call, Argument which) {
  return cast<ConstantInt>(call.getArgOperand(which))->getZExtValue();
}

}  // namespace

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

Value* CheckEmitter::range(std::uint64_t number) {
  Value*& ranges = parts_.instructions.registers()["check.ranges"];
  if (!ranges)
    ranges = context_field(b_.getPtrTy(), offsetof(BlockContext, check_ranges), "check.ranges");
  if (number == 0) return ranges;
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
  b_.CreateCondBr(inside, after, check, MDBuilder{context_}.createBranchWeights(1 << 20, 1));
  emit_slow_path(check, after, slow);
}

/// The range of the shared memory does not change while a block runs: its fields are loaded once.
Value* CheckEmitter::field_of(Value* range, Type* type, std::size_t offset) {
  auto& registers = parts_.instructions.registers();
  if (registers.lookup("check.ranges") == range) {
    Value*& field = registers["check.shared." + std::to_string(offset)];
    if (!field)
      field = entry_.CreateLoad(
          type, entry_.CreateConstInBoundsGEP1_64(entry_.getInt8Ty(), range, offset));
    return field;
  }
  return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), range, offset));
}

Value* CheckEmitter::of_context(Type* type, std::size_t offset) {
  return field_of(state_.block_context, type, offset);
}

// Bits from an offset that is no multiple of eight on are shifted, so a load holds 57 of them.
Value* CheckEmitter::is_initialized(Value* range, Value* offset, std::uint64_t span, bool shared) {
  constexpr std::uint64_t kChunk = 56;
  Type* const word = b_.getInt64Ty();
  Value* bits = field_of(range, b_.getPtrTy(), offsetof(CheckRange, initialized));
  Value* mask = shared ? nullptr : field_of(range, word, offsetof(CheckRange, initialized_mask));
  Value* shift = b_.CreateAnd(offset, b_.getInt64(7));
  Value* byte = b_.CreateLShr(offset, 3);
  Value* missing = nullptr;
  for (std::uint64_t done = 0; done < span; done += kChunk) {
    const std::uint64_t count = std::min(kChunk, span - done);
    Value* index = b_.CreateAdd(byte, b_.getInt64(done / 8));
    if (mask) index = b_.CreateAnd(index, mask);
    Value* load = b_.CreateAlignedLoad(word, b_.CreateGEP(b_.getInt8Ty(), bits, index), Align{1},
                                       /*isVolatile=*/true);
    Value* absent = b_.CreateAnd(b_.CreateNot(b_.CreateLShr(load, shift)),
                                 b_.getInt64((std::uint64_t{1} << count) - 1));
    missing = missing ? b_.CreateOr(missing, absent) : absent;
  }
  return b_.CreateICmpEQ(missing, b_.getInt64(0));
}

// As Quiet::row() in check/lane_race.cpp. Volatile: the routine changes rows.
Value* CheckEmitter::are_rows_quiet(const CallInst& call, Value* rows, Value* own,
                                    std::uint64_t count, std::uint64_t next) {
  Type* const word = b_.getInt64Ty();
  const bool shared = (number(call, kFlags) & kSharedSpace) != 0;
  Value* now = of_context(word, offsetof(BlockContext, check_now));
  Value* block = of_context(word, offsetof(BlockContext, check_block));
  Value* empty = shared ? nullptr : of_context(word, offsetof(BlockContext, check_empty));
  Value* length = shared ? nullptr : b_.CreateSub(now, block);
  Value* all = nullptr;
  for (std::uint64_t r = 0; r < count; ++r)
    for (const std::size_t offset : {offsetof(CheckRow, write), offsetof(CheckRow, read)}) {
      Value* at =
          b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), rows, r * sizeof(CheckRow) + offset);
      Value* found = b_.CreateAlignedLoad(word, at, Align{8}, /*isVolatile=*/true);
      Value* mine = b_.CreateAdd(own, b_.getInt64(r * next));
      Value* same = b_.CreateICmpEQ(
          b_.CreateAnd(b_.CreateXor(found, mine), b_.getInt64(touch::kRowMask)), b_.getInt64(0));
      Value* quiet = nullptr;
      if (shared) {  // words of other blocks are older than this block
        quiet = b_.CreateOr(b_.CreateICmpULT(found, now), same);
      } else {
        quiet = b_.CreateOr(b_.CreateICmpULT(found, empty),
                            b_.CreateICmpULT(b_.CreateSub(found, block), length));
        quiet = b_.CreateOr(quiet, b_.CreateAnd(same, b_.CreateICmpUGE(found, block)));
      }
      all = all ? b_.CreateAnd(all, quiet) : quiet;
    }
  return all;
}

void CheckEmitter::branch_to_settled(Value* range, Value* offset, std::uint64_t span,
                                     BasicBlock* yes, BasicBlock* no) {
  const auto words = static_cast<unsigned>(span / 4);
  Value* tags = b_.CreateAlignedLoad(
      FixedVectorType::get(b_.getInt32Ty(), words),
      b_.CreateGEP(b_.getInt8Ty(), field_of(range, b_.getPtrTy(), offsetof(CheckRange, settled)),
                   offset),
      Align{4}, /*isVolatile=*/true);
  Value* now = of_context(b_.getInt32Ty(), offsetof(BlockContext, check_interval));
  b_.CreateCondBr(b_.CreateAndReduce(b_.CreateICmpEQ(tags, b_.CreateVectorSplat(words, now))), yes,
                  no, MDBuilder{context_}.createBranchWeights(1 << 20, 1));
}

bool CheckEmitter::unless_known(const CallInst& call, Value* first, std::uint64_t span, bool dense,
                                bool uniform, const std::function<void()>& slow) {
  constexpr std::uint64_t kMostBytes = 256, kRow = 4 * touch::kRowWords;
  const std::uint64_t flags = number(call, kFlags), bytes = number(call, kBytes);
  const bool race = (plan_.check & kRace) != 0, init = (plan_.check & kInit) != 0;
  const bool shared = number(call, kRange) == 0;
  if (number(call, kRange) >= kCheckRanges || span > kMostBytes) return false;
  bool settles = false, rows = false;
  if (race) {
    if (bytes % 4 != 0 || (flags & kStrong) != 0 || (flags & (kSharedSpace | kGlobalSpace)) == 0)
      return false;
    settles = (flags & kWrite) == 0 && (dense || span == bytes);
    rows = dense && span % kRow == 0 && (bytes == 4 || bytes == 8 || bytes == 16) &&
           number(call, kSite) < kCheckedSites;
    if (!settles && !rows) return false;
  }
  BasicBlock *look = new_block("look"), *check = new_block("check"), *after = new_block("checked");
  const auto likely = MDBuilder{context_}.createBranchWeights(1 << 20, 1);
  Value* at = range(number(call, kRange));
  // A .shared variable lies in the range of the shared memory.
  Value* inside = (plan_.check & kMemory) != 0 && number(call, kVariableBytes) != 0
                      ? is_inside(call, first, span)
                      : is_inside(at, first, span);
  b_.CreateCondBr(inside, look, check, likely);
  b_.SetInsertPoint(look);
  Value* offset = b_.CreateSub(first, field_of(at, b_.getInt64Ty(), offsetof(CheckRange, low)));
  if (race && (flags & kReadOnly) != 0 && (dense || span == bytes)) {
    BasicBlock *read_only = new_block("read.only"), *tag = new_block("tag"),
               *other = new_block("other");
    Value* history = field_of(at, b_.getPtrTy(), offsetof(CheckRange, rows));
    b_.CreateCondBr(b_.CreateIsNull(history), read_only, other, likely);
    b_.SetInsertPoint(read_only);
    Value* aligned = b_.CreateICmpEQ(b_.CreateAnd(offset, b_.getInt64(3)), b_.getInt64(0));
    if (init) aligned = b_.CreateAnd(aligned, is_initialized(at, offset, span, shared));
    b_.CreateCondBr(aligned, tag, check, likely);
    b_.SetInsertPoint(tag);
    Value* now = of_context(b_.getInt32Ty(), offsetof(BlockContext, check_interval));
    b_.CreateAlignedStore(
        b_.CreateVectorSplat(static_cast<unsigned>(span / 4), now),
        b_.CreateGEP(b_.getInt8Ty(), field_of(at, b_.getPtrTy(), offsetof(CheckRange, settled)),
                     offset),
        Align{4}, /*isVolatile=*/true);
    b_.CreateBr(after);
    b_.SetInsertPoint(other);
  }
  if (!race) {
    b_.CreateCondBr(is_initialized(at, offset, span, shared), after, check, likely);
    emit_slow_path(check, after, slow);
    return true;
  }
  if (rows) {
    Value* fine = init ? is_initialized(at, offset, span, shared) : nullptr;
    const auto shift = static_cast<unsigned>(llvm::countr_zero(bytes / 4));
    const std::uint64_t count = span / kRow;
    const std::uint64_t next = std::uint64_t{touch::kRowWords >> shift} << touch::kThreadShift;
    Value* thread = parts_.instructions.first_thread();
    Value* steps =
        b_.CreateLoad(b_.getInt16Ty(),
                      b_.CreateGEP(b_.getInt16Ty(),
                                   of_context(b_.getPtrTy(), offsetof(BlockContext, check_steps)),
                                   b_.CreateLShr(thread, 5)));
    Type* const word = b_.getInt64Ty();
    Value* own = b_.CreateOr(b_.CreateShl(b_.CreateZExt(steps, word), touch::kStepShift),
                             b_.CreateShl(b_.CreateZExt(thread, word), touch::kThreadShift));
    own = b_.CreateOr(b_.CreateOr(own, of_context(word, offsetof(BlockContext, check_now))),
                      b_.getInt64(std::uint64_t{shift} << touch::kShiftShift));
    Value* index = b_.CreateMul(b_.CreateLShr(offset, 5), b_.getInt64(sizeof(CheckRow)));
    Value* first_row = b_.CreateGEP(b_.getInt8Ty(),
                                    field_of(at, b_.getPtrTy(), offsetof(CheckRange, rows)), index);
    Value* known = field_of(of_context(b_.getPtrTy(), offsetof(BlockContext, check_sites)),
                            b_.getInt8Ty(), number(call, kSite));
    Value* take =
        b_.CreateAnd(b_.CreateICmpEQ(b_.CreateAnd(offset, b_.getInt64(kRow - 1)), b_.getInt64(0)),
                     b_.CreateICmpNE(known, b_.getInt8(0)));
    take = b_.CreateAnd(take, are_rows_quiet(call, first_row, own, count, next));
    if (fine) take = b_.CreateAnd(take, fine);
    BasicBlock *update = new_block("rows"), *settled = settles ? new_block("settled") : check;
    b_.CreateCondBr(take, update, settled, likely);
    b_.SetInsertPoint(update);
    const bool writes = (flags & kWrite) != 0;
    const auto store = [&](Value* value, std::uint64_t row, std::size_t member, Align align) {
      Value* to =
          b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), first_row, row * sizeof(CheckRow) + member);
      b_.CreateAlignedStore(value, to, align, /*isVolatile=*/true);
    };
    for (std::uint64_t r = 0; r < count; ++r) {
      store(b_.CreateAdd(own, b_.getInt64(r * next)), r,
            writes ? offsetof(CheckRow, write) : offsetof(CheckRow, read), Align{8});
      store(b_.getInt16(static_cast<std::uint16_t>(number(call, kSite))), r,
            writes ? offsetof(CheckRow, write_site) : offsetof(CheckRow, read_site), Align{2});
    }
    b_.CreateBr(after);
    if (settles) b_.SetInsertPoint(settled);
  }
  if (settles && uniform) {
    BasicBlock *ask = new_block("uniform"), *clean = init ? new_block("initialized") : ask;
    branch_to_settled(at, offset, span, after, clean);
    if (init) {
      b_.SetInsertPoint(clean);
      b_.CreateCondBr(is_initialized(at, offset, span, shared), ask, check, likely);
    }
    b_.SetInsertPoint(ask);
    Type *pointer = b_.getPtrTy(), *word = b_.getInt32Ty();
    FunctionCallee callee = module_.getOrInsertFunction(
        "cucpu_rt_check_lanes_uniform",
        FunctionType::get(b_.getInt1Ty(),
                          {pointer, pointer, b_.getInt64Ty(), word, word, word, word}, false));
    auto* function = cast<Function>(callee.getCallee());
    function->setDoesNotThrow();
    function->setMemoryEffects(MemoryEffects::inaccessibleOrArgMemOnly());
    function->addRetAttr(Attribute::ZExt);
    CallInst* known =
        b_.CreateCall(callee, {state_.block_context, at, first, call.getArgOperand(kBytes),
                               call.getArgOperand(kSite), parts_.instructions.first_thread(),
                               b_.getInt32(width_)});
    b_.CreateCondBr(known, after, check, likely);
  } else if (settles) {
    branch_to_settled(at, offset, span, after, check);
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
  if (has_state()) {
    const Shape s = shape(address);
    const std::uint64_t bytes = number(call, kBytes);
    if (s.kind > Shape::Strided) return slow();
    const std::int64_t stride = s.kind == Shape::Strided ? s.stride : 0;
    const std::int64_t last = stride * static_cast<std::int64_t>(width_ - 1);
    Value* first = scalar(address);
    if (last < 0) first = b_.CreateAdd(first, b_.getInt64(static_cast<std::uint64_t>(last)));
    const bool dense = !mask() && stride == static_cast<std::int64_t>(bytes);
    if (!unless_known(call, first, bytes + static_cast<std::uint64_t>(std::abs(last)), dense,
                      !mask() && stride == 0, slow))
      slow();
    return;
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
  if (has_state()) {
    if (!unless_known(call, address, number(call, kBytes), false, false, slow)) slow();
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
