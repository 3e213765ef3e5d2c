// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/warp_emitter.hpp: warp operations (shuffles, votes, matches, reductions), also on
// matrices.
#pragma once

#include "cpu/engine/simt/emit_state.hpp"

namespace cucpu::simt {

/// Requires a group of 32 lanes, a whole warp: all lanes of an operation are in one vector. Owns
/// the memory for the operands and the results of operations on matrices. Lanes that are off take
/// part in nothing; what they hold may be poison and is frozen before other lanes read it.
class WarpEmitter : public EmitterPart {
 public:
  explicit WarpEmitter(EmitterParts& parts) : EmitterPart{parts} {}

  void emit_warp(llvm::CallInst&, llvm::StringRef name);

 private:
  void emit_shuffle(llvm::CallInst&, llvm::StringRef kind);
  void emit_vote(llvm::CallInst&, llvm::StringRef kind);
  void emit_match(llvm::CallInst&, llvm::StringRef kind);
  void emit_reduction(llvm::CallInst&, llvm::StringRef kind);
  void emit_matrix(llvm::CallInst&, llvm::StringRef name);

  llvm::AllocaInst *operands_ = nullptr, *results_ = nullptr;
};

}  // namespace cucpu::simt
