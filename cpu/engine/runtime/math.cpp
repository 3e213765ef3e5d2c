// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/math.cpp: arithmetic that is rare or needs loops: f64 with directed rounding,
// fns, conversions to floats of 4, 6 and 8 bits.
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "cpu/engine/runtime/small_floats.hpp"

namespace {

/// Sets the rounding mode in a scope. Operands are volatile, so that the compiler keeps the
/// operation inside.
class Rounding {
 public:
  explicit Rounding(int mode) : old_{std::fegetround()} { std::fesetround(mode); }
  ~Rounding() { std::fesetround(old_); }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  int old_;
};

/// Replaces a NaN result by that of a GPU: the first operand that is NaN, quieted, or
/// 0xfff8000000000000.
template <typename... Operands>
double settled(double r, Operands... operands) {
  if (!std::isnan(r)) return r;
  constexpr std::uint64_t kMade = 0xfff8000000000000, kQuiet = 0x0008000000000000;
  for (const double x : {operands...})
    if (std::isnan(x)) return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) | kQuiet);
  return std::bit_cast<double>(kMade);
}

}  // namespace

#define CUCPU_DIRECTED(suffix, mode)                                          \
  extern "C" double cucpu_rt_add_f64_##suffix(double a, double b) {           \
    const Rounding rounding{mode};                                            \
    volatile double x = a, y = b, r = x + y;                                  \
    return settled(r, b, a);                                                  \
  }                                                                           \
  extern "C" double cucpu_rt_mul_f64_##suffix(double a, double b) {           \
    const Rounding rounding{mode};                                            \
    volatile double x = a, y = b, r = x * y;                                  \
    return settled(r, b, a);                                                  \
  }                                                                           \
  extern "C" double cucpu_rt_div_f64_##suffix(double a, double b) {           \
    const Rounding rounding{mode};                                            \
    volatile double x = a, y = b, r = x / y;                                  \
    return settled(r, a, b);                                                  \
  }                                                                           \
  extern "C" double cucpu_rt_fma_f64_##suffix(double a, double b, double c) { \
    const Rounding rounding{mode};                                            \
    volatile double x = a, y = b, z = c, r = std::fma(x, y, z);               \
    return settled(r, b, c, a);                                               \
  }                                                                           \
  extern "C" double cucpu_rt_sqrt_f64_##suffix(double a) {                    \
    const Rounding rounding{mode};                                            \
    volatile double x = a, r = std::sqrt(x);                                  \
    return settled(r, a);                                                     \
  }
CUCPU_DIRECTED(rz, FE_TOWARDZERO)
CUCPU_DIRECTED(rm, FE_DOWNWARD)
CUCPU_DIRECTED(rp, FE_UPWARD)

/// The position of the n-th set bit of mask from `base` on: upwards for n > 0, downwards for n < 0;
/// for n = 0, `base` if that bit is set.
extern "C" std::uint32_t cucpu_rt_fns(std::uint32_t mask, std::uint32_t base,
                                      std::uint32_t offset) {
  const auto n = static_cast<std::int32_t>(offset);
  if (base > 31) return 0xffffffff;
  if (n == 0) return (mask >> base & 1) != 0 ? base : 0xffffffff;
  const int step = n > 0 ? 1 : -1;
  std::int64_t left = n > 0 ? n : -static_cast<std::int64_t>(n);
  for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step) {
    if ((mask >> at & 1) != 0 && --left == 0) return static_cast<std::uint32_t>(at);
  }
  return 0xffffffff;
}

extern "C" std::uint32_t cucpu_rt_cvt_e4m3(float v) {
  return std::isnan(v) ? 0x7f : cucpu::encode_small(v, 4, 3, 0x7e);
}
extern "C" std::uint32_t cucpu_rt_cvt_e5m2(float v) {
  return std::isnan(v) ? 0x7f : cucpu::encode_small(v, 5, 2, 0x7b);
}

// Formats without infinity and NaN: a NaN becomes the largest number.
extern "C" std::uint32_t cucpu_rt_cvt_e2m1(float v) {
  return std::isnan(v) ? 0x7 : cucpu::encode_small(v, 2, 1, 0x7);
}
extern "C" std::uint32_t cucpu_rt_cvt_e2m3(float v) {
  return std::isnan(v) ? 0x1f : cucpu::encode_small(v, 2, 3, 0x1f);
}
extern "C" std::uint32_t cucpu_rt_cvt_e3m2(float v) {
  return std::isnan(v) ? 0x1f : cucpu::encode_small(v, 3, 2, 0x1f);
}
