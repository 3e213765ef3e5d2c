// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/matrix_vectors.cpp: products of a warp whose sums are computed as vectors
// (vector_sums.hpp): fragments become matrices in order of rows, and the result a fragment again.
#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/engine/runtime/matrix_job.hpp"
#include "cpu/engine/runtime/small_floats.hpp"
#include "cpu/engine/runtime/vector_sums.hpp"

namespace cucpu {
namespace {

using ptx::Type;

constexpr unsigned kMostFactors = 1024;           // m16n8k64 of s4
constexpr unsigned kMostFragmentWords = 16 * 32;  // mma.m16n8k16 of f64

bool is_wmma(const MatrixJob& job) { return (job.flags & kMatrixWmma) != 0; }

/// A factor as it lies in memory: in order of rows, or of columns.
struct Raw {
  const std::uint32_t* words;
  bool by_rows;
};

/// The fragments of mma: four lanes have neighbouring words of a row of a or a column of b. A
/// register has eight rows; a of 16 rows has two registers for the same columns. `Words`: of an
/// element of 64 bits two, else one.
template <unsigned Words>
void gather_rows(const std::uint32_t* from, unsigned registers, unsigned heights, unsigned width,
                 std::uint32_t* to) {
  for (unsigned r = 0; r < registers; ++r)
    for (unsigned group = 0; group < 8; ++group) {
      const std::uint32_t* const four = from + (r * Words * 8 + group) * 4;
      std::uint32_t* const at = to + ((group + r % heights * 8) * width + r / heights * 4) * Words;
      if constexpr (Words == 1) {
        std::memcpy(at, four, 16);
      } else {
        for (unsigned i = 0; i < 4; ++i) at[2 * i] = four[i], at[2 * i + 1] = four[32 + i];
      }
    }
}

/// Words of which every 32 are one element's low and the next 32 its high part.
void join_words(const std::uint32_t* from, unsigned elements, std::uint32_t* to) {
  for (unsigned e = 0; e < elements; ++e)
    for (unsigned lane = 0; lane < 32; ++lane) {
      to[(e * 32 + lane) * 2] = from[e * 64 + lane];
      to[(e * 32 + lane) * 2 + 1] = from[e * 64 + 32 + lane];
    }
}

Raw raw_factor(const MatrixJob& job, bool is_a, const std::uint32_t* words, unsigned count,
               unsigned bits, std::uint32_t* scratch) {
  if (is_wmma(job)) {
    const bool by_rows = is_a ? (job.flags & kMatrixColA) == 0 : (job.flags & kMatrixRowB) != 0;
    if (bits != 64) return {words, by_rows};
    join_words(words, count / 2, scratch);
    return {scratch, by_rows};
  }
  const unsigned heights = is_a && job.m == 16 ? 2 : 1;
  if (bits == 64)
    gather_rows<2>(words, count / 2, heights, job.k, scratch);
  else
    gather_rows<1>(words, count, heights, job.k * bits / 32, scratch);
  return {scratch, is_a};
}

/// to[i][j] = convert(element), with `columns` columns. Element: the type in memory.
template <typename Element, typename T, typename Convert>
void unpack(const Raw& raw, bool transposed, unsigned rows, unsigned columns, T* to,
            Convert convert) {
  const auto get = [&](unsigned at) __attribute__((always_inline)) {
    Element element;
    std::memcpy(&element, reinterpret_cast<const char*>(raw.words) + at * sizeof element,
                sizeof element);
    return element;
  };
  if (!transposed) {
    for (unsigned at = 0; at < rows * columns; ++at) to[at] = convert(get(at));
    return;
  }
  for (unsigned i = 0; i < rows; ++i)
    for (unsigned j = 0; j < columns; ++j) to[i * columns + j] = convert(get(j * rows + i));
}

/// Copies between the words of a fragment of sums, in registers of 32 lanes, and rows. The rows of
/// wmma are in order of lanes; two registers of mma are the even and odd columns of eight rows.
/// `place(word, at)`: the words of element `at` begin at `word`, 32 apart.
template <unsigned Words, typename Place>
[[gnu::always_inline]] inline void for_sums(const MatrixJob& job, unsigned elements, Place place) {
  if (is_wmma(job)) {
    for (unsigned e = 0; e < elements; ++e)
      for (unsigned lane = 0; lane < 32; ++lane) place(e * Words * 32 + lane, e * 32 + lane);
    return;
  }
  for (unsigned e = 0; e < elements; e += 2)
    for (unsigned lane = 0; lane < 32; ++lane) {
      place(e * Words * 32 + lane, e * 32 + 2 * lane);
      place((e + 1) * Words * 32 + lane, e * 32 + 2 * lane + 1);
    }
}

template <typename T>
void read_sums(const MatrixJob& job, const std::uint32_t* __restrict words, T* __restrict to) {
  constexpr unsigned kWords = sizeof(T) / 4;
  for_sums<kWords>(job, job.nc / kWords, [&](unsigned word, unsigned at) {
    if constexpr (kWords == 1)
      to[at] = std::bit_cast<T>(words[word]);
    else
      to[at] = std::bit_cast<T>(words[word] | std::uint64_t{words[word + 32]} << 32);
  });
}
template <typename T>
void write_sums(const MatrixJob& job, const T* __restrict from, std::uint32_t* __restrict words) {
  constexpr unsigned kWords = sizeof(T) / 4;
  for_sums<kWords>(job, job.nd / kWords, [&](unsigned word, unsigned at) {
    if constexpr (kWords == 1) {
      words[word] = std::bit_cast<std::uint32_t>(from[at]);
    } else {
      const auto bits = std::bit_cast<std::uint64_t>(from[at]);
      words[word] = static_cast<std::uint32_t>(bits);
      words[word + 32] = static_cast<std::uint32_t>(bits >> 32);
    }
  });
}

/// Values and exponents of bf16 or tf32; false if one of them is not finite.
bool set_factors(const Raw& raw, bool transposed, Type type, unsigned rows, unsigned columns,
                 float* values, std::int16_t* exponents) {
  if (type == Type::bf16)
    unpack<std::uint16_t>(raw, transposed, rows, columns, values, [](std::uint16_t bits) {
      return std::bit_cast<float>(std::uint32_t{bits} << 16);
    });
  else
    unpack<std::uint32_t>(raw, transposed, rows, columns, values, [](std::uint32_t bits) {
      return std::bit_cast<float>(bits & 0xffffe000U);
    });
  int most = 0;
  for (unsigned i = 0; i < rows * columns; ++i) {
    const std::uint32_t size = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffff;
    const int field = static_cast<int>(size >> 23);
    most = std::max(most, field);
    exponents[i] = static_cast<std::int16_t>(size != 0 ? std::max(field, 1) - 127 : kNoExponent);
  }
  return most < 255;
}

bool product_of_floats(const MatrixJob& job, const Raw& a, const Raw& b, const WarpWords& words,
                       std::uint32_t* made) {
  alignas(64) float left[512], right[512], c[kMostElements], sums[kMostElements];
  alignas(64) std::int16_t left_exponents[512], right_exponents[512];
  if (!set_factors(a, !a.by_rows, job.a, job.m, job.k, left, left_exponents)) return false;
  if (!set_factors(b, !b.by_rows, job.b, job.k, job.n, right, right_exponents)) return false;
  read_sums(job, words.c, c);
  if (!vector_sums().floats(job.m, job.n, job.k, {left, left_exponents}, {right, right_exponents},
                            c, sums))
    return false;
  write_sums(job, sums, made);
  return true;
}

/// Bytes, or halves of them, as floats.
void set_integers(const Raw& raw, bool transposed, Type type, unsigned rows, unsigned columns,
                  float* to) {
  const auto number = [](auto value) { return static_cast<float>(value); };
  if (type == Type::s8) return unpack<std::int8_t>(raw, transposed, rows, columns, to, number);
  if (type == Type::u8) return unpack<std::uint8_t>(raw, transposed, rows, columns, to, number);
  std::uint8_t bytes[kMostFactors];
  const auto* const halves = reinterpret_cast<const std::uint8_t*>(raw.words);
  for (unsigned i = 0; i < rows * columns; i += 2) {
    bytes[i] = static_cast<std::uint8_t>(halves[i / 2] << 4);
    bytes[i + 1] = halves[i / 2] & 0xf0;
  }
  std::uint32_t words[kMostFactors / 4];
  std::memcpy(words, bytes, sizeof words);
  const Raw whole{words, raw.by_rows};
  if (type == Type::s4)
    unpack<std::int8_t>(whole, transposed, rows, columns, to,
                        [](std::int8_t value) { return static_cast<float>(value >> 4); });
  else
    unpack<std::uint8_t>(whole, transposed, rows, columns, to,
                         [](std::uint8_t value) { return static_cast<float>(value >> 4); });
}

void product_of_integers(const MatrixJob& job, const Raw& a, const Raw& b, const WarpWords& words,
                         std::uint32_t* made) {
  alignas(64) float left[kMostFactors], right[kMostFactors];
  alignas(64) std::int32_t c[kMostElements], sums[kMostElements];
  set_integers(a, !a.by_rows, job.a, job.m, job.k, left);
  set_integers(b, !b.by_rows, job.b, job.k, job.n, right);
  read_sums(job, words.c, c);
  vector_sums().integers(job.m, job.n, job.k, left, right, c, (job.flags & kMatrixSaturate) != 0,
                         sums);
  write_sums(job, sums, made);
}

/// Of bits: the numbers of those that are set in both, or in one of them.
void product_of_bits(const MatrixJob& job, const Raw& a, const Raw& b, const WarpWords& words,
                     std::uint32_t* made) {
  std::uint32_t sums[kMostElements];
  read_sums(job, words.c, sums);
  const unsigned depth = job.k / 32;  // of words; both are by rows, b of columns
  const bool is_xor = (job.flags & kMatrixXor) != 0;
  for (unsigned i = 0; i < job.m; ++i)
    for (unsigned j = 0; j < job.n; ++j) {
      int bits = 0;
      for (unsigned k = 0; k < depth; ++k) {
        const std::uint32_t x = a.words[i * depth + k], y = b.words[j * depth + k];
        bits += std::popcount(is_xor ? x ^ y : x & y);
      }
      sums[i * job.n + j] += static_cast<std::uint32_t>(bits);
    }
  write_sums(job, sums, made);
}

void product_of_doubles(const MatrixJob& job, const Raw& a, const Raw& b, const WarpWords& words,
                        std::uint32_t* made) {
  alignas(64) double left[256], right[128], c[128], sums[128];
  const auto same = [](double value) { return value; };
  unpack<double>(a, !a.by_rows, job.m, job.k, left, same);
  unpack<double>(b, !b.by_rows, job.k, job.n, right, same);
  read_sums(job, words.c, c);
  vector_sums().doubles(job.m, job.n, job.k, left, right, c, sums);
  write_sums(job, sums, made);
}

/// f16 with sums in f16: products are exact in f64, their sum is rounded in order of k, and that
/// with c once more.
void product_of_halves(const MatrixJob& job, const Raw& a, const Raw& b, const WarpWords& words,
                       std::uint32_t* made) {
  alignas(64) double left[512], right[512], sums[kMostElements];
  const double zeros[kMostElements] = {};
  const auto number = [](std::uint16_t bits) { return double{half_to_float(bits)}; };
  unpack<std::uint16_t>(a, !a.by_rows, job.m, job.k, left, number);
  unpack<std::uint16_t>(b, !b.by_rows, job.k, job.n, right, number);
  vector_sums().exact_doubles(job.m, job.n, job.k, left, right, zeros, sums);
  for (unsigned word = 0; word < job.nd * 32; ++word) {
    std::uint32_t both = 0;
    for (unsigned half = 0; half < 2; ++half) {
      // Words of mma are neighbouring columns; the elements of a lane of wmma are 32 apart.
      const unsigned at = is_wmma(job) ? (word / 32 * 2 + half) * 32 + word % 32 : word * 2 + half;
      const auto old = static_cast<std::uint16_t>(words.c[word] >> 16 * half);
      const double sum = half_to_float(old) + sums[at];
      both |= std::uint32_t{float_to_half(static_cast<float>(sum))} << 16 * half;
    }
    made[word] = both;
  }
}

/// The kinds of products here; `other`: not of these types, or of a shape of its own.
enum class Kind : std::uint8_t { other, floats, integers, bits, doubles, halves };

Kind kind_of(const MatrixJob& job) {
  constexpr std::uint32_t kLayouts = kMatrixWmma | kMatrixColA | kMatrixRowB;
  constexpr std::uint32_t kBits = kMatrixXor | kMatrixAnd;
  const auto flags = job.flags & ~kLayouts;
  const auto is_small = [](Type t) { return t == Type::s4 || t == Type::u4; };
  const auto is_byte = [](Type t) { return t == Type::s8 || t == Type::u8; };
  if (job.c != job.d || job.n % 8 != 0 || job.m % 8 != 0 || job.m * job.n > kMostElements)
    return Kind::other;
  if ((job.a == Type::bf16 || job.a == Type::tf32) && job.a == job.b && job.d == Type::f32 &&
      (flags & ~kMatrixSaturate) == 0 && (job.k == 4 || job.k == 8 || job.k == 16))
    return Kind::floats;
  if (job.d == Type::s32 && (flags & kBits) != 0 && (flags & ~kBits) == 0) return Kind::bits;
  if (job.d == Type::s32 && (flags & ~kMatrixSaturate) == 0 &&
      ((is_byte(job.a) && is_byte(job.b)) || (is_small(job.a) && is_small(job.b))))
    return Kind::integers;
  if (job.a == Type::f64 && job.b == Type::f64 && job.d == Type::f64 && flags == 0)
    return Kind::doubles;
  if (job.a == Type::f16 && job.b == Type::f16 && job.d == Type::f16 &&
      (flags & ~kMatrixSaturate) == 0)
    return Kind::halves;
  return Kind::other;
}

}  // namespace

bool vector_product(const MatrixJob& job, const WarpWords& words, std::uint32_t* made) {
  const Kind kind = kind_of(job);
  if (kind == Kind::other) return false;
  const unsigned bits = job.a == Type::tf32 ? 32 : ptx::bits_of(job.a);
  alignas(64) std::uint32_t scratch_a[kMostFragmentWords], scratch_b[kMostFragmentWords / 2];
  const Raw a = raw_factor(job, true, words.a, job.na, bits, scratch_a);
  const Raw b = raw_factor(job, false, words.b, job.nb, bits, scratch_b);
  if (kind == Kind::floats) return product_of_floats(job, a, b, words, made);
  if (kind == Kind::integers)
    product_of_integers(job, a, b, words, made);
  else if (kind == Kind::bits)
    product_of_bits(job, a, b, words, made);
  else if (kind == Kind::halves)
    product_of_halves(job, a, b, words, made);
  else
    product_of_doubles(job, a, b, words, made);
  return true;
}

}  // namespace cucpu
