// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/sparse.hpp: the columns of the stored elements of a 2:4 sparse matrix (mma.sp,
// wgmma.mma_async.sp).
#pragma once

#include <cstdint>

#include "cpu/ptx/types.hpp"

namespace cucpu {

/// The column of stored element `col` of row `row` (of 16) in a matrix that is `k` wide. Each half
/// byte of metadata describes four columns (two of tf32, eight of 4-bit types) by two 2-bit
/// indices. metadata(lane): that lane's word. 16-bit types and tf32: a lane has 16 bits of row r
/// and, above them, of row r + 8; the lanes of a quad follow each other along k, from the selected
/// one. 8- and 4-bit types: a lane has 32 bits of one row; odd lanes have row r + 8.
template <typename Metadata>
unsigned dense_column(ptx::Type type, unsigned k, unsigned selector, unsigned row, unsigned col,
                      Metadata metadata) {
  using ptx::Type;
  const unsigned quad = row % 8 * 4, half = row / 8;
  if (type == Type::tf32 || type == Type::f16 || type == Type::bf16) {
    const bool pairs = type == Type::tf32;
    const unsigned group = pairs ? col : col / 2;
    const unsigned lanes = (pairs ? k / 2 : k / 4) / 4;  // lanes of a quad that hold metadata
    const std::uint32_t word = metadata(quad + selector * lanes + group / 4);
    const unsigned nibble = word >> (16 * half + 4 * (group % 4)) & 15;
    if (pairs) return group * 2 + (nibble & 3) / 2;
    return group * 4 + (nibble >> (2 * (col % 2)) & 3);
  }
  const bool narrow = type == Type::s4 || type == Type::u4;
  const unsigned unit = narrow ? col / 2 : col, group = unit / 2;
  const unsigned groups = k / (narrow ? 8 : 4);
  const unsigned lane = groups > 8 ? group / 8 * 2 : selector * 2;
  const unsigned nibble = metadata(quad + lane + half) >> (4 * (group % 8)) & 15;
  const unsigned index = nibble >> (2 * (unit % 2)) & 3;
  return narrow ? group * 8 + index * 2 + col % 2 : group * 4 + index;
}

}  // namespace cucpu
