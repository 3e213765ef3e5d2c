// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/row_product.hpp: rows of a product of float matrices, vectorized for the host.
// Sums are in order of k and not fused, so that every host has the same results.
#pragma once

#include <cstdint>
#include <span>

namespace cucpu {

inline constexpr unsigned kProductColumns =
    256;  ///< elements from one row of b or of sums to the next

/// sums[r][j] = the sum over k of a[r * stride + k] * b[k][j], j < n, a multiple of 8.
using RowProduct = void(const float* a, unsigned stride, unsigned rows, const float* b,
                        unsigned depth, unsigned n, float* sums);
/// The same for one row whose elements multiply the rows of b that `index` names.
using SparseProduct = void(const float* a, const std::uint8_t* index, const float* b,
                           unsigned depth, unsigned n, float* sums);
/// d[j] = sums[j], plus d[j] * scale if `add`; NaNs are canonical.
using RowSum = void(const float* sums, std::uint32_t* d, unsigned n, bool add, float scale);

struct RowProducts {
  RowProduct* dense;
  SparseProduct* sparse;
  RowSum* sum;
};

/// Those that this host can execute, the fastest last. All have the same results.
[[nodiscard]] std::span<const RowProducts> all_row_products();
[[nodiscard]] inline const RowProducts& row_products() { return all_row_products().back(); }

}  // namespace cucpu
