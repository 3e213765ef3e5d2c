// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/mask_state.hpp: which lanes are on.
#pragma once

#include <llvm/ADT/MapVector.h>

#include "cpu/engine/simt/emit_state.hpp"

namespace cucpu::simt {

/// Owns the mode of the code being emitted, its mask, and for each block of thread code the mask of
/// the lanes that wait to enter its masked copy.
///
/// Invariants: in full code there is no mask (all lanes are on). A mask slot is zero when a group
/// starts and after the masked copy of its block has loaded it, so lanes wait in at most one slot.
class MaskState : public EmitterPart {
 public:
  explicit MaskState(EmitterParts& parts) : EmitterPart{parts} {}

  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] Value* mask() const { return mask_; }  ///< i1 vector; null in full code
  void begin(Mode mode) {
    mode_ = mode;
    mask_ = nullptr;
  }
  void set_mask(Value* mask) { mask_ = mask; }

  llvm::AllocaInst* mask_slot(BasicBlock*);
  Value* load_mask(BasicBlock*);
  void add_to_mask(BasicBlock*, Value* lanes);
  void clear_slots();  ///< Emits stores of zero to all mask slots.

  /// Whether the group left full code because a guarded value wraps (an i1 in memory).
  llvm::AllocaInst*& deoptimised() { return deoptimised_; }
  /// Masked code is expected to run only for guards and at the end of the grid: keep it small.
  [[nodiscard]] bool are_rare() const { return rare_; }
  void set_rare(bool rare) { rare_ = rare; }

 private:
  Mode mode_ = Full;
  Value* mask_ = nullptr;
  llvm::MapVector<BasicBlock*, llvm::AllocaInst*> mask_slots_;
  llvm::AllocaInst* deoptimised_ = nullptr;
  bool rare_ = false;
};

}  // namespace cucpu::simt
