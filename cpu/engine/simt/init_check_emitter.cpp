// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/init_check_emitter.cpp
#include "cpu/engine/simt/init_check_emitter.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

#include <algorithm>

#include "cpu/engine/run/block_context.hpp"

namespace cucpu::simt {

using namespace llvm;

/// Calls `visit` with the address of 64 bits, the bits among them that belong to the bytes of an
/// access (at their lowest positions), and how far they are shifted. Bits from an offset that is no
/// multiple of eight on are shifted, so 64 bits hold 57 of them. `aligned`: it is a multiple.
void InitCheckEmitter::for_initialized_bits(
    const CheckedGroup& group, bool aligned,
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
Value* InitCheckEmitter::is_initialized(const CheckedGroup& group, bool aligned) {
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
void InitCheckEmitter::set_initialized(const CheckedGroup& group) {
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

}  // namespace cucpu::simt
