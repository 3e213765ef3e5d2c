// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/row_product.cpp: compiled once for each size of vector registers.
#include "cpu/engine/runtime/row_product.hpp"

#include <cstring>

namespace cucpu {
namespace {

template <unsigned Bytes>
struct Vectors {
  using Floats [[gnu::vector_size(Bytes)]] = float;
  using Ints [[gnu::vector_size(Bytes)]] = std::int32_t;
};

/// Rows by Count vectors of sums, from column `at` on.
template <unsigned Bytes, unsigned Rows, unsigned Count, bool Sparse>
[[gnu::always_inline]] inline void block(const float* a, unsigned stride, const std::uint8_t* index,
                                         const float* b, unsigned depth, unsigned at, float* sums) {
  using Floats = typename Vectors<Bytes>::Floats;
  constexpr unsigned kLanes = Bytes / sizeof(float);
  Floats sum[Rows][Count] = {};
  for (unsigned k = 0; k < depth; ++k) {
    const float* row = b + (Sparse ? index[k] : k) * kProductColumns + at;
    Floats right[Count];
#pragma GCC unroll 8
    for (unsigned v = 0; v < Count; ++v) std::memcpy(&right[v], row + v * kLanes, Bytes);
#pragma GCC unroll 8
    for (unsigned r = 0; r < Rows; ++r) {
      const float left = a[r * stride + k];
#pragma GCC unroll 8
      for (unsigned v = 0; v < Count; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (unsigned r = 0; r < Rows; ++r)
#pragma GCC unroll 8
    for (unsigned v = 0; v < Count; ++v)
      std::memcpy(sums + r * kProductColumns + at + v * kLanes, &sum[r][v], Bytes);
}

/// The last columns that do not fill Count vectors.
constexpr unsigned kSmall = 16;

template <unsigned Bytes, unsigned Rows, unsigned Count, bool Sparse>
[[gnu::always_inline]] inline void rows_of(const float* a, unsigned stride,
                                           const std::uint8_t* index, const float* b,
                                           unsigned depth, unsigned n, float* sums) {
  constexpr unsigned kWide = Bytes / sizeof(float) * Count;
  unsigned at = 0;
  for (; at + kWide <= n; at += kWide)
    block<Bytes, Rows, Count, Sparse>(a, stride, index, b, depth, at, sums);
  for (; at < n; at += kSmall / sizeof(float))
    block<kSmall, Rows, 1, Sparse>(a, stride, index, b, depth, at, sums);
}

template <unsigned Bytes, unsigned Rows, unsigned Count>
[[gnu::always_inline]] inline void dense(const float* a, unsigned stride, unsigned rows,
                                         const float* b, unsigned depth, unsigned n, float* sums) {
  unsigned r = 0;
  for (; r + Rows <= rows; r += Rows)
    rows_of<Bytes, Rows, Count, false>(a + r * stride, stride, nullptr, b, depth, n,
                                       sums + r * kProductColumns);
  for (; r < rows; ++r)
    rows_of<Bytes, 1, Count, false>(a + r * stride, stride, nullptr, b, depth, n,
                                    sums + r * kProductColumns);
}

template <unsigned Bytes>
[[gnu::always_inline]] inline void add_sums(const float* sums, std::uint32_t* d, unsigned n,
                                            bool add, float scale) {
  using Floats = typename Vectors<Bytes>::Floats;
  using Ints = typename Vectors<Bytes>::Ints;
  for (unsigned j = 0; j < n; j += Bytes / sizeof(float)) {
    Floats v;
    std::memcpy(&v, sums + j, Bytes);
    if (add) {
      Floats old;
      std::memcpy(&old, d + j, Bytes);
      v += old * scale;
    }
    Ints bits;
    std::memcpy(&bits, &v, Bytes);
    const Ints same = v == v;
    bits = (bits & same) | (~same & 0x7fffffff);
    std::memcpy(d + j, &bits, Bytes);
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): an attribute has none
#define CUCPU_ROW_PRODUCTS(name, attribute, bytes, rows, count)                                 \
  attribute void dense_##name(const float* a, unsigned stride, unsigned height, const float* b, \
                              unsigned depth, unsigned n, float* sums) {                        \
    dense<bytes, rows, count>(a, stride, height, b, depth, n, sums);                            \
  }                                                                                             \
  attribute void sparse_##name(const float* a, const std::uint8_t* index, const float* b,       \
                               unsigned depth, unsigned n, float* sums) {                       \
    rows_of<bytes, 1, count, true>(a, 0, index, b, depth, n, sums);                             \
  }                                                                                             \
  attribute void sum_##name(const float* sums, std::uint32_t* d, unsigned n, bool add,          \
                            float scale) {                                                      \
    add_sums<(bytes) < 32 ? (bytes) : 32>(sums, d, n, add, scale);                              \
  }
// NOLINTEND(bugprone-macro-parentheses)

CUCPU_ROW_PRODUCTS(any, , 16, 2, 4)
#if defined(__x86_64__)
CUCPU_ROW_PRODUCTS(avx2, [[gnu::target("avx2")]], 32, 4, 2)
CUCPU_ROW_PRODUCTS(avx512, [[gnu::target("avx512f")]], 64, 8, 2)
#endif

constexpr RowProducts kAll[] = {
    {dense_any, sparse_any, sum_any},
#if defined(__x86_64__)
    {dense_avx2, sparse_avx2, sum_avx2},
    {dense_avx512, sparse_avx512, sum_avx512},
#endif
};

}  // namespace

std::span<const RowProducts> all_row_products() {
#if defined(__x86_64__)
  static const std::size_t count = __builtin_cpu_supports("avx512f") ? 3
                                   : __builtin_cpu_supports("avx2")  ? 2
                                                                     : 1;
  return std::span{kAll}.first(count);
#else
  return kAll;
#endif
}

}  // namespace cucpu
