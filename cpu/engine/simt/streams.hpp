// cpu/engine/simt/streams.hpp: loads that go through memory from one end to the other.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Instructions.h>

#include "cpu/engine/simt/shape.hpp"

namespace cucpu::simt {

/// How far ahead of such a load memory is asked for, in bytes.
inline constexpr unsigned kAhead = 512;

/// Of a kernel without loops, the loads whose groups read whole lines of the cache one behind the
/// other; for each, whether it is the last of its block. The processor sees such streams by itself,
/// but has only as many loads under way as it can run ahead, which is little where several
/// operations (NaN as a GPU makes them) wait for each: block code asks for what the next groups
/// read. Empty where that does not pay: many streams at a time, and machines whose windows are wide
/// enough.
using Streams = llvm::DenseMap<const llvm::LoadInst*, bool>;
Streams find_streams(const Flow&, const Shapes& full, unsigned width);

}  // namespace cucpu::simt
