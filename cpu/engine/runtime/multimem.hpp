// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/multimem.hpp: the operation word of multimem routines, shared by the
// translator and multimem.cpp: ptx::Type, ReduceOp << 8, the alignment in bytes << 16, flags.
#pragma once

#include <cstdint>

namespace cucpu {

inline constexpr std::uint32_t kMultimemWide = 1U << 24;  ///< .acc::f32

}  // namespace cucpu
