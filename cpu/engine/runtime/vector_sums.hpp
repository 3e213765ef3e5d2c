// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/vector_sums.hpp: matrix products c + a * b with vectors of columns. All
// matrices are in order of rows; b has n columns, a multiple of eight, and c and the result have
// n <= 32 of at most kMostElements in all.
#pragma once

#include <cstdint>
#include <span>

namespace cucpu {

inline constexpr unsigned kMostElements = 256;

/// bf16 or tf32, each as a float and its exponent: that of a product is the sum of both. Sums are
/// those of tensor_sum.hpp (kHalfRule), of a depth of 4, 8 or 16. False if c is not finite, or if a
/// sum is so large or small that products are not exact in f32: then `made` has no meaning.
struct FloatFactors {
  const float* value;
  const std::int16_t* exponent;  ///< kNoExponent: of zero
};
inline constexpr std::int16_t kNoExponent = -8192;
using FloatProduct = bool(unsigned rows, unsigned n, unsigned depth, FloatFactors a, FloatFactors b,
                          const float* c, float* made);
/// Whole numbers as floats, whose sums of products are less than 2^24; c wraps, or saturates.
using IntegerProduct = void(unsigned rows, unsigned n, unsigned depth, const float* a,
                            const float* b, const std::int32_t* c, bool saturate,
                            std::int32_t* made);
/// Fused multiply-adds in order of k; NaNs are canonical.
using DoubleProduct = void(unsigned rows, unsigned n, unsigned depth, const double* a,
                           const double* b, const double* c, double* made);

struct VectorSums {
  FloatProduct* floats;
  IntegerProduct* integers;
  DoubleProduct* doubles;
  DoubleProduct* exact_doubles;  ///< of factors whose products are exact, without fused ones
};

/// Those that this host can execute, the fastest last. All have the same results.
[[nodiscard]] std::span<const VectorSums> all_vector_sums();
[[nodiscard]] inline const VectorSums& vector_sums() { return all_vector_sums().back(); }

}  // namespace cucpu
