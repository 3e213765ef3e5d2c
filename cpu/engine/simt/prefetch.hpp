// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/prefetch.hpp: loads whose next addresses are known and are prefetched.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Instructions.h>

#include "cpu/engine/simt/shape.hpp"

namespace cucpu::simt {

/// How a load is prefetched.
struct Prefetch {
  bool last = false;            ///< the last prefetched load of its block
  llvm::Value* step = nullptr;  ///< in a loop: by what its index grows per iteration
  std::int64_t factor = 0;      ///< bytes per step of one
};
using Prefetches = llvm::DenseMap<const llvm::LoadInst*, Prefetch>;

/// In a kernel without loops: the loads by which consecutive groups read consecutive cache lines.
/// The hardware prefetcher detects such streams, but out-of-order execution has too few loads in
/// flight where several operations (such as canonical NaNs) depend on each. In loops: the loads
/// whose address grows by a uniform amount that is known only at launch, as in a grid-stride loop;
/// the hardware prefetcher does not detect such long strides. Empty where prefetching does not pay:
/// with many streams at once, and on processors with a large enough window.
Prefetches find_prefetches(const Flow&, const Shapes& full, unsigned width);

}  // namespace cucpu::simt
