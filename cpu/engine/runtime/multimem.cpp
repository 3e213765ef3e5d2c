// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/multimem.cpp: multimem instructions: an address of a multicast object refers
// to one copy in the memory of each of its devices.
#include "cpu/engine/runtime/multimem.hpp"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"
#include "cpu/engine/runtime/reduce.hpp"
#include "cpu/engine/runtime/small_floats.hpp"

namespace cucpu {
namespace {

using ptx::Type;
constexpr unsigned kMostCopies = 64;  // as many as there are devices

struct What {
  Type type;
  ReduceOp op;
  std::uint32_t align;
  bool wide;  ///< halves are summed as floats
  explicit What(std::uint32_t bits)
      : type{static_cast<Type>(bits & 0xff)},
        op{static_cast<ReduceOp>(bits >> 8 & 0xff)},
        align{bits >> 16 & 0xff},
        wide{(bits & kMultimemWide) != 0} {}
};

/// The copies of `address`; any other address than that of a multicast object faults.
std::span<const std::uintptr_t> copies_of(std::uint64_t address, std::uint32_t align,
                                          std::uintptr_t (&room)[kMostCopies]) {
  if (address % align != 0) cucpu_rt_misaligned(address);
  const auto& find = hooks().multicast;
  const unsigned count = find ? find(address, room, kMostCopies) : 0;
  if (count == 0) {
    FiberFault& fault = Worker::running()->current_fault();
    fault.address = address;
    fault.has_address = true;
    fault.text =
        "a multimem instruction needs an address where a multicast object is mapped and memory "
        "bound";
    cucpu_rt_trap(700);
  }
  return {room, count};
}

/// The number of elements of a type of 8-bit floats; 0 for other types.
unsigned small_count(Type type) {
  switch (type) {
    case Type::e4m3:
    case Type::e5m2:
      return 1;
    case Type::e4m3x2:
    case Type::e5m2x2:
      return 2;
    case Type::e4m3x4:
    case Type::e5m2x4:
      return 4;
    default:
      return 0;
  }
}

/// The reduction of 8-bit floats: in f32, rounded once, saturated.
std::uint64_t reduce_small(Type type, ReduceOp op, std::span<const std::uint64_t> values) {
  const bool e4m3 = type == Type::e4m3 || type == Type::e4m3x2 || type == Type::e4m3x4;
  const unsigned exponent_bits = e4m3 ? 4 : 5, mantissa_bits = e4m3 ? 3 : 2;
  std::uint64_t result = 0;
  for (unsigned k = 0; k < small_count(type); ++k) {
    float r = 0;
    for (std::size_t n = 0; n < values.size(); ++n) {
      const float v = decode_small(static_cast<std::uint32_t>(values[n] >> (8 * k) & 0xff),
                                   exponent_bits, mantissa_bits);
      const bool wins = op == ReduceOp::min ? v < r || (v == r && std::signbit(v))
                                            : v > r || (v == r && !std::signbit(v));
      if (n == 0 || (op != ReduceOp::add && (std::isnan(r) || wins)))
        r = v;
      else if (op == ReduceOp::add)
        r += v;
    }
    const std::uint32_t code =
        std::isnan(r) ? 0x7f : encode_small(r, exponent_bits, mantissa_bits, e4m3 ? 0x7e : 0x7b);
    result |= std::uint64_t{code} << (8 * k);
  }
  return result;
}

/// One step of a reduction in registers.
std::uint64_t combined(Type type, ReduceOp op, std::uint64_t a, std::uint64_t b) {
  if (type == Type::f16x2 || type == Type::bf16x2) {
    const Type half = type == Type::f16x2 ? Type::f16 : Type::bf16;
    return combined(half, op, a & 0xffff, b & 0xffff) |
           combined(half, op, a >> 16 & 0xffff, b >> 16 & 0xffff) << 16;
  }
  reduce_element(type, op, &a, &b);  // hosts are little-endian: the low bytes
  return a;
}

std::uint64_t read(std::uintptr_t from, std::uint32_t bytes) {
  switch (bytes) {
    case 1:
      return std::atomic_ref{*reinterpret_cast<std::uint8_t*>(from)}.load(
          std::memory_order_acquire);
    case 2:
      return std::atomic_ref{*reinterpret_cast<std::uint16_t*>(from)}.load(
          std::memory_order_acquire);
    case 4:
      return std::atomic_ref{*reinterpret_cast<std::uint32_t*>(from)}.load(
          std::memory_order_acquire);
    default:
      return std::atomic_ref{*reinterpret_cast<std::uint64_t*>(from)}.load(
          std::memory_order_acquire);
  }
}

void write(std::uintptr_t to, std::uint64_t value, std::uint32_t bytes) {
  const auto store = [&](auto word) {
    using Word = decltype(word);
    std::atomic_ref{*reinterpret_cast<Word*>(to)}.store(static_cast<Word>(value),
                                                        std::memory_order_release);
  };
  if (bytes == 1)
    store(std::uint8_t{});
  else if (bytes == 2)
    store(std::uint16_t{});
  else if (bytes == 4)
    store(std::uint32_t{});
  else
    store(std::uint64_t{});
}

/// Adds f16 values as floats and rounds once.
std::uint16_t wide_sum(Type half, std::span<const std::uint64_t> values, unsigned shift) {
  float sum = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const auto bits = static_cast<std::uint16_t>(values[k] >> shift);
    const float v = half == Type::f16 ? half_to_float(bits) : brain_to_float(bits);
    sum = k == 0 ? v : sum + v;
  }
  return half == Type::f16 ? float_to_half(sum) : float_to_brain(sum);
}

void reduce(Type type, ReduceOp op, std::uintptr_t to, const void* from) {
  if (type != Type::f16x2 && type != Type::bf16x2) {
    reduce_element(type, op, reinterpret_cast<void*>(to), from);
    return;
  }
  const Type half = type == Type::f16x2 ? Type::f16 : Type::bf16;
  for (unsigned k = 0; k < 4; k += 2)
    reduce_element(half, op, reinterpret_cast<void*>(to + k), static_cast<const char*>(from) + k);
}

}  // namespace
}  // namespace cucpu

using namespace cucpu;

extern "C" {

/// One element of ld_reduce: the reduction of all copies of `address`.
std::uint64_t cucpu_rt_multimem_load(std::uint64_t address, std::uint32_t what_bits) {
  const What what{what_bits};
  std::uintptr_t room[kMostCopies];
  const auto copies = copies_of(address, what.align, room);
  std::uint64_t values[kMostCopies] = {};
  for (std::size_t k = 0; k < copies.size(); ++k)
    values[k] = read(copies[k], ptx::bytes_of(what.type));
  if (small_count(what.type) != 0) return reduce_small(what.type, what.op, {values, copies.size()});
  const bool pair = what.type == Type::f16x2 || what.type == Type::bf16x2;
  if (what.wide && what.op == ReduceOp::add) {
    const Type half = what.type == Type::f16x2 || what.type == Type::f16 ? Type::f16 : Type::bf16;
    const std::span<const std::uint64_t> all{values, copies.size()};
    const std::uint64_t low = wide_sum(half, all, 0);
    return pair ? low | std::uint64_t{wide_sum(half, all, 16)} << 16 : low;
  }
  std::uint64_t result = values[0];
  for (std::size_t k = 1; k < copies.size(); ++k)
    result = combined(what.type, what.op, result, values[k]);
  return result;
}

/// One element of st, into every copy.
void cucpu_rt_multimem_store(std::uint64_t address, std::uint64_t value, std::uint32_t what_bits) {
  const What what{what_bits};
  std::uintptr_t room[kMostCopies];
  for (const std::uintptr_t copy : copies_of(address, what.align, room))
    write(copy, value, ptx::bytes_of(what.type));
}

/// One element of red, in every copy.
void cucpu_rt_multimem_reduce(std::uint64_t address, std::uint64_t value, std::uint32_t what_bits) {
  const What what{what_bits};
  std::uintptr_t room[kMostCopies];
  for (const std::uintptr_t copy : copies_of(address, what.align, room))
    reduce(what.type, what.op, copy, &value);
}

/// multimem.cp.async.bulk and, with a type, multimem.cp.reduce.async.bulk: `bytes` bytes of shared
/// memory. mask: the bytes of every 16 that are copied.
void cucpu_rt_multimem_copy(std::uint64_t address, const std::byte* from, std::uint32_t bytes,
                            std::uint32_t what_bits, std::uint32_t mask) {
  const What what{what_bits};
  std::uintptr_t room[kMostCopies];
  if (bytes == 0) return;
  if (bytes % 16 != 0) {
    Worker::running()->current_fault().text =
        "a bulk copy of " + std::to_string(bytes) + " bytes: not a multiple of 16";
    cucpu_rt_trap(715);
  }
  const std::uint32_t size = ptx::bytes_of(what.type);
  for (std::uint32_t at = 0; at < bytes;
       at += 16) {  // memory is bound in pages, and 16 bytes lie in one page
    for (const std::uintptr_t copy : copies_of(address + at, 16, room)) {
      if (size == 0) {
        auto* const to = reinterpret_cast<std::byte*>(copy);
        if (mask == 0xffff) std::memcpy(to, from + at, 16);
        for (std::uint32_t k = 0; mask != 0xffff && k < 16; ++k)
          if ((mask >> k & 1) != 0) to[k] = from[at + k];
        continue;
      }
      for (std::uint32_t k = 0; k < 16; k += size)
        reduce(what.type, what.op, copy + k, from + at + k);
    }
  }
}

}  // extern "C"
