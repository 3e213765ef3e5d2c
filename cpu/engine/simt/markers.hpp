// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/markers.hpp: markers (calls of cucpu.*) and state spaces in thread code, and loop
// metadata of block code.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

namespace cucpu::simt {

/// The name of a marker without "cucpu."; empty when the value is no call of a marker.
inline llvm::StringRef marker_name(const llvm::Value* value) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(value);
  if (!call || !call->getCalledFunction()) return {};
  llvm::StringRef name = call->getCalledFunction()->getName();
  return name.consume_front("cucpu.") ? name : llvm::StringRef{};
}

/// Whether a load reads a kernel parameter.
inline bool is_parameter_load(const llvm::LoadInst& load) {
  llvm::APInt offset{64, 0};
  const llvm::Value* base = load.getPointerOperand()->stripAndAccumulateConstantOffsets(
      load.getModule()->getDataLayout(), offset, /*AllowNonInbounds=*/true);
  return load.isSimple() && marker_name(base) == "params";
}

/// The PTX state space of an access ("shared", "global", ...), or an empty string.
inline llvm::StringRef space_of(const llvm::Instruction& access) {
  const llvm::MDNode* space = access.getMetadata("cucpu.space");
  if (!space || space->getNumOperands() == 0) return {};
  auto* text = llvm::dyn_cast<llvm::MDString>(space->getOperand(0));
  return text ? text->getString() : llvm::StringRef{};
}

inline bool is_barrier(llvm::StringRef marker) { return marker.starts_with("barrier."); }

/// Whether a marker checks an access (check mode). It accesses no memory of the program.
inline bool is_check(llvm::StringRef marker) {
  return marker == "check.access" || marker == "check.fence";
}

/// Whether the result of a marker depends on other lanes of the warp.
inline bool is_warp_operation(llvm::StringRef marker) {
  for (llvm::StringRef prefix :
       {"shfl.", "vote.", "match.", "redux.", "warp.", "activemask", "elect"})
    if (marker.starts_with(prefix)) return true;
  return false;
}

/// Whether a marker is an operation of a warp on matrices whose operands are values:
/// warp.<name>.<operands>.<results>.
inline bool is_matrix_operation(llvm::StringRef marker) {
  for (llvm::StringRef prefix :
       {"warp.mma.", "warp.ldmatrix.", "warp.stmatrix.", "warp.movmatrix."})
    if (marker.starts_with(prefix)) return true;
  return false;
}

/// The barrier that ends this block (prepare() splits blocks after barriers), or null.
inline llvm::CallInst* barrier_at_end(llvm::BasicBlock& block) {
  llvm::Instruction* last = block.getTerminator()->getPrevNode();
  return last && is_barrier(marker_name(last)) ? llvm::cast<llvm::CallInst>(last) : nullptr;
}

/// Loop metadata (`llvm.loop`): the loop is short and needs no safepoint poll.
inline constexpr const char* kShortLoop = "cucpu.short";
/// The groups of the loop load a tile whose rows have a constant length (memory_pieces.cpp).
inline constexpr const char* kTileLoop = "cucpu.tile";

}  // namespace cucpu::simt
