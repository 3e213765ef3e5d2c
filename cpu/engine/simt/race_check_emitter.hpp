// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/race_check_emitter.hpp: the tests of race checks in vector code.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include "cpu/engine/simt/check_part.hpp"

namespace cucpu::simt {

/// Tests and updates the rows of the history that a lane group accesses as a whole, and settled
/// words (docs/design/check.md). Each member continues at a block that the caller gives, `after` if
/// the access needs no routine.
class RaceCheckEmitter : public CheckPart {
 public:
  explicit RaceCheckEmitter(EmitterParts& parts) : CheckPart{parts} {}

  void emit_read_only(const CheckedGroup&, llvm::BasicBlock* after, llvm::BasicBlock* check);
  void emit_rows(const CheckedGroup&, llvm::BasicBlock* after, llvm::BasicBlock* other);
  void emit_uniform(const CheckedGroup&, llvm::BasicBlock* after, llvm::BasicBlock* other);
  void branch_to_settled(const CheckedGroup&, llvm::BasicBlock* yes, llvm::BasicBlock* no);

 private:
  Value* are_settled(llvm::ArrayRef<Value*> reads);
  void emit_second_reader(const CheckedGroup&, Value* first, llvm::ArrayRef<Value*> read,
                          llvm::ArrayRef<Value*> own, llvm::BasicBlock* after,
                          llvm::BasicBlock* other);
  Value* is_quiet(const CheckedGroup&, Value* found, Value* own);
  Value* is_known_site(const CheckedGroup&);
  Value* settled_words(const CheckedGroup&);
  Value* first_row(const CheckedGroup&);
  Value* own_word(std::uint64_t kind);
  Value* load_from_row(Value* row, llvm::Type*, std::size_t offset);
  void store_to_row(Value*, Value* row, std::size_t offset);
};

}  // namespace cucpu::simt
