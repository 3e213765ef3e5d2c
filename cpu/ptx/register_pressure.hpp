// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/register_pressure.hpp: how many registers a function needs at once.
#pragma once

#include <cstdint>

#include "cpu/ptx/ast.hpp"

namespace cucpu::ptx {

/// An estimate of the 32-bit registers that hold values at the same time. A value is alive from its
/// first to its last occurrence in the text, and to the end of a loop that it enters from outside.
/// Predicates have registers of their own. Linear in the text but for its loops, of which the
/// longest count.
std::uint32_t register_pressure(const Function& function);

}  // namespace cucpu::ptx
