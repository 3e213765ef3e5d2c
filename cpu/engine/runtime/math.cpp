// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/math.cpp: arithmetic that is rare or needs loops: f64 with directed rounding,
// fns, conversions to floats of 4, 6 and 8 bits.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "cpu/engine/runtime/small_floats.hpp"
#include "cpu/engine/runtime/small_quad.hpp"

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

/// A signed byte in units of 2^-6: rounded to nearest even, clamped; a NaN becomes the largest.
extern "C" std::uint32_t cucpu_rt_cvt_s2f6(float v) {
  if (std::isnan(v)) return 0x7f;
  const float units = std::nearbyint(std::fmin(std::fmax(v * 64, -128.0F), 127.0F));
  return static_cast<std::uint8_t>(static_cast<std::int8_t>(units));
}

namespace {

/// Element k of a register with four small floats.
double element_of(std::uint32_t word, cucpu::SmallQuad format, unsigned k) {
  using cucpu::decode_small;
  using cucpu::SmallQuad;
  const std::uint32_t bits = word >> (format == SmallQuad::e2m1 ? 4 : 8) * k & 0xff;
  switch (format) {
    case SmallQuad::e4m3:
      return decode_small(bits, 4, 3);
    case SmallQuad::e5m2:
      return decode_small(bits, 5, 2);
    case SmallQuad::e3m2:
      return decode_small(bits, 3, 2);
    case SmallQuad::e2m3:
      return decode_small(bits, 2, 3);
    case SmallQuad::ue8m0:
      return bits == 0xff ? std::nan("") : std::ldexp(1.0, static_cast<int>(bits) - 127);
    default:
      return decode_small(bits, 2, 1);
  }
}

}  // namespace

/// add, sub, mul and fma of four small floats (small_quad.hpp). Results are exact in double, or so
/// far from c that they round to c or to no finite number; a float rounded to odd keeps what
/// decides the last rounding.
extern "C" std::uint32_t cucpu_rt_small_quad(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                             std::uint32_t what) {
  using namespace cucpu;
  const auto format = [what](unsigned n) {
    return static_cast<SmallQuad>(what >> (kQuadFormats + 4 * n) & 15);
  };
  const bool e5m2 = (what & kQuadE5M2) != 0, finite = (what & kQuadFinite) != 0;
  std::uint32_t result = 0;
  for (unsigned k = 0; k < 4; ++k) {
    double v = element_of(a, format(0), k);
    if ((what & kQuadMul) != 0) v *= element_of(b, format(1), k);
    const double term = element_of(c, e5m2 ? SmallQuad::e5m2 : SmallQuad::e4m3, k);
    if ((what & kQuadAdd) != 0) v += term;
    if ((what & kQuadSub) != 0) v -= term;
    std::uint32_t code = 0x7f;
    if (!std::isnan(v)) {
      auto f = static_cast<float>(v);
      if (std::isfinite(f) && static_cast<double>(f) != v) {
        auto bits = std::bit_cast<std::uint32_t>(f);
        if (std::fabs(static_cast<double>(f)) > std::fabs(v)) --bits;
        f = std::bit_cast<float>(bits | 1);
      }
      const std::uint32_t largest = e5m2 ? (finite ? 0x7b : 0x7c) : finite ? 0x7e : 0x7f;
      code = e5m2 ? encode_small(f, 5, 2, largest) : encode_small(f, 4, 3, largest);
      if (!e5m2 && (code & 0x7f) == 0x7f) code = 0x7f;
    }
    result |= code << 8 * k;
  }
  return result;
}

/// cvt.rs: `random` (16 bits) is what is added below the last place before the rest is cut off.
/// format: bits of the exponent, bits of the mantissa << 4, .satfinite << 8.
extern "C" std::uint32_t cucpu_rt_cvt_stochastic(float v, std::uint32_t random,
                                                 std::uint32_t format) {
  const unsigned exponent_bits = format & 15, mantissa_bits = format >> 4 & 15;
  const unsigned width = exponent_bits + mantissa_bits;
  const bool is_ieee = width == 15, has_nan = width >= 7;
  const std::uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  const std::uint32_t largest = is_ieee || exponent_bits == 5 ? infinity - 1
                                : width == 7                  ? 0x7e
                                                              : (1u << width) - 1;
  if (std::isnan(v)) return has_nan ? (1u << width) - 1 : largest;
  const std::uint32_t over = (format & 256) != 0 ? largest : infinity;
  const auto bits = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t sign = bits >> 31 << width, field = bits >> 23 & 0xff;
  if (field == 0xff) return sign | over;
  const int exponent = std::max(static_cast<int>(field), 1) - 127;
  const int least = 2 - (1 << (exponent_bits - 1));  // the exponent of the smallest normal number
  const std::uint64_t mantissa = (bits & 0x7fffff) | (field != 0 ? 0x800000u : 0u);
  const int cut = 23 - static_cast<int>(mantissa_bits) + std::max(least - exponent, 0);
  constexpr int kMostCut = 40;  // less than 2^-16 units: never rounded up
  std::uint64_t units =
      cut > kMostCut ? 0 : ((mantissa << 16) + (std::uint64_t{random} << cut)) >> (cut + 16);
  if (exponent > least) units += static_cast<std::uint64_t>(exponent - least) << mantissa_bits;
  return sign | (units > largest ? over : static_cast<std::uint32_t>(units));
}
