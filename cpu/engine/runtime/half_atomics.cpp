// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/half_atomics.cpp: atomic operations that hosts lack, by compare and swap:
// 16-bit floats, single or in pairs; inc, dec; f64 sums with the NaNs of a GPU.
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

#include "cpu/engine/runtime/routines.hpp"
#include "cpu/engine/runtime/small_floats.hpp"

namespace {

struct Half {
  static float decode(std::uint16_t v) { return cucpu::half_to_float(v); }
  static std::uint16_t encode(float v) { return cucpu::float_to_half(v); }
};

struct Brain {
  static float decode(std::uint16_t v) { return cucpu::brain_to_float(v); }
  static std::uint16_t encode(float v) { return cucpu::float_to_brain(v); }
};

float add(float a, float b) { return a + b; }
float least(float a, float b) { return a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b); }
float most(float a, float b) { return a == b ? (std::signbit(a) ? b : a) : std::fmax(a, b); }

template <typename Format, float (*Op)(float, float)>
std::uint16_t one(std::uint16_t a, std::uint16_t b) {
  return Format::encode(Op(Format::decode(a), Format::decode(b)));
}

template <typename Word, typename Change>
Word exchange(void* address, Change change) {
  std::atomic_ref<Word> cell{*static_cast<Word*>(address)};
  Word old = cell.load(std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(old, change(old), std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
  }
  return old;
}

template <typename Format, float (*Op)(float, float)>
std::uint32_t both(void* address, std::uint32_t x) {
  return exchange<std::uint32_t>(address, [x](std::uint32_t old) {
    const std::uint32_t low =
        one<Format, Op>(static_cast<std::uint16_t>(old), static_cast<std::uint16_t>(x));
    const std::uint32_t high =
        one<Format, Op>(static_cast<std::uint16_t>(old >> 16), static_cast<std::uint16_t>(x >> 16));
    return low | high << 16;
  });
}

}  // namespace

#define CUCPU_HALF_ATOMICS(name, op)                                                              \
  extern "C" std::uint16_t cucpu_rt_atom_##name##_f16(void* p, std::uint16_t x) {                 \
    return exchange<std::uint16_t>(p, [x](std::uint16_t old) { return one<Half, op>(old, x); });  \
  }                                                                                               \
  extern "C" std::uint16_t cucpu_rt_atom_##name##_bf16(void* p, std::uint16_t x) {                \
    return exchange<std::uint16_t>(p, [x](std::uint16_t old) { return one<Brain, op>(old, x); }); \
  }                                                                                               \
  extern "C" std::uint32_t cucpu_rt_atom_##name##_f16x2(void* p, std::uint32_t x) {               \
    return both<Half, op>(p, x);                                                                  \
  }                                                                                               \
  extern "C" std::uint32_t cucpu_rt_atom_##name##_bf16x2(void* p, std::uint32_t x) {              \
    return both<Brain, op>(p, x);                                                                 \
  }
CUCPU_HALF_ATOMICS(add, add)
CUCPU_HALF_ATOMICS(min, least)
CUCPU_HALF_ATOMICS(max, most)

#define CUCPU_COUNTERS(bits)                                                                 \
  extern "C" std::uint##bits##_t cucpu_rt_atom_inc_u##bits(void* p, std::uint##bits##_t x) { \
    return exchange<std::uint##bits##_t>(                                                    \
        p, [x](std::uint##bits##_t old) { return old >= x ? 0 : old + 1; });                 \
  }                                                                                          \
  extern "C" std::uint##bits##_t cucpu_rt_atom_dec_u##bits(void* p, std::uint##bits##_t x) { \
    return exchange<std::uint##bits##_t>(                                                    \
        p, [x](std::uint##bits##_t old) { return old == 0 || old > x ? x : old - 1; });      \
  }
CUCPU_COUNTERS(32)
CUCPU_COUNTERS(64)

/// The same as float_sum (jit/float_atomics.cpp), for a generic address: in shared memory the NaN
/// in memory has priority and is quieted; in global memory that of the operand has, unchanged.
extern "C" std::uint64_t cucpu_rt_atom_add_f64(void* p, std::uint64_t x) {
  const bool shared = cucpu_rt_is_cluster_shared(reinterpret_cast<std::uintptr_t>(p));
  const auto value = [](std::uint64_t bits) { return std::bit_cast<double>(bits); };
  return exchange<std::uint64_t>(p, [&](std::uint64_t old) -> std::uint64_t {
    const std::uint64_t first = shared ? old : x, second = shared ? x : old;
    const std::uint64_t quiet = shared ? 0x0008000000000000 : 0;
    if (std::isnan(value(first))) return first | quiet;
    if (std::isnan(value(second))) return second | quiet;
    const double sum = value(old) + value(x);
    return std::isnan(sum) ? 0xfff8000000000000 : std::bit_cast<std::uint64_t>(sum);
  });
}
