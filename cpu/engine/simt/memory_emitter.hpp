// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/memory_emitter.hpp: loads, stores, atomics and local variables.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/IntrinsicInst.h>

#include <functional>
#include <optional>

#include "cpu/engine/simt/emit_state.hpp"
#include "cpu/engine/simt/prefetch.hpp"

namespace cucpu::simt {

/// Whether an access certainly addresses the block's shared memory.
bool is_shared(const llvm::Instruction& access, const llvm::Value* pointer);

/// The value that an atomic operation on shared memory stores.
llvm::Value* new_value(llvm::IRBuilderBase&, const llvm::AtomicRMWInst&, llvm::Value* old,
                       llvm::Value* operand);

/// Emits accesses by the shape of their address: one scalar access if it is uniform, one vector
/// access if it is contiguous, else a gather or scatter, or a loop over lanes.
///
/// Owns the memory of thread-local variables (one copy per lane), the kernel parameters that were
/// loaded in the entry block, and the prefetches collected in the current block.
/// Invariant: a lane that is off accesses no memory that a lane that is on would not access.
class MemoryEmitter : public EmitterPart {
 public:
  explicit MemoryEmitter(EmitterParts&);

  void emit_load(llvm::LoadInst&);
  void emit_store(llvm::StoreInst&);
  void emit_atomic(Instruction&);
  void emit_alloca(llvm::AllocaInst&);
  /// Whether an atomic operation may take effect later than where it stands (late.hpp).
  [[nodiscard]] bool is_late(const llvm::AtomicRMWInst* rmw) const { return late_.contains(rmw); }
  /// The address of one lane of a strided pointer.
  Value* lane_pointer(Value* base, unsigned lane, std::int64_t stride);
  /// The value in the highest lane that is on.
  Value* last_lane(Value* v);
  /// Whether the thread code loads a tile whose rows have a constant length (memory_pieces.cpp).
  static bool loads_tile(const Flow&, const Lanes&);
  void begin_block() {
    pending_prefetches_.clear();
    lane_words_.clear();
    loaded_units_.clear();
    repeating_.clear();
  }
  /// Whether full code needs the vector of an address only where pieces are not contiguous.
  [[nodiscard]] bool is_of_pieces(const Instruction* inst) const {
    return of_pieces_.contains(inst);
  }

 private:
  /// An address as a sum: terms that are the same for all lanes, and one that is not.
  struct AddressTerms {
    llvm::SmallVector<std::pair<Value*, std::uint64_t>, 4> uniform;  ///< with factors
    Value* lanes = nullptr;
    std::uint64_t scale = 1;
  };
  bool find_terms(Value*, std::uint64_t factor, AddressTerms&, unsigned depth = 0) const;
  std::optional<AddressTerms> indexed(Value* pointer) const;
  Value* uniform_address(const AddressTerms&);
  Value* lane_pointers(Value* pointer, bool active = false);
  Value* lane_address(Value* pointer, unsigned lane, unsigned depth = 5);
  // memory_units.cpp
  std::optional<std::int64_t> offset_in_unit(llvm::LoadInst&, std::int64_t size,
                                             std::int64_t stride) const;
  Value* load_from_units(llvm::LoadInst&, llvm::Type*, std::int64_t size, std::int64_t stride);
  bool store_to_units(llvm::StoreInst&, llvm::Type*, std::int64_t size, std::int64_t stride);
  /// Neighbouring elements that a lane accesses, wherever those of other lanes are.
  struct LaneUnit {
    const Value* base = nullptr;
    std::int64_t start = 0;   ///< distance from the base
    std::int64_t offset = 0;  ///< of the access in the unit
    std::int64_t bytes = 0;
  };
  bool may_be_apart(const llvm::Type&, std::int64_t size) const;
  struct PlacedLoad {
    std::int64_t offset;
    const llvm::LoadInst* load;
  };
  void find_placed_loads(const llvm::BasicBlock&);
  static std::int64_t bytes_of_unit(llvm::ArrayRef<PlacedLoad> loads, std::int64_t size);
  LaneUnit lane_unit(llvm::LoadInst&, std::int64_t size);
  llvm::SmallVector<Value*> unit_addresses(Value* pointer, std::int64_t offset, std::int64_t bytes);
  Value* load_from_lane_units(llvm::LoadInst&, llvm::Type*, std::int64_t size);
  bool store_to_lane_units(llvm::StoreInst&, llvm::Type*, std::int64_t size);
  llvm::SmallVector<llvm::SmallVector<Value*>> deinterleave(llvm::ArrayRef<Value*> parts,
                                                            std::size_t elements);
  llvm::SmallVector<Value*> interleave(llvm::SmallVector<llvm::SmallVector<Value*>> lists);
  // memory_pieces.cpp
  class Pieces;
  void find_pieces();
  void require_no_clamp(const Pieces&, const llvm::MinMaxIntrinsic&,
                        const std::function<void(Value*)>& require);
  bool load_pieces(llvm::LoadInst&);
  // memory_rows.cpp
  class Rows;
  unsigned row_length(Value* pointer, std::int64_t step, unsigned least = 4);
  bool load_rows(llvm::LoadInst&, std::int64_t size);
  bool store_rows(llvm::StoreInst&, std::int64_t size);
  bool repeats(const Value*, unsigned depth = 0) const;
  Value* active_lanes(Value*);
  llvm::SmallVector<Value*> active_addresses(Value* pointer, std::int64_t distance);
  bool is_made_here(const Instruction*) const;
  Value* copy_with(const Instruction*, llvm::ArrayRef<Value*> operands);  ///< For one lane.
  /// Computes the address of one lane at a time, for loops over lanes. `depth`: of the expressions
  /// that are copied instead of spilled.
  std::function<Value*(Value* lane)> addresses_of(Value* pointer, unsigned depth = 6);
  bool by_loop(bool rare) const;  ///< Whether a loop over lanes replaces a gather or scatter.
  /// Where it is rare, a loop over lanes: little code, which leaves registers to the rest.
  Value* gather(llvm::LoadInst&, llvm::Type*, llvm::Align, bool rare);
  Value* gather_by_loop(llvm::LoadInst&, llvm::Type*, llvm::Align);
  void scatter(llvm::StoreInst&, llvm::Align, bool rare);
  void store_lanes(Value* all, Value* base, llvm::Align);
  Value* lane_value(Value* v, unsigned lane);
  unsigned extensions_in(Value* v, unsigned depth = 0) const;
  Value* contiguous(Value* pointer, std::int64_t size);
  Value* load_within_pages(llvm::Type*, Value* first, std::int64_t size, llvm::Align);
  // prefetch.cpp
  void emit_prefetch(llvm::LoadInst&, llvm::LoadInst* made, std::uint64_t bytes);
  void prefetch_for_later_block(Value* start, const llvm::LoadInst&);

  llvm::SmallPtrSet<const llvm::AtomicRMWInst*, 2> late_;
  Prefetches prefetches_;
  struct PendingPrefetch {
    Prefetch prefetch;
    llvm::LoadInst* load;
    std::uint64_t bytes;
  };
  llvm::SmallVector<PendingPrefetch, 4> pending_prefetches_;  ///< prefetches of the current block
  /// Words of vectors that lanes use one by one: by load and number of the word in the vector.
  llvm::DenseMap<std::pair<const llvm::LoadInst*, unsigned>, Value*> lane_words_;
  /// By address without constants, and type: the plain loads of a block and these constants.
  llvm::DenseMap<std::pair<const Value*, llvm::Type*>, llvm::SmallVector<PlacedLoad>> placed_loads_;
  const llvm::BasicBlock* placed_in_ = nullptr;
  /// Units of the current block that were loaded lane by lane, with the vectors of their elements.
  struct LoadedUnits {
    const Value* base;
    std::int64_t start;
    llvm::Type* type;
    const llvm::LoadInst* load;  ///< the first one of the unit
    llvm::SmallVector<Value*, 8> elements;
  };
  llvm::SmallVector<LoadedUnits, 2> loaded_units_;
  /// Loads of the current block for which lanes that are off have read what the first lane that is
  /// on has read.
  llvm::SmallPtrSet<const Instruction*, 8> repeating_;
  llvm::SmallPtrSet<const llvm::LoadInst*, 4> in_pieces_;
  llvm::SmallPtrSet<const Instruction*, 16> of_pieces_;  ///< their addresses
  llvm::DenseMap<Value*, Value*> private_memory_;
  llvm::DenseMap<std::pair<std::uint64_t, llvm::Type*>, Value*> parameters_;
};

}  // namespace cucpu::simt
