// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/race_check_emitter.cpp
#include "cpu/engine/simt/race_check_emitter.hpp"

#include <llvm/ADT/bit.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>

#include "cpu/engine/check/history.hpp"
#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;
using namespace check;
using namespace marker;

/// Whether no access of another thread that a word of a row holds is unordered. As Quiet in
/// check/lane_race.cpp. `own`: the word of this access, or null: no access is of this interval.
Value* RaceCheckEmitter::is_quiet(const CheckedGroup& group, Value* found, Value* own) {
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

Value* RaceCheckEmitter::load_from_row(Value* row, Type* type, std::size_t offset) {
  Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), row, offset);
  return b_.CreateAlignedLoad(type, at, Align{type->getPrimitiveSizeInBits() / 8},
                              /*isVolatile=*/true);
}

void RaceCheckEmitter::store_to_row(Value* value, Value* row, std::size_t offset) {
  Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), row, offset);
  b_.CreateAlignedStore(value, at, Align{value->getType()->getPrimitiveSizeInBits() / 8},
                        /*isVolatile=*/true);
}

Value* RaceCheckEmitter::first_row(const CheckedGroup& group) {
  static_assert(sizeof(CheckRow) == 4 * touch::kRowWords);
  Value* index = b_.CreateAnd(group.offset, b_.getInt64(~std::uint64_t{sizeof(CheckRow) - 1}));
  return b_.CreateGEP(b_.getInt8Ty(),
                      field_of(group.range, b_.getPtrTy(), offsetof(CheckRange, rows)), index);
}

/// The word of an access of the group to a row.
Value* RaceCheckEmitter::own_word(std::uint64_t kind) {
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
Value* RaceCheckEmitter::is_known_site(const CheckedGroup& group) {
  Value* known = field_of(of_context(b_.getPtrTy(), offsetof(BlockContext, check_sites)),
                          b_.getInt8Ty(), number(group.call, kSite));
  return b_.CreateICmpNE(known, b_.getInt8(0));
}

Value* RaceCheckEmitter::settled_words(const CheckedGroup& group) {
  return b_.CreateGEP(b_.getInt8Ty(),
                      field_of(group.range, b_.getPtrTy(), offsetof(CheckRange, settled)),
                      group.offset);
}

void RaceCheckEmitter::branch_to_settled(const CheckedGroup& group, BasicBlock* yes,
                                         BasicBlock* no) {
  const auto words = static_cast<unsigned>(group.span / 4);
  Value* tags = b_.CreateAlignedLoad(FixedVectorType::get(b_.getInt32Ty(), words),
                                     settled_words(group), Align{4}, /*isVolatile=*/true);
  Value* now = of_context(b_.getInt32Ty(), offsetof(BlockContext, check_interval));
  branch(b_.CreateAndReduce(b_.CreateICmpEQ(tags, b_.CreateVectorSplat(words, now))), yes, no);
}

/// Reads of memory that the grid does not write only tag the words; others go on in a new block.
void RaceCheckEmitter::emit_read_only(const CheckedGroup& group, BasicBlock* after,
                                      BasicBlock* check) {
  BasicBlock *read_only = new_block("read.only"), *tag = new_block("tag"),
             *other = new_block("other");
  Value* history = field_of(group.range, b_.getPtrTy(), offsetof(CheckRange, rows));
  branch(b_.CreateIsNull(history), read_only, other);
  b_.SetInsertPoint(read_only);
  Value* aligned = b_.CreateICmpEQ(b_.CreateAnd(group.offset, b_.getInt64(3)), b_.getInt64(0));
  if ((plan_.check & kInit) != 0)
    aligned = b_.CreateAnd(aligned, parts_.init_checks.is_initialized(group));
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
void RaceCheckEmitter::emit_rows(const CheckedGroup& group, BasicBlock* after, BasicBlock* other) {
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
    is_aligned =
        b_.CreateAnd(is_aligned, parts_.init_checks.is_initialized(group, /*aligned=*/true));
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
Value* RaceCheckEmitter::are_settled(ArrayRef<Value*> reads) {
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
void RaceCheckEmitter::emit_second_reader(const CheckedGroup& group, Value* first,
                                          ArrayRef<Value*> read, ArrayRef<Value*> own,
                                          BasicBlock* after, BasicBlock* other) {
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
void RaceCheckEmitter::emit_uniform(const CheckedGroup& group, BasicBlock* after,
                                    BasicBlock* other) {
  Type* const word = b_.getInt64Ty();
  const std::uint64_t words = group.span / 4;
  BasicBlock *aligned = new_block("aligned"), *first_read = new_block("first"),
             *quiet = new_block("quiet"), *update = new_block("uniform");
  Value* is_aligned =
      b_.CreateICmpEQ(b_.CreateAnd(group.offset, b_.getInt64(group.span - 1)), b_.getInt64(0));
  is_aligned = b_.CreateAnd(is_aligned, is_known_site(group));
  if ((plan_.check & kInit) != 0)
    is_aligned = b_.CreateAnd(is_aligned, parts_.init_checks.is_initialized(group));
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

}  // namespace cucpu::simt
