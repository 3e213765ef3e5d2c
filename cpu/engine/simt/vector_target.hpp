// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/vector_target.hpp: what the vector instructions of a target can do.
#pragma once

namespace llvm {
class TargetMachine;
class Type;
}  // namespace llvm

namespace cucpu::simt {

struct VectorTarget {
  unsigned lanes = 4;       ///< 32-bit lanes of a register
  unsigned preferred = 16;  ///< lanes of a group that keep the pipelines busy
  unsigned most = 16;       ///< the same where few values are live
  bool wide_masks = false;  ///< loads and stores with a mask for all element sizes (AVX-512)
  bool masks = false;       ///< the same for elements of 32 and 64 bits (AVX2)
  bool gathers = false;     ///< gathers with a mask are faster than loads of single lanes
  bool scatters = false;    ///< the same for scatters
  /// A line of the first-level cache stays there while eight lanes write to it and to lines that
  /// are a power of two apart, but not while sixteen do (columns.hpp).
  bool columns = false;

  /// Null: a target without any of it.
  static VectorTarget of(const llvm::TargetMachine*);

  /// Whether an instruction loads or stores a vector of these elements, accessing no memory for
  /// inactive lanes.
  [[nodiscard]] bool has_masked_access(const llvm::Type& element) const;
  [[nodiscard]] bool has_gather(const llvm::Type& element) const;
  [[nodiscard]] bool has_scatter(const llvm::Type& element) const;
};

}  // namespace cucpu::simt
