// cpu/engine/runtime/reduce.hpp: one atomic reduction of memory, as bulk reductions make them
// element by element.
#pragma once

#include <cstdint>

#include "cpu/ptx/types.hpp"

namespace cucpu {

enum class ReduceOp : std::uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };

/// *to = op(*to, *from), atomically; both of this type. False when there is no such operation.
bool reduce_element(ptx::Type type, ReduceOp op, void* to, const void* from);

}  // namespace cucpu
