// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/reduce.cpp: reductions of memory, element by element (cp.reduce.async.bulk,
// red.async).
#include "cpu/engine/runtime/reduce.hpp"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "cpu/engine/runtime/small_floats.hpp"

namespace cucpu {
namespace {

using ptx::Type;

template <typename T>
T read(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename Word, typename Change>
bool exchange(void* to, Change change) {
  std::atomic_ref<Word> cell{*static_cast<Word*>(to)};
  Word old = cell.load(std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) {
  }
  return true;
}

template <typename Word>
bool integer(ReduceOp op, bool is_signed, void* to, Word x) {
  using Signed = std::make_signed_t<Word>;
  const auto less = [=](Word a, Word b) {
    return is_signed ? static_cast<Signed>(a) < static_cast<Signed>(b) : a < b;
  };
  return exchange<Word>(to, [=](Word old) -> Word {
    switch (op) {
      case ReduceOp::add:
        return old + x;
      case ReduceOp::min:
        return less(x, old) ? x : old;
      case ReduceOp::max:
        return less(old, x) ? x : old;
      case ReduceOp::inc:
        return old >= x ? 0 : old + 1;
      case ReduceOp::dec:
        return old == 0 || old > x ? x : old - 1;
      case ReduceOp::bit_and:
        return old & x;
      case ReduceOp::bit_or:
        return old | x;
      case ReduceOp::bit_xor:
        return old ^ x;
    }
    return old;
  });
}

/// Minimum or maximum: a number wins over NaN, and -0 is less than +0. Or the sum.
template <typename F>
F choose(ReduceOp op, F a, F b) {
  if (op == ReduceOp::add) return a + b;
  if (a == b) return std::signbit(a) == (op == ReduceOp::min) ? a : b;
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return (a < b) == (op == ReduceOp::min) ? a : b;
}

std::uint32_t bits_of_float(float v) {
  return std::isnan(v) ? 0x7fffffffU : std::bit_cast<std::uint32_t>(v);
}

}  // namespace

bool reduce_element(Type type, ReduceOp op, void* to, const void* from) {
  const bool floating = op == ReduceOp::add || op == ReduceOp::min || op == ReduceOp::max;
  switch (type) {
    case Type::u32:
    case Type::b32:
      return integer<std::uint32_t>(op, false, to, read<std::uint32_t>(from));
    case Type::s32:
      return integer<std::uint32_t>(op, true, to, read<std::uint32_t>(from));
    case Type::u64:
    case Type::b64:
      return integer<std::uint64_t>(op, false, to, read<std::uint64_t>(from));
    case Type::s64:
      return integer<std::uint64_t>(op, true, to, read<std::uint64_t>(from));
    case Type::f16: {
      if (!floating) return false;
      const float x = half_to_float(read<std::uint16_t>(from));
      return exchange<std::uint16_t>(
          to, [=](std::uint16_t old) { return float_to_half(choose(op, half_to_float(old), x)); });
    }
    case Type::bf16: {
      if (!floating) return false;
      const float x = brain_to_float(read<std::uint16_t>(from));
      return exchange<std::uint16_t>(to, [=](std::uint16_t old) {
        return float_to_brain(choose(op, brain_to_float(old), x));
      });
    }
    case Type::f32: {  // unlike red.global.add.f32, subnormals count
      if (op != ReduceOp::add) return false;
      const float x = read<float>(from);
      return exchange<std::uint32_t>(
          to, [=](std::uint32_t old) { return bits_of_float(std::bit_cast<float>(old) + x); });
    }
    case Type::f64: {
      if (op != ReduceOp::add) return false;
      const double x = read<double>(from);
      return exchange<std::uint64_t>(to, [=](std::uint64_t old) {  // NaNs are not changed
        const auto before = std::bit_cast<double>(old);
        if (std::isnan(x)) return std::bit_cast<std::uint64_t>(x);
        if (std::isnan(before)) return old;
        const double sum = before + x;
        return std::isnan(sum) ? 0xfff8000000000000 : std::bit_cast<std::uint64_t>(sum);
      });
    }
    default:
      return false;
  }
}

}  // namespace cucpu

extern "C" {

/// Reduces `bytes` bytes of `from` into `to`. what: ptx::Type | ReduceOp << 8.
void cucpu_rt_reduce_copy(void* to, const void* from, std::uint32_t bytes, std::uint32_t what) {
  const auto type = static_cast<cucpu::ptx::Type>(what & 0xff);
  const auto op = static_cast<cucpu::ReduceOp>(what >> 8);
  const std::uint32_t size = cucpu::ptx::bytes_of(type);
  for (std::uint32_t at = 0; at + size <= bytes; at += size) {
    cucpu::reduce_element(type, op, static_cast<char*>(to) + at,
                          static_cast<const char*>(from) + at);
  }
}

}  // extern "C"
