// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/matrix_job.hpp: one product of a warp, as the routines of matrix.cpp get it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/engine/runtime/matrix.hpp"
#include "cpu/ptx/types.hpp"

namespace cucpu {

/// Shape and types, flags of matrix.hpp, and words per lane.
struct MatrixJob {
  unsigned m, n, k;
  ptx::Type a, b, c, d;
  std::uint32_t flags;
  unsigned na, nb, nc, nd;

  /// From the first operands of the routine.
  static MatrixJob of(const std::uint32_t* head) {
    const auto type = [&](unsigned shift) {
      return static_cast<ptx::Type>(head[1] >> shift & 0xff);
    };
    const auto count = [&](unsigned shift) { return head[3] >> shift & 0xff; };
    return {head[0] & 0xff, head[0] >> 8 & 0xff,
            head[0] >> 16,  type(0),
            type(8),        type(16),
            type(24),       head[2],
            count(0),       count(8),
            count(16),      count(24)};
  }
};

/// The operands of a warp in the order of vector code: words of a, b and c, 32 lanes each.
struct WarpWords {
  const std::uint32_t *a, *b, *c;

  static WarpWords of(const MatrixJob& job, const std::uint32_t* words) {
    return {words, words + std::size_t{job.na} * 32, words + std::size_t{job.na + job.nb} * 32};
  }
};

/// The most words of a lane: of all operands (mma.m16n8k16 of .f64 has 16 + 8 + 8 after the head,
/// others have metadata and scales); of results.
inline constexpr unsigned kMostMatrixWords = 48, kMostMatrixResults = 8;

/// A product whose sums are computed as vectors (matrix_vectors.cpp); `made` gets the words of d,
/// 32 lanes each. False, without effect, for other types and where a number is not finite or too
/// large or small.
bool vector_product(const MatrixJob&, const WarpWords&, std::uint32_t* made);

/// A product of any types, one sum at a time. Operands and results by words of 32 lanes each;
/// `count`: words per lane of the operands after the head.
void product_by_sums(const std::uint32_t* head, const std::uint32_t* words, std::uint32_t* made,
                     std::uint32_t count);

}  // namespace cucpu
