// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/flow_emitter.hpp: blocks, branches and edges, in full and in masked code.
#pragma once

#include <optional>

#include "cpu/engine/simt/emit_state.hpp"

namespace cucpu::simt {

/// Emits the copies of the blocks of a region and the edges between them. Owns no state: the copies
/// belong to the region, the masks to MaskState.
///
/// Invariants: an edge from full to masked code converts every live value whose form differs
/// (convert_to_masked), an edge back the reverse. Masked blocks run in the order of Plan::linear.
class FlowEmitter : public EmitterPart {
 public:
  explicit FlowEmitter(EmitterParts& parts) : EmitterPart{parts} {}

  BasicBlock* full_block(BasicBlock*);
  /// `known_active`: skips the test whether any lane is on.
  BasicBlock* masked_block(BasicBlock*, bool known_active = false);
  void emit_full(BasicBlock*);
  void emit_masked(BasicBlock*);
  void full_edge(BasicBlock* from, BasicBlock* to);

  /// Scalar tests of a condition: all lanes, or none. Both may be false when lanes differ.
  struct Tests {
    Value *all, *none;
  };
  Tests tests_of(Value* condition);
  /// Whether first + span (or first - span) leaves the range of its type.
  Value* leaves_range(Value* first, std::uint64_t span, bool down, bool is_signed);
  /// Whether an assumption of these guarded instructions does not hold (Shapes::needs_guard).
  Value* any_wraps(llvm::ArrayRef<Instruction*> guarded);
  Value* divide_first_lane(Instruction& division, bool remainder);

 private:
  void full_branch(BasicBlock*);
  void masked_branch(BasicBlock*);
  void masked_edge(BasicBlock* from, BasicBlock* to, Value* mask);
  void masked_edges(BasicBlock* from, BasicBlock* yes, Value* go_yes, BasicBlock* no, Value* go_no);
  void assign_phis(BasicBlock* from, BasicBlock* to, Mode target, Value* mask);
  void convert_to_masked(BasicBlock* to);
  void convert_to_full(BasicBlock* to);
  Value* have_full_shapes(BasicBlock* to);
  bool needs_blend(BasicBlock* from, BasicBlock* to) const;
  bool harmless_without_lanes(BasicBlock*) const;
  std::optional<Tests> strided_tests(llvm::ICmpInst&);
  bool decided_by_index(Value* condition) const;
  Value* wraps(Instruction& extension);
  Value* quotients_differ(Instruction& division);
};

}  // namespace cucpu::simt
