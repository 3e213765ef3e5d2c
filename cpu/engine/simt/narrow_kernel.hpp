// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/narrow_kernel.hpp: kernels whose vectors hold numbers of 8 or 16 bits only.
#pragma once

#include "cpu/engine/simt/shape.hpp"

namespace cucpu::simt {

/// The bits of the widest number of which full code has a vector, if all have 8 or 16 bits: all
/// accesses of lanes are to such numbers at consecutive addresses, and branches follow from
/// indices. 0 for other kernels. Groups of them may be wider than usual.
unsigned bits_of_narrow_kernel(const Flow&, const Shapes& full);

}  // namespace cucpu::simt
