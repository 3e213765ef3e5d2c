// SPDX-License-Identifier: Apache-2.0
// cpu/nccl/reduction.cpp: arithmetic on arrays of NCCL's types.
#include "cpu/nccl/reduction.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace cucpu::nccl {
namespace {

/// A floating-point number with few bits: a sign, `E` exponent bits, `M` fraction bits. E4M3 has no
/// infinity, and one NaN pattern.
template <class Bits, int E, int M, bool kHasInfinity>
struct Small {
  Bits bits;
  static constexpr int kBias = (1 << (E - 1)) - 1;
  static constexpr int kMost = (1 << E) - 1;

  [[nodiscard]] float get() const {
    const int exponent = (bits >> M) & kMost;
    const int fraction = bits & ((1 << M) - 1);
    const bool is_negative = (bits >> (E + M)) & 1;
    float value;
    if (kHasInfinity && exponent == kMost)
      value = fraction ? std::numeric_limits<float>::quiet_NaN()
                       : std::numeric_limits<float>::infinity();
    else if (!kHasInfinity && exponent == kMost && fraction == (1 << M) - 1)
      value = std::numeric_limits<float>::quiet_NaN();
    else if (exponent == 0)
      value = std::ldexp(static_cast<float>(fraction), 1 - kBias - M);
    else
      value = std::ldexp(static_cast<float>(fraction | (1 << M)), exponent - kBias - M);
    return is_negative ? -value : value;
  }
  static Small of(float value) {
    const auto sign = static_cast<Bits>(std::signbit(value) ? 1u << (E + M) : 0u);
    const float size = std::fabs(value);
    constexpr auto kNan =
        static_cast<Bits>((kMost << M) | (kHasInfinity ? 1 << (M - 1) : (1 << M) - 1));
    constexpr int kTop =
        kHasInfinity ? kMost << M : (kMost << M) + (1 << M) - 1;  // first that is no number
    if (std::isnan(value)) return {static_cast<Bits>(sign | kNan)};
    if (size == 0) return {sign};
    int exponent = 0;
    (void)std::frexp(size, &exponent);                     // size = f * 2^exponent, 0.5 <= f < 1
    const int lowest = std::max(exponent - 1, 1 - kBias);  // of the last bit: lowest - M
    const double rounded =
        std::isinf(value) ? INFINITY : std::nearbyint(std::ldexp(double{size}, M - lowest));
    double pattern = rounded + std::ldexp(1.0, M) * (lowest + kBias - 1);
    if (!(pattern < kTop)) {
      if (!kHasInfinity)
        pattern = std::isinf(value) ? kTop : kTop - 1;  // finite values saturate
      else
        pattern = kTop;
    }
    return {static_cast<Bits>(sign | static_cast<Bits>(pattern))};
  }
};
using Half = Small<std::uint16_t, 5, 10, true>;
using Bfloat = Small<std::uint16_t, 8, 7, true>;
using E4M3 = Small<std::uint8_t, 4, 3, false>;
using E5M2 = Small<std::uint8_t, 5, 2, true>;

template <class T>
constexpr bool kIsSmall = !std::is_arithmetic_v<T>;

template <class T>
auto widened(T value) {
  if constexpr (kIsSmall<T>)
    return value.get();
  else
    return value;
}
template <class T, class V>
T narrowed(V value) {
  if constexpr (kIsSmall<T>)
    return T::of(value);
  else
    return static_cast<T>(value);
}

/// Integers wrap, as on a GPU.
template <class V>
V add(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<std::make_unsigned_t<V>>(a) +
                          static_cast<std::make_unsigned_t<V>>(b));
  else
    return a + b;
}
template <class V>
V multiply(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}
template <class V>
V pick(V a, V b, bool larger) {
  if constexpr (std::is_floating_point_v<V>)
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<V>::quiet_NaN();
  return (a < b) == larger ? b : a;
}

/// Calls f with a null pointer of the C++ type.
template <class F>
void with_type(ncclDataType_t type, F f) {
  switch (type) {
    case ncclInt8:
      return f(static_cast<std::int8_t*>(nullptr));
    case ncclUint8:
      return f(static_cast<std::uint8_t*>(nullptr));
    case ncclInt32:
      return f(static_cast<std::int32_t*>(nullptr));
    case ncclUint32:
      return f(static_cast<std::uint32_t*>(nullptr));
    case ncclInt64:
      return f(static_cast<std::int64_t*>(nullptr));
    case ncclUint64:
      return f(static_cast<std::uint64_t*>(nullptr));
    case ncclFloat16:
      return f(static_cast<Half*>(nullptr));
    case ncclFloat32:
      return f(static_cast<float*>(nullptr));
    case ncclFloat64:
      return f(static_cast<double*>(nullptr));
    case ncclBfloat16:
      return f(static_cast<Bfloat*>(nullptr));
    case ncclFloat8e4m3:
      return f(static_cast<E4M3*>(nullptr));
    case ncclFloat8e5m2:
      return f(static_cast<E5M2*>(nullptr));
    default:
      return;
  }
}

/// Elements need not be aligned: they may lie anywhere in a message.
template <class T, class F>
void change(void* into, std::size_t count, F f) {
  auto* at = static_cast<char*>(into);
  for (std::size_t i = 0; i < count; ++i, at += sizeof(T)) {
    T value;
    std::memcpy(&value, at, sizeof value);
    value = narrowed<T>(f(widened(value), i));
    std::memcpy(at, &value, sizeof value);
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) noexcept {
  std::size_t size = 0;
  with_type(type, [&](auto* t) { size = sizeof *t; });
  return size;
}

void reduce(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  with_type(type, [&]<class T>(T*) {
    const auto other = [from](std::size_t i) {
      T value;
      std::memcpy(&value, static_cast<const char*>(from) + i * sizeof value, sizeof value);
      return widened(value);
    };
    switch (op) {
      case ncclProd:
        return change<T>(into, count, [&](auto a, std::size_t i) { return multiply(a, other(i)); });
      case ncclMax:
        return change<T>(into, count,
                         [&](auto a, std::size_t i) { return pick(a, other(i), true); });
      case ncclMin:
        return change<T>(into, count,
                         [&](auto a, std::size_t i) { return pick(a, other(i), false); });
      default:
        return change<T>(into, count, [&](auto a, std::size_t i) { return add(a, other(i)); });
    }
  });
}

void scale(void* into, const void* factor, std::size_t count, ncclDataType_t type) {
  with_type(type, [&]<class T>(T*) {
    T one;
    std::memcpy(&one, factor, sizeof one);
    change<T>(into, count, [&](auto a, std::size_t) { return multiply(a, widened(one)); });
  });
}

void divide(void* into, int divisor, std::size_t count, ncclDataType_t type) {
  with_type(type, [&]<class T>(T*) {
    change<T>(into, count, [&](auto a, std::size_t) {
      return static_cast<decltype(a)>(a / static_cast<decltype(a)>(divisor));
    });
  });
}

}  // namespace cucpu::nccl
