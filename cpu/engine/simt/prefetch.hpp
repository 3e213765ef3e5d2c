// cpu/engine/simt/prefetch.hpp: loads that go through memory in steps, whose next places are known.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Instructions.h>

#include "cpu/engine/simt/shape.hpp"

namespace cucpu::simt {

/// A load that is asked for ahead.
struct Prefetch {
  bool last = false;            ///< of its block
  llvm::Value* step = nullptr;  ///< in a loop: what its index grows by each time round
  std::int64_t factor = 0;      ///< bytes of a step of one
};
using Prefetches = llvm::DenseMap<const llvm::LoadInst*, Prefetch>;

/// Of a kernel without loops, the loads whose groups read whole lines of the cache one behind the
/// other. The processor sees such streams by itself, but has only as many loads under way as it can
/// run ahead, which is little where several operations (NaN as a GPU makes them) wait for each:
/// block code asks for what the next groups read. In loops, the loads whose address grows by a
/// uniform amount that only the launch decides, as it does where a grid strides over its data:
/// steps that long no processor foresees. Empty where that does not pay: many streams at a time,
/// and machines whose windows are wide enough.
Prefetches find_prefetches(const Flow&, const Shapes& full, unsigned width);

}  // namespace cucpu::simt
