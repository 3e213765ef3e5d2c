// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/reduce.hpp: the atomic reduction of one element, for bulk reductions.
#pragma once

#include <cstdint>

#include "cpu/ptx/types.hpp"

namespace cucpu {

enum class ReduceOp : std::uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };

/// Performs *to = op(*to, *from) atomically; both have this type. False if PTX has no such
/// operation.
bool reduce_element(ptx::Type type, ReduceOp op, void* to, const void* from);

}  // namespace cucpu
