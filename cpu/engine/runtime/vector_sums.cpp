// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/vector_sums.cpp: compiled once for each size of vector registers.
//
// Sums of bf16 and tf32 are computed as those of f16 (half_product.hpp): a product is scaled by the
// unit of its sum and converted to an integer, which truncates it as a tensor core does. Their
// exponents take more than eight bits. A product that is exact in f16 may overflow or be subnormal
// here, which changes no sum with a highest exponent from kLeastTop to kMostTop.
#include "cpu/engine/runtime/vector_sums.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/engine/runtime/tensor_sum.hpp"

#ifdef __ARM_NEON
#include <arm_neon.h>
#endif

namespace cucpu {
namespace {

template <unsigned Bytes>
struct Vectors {
  using Floats [[gnu::vector_size(Bytes)]] = float;
  using Ints [[gnu::vector_size(Bytes)]] = std::int32_t;
  using Words [[gnu::vector_size(Bytes)]] = std::uint32_t;
};
using Shorts [[gnu::vector_size(16)]] = std::int16_t;
using EightInts [[gnu::vector_size(32)]] = std::int32_t;

template <typename Vector>
[[gnu::always_inline]] inline void load(Vector& vector, const void* from) {
  std::memcpy(&vector, from, sizeof vector);
}
template <typename Vector>
[[gnu::always_inline]] inline void store(void* to, const Vector& vector) {
  std::memcpy(to, &vector, sizeof vector);
}

// A product below 2^-126 is rounded, and overflows only from 2^128 on. With these limits the
// former is less than the unit of its sum, and the unit and its reciprocal are normal.
constexpr std::int16_t kLeastTop = -96, kMostTop = 124;
/// Sums with the exponent of zero are less.
constexpr std::int16_t kAbsent = kNoExponent / 2;

/// What a sum of products is: as usual, without products, or not exact with vectors.
struct Tops {
  bool are_exact;
  bool have_products;
};

/// The highest exponents of products, and the reciprocals of the units of sums.
template <unsigned Depth>
[[gnu::always_inline]] inline Tops find_tops(std::size_t rows, std::size_t n, const std::int16_t* a,
                                             const std::int16_t* b, const float* c,
                                             std::int16_t* tops, float* scales) {
  constexpr std::int32_t kBias = 127;
  constexpr std::int16_t kNotFinite = 255 - kBias;
  Shorts wrong{}, absent{};
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < n; j += 8) {
      // Two, so that operations do not wait for each other.
      Shorts even = Shorts{} + std::int16_t{2 * kNoExponent}, odd = even;
#pragma GCC unroll 8
      for (std::size_t k = 0; k < Depth; k += 2) {
        Shorts first, second;
        load(first, b + k * n + j);
        load(second, b + (k + 1) * n + j);
        first += a[i * Depth + k];
        second += a[i * Depth + k + 1];
        even = first > even ? first : even;
        odd = second > odd ? second : odd;
      }
      const Shorts products = even > odd ? even : odd;
      EightInts own;
      load(own, c + i * n + j);
      own = (own >> 23 & 0xff) - kBias;  // too small for subnormal numbers, as for all below
      const Shorts sum = __builtin_convertvector(own, Shorts);
      const Shorts top = sum > products ? sum : products;
      const Shorts none = products < kAbsent;
      absent |= none;
      wrong |= (sum == kNotFinite) | (~none & ((top < kLeastTop) | (top > kMostTop)));
      store(tops + i * n + j, products);
      // Zero where there are no products: their total is not used, and must not overflow either.
      const EightInts wide = __builtin_convertvector(top, EightInts);
      const EightInts unused = __builtin_convertvector(none, EightInts);
      store(scales + i * n + j, ~unused & ((kBias + kHalfRule.fraction - wide) << 23));
    }
  int any_wrong = 0, any_absent = 0;
  for (unsigned i = 0; i < 8; ++i) any_wrong |= wrong[i], any_absent |= absent[i];
  return {any_wrong == 0, any_absent == 0};
}

/// total = c + the sum of products, truncated. `scale`: the reciprocal of the unit of the sum.
/// Vectors are passed by reference: how functions without AVX pass them is not defined.
template <typename V>
[[gnu::always_inline]] inline void truncate_total(const typename V::Floats& c,
                                                  const typename V::Ints& sum,
                                                  const typename V::Floats& scale,
                                                  typename V::Floats& result) {
  using Ints = typename V::Ints;
  using Words = typename V::Words;
  const Ints old = __builtin_convertvector(c * scale, Ints);  // less than 2^26
  // The total has up to 33 bits. Its sign is that of both terms if they agree.
  const Words total = reinterpret_cast<Words>(old) + reinterpret_cast<Words>(sum);
  const Ints sign = (((reinterpret_cast<Ints>(total) ^ old) & (old ^ sum)) ^ old) >> 31;
  const Words flip = reinterpret_cast<Words>(sign);
  const Words size = (total ^ flip) - flip;
  // 24 bits stay: without the bit below them, the conversion rounds down.
  const auto kept =
      __builtin_convertvector(size & ~(size >> kHalfRule.significant), typename V::Floats);
  const Words unit = (2 * 127U << 23) - reinterpret_cast<Words>(scale);
  result = kept * reinterpret_cast<typename V::Floats>(unit | (flip & 0x80000000));
}

/// Calls body(row, column) for blocks of Rows by eight columns: sums of a block are independent of
/// each other, and its rows share what they load of b.
template <unsigned Rows, typename Body>
[[gnu::always_inline]] inline void for_blocks(std::size_t rows, std::size_t n, Body body) {
  for (std::size_t i = 0; i < rows; i += Rows)
    for (std::size_t j = 0; j < n; j += 8) body(i, j);
}

template <unsigned Bytes, unsigned Rows, unsigned Depth>
[[gnu::always_inline]] inline bool floats_of_depth(std::size_t rows, std::size_t n, FloatFactors a,
                                                   FloatFactors b, const float* c, float* made) {
  using Floats = typename Vectors<Bytes>::Floats;
  using Ints = typename Vectors<Bytes>::Ints;
  constexpr unsigned kLanes = Bytes / sizeof(float), kCount = 8 / kLanes;
  alignas(64) float scales[kMostElements];
  alignas(64) std::int16_t tops[kMostElements];
  const Tops found = find_tops<Depth>(rows, n, a.exponent, b.exponent, c, tops, scales);
  if (!found.are_exact) return false;
  for_blocks<Rows>(
      rows, n, [&](std::size_t i, std::size_t j) __attribute__((always_inline)) {
        // 16 products of less than 2^27 each.
        Ints sum[Rows][kCount] = {};
        Floats scale[Rows][kCount];
#pragma GCC unroll 8
        for (unsigned r = 0; r < Rows; ++r)
#pragma GCC unroll 8
          for (unsigned v = 0; v < kCount; ++v)
            load(scale[r][v], scales + (i + r) * n + j + v * kLanes);
        const float* const left = a.value + i * Depth;
#pragma GCC unroll 2
        for (unsigned k = 0; k < Depth; ++k)
#pragma GCC unroll 8
          for (unsigned v = 0; v < kCount; ++v) {
            Floats right;
            load(right, b.value + k * n + j + v * kLanes);
#pragma GCC unroll 8
            for (unsigned r = 0; r < Rows; ++r)
              sum[r][v] += __builtin_convertvector(right * left[r * Depth + k] * scale[r][v], Ints);
          }
#pragma GCC unroll 8
        for (unsigned r = 0; r < Rows; ++r)
#pragma GCC unroll 8
          for (unsigned v = 0; v < kCount; ++v) {
            Floats old, total;
            const std::size_t at = (i + r) * n + j + v * kLanes;
            load(old, c + at);
            truncate_total<Vectors<Bytes>>(old, sum[r][v], scale[r][v], total);
            store(made + at, total);
          }
      });
  // Without a product c stays as it is; -0 becomes 0.
  for (std::size_t at = 0; !found.have_products && at < rows * n; ++at)
    if (tops[at] < kAbsent) made[at] = c[at] + 0.0f;
  return true;
}

template <unsigned Bytes, unsigned Rows>
[[gnu::always_inline]] inline bool floats(unsigned rows, unsigned n, unsigned depth, FloatFactors a,
                                          FloatFactors b, const float* c, float* made) {
  if (depth == 4) return floats_of_depth<Bytes, Rows, 4>(rows, n, a, b, c, made);
  if (depth == 8) return floats_of_depth<Bytes, Rows, 8>(rows, n, a, b, c, made);
  return floats_of_depth<Bytes, Rows, 16>(rows, n, a, b, c, made);
}

template <unsigned Bytes, unsigned Rows>
[[gnu::always_inline]] inline void integers(unsigned rows, unsigned n, unsigned depth,
                                            const float* a, const float* b, const std::int32_t* c,
                                            bool saturate, std::int32_t* made) {
  using Floats = typename Vectors<Bytes>::Floats;
  using Ints = typename Vectors<Bytes>::Ints;
  using Words = typename Vectors<Bytes>::Words;
  constexpr unsigned kLanes = Bytes / sizeof(float), kCount = 8 / kLanes;
  for_blocks<Rows>(
      rows, n, [&](std::size_t i, std::size_t j) __attribute__((always_inline)) {
        Floats sum[Rows][kCount] = {};
        for (unsigned k = 0; k < depth; ++k)
#pragma GCC unroll 8
          for (unsigned v = 0; v < kCount; ++v) {
            Floats right;
            load(right, b + k * n + j + v * kLanes);
#pragma GCC unroll 8
            for (unsigned r = 0; r < Rows; ++r) sum[r][v] += right * a[(i + r) * depth + k];
          }
#pragma GCC unroll 8
        for (unsigned r = 0; r < Rows; ++r)
#pragma GCC unroll 8
          for (unsigned v = 0; v < kCount; ++v) {
            const std::size_t at = (i + r) * n + j + v * kLanes;
            Ints old;
            load(old, c + at);
            const auto products = __builtin_convertvector(sum[r][v], Ints);
            auto total = reinterpret_cast<Ints>(reinterpret_cast<Words>(old) +
                                                reinterpret_cast<Words>(products));
            if (saturate) {
              const Ints overflow = ((total ^ old) & (total ^ products)) >> 31;
              total = (overflow & ((old >> 31) ^ 0x7fffffff)) | (~overflow & total);
            }
            store(made + at, total);
          }
      });
}

using Doubles [[gnu::vector_size(16)]] = double;

/// sum += x * y, fused if the product may be inexact. Without NEON one by one: the language has no
/// vectors of it.
template <bool Exact>
[[gnu::always_inline]] inline void add_product(Doubles& sum, const double* x, double y) {
  if constexpr (Exact) {
    Doubles right;
    load(right, x);
    sum += right * y;
    return;
  }
#ifdef __ARM_NEON
  sum = vfmaq_n_f64(sum, vld1q_f64(x), y);
#else
  sum = Doubles{__builtin_fma(x[0], y, sum[0]), __builtin_fma(x[1], y, sum[1])};
#endif
}

template <unsigned Rows, bool Exact>
[[gnu::always_inline]] inline void doubles(std::size_t rows, std::size_t n, std::size_t depth,
                                           const double* a, const double* b, const double* c,
                                           double* made) {
  for_blocks<Rows>(
      rows, n, [&](std::size_t i, std::size_t j) __attribute__((always_inline)) {
        Doubles sum[Rows][4];
#pragma GCC unroll 8
        for (unsigned r = 0; r < Rows; ++r)
#pragma GCC unroll 8
          for (unsigned v = 0; v < 4; ++v)
            load(sum[r][v], c + (i + r) * n + j + std::size_t{2} * v);
        for (std::size_t k = 0; k < depth; ++k)
#pragma GCC unroll 8
          for (unsigned r = 0; r < Rows; ++r)
#pragma GCC unroll 8
            for (unsigned v = 0; v < 4; ++v)
              add_product<Exact>(sum[r][v], b + k * n + j + std::size_t{2} * v,
                                 a[(i + r) * depth + k]);
#pragma GCC unroll 8
        for (unsigned r = 0; r < Rows; ++r)
#pragma GCC unroll 8
          for (unsigned v = 0; v < 4; ++v)
            store(made + (i + r) * n + j + std::size_t{2} * v, sum[r][v]);
      });
  for (std::size_t at = 0; at < rows * n; ++at)
    made[at] = made[at] == made[at] ? made[at] : std::bit_cast<double>(0x7ff8000000000000);
}

// NOLINTBEGIN(bugprone-macro-parentheses): an attribute has none
#define CUCPU_VECTOR_SUMS(name, attribute, bytes, rows)                                        \
  attribute bool floats_##name(unsigned m, unsigned n, unsigned depth, FloatFactors a,         \
                               FloatFactors b, const float* c, float* made) {                  \
    return floats<bytes, rows>(m, n, depth, a, b, c, made);                                    \
  }                                                                                            \
  attribute void integers_##name(unsigned m, unsigned n, unsigned depth, const float* a,       \
                                 const float* b, const std::int32_t* c, bool saturate,         \
                                 std::int32_t* made) {                                         \
    integers<bytes, rows>(m, n, depth, a, b, c, saturate, made);                               \
  }                                                                                            \
  attribute void doubles_##name(unsigned m, unsigned n, unsigned depth, const double* a,       \
                                const double* b, const double* c, double* made) {              \
    doubles<2, false>(m, n, depth, a, b, c, made);                                             \
  }                                                                                            \
  attribute void exact_doubles_##name(unsigned m, unsigned n, unsigned depth, const double* a, \
                                      const double* b, const double* c, double* made) {        \
    doubles<2, true>(m, n, depth, a, b, c, made);                                              \
  }
// NOLINTEND(bugprone-macro-parentheses)

CUCPU_VECTOR_SUMS(any, , 16, 4)
#if defined(__x86_64__)
CUCPU_VECTOR_SUMS(avx2, [[gnu::target("avx2,fma")]], 32, 4)
#endif

constexpr VectorSums kAll[] = {
    {floats_any, integers_any, doubles_any, exact_doubles_any},
#if defined(__x86_64__)
    {floats_avx2, integers_avx2, doubles_avx2, exact_doubles_avx2},
#endif
};

}  // namespace

std::span<const VectorSums> all_vector_sums() {
#if defined(__x86_64__)
  static const std::size_t count =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 2 : 1;
  return std::span{kAll}.first(count);
#else
  return kAll;
#endif
}

}  // namespace cucpu
