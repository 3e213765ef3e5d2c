// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/emit_state.hpp: the state that all parts of the emitter share, and the base class
// of the parts.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <functional>

#include "cpu/engine/simt/linearize.hpp"
#include "cpu/engine/simt/prepare.hpp"
#include "cpu/engine/simt/shape.hpp"
#include "cpu/engine/simt/vector_target.hpp"
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
  VectorTarget target;
  bool groups_agree;  ///< all groups of a block pass the same barriers
  bool baseline;      ///< baseline code: masked code is short, at the cost of run time
  /// The extensions at the beginning of a block that must be guarded.
  llvm::DenseMap<const llvm::BasicBlock*, llvm::SmallVector<llvm::Instruction*, 2>> guards{};
  unsigned check = 0;       ///< check::Kinds
  bool by_columns = false;  ///< all rows of threads run before the next group of a row
};

/// What is emitted, and from what. RegionEmitter::run sets `function` and `block_context`.
struct EmitState {
  EmitState(const Plan& plan, llvm::Function& thread, Report& report)
      : plan{plan},
        thread{thread},
        report{report},
        context{thread.getContext()},
        module{*thread.getParent()},
        b{context},
        entry{context},
        width{plan.lanes.width} {}

  const Plan& plan;
  llvm::Function& thread;  ///< thread code: the input
  Report& report;
  llvm::LLVMContext& context;
  llvm::Module& module;
  llvm::Function* function = nullptr;  ///< block code: the output
  llvm::IRBuilder<> b;
  llvm::IRBuilder<> entry;  ///< appends to the entry block, before its branch
  unsigned width;
  llvm::Value* block_context = nullptr;  ///< the argument of block code
};

struct EmitterParts;

/// The base class of the parts: the shared state, and helpers without a state of their own.
class EmitterPart {
 public:
  using Value = llvm::Value;
  using BasicBlock = llvm::BasicBlock;
  using Instruction = llvm::Instruction;
  /// Every block of thread code has up to two copies: full code, in which all lanes are on and no
  /// mask exists, and masked code.
  enum Mode : std::uint8_t { Full, Masked };

  EmitterPart(const EmitterPart&) = delete;
  EmitterPart& operator=(const EmitterPart&) = delete;

 protected:
  explicit EmitterPart(EmitterParts& parts);
  ~EmitterPart() = default;

  // Types and constants.
  llvm::Type* vector_type(llvm::Type*) const;
  /// The type of a value in memory. Masks are stored sign-extended: i1 vectors would be stored as
  /// bytes and widened at each use.
  llvm::Type* slot_type(llvm::Type*) const;
  Value* to_slot_form(Value*);
  Value* from_slot_form(Value*, llvm::Type*);
  Value* all_lanes() const;
  Value* lane_numbers(llvm::Type*) const;
  Value* splat(Value* v) { return b_.CreateVectorSplat(width_, v); }
  Value* bits(Value* mask);  ///< An i1 vector as an integer of W bits.

  // Code.
  BasicBlock* new_block(const llvm::Twine& name) {
    return BasicBlock::Create(context_, name, state_.function);
  }
  llvm::AllocaInst* temporary(llvm::Type*, const llvm::Twine& name);
  Value* context_field(llvm::Type*, std::size_t offset, const llvm::Twine& name);
  /// Selects by lane; for structures, each member.
  Value* blend_lanes(Value* mask, Value* yes, Value* no);
  Value* spill(Value* vector, const llvm::Twine& name);  ///< To memory, for access by lane number.
  Value* lane_of(Value* spilled, Value* lane, llvm::Type*);
  /// Emits a loop that runs `body` once for each lane that is on. Returns its latch.
  llvm::BranchInst* for_each_lane(const std::function<void(Value* lane)>& body);
  /// The same for the bits of `on` (i64), at least one of which is set.
  llvm::BranchInst* for_each_lane(Value* on, const std::function<void(Value* lane)>& body);
  /// Kernels that cannot be expressed take the scalar path. The first reason is reported.
  void refuse(const llvm::Twine& why) {
    if (report_.refusal.empty()) report_.refusal = why.str();
  }

  // Short forms for ValueMap and MaskState, which all parts use.
  Shape shape(const Value*) const;
  Value* scalar(Value*);
  Value* vec(Value*);
  void define(Instruction*, Value*);
  bool is_lazy(const Instruction*) const;
  [[nodiscard]] Value* mask() const;
  [[nodiscard]] Mode mode() const;
  /// Begins a block of block code: no value is in a register yet, and no mask is set.
  void begin_block(Mode);

  EmitterParts& parts_;
  EmitState& state_;
  const Plan& plan_;
  Report& report_;
  llvm::LLVMContext& context_;
  llvm::Module& module_;
  llvm::IRBuilder<>& b_;
  llvm::IRBuilder<>& entry_;
  const unsigned width_;
};

}  // namespace cucpu::simt
