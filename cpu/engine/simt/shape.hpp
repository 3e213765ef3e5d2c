// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/shape.hpp: how a thread value varies over the lanes of a group.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/IR/Instructions.h>

#include <optional>

#include "cpu/engine/engine.hpp"
#include "cpu/engine/simt/block_loads.hpp"
#include "cpu/engine/simt/flow.hpp"

namespace cucpu::simt {

/// Uniform: one scalar. Strided: lane l holds base + l * stride (modulo 2^bits), kept as the scalar
/// base. Varying: a vector.
struct Shape {
  enum Kind : std::uint8_t { None, Uniform, Strided, Varying };
  Kind kind = None;
  bool no_signed_wrap = false,
       no_unsigned_wrap = false;  ///< of base + l * stride, for all lanes of a full group
  std::uint8_t align = 0;         ///< log2 of a power of two that divides the base
  std::int64_t stride = 0;

  [[nodiscard]] bool scalar() const { return kind != Varying; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// The distance of the last lane of a group from the first: |stride| * (width - 1), or UINT64_MAX
/// on overflow.
std::uint64_t span_of(std::int64_t stride, unsigned width);

/// The bytes from the local memory of a lane to that of the next: every lane is aligned.
std::uint64_t lane_stride(const llvm::AllocaInst&);

struct Lanes {
  unsigned width = 1;
  Dim3 block;
  /// Comparisons of thread indices with multiples of the width are uniform. False where groups may
  /// be at different barriers: there divergence reveals barriers that not all threads reach.
  bool whole_comparisons = true;
  [[nodiscard]] unsigned threads() const { return static_cast<unsigned>(block.volume()); }
  [[nodiscard]] unsigned groups() const { return (threads() + width - 1) / width; }
};

/// The shape of a thread index (dimension 0..2) for groups of neighbouring threads.
Shape thread_index_shape(const Lanes&, unsigned dimension);

class Shapes {
 public:
  enum class Scope {
    FullGroup,    ///< all lanes of a group are active; guards at run time exclude wrapping
    MaskedGroup,  ///< lanes, also lane 0, may be inactive: nothing follows from active lanes only
    Block,        ///< uniform over the whole block; nothing is strided
  };

  Shapes(const Flow&, const Lanes&, Scope);

  [[nodiscard]] Shape operator[](const llvm::Value*) const;
  [[nodiscard]] bool diverges(const llvm::BasicBlock* block) const {
    return divergent_branches_.contains(block);
  }
  [[nodiscard]] bool diverges(const llvm::Loop* loop) const {
    return divergent_loops_.contains(loop);
  }

  /// Scope::Block only.
  [[nodiscard]] const BlockLoads& block_loads() const { return *block_loads_; }

  /// Whether a guard must test what a shape assumes (FullGroup only): that base + l * stride does
  /// not wrap before an extension, or that all lanes of a dividend have the same quotient.
  [[nodiscard]] bool needs_guard(const llvm::Instruction*) const;

 private:
  void iterate();  ///< to the fixed point
  bool give_shapes_to_undefined_values();
  Shape transfer(llvm::Instruction&);
  Shape transfer_binary(llvm::Instruction&);
  Shape transfer_division(llvm::Instruction&) const;
  Shape transfer_cast(llvm::Instruction&);
  Shape transfer_comparison(llvm::ICmpInst&);
  [[nodiscard]] bool stays_aligned(const Shape&) const;
  Shape transfer_call(llvm::CallInst&);
  Shape transfer_phi(llvm::PHINode&);
  void spread(llvm::ArrayRef<std::pair<llvm::BasicBlock*, llvm::BasicBlock*>> edges,
              llvm::Loop* inside);

  const Flow& flow_;
  Lanes lanes_;
  Scope scope_;
  std::optional<BlockLoads> block_loads_;  // of Scope::Block
  llvm::DenseMap<const llvm::Value*, Shape> shapes_;
  llvm::DenseSet<const llvm::BasicBlock*> divergent_branches_, joins_;
  llvm::DenseSet<const llvm::Loop*> divergent_loops_;
};

}  // namespace cucpu::simt
