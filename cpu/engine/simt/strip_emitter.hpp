// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/strip_emitter.hpp: strips: neighboring blocks whose rows of threads run one after
// the other.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SmallPtrSet.h>

#include <optional>

#include "cpu/engine/simt/regions.hpp"

namespace cucpu::simt {

/// Blocks that are neighbors in x form a strip: a row of threads of all of them runs before the
/// next row, so that memory is accessed in long contiguous runs. Only the order of independent
/// threads changes.
///
/// Owns the loops over rows and blocks of a strip, and what holds for a whole row: conditions that
/// have one value in it, and guards that were checked once for it.
class StripEmitter : public EmitterPart {
 public:
  explicit StripEmitter(EmitterParts& parts) : EmitterPart{parts} {}

  struct Strip {
    llvm::AllocaInst *column, *row;  ///< ctaid.x and the row; groups are counted within both
    llvm::AllocaInst* before;        ///< the end of the previous strip; 0: there was none
    Value *first, *end;              ///< columns
    BasicBlock* none;                ///< there are no more blocks
    BasicBlock *rows, *blocks;       ///< loop headers
    BasicBlock *next_block, *next_row;
  };

  [[nodiscard]] bool can_run_across() const;
  void begin_strip();
  void finish_strip(RegionEmitter::Region&);
  [[nodiscard]] const Strip* strip() const { return strip_ ? &*strip_ : nullptr; }
  /// Conditions that have the same known value in every group that runs.
  [[nodiscard]] const llvm::DenseMap<const Value*, bool>& decided() const { return decided_; }
  /// Branches to `wrapped` if one of these wraps inside the group.
  void branch_if_wrapped(llvm::ArrayRef<Instruction*> extensions, BasicBlock* wrapped,
                         BasicBlock* fine);

 private:
  unsigned strip_length() const;
  bool same_in_row(Value*, unsigned depth = 0) const;
  void row_parts(Value* condition, bool wanted, llvm::SmallMapVector<Value*, bool, 8>&) const;
  llvm::SmallMapVector<Value*, bool, 8> ends_of_row() const;
  struct RowGrowth {
    std::int64_t thread = 0, block = 0;
  };
  std::optional<RowGrowth> row_growth(Value*, unsigned depth = 0) const;
  void guard_row();
  void begin_row();

  std::optional<Strip> strip_;
  llvm::DenseMap<const Value*, bool> decided_;
  Value* row_wraps_ = nullptr;  ///< whether one of `row_guards_` wraps anywhere in the row
  llvm::SmallPtrSet<const Instruction*, 4> row_guards_;
};

}  // namespace cucpu::simt
