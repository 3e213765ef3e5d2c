// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/back_edges.hpp: edges that close cycles, also those that are no loops of LLVM.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/CFG.h>
#include <llvm/Analysis/LoopInfo.h>

#include <utility>

namespace cucpu {

/// An edge between two blocks.
using Edge = std::pair<llvm::BasicBlock*, llvm::BasicBlock*>;

/// The back edges of a depth-first search. Every cycle has one.
inline llvm::SmallVector<Edge, 16> back_edges(const llvm::Function& function) {
  llvm::SmallVector<std::pair<const llvm::BasicBlock*, const llvm::BasicBlock*>, 16> found;
  llvm::FindFunctionBackedges(function, found);
  llvm::SmallVector<Edge, 16> edges;
  for (const auto& [from, to] : found)
    edges.emplace_back(const_cast<llvm::BasicBlock*>(from), const_cast<llvm::BasicBlock*>(to));
  return edges;
}

/// The loop whose latch and header the edge connects; null: its cycle has several entries.
inline llvm::Loop* loop_of(const Edge& edge, const llvm::LoopInfo& loops) {
  llvm::Loop* const loop = loops.getLoopFor(edge.second);
  return loop && loop->getHeader() == edge.second && loop->contains(edge.first) ? loop : nullptr;
}

}  // namespace cucpu
