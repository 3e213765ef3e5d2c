// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/check_emitter.cpp
#include "cpu/engine/simt/check_emitter.hpp"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
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

/// An access of a lane group for race and init checks.
struct CheckEmitter::Group {
  const CallInst& call;
  Value* first;          ///< the lowest address
  std::uint64_t span;    ///< bytes
  bool dense = false;    ///< each lane accesses the bytes after those of the lane before it
  bool uniform = false;  ///< all lanes access the same bytes
  bool sets_initialized = false;  ///< the bits of its bytes are set, not tested
  Value* range = nullptr;         ///< its CheckRange
  Value* offset = nullptr;        ///< of `first` in it

  [[nodiscard]] std::uint64_t bytes() const { return number(call, kBytes); }
  [[nodiscard]] std::uint64_t flags() const { return number(call, kFlags); }
  [[nodiscard]] bool is_shared() const { return number(call, kRange) == 0; }
};

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

/// Calls `visit` with the address of 64 bits, the bits among them that belong to the bytes of an
/// access (at their lowest positions), and how far they are shifted. Bits from an offset that is no
/// multiple of eight on are shifted, so 64 bits hold 57 of them. `aligned`: it is a multiple.
void CheckEmitter::for_initialized_bits(const Group& group, bool aligned,
                                        const std::function<void(Value*, Value*, Value*)>& visit) {
  const std::uint64_t chunk = aligned ? 64 : 56;
  Value* bits = field_of(group.range, b_.getPtrTy(), offsetof(CheckRange, initialized));
  Value* mask = group.is_shared() ? nullptr
                                  : field_of(group.range, b_.getInt64Ty(),
                                             offsetof(CheckRange, initialized_mask));
  Value* shift = aligned ? b_.getInt64(0) : b_.CreateAnd(group.offset, b_.getInt64(7));
  Value* byte = b_.CreateLShr(group.offset, 3);
  for (std::uint64_t done = 0; done < group.span; done += chunk) {
    const std::uint64_t count = std::min(chunk, group.span - done);
    Value* index = b_.CreateAdd(byte, b_.getInt64(done / 8));
    if (mask) index = b_.CreateAnd(index, mask);
    visit(b_.CreateGEP(b_.getInt8Ty(), bits, index), b_.getInt64(~std::uint64_t{0} >> (64 - count)),
          shift);
  }
}

// Volatile: the routine sets bits.
Value* CheckEmitter::is_initialized(const Group& group, bool aligned) {
  Value* missing = nullptr;
  for_initialized_bits(group, aligned, [&](Value* at, Value* bits, Value* shift) {
    Value* load = b_.CreateAlignedLoad(b_.getInt64Ty(), at, Align{1}, /*isVolatile=*/true);
    Value* absent = b_.CreateAnd(b_.CreateNot(b_.CreateLShr(load, shift)), bits);
    missing = missing ? b_.CreateOr(missing, absent) : absent;
  });
  return b_.CreateICmpEQ(missing, b_.getInt64(0));
}

/// Sets whole bytes of bits where it can: a load of bits that were just stored at another offset
/// waits for the store.
void CheckEmitter::set_initialized(const Group& group) {
  BasicBlock *shifted = nullptr, *after = nullptr;
  if (group.span % 8 == 0) {
    BasicBlock* const whole = new_block("whole");
    shifted = new_block("shifted"), after = new_block("set");
    branch(b_.CreateICmpEQ(b_.CreateAnd(group.offset, b_.getInt64(7)), b_.getInt64(0)), whole,
           shifted);
    b_.SetInsertPoint(whole);
    Value* bits = field_of(group.range, b_.getPtrTy(), offsetof(CheckRange, initialized));
    Type* const bytes = FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(group.span / 8));
    b_.CreateAlignedStore(Constant::getAllOnesValue(bytes),
                          b_.CreateGEP(b_.getInt8Ty(), bits, b_.CreateLShr(group.offset, 3)),
                          Align{1}, /*isVolatile=*/true);
    b_.CreateBr(after);
    b_.SetInsertPoint(shifted);
  }
  for_initialized_bits(group, false, [&](Value* at, Value* bits, Value* shift) {
    Value* load = b_.CreateAlignedLoad(b_.getInt64Ty(), at, Align{1}, /*isVolatile=*/true);
    b_.CreateAlignedStore(b_.CreateOr(load, b_.CreateShl(bits, shift)), at, Align{1},
                          /*isVolatile=*/true);
  });
  if (!after) return;
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

/// Whether no access of another thread that a word of a row holds is unordered. As Quiet in
/// check/lane_race.cpp. `own`: the word of this access, or null: no access is of this interval.
Value* CheckEmitter::is_quiet(const Group& group, Value* found, Value* own) {
  Type* const word = b_.getInt64Ty();
  Value* now = of_context(word, offsetof(BlockContext, check_now));
  const auto same = [&] {
    return b_.CreateICmpEQ(b_.CreateAnd(b_.CreateXor(found, own), b_.getInt64(touch::kRowMask)),
                           b_.getInt64(0));
  };
  if (group.is_shared()) {  // words of other blocks are older than this block
    Value* old = b_.CreateICmpULT(found, now);
    return own ? b_.CreateOr(old, same()) : old;
  }
  Value* block = of_context(word, offsetof(BlockContext, check_block));
  Value* empty = of_context(word, offsetof(BlockContext, check_empty));
  Value* ours = b_.CreateICmpULT(b_.CreateSub(found, block), b_.CreateSub(now, block));
  Value* detailed = b_.CreateTrunc(found, b_.getInt1Ty());  // touch::kDetailed
  Value* quiet =
      b_.CreateOr(b_.CreateICmpULT(found, empty), b_.CreateAnd(ours, b_.CreateNot(detailed)));
  if (!own) return quiet;
  return b_.CreateOr(quiet, b_.CreateAnd(same(), b_.CreateICmpUGE(found, block)));
}

Value* CheckEmitter::load_from_row(Value* row, Type* type, std::size_t offset) {
  Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), row, offset);
  return b_.CreateAlignedLoad(type, at, Align{type->getPrimitiveSizeInBits() / 8},
                              /*isVolatile=*/true);
}

void CheckEmitter::store_to_row(Value* value, Value* row, std::size_t offset) {
  Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), row, offset);
  b_.CreateAlignedStore(value, at, Align{value->getType()->getPrimitiveSizeInBits() / 8},
                        /*isVolatile=*/true);
}

Value* CheckEmitter::first_row(const Group& group) {
  static_assert(sizeof(CheckRow) == 4 * touch::kRowWords);
  Value* index = b_.CreateAnd(group.offset, b_.getInt64(~std::uint64_t{sizeof(CheckRow) - 1}));
  return b_.CreateGEP(b_.getInt8Ty(),
                      field_of(group.range, b_.getPtrTy(), offsetof(CheckRange, rows)), index);
}

/// The word of an access of the group to a row.
Value* CheckEmitter::own_word(std::uint64_t kind) {
  Type* const word = b_.getInt64Ty();
  Value* thread = parts_.instructions.first_thread();
  Value* steps = b_.CreateLoad(
      b_.getInt16Ty(),
      b_.CreateGEP(b_.getInt16Ty(), of_context(b_.getPtrTy(), offsetof(BlockContext, check_steps)),
                   b_.CreateLShr(thread, 5)));
  Value* own = b_.CreateOr(b_.CreateShl(b_.CreateZExt(steps, word), touch::kStepShift),
                           b_.CreateShl(b_.CreateZExt(thread, word), touch::kThreadShift));
  own = b_.CreateOr(own, of_context(word, offsetof(BlockContext, check_now)));
  return kind == 0 ? own : b_.CreateOr(own, b_.getInt64(kind));
}

/// Whether the routine knows the instruction.
Value* CheckEmitter::is_known_site(const Group& group) {
  Value* known = field_of(of_context(b_.getPtrTy(), offsetof(BlockContext, check_sites)),
                          b_.getInt8Ty(), number(group.call, kSite));
  return b_.CreateICmpNE(known, b_.getInt8(0));
}

Value* CheckEmitter::settled_words(const Group& group) {
  return b_.CreateGEP(b_.getInt8Ty(),
                      field_of(group.range, b_.getPtrTy(), offsetof(CheckRange, settled)),
                      group.offset);
}

void CheckEmitter::branch(Value* condition, BasicBlock* likely, BasicBlock* unlikely) {
  b_.CreateCondBr(condition, likely, unlikely, MDBuilder{context_}.createBranchWeights(1 << 20, 1));
}

void CheckEmitter::branch_to_settled(const Group& group, BasicBlock* yes, BasicBlock* no) {
  const auto words = static_cast<unsigned>(group.span / 4);
  Value* tags = b_.CreateAlignedLoad(FixedVectorType::get(b_.getInt32Ty(), words),
                                     settled_words(group), Align{4}, /*isVolatile=*/true);
  Value* now = of_context(b_.getInt32Ty(), offsetof(BlockContext, check_interval));
  branch(b_.CreateAndReduce(b_.CreateICmpEQ(tags, b_.CreateVectorSplat(words, now))), yes, no);
}

/// Reads of memory that the grid does not write only tag the words; others go on in a new block.
void CheckEmitter::emit_read_only(const Group& group, BasicBlock* after, BasicBlock* check) {
  BasicBlock *read_only = new_block("read.only"), *tag = new_block("tag"),
             *other = new_block("other");
  Value* history = field_of(group.range, b_.getPtrTy(), offsetof(CheckRange, rows));
  branch(b_.CreateIsNull(history), read_only, other);
  b_.SetInsertPoint(read_only);
  Value* aligned = b_.CreateICmpEQ(b_.CreateAnd(group.offset, b_.getInt64(3)), b_.getInt64(0));
  if ((plan_.check & kInit) != 0) aligned = b_.CreateAnd(aligned, is_initialized(group));
  branch(aligned, tag, check);
  b_.SetInsertPoint(tag);
  Value* now = of_context(b_.getInt32Ty(), offsetof(BlockContext, check_interval));
  b_.CreateAlignedStore(b_.CreateVectorSplat(static_cast<unsigned>(group.span / 4), now),
                        settled_words(group), Align{4}, /*isVolatile=*/true);
  b_.CreateBr(after);
  b_.SetInsertPoint(other);
}

/// Accesses to whole rows that conflict with nothing update the rows; reads of settled rows change
/// nothing. Others go on at `other`.
void CheckEmitter::emit_rows(const Group& group, BasicBlock* after, BasicBlock* other) {
  constexpr std::uint64_t kRow = 4 * touch::kRowWords;
  Type* const word = b_.getInt64Ty();
  const bool writes = (group.flags() & kWrite) != 0;
  const auto shift = static_cast<unsigned>(llvm::countr_zero(group.bytes() / 4));
  const std::uint64_t count = group.span / kRow;
  const std::uint64_t next = std::uint64_t{touch::kRowWords >> shift} << touch::kThreadShift;
  BasicBlock *aligned = new_block("aligned"), *update = new_block("rows");
  Value* is_aligned =
      b_.CreateICmpEQ(b_.CreateAnd(group.offset, b_.getInt64(kRow - 1)), b_.getInt64(0));
  is_aligned = b_.CreateAnd(is_aligned, is_known_site(group));
  if (!group.sets_initialized && (plan_.check & kInit) != 0)
    is_aligned = b_.CreateAnd(is_aligned, is_initialized(group, /*aligned=*/true));
  branch(is_aligned, aligned, other);
  b_.SetInsertPoint(aligned);
  Value* first = first_row(group);
  const auto row = [&](std::uint64_t r) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), first, r * sizeof(CheckRow));
  };
  SmallVector<Value*, 8> read, own;
  for (std::uint64_t r = 0; r < count; ++r)
    read.push_back(load_from_row(row(r), word, offsetof(CheckRow, read)));
  if (!writes) {
    BasicBlock* unsettled = new_block("unsettled");
    b_.CreateCondBr(are_settled(read), after, unsettled);
    b_.SetInsertPoint(unsettled);
  }
  Value* base = own_word(std::uint64_t{shift} << touch::kShiftShift);
  Value* quiet = nullptr;
  for (std::uint64_t r = 0; r < count; ++r) {
    own.push_back(b_.CreateAdd(base, b_.getInt64(r * next)));
    Value* write = load_from_row(row(r), word, offsetof(CheckRow, write));
    Value* both = b_.CreateAnd(is_quiet(group, write, own[r]), is_quiet(group, read[r], own[r]));
    quiet = quiet ? b_.CreateAnd(quiet, both) : both;
  }
  BasicBlock* const second = writes ? other : new_block("second");
  branch(quiet, update, second);
  Value* site = b_.getInt16(static_cast<std::uint16_t>(number(group.call, kSite)));
  if (!writes) {
    b_.SetInsertPoint(second);
    emit_second_reader(group, first, read, own, after, other);
  }
  b_.SetInsertPoint(update);
  for (std::uint64_t r = 0; r < count; ++r) {
    store_to_row(own[r], row(r), writes ? offsetof(CheckRow, write) : offsetof(CheckRow, read));
    store_to_row(site, row(r),
                 writes ? offsetof(CheckRow, write_site) : offsetof(CheckRow, read_site));
  }
  b_.CreateBr(after);
}

/// Whether rows whose words these are need no more reads in this interval.
Value* CheckEmitter::are_settled(ArrayRef<Value*> reads) {
  Value* settled = b_.CreateOr(of_context(b_.getInt64Ty(), offsetof(BlockContext, check_now)),
                               b_.getInt64(touch::kSettled));
  Value* differ = nullptr;
  for (Value* found : reads) {
    Value* differs = b_.CreateXor(found, settled);
    differ = differ ? b_.CreateOr(differ, differs) : differs;
  }
  return b_.CreateICmpEQ(b_.CreateAnd(differ, b_.getInt64(touch::kSettledMask)), b_.getInt64(0));
}

/// Another lane group has read the same elements in this interval, and nothing wrote them: as
/// check_rows() in check/lane_race.cpp.
void CheckEmitter::emit_second_reader(const Group& group, Value* first, ArrayRef<Value*> read,
                                      ArrayRef<Value*> own, BasicBlock* after, BasicBlock* other) {
  Type* const word = b_.getInt64Ty();
  constexpr std::uint64_t kKind = touch::kDetailed | touch::kUniform | touch::kSettled;
  BasicBlock* const settle = new_block("settle");
  Value* now = of_context(word, offsetof(BlockContext, check_now));
  const auto row = [&](std::size_t r) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), first, r * sizeof(CheckRow));
  };
  Value* fine = nullptr;
  for (std::size_t r = 0; r < read.size(); ++r) {
    Value* kind = b_.CreateAnd(b_.CreateXor(read[r], own[r]), b_.getInt64(kKind));
    Value* is_second =
        b_.CreateAnd(b_.CreateICmpEQ(kind, b_.getInt64(0)), b_.CreateICmpUGE(read[r], now));
    Value* write = load_from_row(row(r), word, offsetof(CheckRow, write));
    is_second = b_.CreateAnd(is_second, is_quiet(group, write, nullptr));
    fine = fine ? b_.CreateAnd(fine, is_second) : is_second;
  }
  branch(fine, settle, other);
  b_.SetInsertPoint(settle);
  Type* const half = b_.getInt16Ty();
  Value* site = b_.getInt16(static_cast<std::uint16_t>(number(group.call, kSite)));
  for (std::size_t r = 0; r < read.size(); ++r) {
    store_to_row(read[r], row(r), offsetof(CheckRow, other_read));
    store_to_row(load_from_row(row(r), half, offsetof(CheckRow, read_site)), row(r),
                 offsetof(CheckRow, other_read_site));
    store_to_row(b_.CreateOr(own[r], b_.getInt64(touch::kSettled)), row(r),
                 offsetof(CheckRow, read));
    store_to_row(site, row(r), offsetof(CheckRow, read_site));
  }
  b_.CreateBr(after);
}

/// All lanes read words of one row: the row holds a bit per word. Others go on at `other`.
void CheckEmitter::emit_uniform(const Group& group, BasicBlock* after, BasicBlock* other) {
  Type* const word = b_.getInt64Ty();
  const std::uint64_t words = group.span / 4;
  BasicBlock *aligned = new_block("aligned"), *first_read = new_block("first"),
             *quiet = new_block("quiet"), *update = new_block("uniform");
  Value* is_aligned =
      b_.CreateICmpEQ(b_.CreateAnd(group.offset, b_.getInt64(group.span - 1)), b_.getInt64(0));
  is_aligned = b_.CreateAnd(is_aligned, is_known_site(group));
  if ((plan_.check & kInit) != 0) is_aligned = b_.CreateAnd(is_aligned, is_initialized(group));
  branch(is_aligned, aligned, other);
  b_.SetInsertPoint(aligned);
  Value *row = first_row(group), *own = own_word(touch::kUniform);
  Value* found = load_from_row(row, word, offsetof(CheckRow, read));
  Type* const half = b_.getInt16Ty();
  Value* place = b_.CreateTrunc(b_.CreateAnd(b_.CreateLShr(group.offset, 2), b_.getInt64(7)), half);
  Value* bits = b_.CreateShl(b_.getInt16(static_cast<std::uint16_t>((1U << words) - 1)), place);
  Value* known = load_from_row(row, half, offsetof(CheckRow, uniform));
  Value* more = b_.CreateOr(known, bits);
  b_.CreateCondBr(b_.CreateICmpEQ(found, own), update, first_read);

  // The row must hold no earlier read: it would be lost. In shared memory those do not count.
  b_.SetInsertPoint(first_read);
  Value* write = load_from_row(row, word, offsetof(CheckRow, write));
  Value* is_free = is_quiet(group, write, nullptr);
  if (group.is_shared()) {
    is_free = b_.CreateAnd(is_free, is_quiet(group, found, nullptr));
  } else {
    Value* now = of_context(word, offsetof(BlockContext, check_now));
    Value* is_open = b_.CreateOr(b_.CreateTrunc(found, b_.getInt1Ty()),  // touch::kDetailed
                                 b_.CreateICmpEQ(found, b_.getInt64(0)));
    is_free = b_.CreateAnd(is_free, b_.CreateAnd(is_open, b_.CreateICmpULT(found, now)));
  }
  branch(is_free, quiet, other);
  b_.SetInsertPoint(quiet);
  store_to_row(own, row, offsetof(CheckRow, read));
  Value* only = b_.CreateOr(bits, b_.getInt16(static_cast<std::uint16_t>((width_ - 1) << 8)));
  b_.CreateBr(update);

  b_.SetInsertPoint(update);
  PHINode* uniform = b_.CreatePHI(half, 2);
  uniform->addIncoming(more, aligned);
  uniform->addIncoming(only, quiet);
  store_to_row(uniform, row, offsetof(CheckRow, uniform));
  Value* sites = b_.CreateGEP(
      b_.getInt8Ty(), field_of(group.range, b_.getPtrTy(), offsetof(CheckRange, read_sites)),
      b_.CreateLShr(group.offset, 1));
  b_.CreateAlignedStore(
      b_.CreateVectorSplat(static_cast<unsigned>(words),
                           b_.getInt16(static_cast<std::uint16_t>(number(group.call, kSite)))),
      sites, Align{2}, /*isVolatile=*/true);
  b_.CreateBr(after);
}

bool CheckEmitter::unless_known(Group group, const std::function<void()>& slow) {
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
  if (group.sets_initialized) set_initialized(group);
  if (!race) {
    if (group.sets_initialized)
      b_.CreateBr(after);
    else
      branch(is_initialized(group), after, check);
    emit_slow_path(check, after, slow);
    return true;
  }
  if ((flags & kReadOnly) != 0 && (group.dense || group.span == bytes))
    emit_read_only(group, after, check);
  BasicBlock* const settled = settles ? new_block("settled") : check;
  if (rows)
    emit_rows(group, after, settled);
  else if (uniform)
    emit_uniform(group, after, settled);
  else
    b_.CreateBr(settled);
  if (settles) {
    b_.SetInsertPoint(settled);
    branch_to_settled(group, after, check);
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
    Group group{.call = call, .first = first};
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
