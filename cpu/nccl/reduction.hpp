// SPDX-License-Identifier: Apache-2.0
// cpu/nccl/reduction.hpp: arithmetic on arrays of NCCL's types.
#pragma once

#include <cstddef>

#include "cpu/nccl/nccl.hpp"

namespace cucpu::nccl {

/// Bytes of an element; 0 for a type that does not exist.
std::size_t size_of(ncclDataType_t type) noexcept;
/// into[i] = into[i] op from[i], for sum, product, maximum and minimum. Types of less than 32 bits
/// are computed as float and rounded to nearest.
void reduce(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t op);
/// into[i] = into[i] * *factor; `factor` is of the same type.
void scale(void* into, const void* factor, std::size_t count, ncclDataType_t type);
/// into[i] = into[i] / divisor.
void divide(void* into, int divisor, std::size_t count, ncclDataType_t type);

}  // namespace cucpu::nccl
