// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/regions.hpp: the frame of block code: regions between barriers, the loop over the
// groups of each region, and the values that are live across barriers.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallPtrSet.h>

#include <memory>
#include <vector>

#include "cpu/engine/simt/emit_state.hpp"

namespace cucpu::simt {

/// Owns the regions, the group counter, and the memory of values that are live across barriers:
/// scratch memory for values of each group, allocas for values that are uniform over the block.
///
/// Invariants: a group runs a region from its start to a barrier or to the end before the next
/// group runs it. At the start of a group all slots are undefined and all mask slots zero.
class RegionEmitter : public EmitterPart {
 public:
  explicit RegionEmitter(EmitterParts& parts) : EmitterPart{parts} {}

  /// Code from a barrier (or the start) to the next barriers.
  struct Region {
    unsigned id;
    BasicBlock* start;                          ///< of thread code
    BasicBlock* enter;                          ///< of block code: once, before the groups
    BasicBlock *head, *next, *after;            ///< of block code: the loop over groups
    llvm::SmallPtrSet<BasicBlock*, 16> blocks;  ///< of thread code
    llvm::DenseMap<BasicBlock*, BasicBlock*> full, guard, body;
    std::vector<std::pair<Mode, BasicBlock*>> work;
    llvm::SmallVector<Region*> exits;
    bool ends = false;                   ///< some group may return from here
    bool loads_tile = false;             ///< see kTileLoop
    Instruction* reset_point = nullptr;  ///< where slots are made undefined for a new group
    /// A second loop over groups without tests of their modes and without masked code: control
    /// enters it while all groups are in full code. A group whose guard fails starts again in the
    /// first loop, and the later groups follow it.
    std::unique_ptr<Region> quick;
    Region* slow = nullptr;  ///< of a quick region: the first loop
  };

  /// Emits the block function; null when something cannot be expressed (Report::refusal).
  llvm::Function* run();
  [[nodiscard]] bool masks_are_rare(const llvm::BasicBlock* edge) const;

  [[nodiscard]] const std::vector<std::unique_ptr<Region>>& all() const { return regions_; }
  [[nodiscard]] Region* current() const { return region_; }
  void set_current(Region* region) { region_ = region; }
  /// Emits the end of the current group in this region: it stops before `to`, or returns (null).
  void leave_region(Region* to);
  /// Whether a value is computed again in the region that uses it instead of being stored.
  bool rematerialisable(Value*, unsigned depth = 0) const;
  void rematerialise(Value*);
  /// The value of a load that runs once for all groups, or null.
  Value* block_load(llvm::LoadInst&);
  /// Marks a loop of the frame: it is not unrolled.
  void leave_as_it_is(llvm::BranchInst* latch, bool is_short = true);
  /// Marks the loop over the groups of this region with kTileLoop.
  void mark_tile_loop() { region_->loads_tile = true; }
  llvm::FunctionCallee routine(llvm::StringRef name, llvm::Type* result,
                               llvm::ArrayRef<llvm::Type*> arguments);

  [[nodiscard]] llvm::AllocaInst* group() const { return group_; }
  [[nodiscard]] llvm::AllocaInst* exit_state() const { return exit_state_; }
  [[nodiscard]] BasicBlock* done() const { return done_; }
  [[nodiscard]] bool says_group() const { return says_group_; }
  [[nodiscard]] Value* modes() const { return modes_; }
  /// Some group may leave the first region without storing its mode.
  bool& modes_before() { return modes_before_; }
  auto& block_values() { return block_values_; }
  auto& accumulators() { return accumulators_; }

 private:
  void find_regions();
  void emit_entry_loads(Region&);
  void emit_region(Region&);
  void emit_groups(Region&);
  void finish_groups(Region&);
  bool stays_in_full_code(const Region&) const;
  static bool has_no_effect_before(const Region&, BasicBlock*);
  void find_classes();
  Value* first_of_class(Value*) const;
  void add_blocks(Region&, const llvm::Twine& name);
  void separate_scratch();
  void enter_region(Region&, Mode);
  void finish_region(Region&);
  void run_on();
  void start_modes();
  bool needs_group() const;
  Value* array_element(Value* v, bool vector);
  bool changes_form(const Value* v) const {
    return plan_.full[v].scalar() != plan_.masked[v].scalar();
  }

  std::vector<std::unique_ptr<Region>> regions_;
  Region* region_ = nullptr;
  llvm::AllocaInst *group_ = nullptr, *exit_state_ = nullptr;
  llvm::AllocaInst* some_masked_ = nullptr;  ///< some group has left a region in masked code
  BasicBlock* done_ = nullptr;
  bool masks_cross_barriers_ = false;
  bool says_group_ = true;  ///< BlockContext::current_thread is stored for each group
  llvm::DenseMap<Value*, Value*> classes_;  ///< values that share an array: the first of them
  /// Offsets in scratch memory of arrays with an element per group, by the first of their class.
  llvm::DenseMap<std::pair<Value*, unsigned>, std::size_t> arrays_;
  std::size_t scratch_bytes_ = 0;
  /// Values that are uniform over the block: the value, and what the region leaves.
  llvm::DenseMap<Value*, std::pair<llvm::AllocaInst*, llvm::AllocaInst*>> block_values_;
  /// A load that runs once for all groups (block_loads.hpp); `made` where the first group runs it.
  struct BlockLoad {
    llvm::AllocaInst *value = nullptr, *made = nullptr;
  };
  llvm::DenseMap<const llvm::LoadInst*, BlockLoad> block_loads_;
  llvm::DenseMap<llvm::CallInst*, llvm::AllocaInst*> accumulators_;  ///< of barrier reductions
  Value *modes_ = nullptr, *masks_ = nullptr, *states_ = nullptr, *next_states_ = nullptr;
  bool modes_before_ = false;
};

}  // namespace cucpu::simt
