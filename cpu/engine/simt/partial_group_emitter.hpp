// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/partial_group_emitter.hpp: groups of which only some lanes take a branch, without
// masked code: a branch of one lane, the group at the end of the grid, neighboring lanes at an
// edge; and the last group that has anything to do.
#pragma once

#include <optional>

#include "cpu/engine/simt/regions.hpp"

namespace cucpu::simt {

/// Full code only. Owns the edge: while it is set, vectors consist of pieces of neighboring lanes
/// that may overlap (two lanes then compute the same thread), and values are not stored to
/// slots.
class PartialGroupEmitter : public EmitterPart {
 public:
  explicit PartialGroupEmitter(EmitterParts& parts) : EmitterPart{parts} {}
  using Region = RegionEmitter::Region;

  // partial_group_lane.cpp: branches that one lane takes
  struct OneLane {
    Value *hit, *lane;  ///< whether one lane of the group takes the branch, and which
    BasicBlock *body, *join;
  };
  std::optional<OneLane> one_lane(BasicBlock*);
  void emit_one_lane(BasicBlock*, const OneLane&);
  Value* value_at(Value* v, Value* lane);

  // the same: the last group that does anything in a region
  struct Exit {
    bool found = false;
    Region* to = nullptr;
  };
  struct Last {
    /// When this test holds, the groups after this one do nothing more in the region.
    bool on_all = false, on_none = false;
    Value* also = nullptr;  ///< and this has to hold
    Exit exit;
  };
  Last last_group(BasicBlock*);
  void leave_groups(const Exit&);
  Exit plain_exit(BasicBlock*) const;
  bool ends_the_grid(BasicBlock*) const;

  // partial_group_edge.cpp: groups of which only neighboring lanes continue
  struct Edge {
    Value* first;                         ///< lane that continues
    unsigned piece;                       ///< lanes of a piece
    llvm::SmallVector<Value*, 8> pieces;  ///< where each begins, counted from `first`
  };
  void emit_edge(BasicBlock*);
  [[nodiscard]] const std::optional<Edge>& edge() const { return edge_; }
  Value* edge_lanes(llvm::Type* number);
  Value* edge_pointer(Value* base, unsigned lane, std::int64_t stride);
  Value* load_pieces(llvm::Type* element, Value* base, std::int64_t size, llvm::Align);
  void store_pieces(Value* all, Value* base, std::int64_t size, llvm::Align);

  // partial_group_tail.cpp: the group at the end of the grid
  /// Emits the rest of the kernel for the lanes that continue; false: nothing was emitted.
  bool emit_tail(BasicBlock*);

 private:
  llvm::ICmpInst* comparison_of(BasicBlock* block, bool& negated) const;
  Value* base_of(Shape, Value* value, Value* lane);
  /// What instructions of the thread code became for one lane alone.
  using LaneCopies = llvm::DenseMap<Value*, Value*>;
  Value* value_in_lane(Value* v, Value* lane, const LaneCopies& made);
  /// Emits the instructions of a block, without its end, as scalar code for one lane.
  void copy_for_lane(BasicBlock& block, Value* lane, LaneCopies& made);
  bool grows_with_groups(Value*, unsigned depth = 0) const;
  bool all_groups_come(BasicBlock*) const;
  struct LaneRange {
    Value *first, *end;  ///< may be empty
    Value* broken;       ///< it is not one range
  };
  bool same_twice(Instruction&) const;
  llvm::SmallVector<BasicBlock*> straight_way(BasicBlock* block, BasicBlock* to) const;
  bool has_masked_accesses(llvm::ArrayRef<BasicBlock*> blocks) const;
  bool narrow_range(Value* condition, bool wanted, LaneRange&);
  bool can_run_alone(Instruction&) const;

  std::optional<Edge> edge_;
};

}  // namespace cucpu::simt
