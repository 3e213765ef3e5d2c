// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/value_map.hpp: from values of thread code to values of block code.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/MapVector.h>

#include "cpu/engine/simt/emit_state.hpp"

namespace cucpu::simt {

/// Owns the slots (allocas, which mem2reg removes) that carry values between blocks, and the values
/// known in the block being emitted.
///
/// Invariants: a value has the form that its shape requires in the current mode: a scalar if it is
/// uniform or strided (then the base, the value of lane 0), else a vector. A value that another
/// block uses is stored to its slot where it is defined, in full and in masked code, except at an
/// edge (PartialGroupEmitter). Known values are valid at the insertion point: restore() them when
/// emission continues in another block.
class ValueMap : public EmitterPart {
 public:
  explicit ValueMap(EmitterParts& parts) : EmitterPart{parts} {}

  /// Values in registers at the insertion point.
  struct Known {
    llvm::DenseMap<const Value*, Value*> scalars, vectors;
  };
  [[nodiscard]] const Known& known() const { return known_; }
  void restore(const Known& known) { known_ = known; }
  void clear() {
    known_.scalars.clear();
    known_.vectors.clear();
  }
  [[nodiscard]] bool has_vector(const Value* v) const { return known_.vectors.count(v) != 0; }
  [[nodiscard]] bool is_known(const Value* v) const {
    return known_.scalars.count(v) != 0 || has_vector(v);
  }
  void set_scalar(const Value* v, Value* value) { known_.scalars[v] = value; }
  void set_vector(const Value* v, Value* value) { known_.vectors[v] = value; }

  [[nodiscard]] Shape shape(const Value* v) const;
  /// A uniform value, or the base of a strided one.
  Value* scalar(Value*);
  Value* vec(Value*);
  /// Sets what an instruction of thread code became.
  void define(Instruction*, Value*);
  /// Whether an instruction is emitted where its value is needed, not where it stands.
  [[nodiscard]] bool is_lazy(const Instruction*) const;
  [[nodiscard]] bool needs_slot(const Instruction*) const;

  llvm::AllocaInst* slot(Value*, bool vector);
  Value* load_slot(Value*, bool vector);
  void store_slot(Value*, bool vector, Value*);
  /// A value that block code reads from its slot and never stores there, or null: a defect of the
  /// emitter. Before clear_slots().
  [[nodiscard]] const Value* find_undefined() const;
  void clear_slots();  ///< Emits stores of poison to all slots.

 private:
  llvm::MapVector<std::pair<Value*, unsigned>, llvm::AllocaInst*> slots_;
  Known known_;
};

}  // namespace cucpu::simt
