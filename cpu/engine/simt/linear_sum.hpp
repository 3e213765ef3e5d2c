// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/linear_sum.hpp: integers as sums of other values times constants.
#pragma once

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/PointerIntPair.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instruction.h>

#include <cstdint>

namespace cucpu::simt {

/// constant + value * factor + ..., modulo 2^bits. No factor is zero.
struct LinearSum {
  enum class Extension : std::uint8_t { none, sign, zero };
  /// A value, or a narrower one that is extended.
  using Term = llvm::PointerIntPair<llvm::Value*, 2, Extension>;

  unsigned bits = 0;
  std::uint64_t constant = 0;
  llvm::SmallMapVector<Term, std::uint64_t, 4> terms;
  bool cancelled = false;  ///< terms of the instructions have vanished

  /// Of an integer of at most 64 bits.
  static LinearSum of(llvm::Value* value);
  void add(llvm::Value* value, std::uint64_t factor, unsigned depth = 0);
  [[nodiscard]] std::uint64_t cut(std::uint64_t v) const {
    return bits >= 64 ? v : v & ((std::uint64_t{1} << bits) - 1);
  }
  /// Whether this is that value and nothing else.
  [[nodiscard]] bool is(llvm::Value* value) const;

 private:
  void add(Term term, std::uint64_t factor);
  void add_extended(llvm::CastInst& extension, std::uint64_t factor, unsigned depth);
};

/// Sums in which terms cancel are written without them: `72 * q + 4 * (i - 18 * q)`, the address in
/// a tile with rows of 18 numbers where q is i / 18, is `4 * i`, which is contiguous. The same
/// where q and the remainder are extended, and where the parts are added to a pointer one by one.
///
/// Requires: thread code.
/// Guarantees: the same values modulo 2^bits.
void cancel_terms(llvm::Function& thread);

/// NVRTC counts the iterations of `for (i = start; i < 324; i += 256)` down from
/// `(max(start, 68) + 255 - start >> 8) + 1` or `(323 - start >> 8) + 1`, which differs between
/// lanes in an irregular way.
///
/// Requires: thread code.
/// Guarantees: such loops end when the index reaches the bound, which vector code tests for the
/// first and the last lane of a group.
void compare_indices(llvm::Function& thread);

}  // namespace cucpu::simt
