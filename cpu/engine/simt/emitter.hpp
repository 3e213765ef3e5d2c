// cpu/engine/simt/emitter.hpp: writes block code. Every thread value has a slot (an alloca that
// mem2reg removes again), every thread block up to two copies: full code, in which all lanes are on
// and no mask exists, and masked code.
#pragma once

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <optional>

#include "cpu/engine/simt/linearize.hpp"
#include "cpu/engine/simt/prefetch.hpp"
#include "cpu/engine/simt/prepare.hpp"
#include "cpu/engine/simt/shape.hpp"
#include "cpu/engine/simt/vectorize.hpp"

namespace cucpu::simt {

/// All analyses of one kernel at one width.
struct Plan {
  const Flow& flow;
  const Shapes& full;
  const Shapes& masked;
  const Shapes& block;
  const Linear& linear;
  Lanes lanes;
  bool groups_agree;  ///< all groups of a block take the same barriers
  bool quick;         ///< masked code shall be short, whatever it takes to run
  /// The extensions at the beginning of a block that must be guarded.
  llvm::DenseMap<const llvm::BasicBlock*, llvm::SmallVector<llvm::Instruction*, 2>> guards{};
};

/// Whether an access goes to the block's shared memory for certain.
bool is_shared(const llvm::Instruction& access, const llvm::Value* pointer);

/// What an atomic operation on shared memory leaves there.
llvm::Value* new_value(llvm::IRBuilderBase&, const llvm::AtomicRMWInst&, llvm::Value* old,
                       llvm::Value* operand);

class Emitter {
 public:
  Emitter(const Plan&, llvm::Function& thread, Report&);

  /// The block function, or null when something cannot be expressed (Report::refusal).
  llvm::Function* run();

 private:
  using Value = llvm::Value;
  using BasicBlock = llvm::BasicBlock;
  using Instruction = llvm::Instruction;
  enum Mode : std::uint8_t { Full, Masked };

  /// Code from a barrier (or the start) to the next barriers, run for one lane group after the
  /// other.
  struct Region {
    unsigned id;
    BasicBlock* start;                          // of thread code
    BasicBlock* enter;                          // of block code: once, before the groups
    BasicBlock *head, *next, *after;            // of block code: the loop over groups
    llvm::SmallPtrSet<BasicBlock*, 16> blocks;  // of thread code
    llvm::DenseMap<BasicBlock*, BasicBlock*> full, guard, body;
    std::vector<std::pair<Mode, BasicBlock*>> work;
    llvm::SmallVector<Region*> exits;
    bool ends = false;                   // some group may return from here
    Instruction* reset_point = nullptr;  // where slots are made undefined for a new group
  };

  // regions.cpp: the frame of the function
  void find_regions();
  void emit_entry_loads(Region&);
  Value* block_load(llvm::LoadInst&);
  void emit_region(Region&);
  void enter_region(Region&, Mode);
  void leave_region(Region* to);
  void finish_region(Region&);
  void run_on();
  void leave_as_it_is(llvm::BranchInst* latch, bool is_short = true);
  llvm::FunctionCallee routine(llvm::StringRef name, llvm::Type* result,
                               llvm::ArrayRef<llvm::Type*> arguments);
  bool needs_group() const;
  unsigned strip_length() const;
  bool can_run_across() const;
  void begin_strip();
  void finish_strip(Region&);
  bool rematerialisable(Value*, unsigned depth = 0) const;
  void rematerialise(Value*);
  Value* array_element(Value* v, bool vector);
  bool changes_form(const Value* v) const {
    return plan_.full[v].scalar() != plan_.masked[v].scalar();
  }

  // emit_flow.cpp: blocks and edges
  BasicBlock* full_block(BasicBlock*);
  BasicBlock* masked_block(BasicBlock*, bool known_active = false);
  void emit_full(BasicBlock*);
  void emit_masked(BasicBlock*);
  void full_branch(BasicBlock*);
  void masked_branch(BasicBlock*);
  void full_edge(BasicBlock* from, BasicBlock* to);
  void masked_edge(BasicBlock* from, BasicBlock* to, Value* mask);
  void masked_edges(BasicBlock* from, BasicBlock* yes, Value* go_yes, BasicBlock* no, Value* go_no);
  void assign_phis(BasicBlock* from, BasicBlock* to, Mode target, Value* mask);
  Value* blend_lanes(Value* mask, Value* yes, Value* no);
  void convert_to_masked(BasicBlock* to);
  void convert_to_full(BasicBlock* to);
  bool needs_blend(BasicBlock* from, BasicBlock* to) const;
  bool harmless_without_lanes(BasicBlock*) const;
  struct Tests {
    Value *all, *none;
  };
  Tests tests_of(Value* condition);
  llvm::ICmpInst* comparison_of(BasicBlock* block, bool& negated) const;
  std::optional<Tests> strided_tests(llvm::ICmpInst&);
  bool decided_by_index(Value* condition) const;
  Value* leaves_range(Value* first, std::uint64_t span, bool down, bool is_signed);
  Value* wraps(Instruction& extension);
  Value* any_wraps(llvm::ArrayRef<Instruction*> extensions);

  // emit_one.cpp: branches that one lane takes, and the groups behind a last one
  struct OneLane {
    Value *hit, *lane;  // whether one lane of the group takes the branch, and which
    BasicBlock *body, *join;
  };
  std::optional<OneLane> one_lane(BasicBlock*);
  void emit_one_lane(BasicBlock*, const OneLane&);
  Value* value_at(Value* v, Value* lane);
  Value* base_of(Shape, Value* value, Value* lane);
  /// What instructions of the thread code became for one lane alone.
  using LaneCopies = llvm::DenseMap<Value*, Value*>;
  Value* value_in_lane(Value* v, Value* lane, const LaneCopies& made);
  /// The instructions of a block, without its end, as scalar code for one lane.
  void copy_for_lane(BasicBlock& block, Value* lane, LaneCopies& made);
  bool grows_with_groups(Value*, unsigned depth = 0) const;
  bool all_groups_come(BasicBlock*) const;
  bool ends_the_grid(BasicBlock*) const;
  struct Exit {
    bool found = false;
    Region* to = nullptr;
  };
  Exit plain_exit(BasicBlock*) const;
  struct Last {
    bool on_all = false,
         on_none =
             false;  // when this test holds, groups behind this one do nothing more in the region
    Value* also = nullptr;  // and this has to hold
    Exit exit;
  };
  Last last_group(BasicBlock*);
  void leave_groups(const Exit&);
  void start_modes();

  // emit_edge.cpp: groups of which only neighbouring lanes go on
  struct Edge {
    Value* first;                         // lane that goes on
    llvm::SmallVector<Value*, 8> pieces;  // where each begins, counted from there
  };
  struct LaneRange {
    Value *first, *end;  // may be empty
    Value* broken;       // it is not one range
  };
  void emit_edge(BasicBlock*);
  bool same_twice(Instruction&) const;
  llvm::SmallVector<BasicBlock*> straight_way(BasicBlock* block, BasicBlock* to) const;
  bool narrow_range(Value* condition, bool wanted, LaneRange&);
  Value* edge_lanes(llvm::Type* number);
  Value* edge_pointer(Value* base, unsigned lane, std::int64_t stride);
  Value* load_pieces(llvm::Type* element, Value* base, std::int64_t size, llvm::Align);
  void store_pieces(Value* all, Value* base, std::int64_t size, llvm::Align);

  // emit_row.cpp: what a row of a strip has in common
  bool same_in_row(Value*, unsigned depth = 0) const;
  void row_parts(Value* condition, bool wanted, llvm::SmallMapVector<Value*, bool, 8>&) const;
  llvm::SmallMapVector<Value*, bool, 8> ends_of_row() const;
  struct RowGrowth {
    std::int64_t thread = 0, block = 0;
  };
  std::optional<RowGrowth> row_growth(Value*, unsigned depth = 0) const;
  void guard_row();
  void branch_if_wrapped(llvm::ArrayRef<Instruction*> extensions, BasicBlock* wrapped,
                         BasicBlock* fine);
  void begin_row();

  // emit_tail.cpp: the group at the end of the grid
  bool emit_tail(BasicBlock*);
  bool can_run_alone(Instruction&) const;

  // emitter.cpp: values and slots
  void begin_block(Mode);
  Shape shape(const Value* v) const { return mode_ == Full ? plan_.full[v] : plan_.masked[v]; }
  Value* scalar(Value*);  // a uniform value, or the base of a strided one
  Value* vec(Value*);
  Value* component(Value* v) { return shape(v).scalar() ? scalar(v) : vec(v); }
  void define(Instruction*, Value*);
  bool is_lazy(const Instruction*) const;
  bool needs_slot(const Instruction*) const;
  llvm::AllocaInst* slot(Value*, bool vector);
  llvm::AllocaInst* temporary(llvm::Type*, const llvm::Twine& name);
  Value* load_slot(Value*, bool vector);
  void store_slot(Value*, bool vector, Value*);
  llvm::Type* vector_type(llvm::Type*) const;
  llvm::Type* slot_type(llvm::Type*) const;
  llvm::AllocaInst* mask_slot(BasicBlock*);
  Value* to_slot_form(Value*);
  Value* from_slot_form(Value*, llvm::Type*);
  Value* load_mask(BasicBlock*);
  void add_to_mask(BasicBlock*, Value* lanes);
  Value* all_lanes() const;
  Value* splat(Value* v) { return b_.CreateVectorSplat(width_, v); }
  Value* bits(Value* mask);  // i1 vector to an integer of W bits
  Value* lane_numbers(llvm::Type*) const;
  Value* context_field(llvm::Type*, std::size_t offset, const llvm::Twine& name);

  // emit_inst.cpp
  void emit(Instruction&);
  void emit_vector(Instruction&);
  void emit_call(llvm::CallInst&);
  void emit_intrinsic(llvm::CallInst&, unsigned id);
  void emit_marker(llvm::CallInst&, llvm::StringRef name);
  Value* special_register(llvm::StringRef name, llvm::Type*);
  Value* first_in_row();
  Value* first_thread();
  void call_per_lane(llvm::CallInst&);
  void set_current(Value* lane);
  void check_align(llvm::CallInst&);
  /// Runs `body` once per lane that is on, in a loop; operands come from memory.
  void for_each_lane(const std::function<void(Value* lane)>& body);
  /// The same for the bits of `on` (i64), of which one at least is set.
  void for_each_lane(Value* on, const std::function<void(Value* lane)>& body);
  Value* spill(Value* vector, const llvm::Twine& name);  // to memory, for dynamic lane access
  Value* lane_of(Value* spilled, Value* lane, llvm::Type*);

  // emit_memory.cpp
  void emit_load(llvm::LoadInst&);
  void emit_store(llvm::StoreInst&);
  void emit_atomic(Instruction&);
  void emit_alloca(llvm::AllocaInst&);
  bool is_parameter_load(llvm::LoadInst&) const;
  Value* active_pointers(
      Value* pointer);  // lanes that are off point where a lane that is on points
  Value* lane_pointer(Value* base, unsigned lane, std::int64_t stride);
  bool is_made_here(const Instruction*) const;
  Value* copy_with(const Instruction*, llvm::ArrayRef<Value*> operands);  // for one lane
  // Of one lane at a time, for loops over lanes; and of what addresses are made of, so deep.
  std::function<Value*(Value* lane)> addresses_of(Value* pointer, unsigned depth = 6);
  bool by_loop(bool rare) const;  // whether lanes that are apart are accessed by a loop over them
  // Where it is rare, a loop over the lanes: little code, which leaves registers to the rest.
  Value* gather(llvm::LoadInst&, llvm::Type*, llvm::Align, bool rare);
  void scatter(llvm::StoreInst&, llvm::Align, bool rare);
  void store_lanes(Value* all, Value* base, llvm::Align);
  Value* lane_value(Value* v, unsigned lane);
  unsigned extensions_in(Value* v, unsigned depth = 0) const;
  Value* contiguous(Value* pointer, std::int64_t size);
  Value* load_within_pages(llvm::Type*, Value* first, std::int64_t size, llvm::Align);
  Value* last_lane(Value* v);  // the value in the highest lane that is on

  // prefetch.cpp
  void emit_prefetch(llvm::LoadInst&, llvm::LoadInst* made, std::uint64_t bytes);

  // emit_warp.cpp: 32 lanes, whole warps
  void emit_warp(llvm::CallInst&, llvm::StringRef name);
  void emit_shuffle(llvm::CallInst&, llvm::StringRef kind);
  void emit_vote(llvm::CallInst&, llvm::StringRef kind);
  void emit_match(llvm::CallInst&, llvm::StringRef kind);
  void emit_reduction(llvm::CallInst&, llvm::StringRef kind);
  void emit_collective(llvm::CallInst&, llvm::StringRef name);
  Value* constant_shuffle(Value* a, llvm::StringRef kind, std::uint32_t b, std::uint32_t c,
                          Value*& valid);

  void refuse(const llvm::Twine& why) {
    if (report_.refusal.empty()) report_.refusal = why.str();
  }
  BasicBlock* new_block(const llvm::Twine& name) {
    return BasicBlock::Create(context_, name, function_);
  }

  const Plan& plan_;
  llvm::Function& thread_;
  Report& report_;
  llvm::LLVMContext& context_;
  llvm::Module& module_;
  llvm::Function* function_ = nullptr;
  llvm::IRBuilder<> b_;
  llvm::IRBuilder<> entry_;  // appends to the entry block, before its branch
  unsigned width_;
  Value* block_context_ = nullptr;
  llvm::SmallPtrSet<const llvm::AtomicRMWInst*, 2> late_;  // see deferrable_atomics.hpp
  Prefetches streams_;
  struct Asked {
    Prefetch stream;
    llvm::LoadInst* load;
    std::uint64_t bytes;
  };
  llvm::SmallVector<Asked, 4> asked_;  // of streams_, in this block

  Mode mode_ = Full;
  Value* mask_ = nullptr;                                   // i1 vector while emitting masked code
  llvm::DenseMap<const Value*, Value*> scalars_, vectors_;  // of the block being emitted
  const BasicBlock* at_ = nullptr;  // the thread's block that is being emitted
  std::optional<Edge> edge_;        // while emitting code for groups at an edge

  llvm::MapVector<std::pair<Value*, unsigned>, llvm::AllocaInst*> slots_;
  llvm::MapVector<BasicBlock*, llvm::AllocaInst*> mask_slots_;
  llvm::DenseMap<Value*, Value*> private_memory_;  // thread allocas
  llvm::StringMap<Value*> registers_;
  llvm::DenseMap<std::pair<std::uint64_t, llvm::Type*>, Value*> parameters_;
  llvm::AllocaInst *group_ = nullptr, *deoptimised_ = nullptr, *exit_state_ = nullptr;

  std::vector<std::unique_ptr<Region>> regions_;
  Region* region_ = nullptr;
  BasicBlock* done_ = nullptr;
  /// Blocks that are neighbours in x make a strip: a row of threads of all of them runs before the
  /// next row, so that memory is gone through in long runs.
  struct Strip {
    llvm::AllocaInst *column,
        *row;                   // ctaid.x, and the row of the block that runs; groups count anew
    llvm::AllocaInst* before;   // the end of the strip before, 0: there was none
    Value *first, *end;         // columns
    BasicBlock* none;           // there are no more blocks
    BasicBlock *rows, *blocks;  // loop headers
    BasicBlock *next_block, *next_row;
  };
  std::optional<Strip> strip_;
  llvm::DenseMap<const Value*, bool> decided_;  // conditions that hold, or not, in every group
  Value* row_wraps_ = nullptr;                  // whether one of these wraps somewhere in the row
  llvm::SmallPtrSet<const Instruction*, 4> row_guards_;
  bool masks_cross_barriers_ = false;
  bool says_group_ = true;       // BlockContext::current_thread is kept for each group
  bool masks_are_rare_ = false;  // only guards and the end of the grid lead to masked code (or so
                                 // we say): keep it small
  llvm::DenseMap<std::pair<Value*, unsigned>, std::size_t>
      arrays_;  // offsets of per-group arrays in scratch
  std::size_t scratch_bytes_ = 0;
  llvm::DenseMap<Value*, std::pair<llvm::AllocaInst*, llvm::AllocaInst*>>
      block_values_;  // uniform over the block: kept once
  /// A load made once for all groups (block_loads.hpp); `made` where the first group makes it.
  struct BlockLoad {
    llvm::AllocaInst *value = nullptr, *made = nullptr;
  };
  llvm::DenseMap<const llvm::LoadInst*, BlockLoad> block_loads_;
  llvm::DenseMap<llvm::CallInst*, llvm::AllocaInst*> accumulators_;
  Value *modes_ = nullptr, *masks_ = nullptr, *states_ = nullptr, *next_states_ = nullptr;
  bool modes_before_ = false;  // some group may leave the first region without a word
};

}  // namespace cucpu::simt
