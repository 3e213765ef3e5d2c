// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/instruction_emitter.hpp: arithmetic, calls and special registers.
#pragma once

#include <llvm/ADT/StringMap.h>

#include "cpu/engine/simt/emit_state.hpp"

namespace cucpu::simt {

/// Emits one instruction of thread code at a time, in the current mode, and passes loads, stores,
/// atomics and warp operations to their emitters.
///
/// Owns the special registers that are uniform over the block: each is loaded once, in the entry
/// block, so that it dominates all uses.
class InstructionEmitter : public EmitterPart {
 public:
  explicit InstructionEmitter(EmitterParts& parts) : EmitterPart{parts} {}

  void emit(Instruction&);
  void emit_vector(Instruction&);
  void emit_marker(llvm::CallInst&, llvm::StringRef name);
  Value* special_register(llvm::StringRef name, llvm::Type*);
  /// The number of the group's first thread in its block.
  Value* first_thread();
  /// Stores which thread runs, for fault reports: that of one lane, or (null) those of the group.
  void set_current(Value* lane);
  /// The block of thread code being emitted.
  [[nodiscard]] const BasicBlock* block() const { return at_; }
  /// Values by name that the entry block computes.
  llvm::StringMap<Value*>& registers() { return registers_; }

 private:
  void emit_call(llvm::CallInst&);
  void emit_intrinsic(llvm::CallInst&, unsigned id);
  bool divides_by_uniform(const Instruction&) const;
  Value* first_in_row();
  void call_per_lane(llvm::CallInst&);
  void check_align(llvm::CallInst&);
  Value* counters();  ///< of kernel coverage
  Value* active_lanes();
  void count_block(llvm::CallInst&);
  void count_branch(llvm::CallInst&);

  const BasicBlock* at_ = nullptr;
  llvm::StringMap<Value*> registers_;
};

}  // namespace cucpu::simt
