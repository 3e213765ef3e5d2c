// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/matrix.cpp: mma for a whole warp.
// Sums of floats in f32 are those of an H200 (tensor_sum.hpp); others are computed in double and
// rounded once.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/engine/runtime/half_product.hpp"
#include "cpu/engine/runtime/matrix_elements.hpp"
#include "cpu/engine/runtime/matrix_job.hpp"
#include "cpu/engine/runtime/sparse.hpp"
#include "cpu/engine/runtime/tensor_sum.hpp"
#include "cpu/engine/runtime/transpose.hpp"
#include "cpu/mem/per_thread.hpp"

extern "C" {
double cucpu_rt_fma_f64_rz(double, double, double);  // math.cpp
double cucpu_rt_fma_f64_rm(double, double, double);
double cucpu_rt_fma_f64_rp(double, double, double);
}

namespace {

using namespace cucpu;
using ptx::Type;

using Job = MatrixJob;

/// Row and column (k along the second index of a, the first of b) of a lane's element.
struct Place {
  unsigned row, col;
};

Place place_of(const Job& job, char which, unsigned lane, unsigned index, unsigned bits) {
  if ((job.flags & cucpu::kMatrixWmma) != 0) {
    if (which == 'c') return {(index * 32 + lane) / job.n, (index * 32 + lane) % job.n};
    const unsigned per = bits >= 32 ? 1 : 32 / bits;
    const unsigned at = (index / per * 32 + lane) * per + index % per;  // in memory
    const bool rows =
        which == 'a' ? (job.flags & kMatrixColA) == 0 : (job.flags & kMatrixRowB) != 0;
    const unsigned height = which == 'a' ? job.m : job.k, width = which == 'a' ? job.k : job.n;
    if (rows) return {at / width, at % width};
    return {at % height, at / height};
  }
  const unsigned group = lane / 4, thread = lane % 4;
  if (which == 'c') return {group + (index / 2) * 8, thread * 2 + index % 2};
  const unsigned per = bits >= 32 ? 1 : 32 / bits;
  const unsigned reg = index / per, j = index % per;
  if (which == 'b') return {thread * per + reg * 4 * per + j, group};
  if (job.m == 8) return {group, thread * per + reg * 4 * per + j};
  return {group + 8 * (reg & 1), thread * per + (reg >> 1) * 4 * per + j};
}

/// The bits that an element of a or b takes in its fragment.
unsigned factor_width(const Job& job, Type t) {
  return (job.flags & kMatrixBytes) != 0 ? 8 : width_of(t);
}

/// Reads an element of a or b.
double factor(const Job& job, Type t, std::uint64_t bits) {
  return (job.flags & kMatrixBytes) != 0 ? decode_byte(t, bits) : decode(t, bits);
}

/// The scales of a product: of a by row and of b by column, for each of `count` chunks along k. The
/// selected two lanes of a quad have those of rows r and r + 8, the selected lane of a quad those
/// of a column.
struct Scales {
  unsigned count, k;
  double a[16][4], b[8][4];

  double of_a(unsigned row, unsigned col) const { return a[row][col * count / k]; }
  double of_b(unsigned row, unsigned col) const { return b[col][row * count / k]; }
};

Scales scales_of(const Job& job, const std::uint32_t* const* words, unsigned first) {
  Scales s{job.flags >> kMatrixScales, job.k, {}, {}};
  const std::uint32_t selector = words[0][first + 2];
  const unsigned byte_a = selector & 3, thread_a = selector >> 8 & 1;
  const unsigned byte_b = selector >> 16 & 3, thread_b = selector >> 24 & 3;
  const bool e4m3 = (job.flags & kMatrixScaleE4M3) != 0;
  const auto scale = [&](std::uint32_t word, unsigned byte) {
    return decode_scale(e4m3, static_cast<std::uint8_t>(word >> (byte % 4 * 8)));
  };
  for (unsigned chunk = 0; chunk < s.count; ++chunk) {
    for (unsigned row = 0; row < 16; ++row)
      s.a[row][chunk] = scale(words[row % 8 * 4 + thread_a * 2 + row / 8][first], byte_a + chunk);
    for (unsigned col = 0; col < 8; ++col)
      s.b[col][chunk] = scale(words[col * 4 + thread_b][first + 1], byte_b + chunk);
  }
  return s;
}

template <typename Visit>
void for_elements(const Job& job, char which, unsigned bits, unsigned words, Visit visit) {
  const unsigned count = bits == 64 ? words / 2 : words * (32 / bits);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned e = 0; e < count; ++e) visit(lane, e, bits, place_of(job, which, lane, e, bits));
  }
}

using Halves [[gnu::vector_size(16)]] = std::uint16_t;

void transpose(const std::uint16_t* from, unsigned rows, unsigned columns, std::uint16_t* to) {
  for (unsigned i = 0; i < rows; i += 8)
    for (unsigned j = 0; j < columns; j += 8)
      transpose_halves(from + i * columns + j, columns, to + j * rows + i, rows);
}

/// c + a * b, row-major; with wmma's fragments c and made are the fragments.
template <unsigned Depth, unsigned N>
bool wmma_halves(const Job& job, const WarpWords& words, float* made) {
  constexpr unsigned kMost = kHalfProductSize * kHalfProductDepth;
  std::uint16_t other[kMost];
  HalfFactors a, b;
  const auto* left = reinterpret_cast<const std::uint16_t*>(words.a);
  const auto* right = reinterpret_cast<const std::uint16_t*>(words.b);
  if ((job.flags & kMatrixColA) != 0) transpose(left, Depth, job.m, other), left = other;
  if (!set_halves(a, left, job.m * Depth, kHalfBiasA)) return false;
  if ((job.flags & kMatrixRowB) == 0) transpose(right, N, Depth, other), right = other;
  if (!set_halves(b, right, Depth * N, kHalfBiasB)) return false;
  return half_product<Depth, N>(a, b, job.m, reinterpret_cast<const float*>(words.c), made);
}

/// The same with the fragments of mma.m16n8k8 and .m16n8k16: four lanes have the eight halves or
/// the eight floats of a row (column of b). Register r has rows from 8 * (r % 2) on and columns
/// from 8 * (r / 2) on of a, rows from 8 * r on of b, and rows from 8 * (r / 2) on of c, every
/// second column.
template <unsigned Depth>
bool mma_halves(const WarpWords& words, float* made) {
  constexpr unsigned kRows = 16, kColumns = 8;
  alignas(16) std::uint16_t left[kRows * Depth], right[Depth * kColumns];
  alignas(16) float c[kRows * kColumns], sums[kRows * kColumns];
  const auto* from = reinterpret_cast<const std::uint16_t*>(words.a);
  for (unsigned r = 0; r < Depth / 4; ++r)
    for (unsigned i = 0; i < 8; ++i, from += 8)
      half_vectors::store(left + (8 * (r % 2) + i) * Depth + 8 * (r / 2),
                          half_vectors::load<Halves>(from));
  from = reinterpret_cast<const std::uint16_t*>(words.b);
  for (unsigned r = 0; r < Depth / 8; ++r)
    transpose_halves(from + 64 * r, 8, right + 8 * kColumns * r, kColumns);
  HalfFactors a, b;
  if (!set_halves(a, left, kRows * Depth, kHalfBiasA)) return false;
  if (!set_halves(b, right, Depth * kColumns, kHalfBiasB)) return false;
  const auto* sum = reinterpret_cast<const float*>(words.c);
  for (unsigned i = 0; i < 2; ++i)
    for (unsigned j = 0; j < 32; ++j) {
      c[64 * i + 2 * j] = sum[64 * i + j];
      c[64 * i + 2 * j + 1] = sum[64 * i + 32 + j];
    }
  if (!half_product<Depth, kColumns>(a, b, kRows, c, sums)) return false;
  for (unsigned i = 0; i < 2; ++i)
    for (unsigned j = 0; j < 32; ++j) {
      made[64 * i + j] = sums[64 * i + 2 * j];
      made[64 * i + 32 + j] = sums[64 * i + 2 * j + 1];
    }
  return true;
}

/// Whether this is an f16 product with sums in f32 and a shape that halves() has.
bool are_halves(const Job& job) {
  constexpr std::uint32_t kKnown = kMatrixWmma | kMatrixSaturate | kMatrixColA | kMatrixRowB;
  const bool has_shape = (job.flags & kMatrixWmma) != 0
                             ? job.k == 16 && job.m * job.n == 256
                             : job.m == 16 && job.n == 8 && (job.k == 8 || job.k == 16);
  return has_shape && job.a == Type::f16 && job.b == Type::f16 && job.c == Type::f32 &&
         job.d == Type::f32 && (job.flags & ~kKnown) == 0;
}

/// Such a product; `made` has the words of d, 32 lanes each. False, without effect, if a number is
/// not finite.
bool halves(const Job& job, const WarpWords& words, float* made) {
  if ((job.flags & kMatrixWmma) == 0)
    return job.k == 8 ? mma_halves<8>(words, made) : mma_halves<16>(words, made);
  return job.n == 8    ? wmma_halves<16, 8>(job, words, made)
         : job.n == 16 ? wmma_halves<16, 16>(job, words, made)
                       : wmma_halves<16, 32>(job, words, made);
}

/// As on an H200, m8n8k4 uses fused multiply-adds in f32 and adds the accumulator last.
double quad_sum(Type d, const double (&a)[4], const double (&b)[4][8], unsigned col, double c) {
  if (d != Type::f32)
    return a[0] * b[0][col] + a[1] * b[1][col] + a[2] * b[2][col] + a[3] * b[3][col] + c;
  float sum = 0;
  for (unsigned k = 0; k < 4; ++k)
    sum = std::fma(static_cast<float>(a[k]), static_cast<float>(b[k][col]), sum);
  return sum + static_cast<float>(c);
}

/// mma.m8n8k4 of .f16: lanes 4q … 4q + 3 and those 16 further on compute product q.
void quads(const Job& job, const std::uint32_t* const* words, void* const* out) {
  for (unsigned q = 0; q < 4; ++q) {
    double a[8][4], b[4][8], c[8][8];
    const auto lane_of = [q](unsigned t) { return t < 4 ? q * 4 + t : 16 + q * 4 + t - 4; };
    const bool col_a = (job.flags & kMatrixColA) != 0, row_b = (job.flags & kMatrixRowB) != 0;
    const auto place = [](Type t, unsigned thread, unsigned i) {
      const unsigned low = thread % 4, high = thread / 4 * 4;
      if (t == Type::f16) return Place{low + high, i};
      return Place{(low & 1) + (i & 2) + high, (i & 4) + (low & 2) + (i & 1)};
    };
    for (unsigned t = 0; t < 8; ++t) {
      const std::uint32_t* word = words[lane_of(t)] + 4;
      const unsigned low = t % 4, high = t / 4 * 4;
      for (unsigned i = 0; i < 4; ++i) {
        const double x = decode(Type::f16, element(word, 16, i));
        const double y = decode(Type::f16, element(word + job.na, 16, i));
        (col_a ? a[i + high][low] : a[low + high][i]) = x;
        (row_b ? b[low][i + high] : b[i][low + high]) = y;
      }
      for (unsigned i = 0; i < 8; ++i) {
        const Place p = place(job.c, t, i);
        c[p.row][p.col] = decode(job.c, element(word + job.na + job.nb, width_of(job.c), i));
      }
    }
    for (unsigned t = 0; t < 8; ++t) {
      auto* result = static_cast<std::uint32_t*>(out[lane_of(t)]);
      if (result == nullptr) continue;
      for (unsigned i = 0; i < 8; ++i) {
        const Place p = place(job.d, t, i);
        set_element(result, width_of(job.d), i,
                    encode(job.d, quad_sum(job.d, a[p.row], b, p.col, c[p.row][p.col])));
      }
    }
  }
}

}  // namespace

namespace {

/// 8-bit floats are multiplied as 16-bit ones, in two steps and with an addition of the accumulator
/// at the end: the lower pairs of each register (four stored elements) come first.
unsigned byte_half(unsigned k, bool sparse) { return sparse ? k / 4 % 2 : k % 4 / 2; }

/// A product of any types. The operands and the results of each lane are in memory of their own;
/// lanes without results have none.
void product(const Job& job, const std::uint32_t* const* words, void* const* out) {
  const std::uint32_t* const head = words[0];
  // The largest shapes: 16 x 256 (b1) and 32 x 16. On the heap: thread-local arrays of this size
  // would keep the whole library from being loaded into a running program, whose room for
  // thread-local variables is small.
  struct Scratch {
    double a[32 * 256], b[32 * 256], c[32 * 32];
    bool absent[32 *
                256];  // elements that a sparse matrix omits: not multiplied, even with infinity
    Factor x[32 * 256], y[32 * 256];
    bool finite_row[32], finite_col[32];
  };
  if ((job.flags & kMatrixQuads) != 0) return quads(job, words, out);
  auto& [a, b, c, absent, factors_a, factors_b, finite_row, finite_col] = PerThread<Scratch>::get();
  const bool sparse = (job.flags & kMatrixSparse) != 0;
  const unsigned metadata =
      4 + job.na + job.nb + job.nc;  // word index of the metadata; the selector follows
  if (sparse) std::memset(absent, 1, sizeof absent);
  const bool scaled = job.flags >> kMatrixScales != 0;
  const Scales scales = scaled ? scales_of(job, words, metadata + (sparse ? 2 : 0)) : Scales{};
  const unsigned width_a = factor_width(job, job.a), width_b = factor_width(job, job.b);
  const Type stored = width_a == 4 ? Type::u4 : width_a == 8 ? Type::u8 : job.a;
  for_elements(job, 'a', width_a, job.na, [&](unsigned lane, unsigned e, unsigned bits, Place p) {
    if (sparse) {
      p.col = dense_column(stored, job.k, head[metadata + 1], p.row, p.col,
                           [&](unsigned l) { return words[l][metadata]; });
      absent[p.row * job.k + p.col] = false;
    }
    double& value = a[p.row * job.k + p.col];
    value = factor(job, job.a, element(words[lane] + 4, bits, e));
    if (scaled) value *= scales.of_a(p.row, p.col);
  });
  for_elements(job, 'b', width_b, job.nb, [&](unsigned lane, unsigned e, unsigned bits, Place p) {
    double& value = b[p.col * job.k + p.row];
    value = factor(job, job.b, element(words[lane] + 4 + job.na, bits, e));
    if (scaled) value *= scales.of_b(p.row, p.col);
  });
  for_elements(job, 'c', width_of(job.c), job.nc,
               [&](unsigned lane, unsigned e, unsigned bits, Place p) {
                 c[p.row * job.n + p.col] =
                     decode(job.c, element(words[lane] + 4 + job.na + job.nb, bits, e));
               });
  const bool integer = job.d == Type::s32;
  const FactorFormat format_a = factor_format(job.a), format_b = factor_format(job.b);
  const bool kind = (job.flags & kMatrixKind) != 0;
  const bool bytes = !kind && (job.a == Type::e4m3 || job.a == Type::e5m2);
  const bool modelled = !kind && job.d == Type::f32 && format_a.bits != 0;
  if (modelled) {
    const auto factors = [&](const double* from, Factor* to, bool* finite, unsigned rows,
                             FactorFormat format) {
      for (unsigned r = 0; r < rows; ++r) {
        finite[r] = true;
        for (unsigned k = 0; k < job.k; ++k) {
          const unsigned at = r * job.k + k;
          const bool missing = sparse && from == a && absent[at];
          if (!missing && !std::isfinite(from[at])) finite[r] = false;
          to[at] = missing || !finite[r] ? Factor{} : factor_of(from[at], format);
        }
      }
    };
    factors(a, factors_a, finite_row, job.m, format_a);
    factors(b, factors_b, finite_col, job.n, format_b);
  }
  for (unsigned i = 0; i < job.m; ++i) {
    for (unsigned j = 0; j < job.n; ++j) {
      double sum = integer ? 0 : c[i * job.n + j];
      const double *x = a + i * job.k, *y = b + j * job.k;
      if (job.d == Type::f64) {
        using Fma = double (*)(double, double, double);
        constexpr Fma kFma[] = {[](double p, double q, double r) { return std::fma(p, q, r); },
                                cucpu_rt_fma_f64_rz, cucpu_rt_fma_f64_rm, cucpu_rt_fma_f64_rp};
        const Fma fma = kFma[job.flags >> cucpu::kMatrixRound & 3];
        for (unsigned k = 0; k < job.k; ++k) sum = fma(x[k], y[k], sum);
      } else if ((job.flags & (cucpu::kMatrixXor | cucpu::kMatrixAnd)) != 0) {
        const bool is_xor = (job.flags & cucpu::kMatrixXor) != 0;
        for (unsigned k = 0; k < job.k; ++k) sum += is_xor ? x[k] != y[k] : x[k] * y[k];
      } else if (modelled && finite_row[i] && finite_col[j] && std::isfinite(sum)) {
        const Factor *left = factors_a + i * job.k, *right = factors_b + j * job.k;
        const int bits = format_a.bits + format_b.bits;
        if (!bytes) {
          sum = tensor_sum(left, right, job.k, bits, static_cast<float>(sum), kHalfRule);
        } else {
          float products = 0;
          for (const unsigned half : {0U, 1U}) {
            Factor x2[128], y2[128];
            unsigned n = 0;
            for (unsigned k = 0; k < job.k; ++k)
              if (byte_half(k, sparse) == half) x2[n] = left[k], y2[n++] = right[k];
            products = tensor_sum(x2, y2, n, bits, products, kHalfRule);
          }
          sum = products + static_cast<float>(sum);
        }
      } else if (bytes && job.d == Type::f16) {
        double products = 0;
        for (const unsigned half : {0U, 1U}) {
          for (unsigned k = 0; k < job.k; ++k)
            if (byte_half(k, sparse) == half && !(sparse && absent[i * job.k + k]))
              products += x[k] * y[k];
          products = decode(Type::f16, encode(Type::f16, products));
        }
        sum += products;
      } else {
        double products = 0;
        for (unsigned k = 0; k < job.k; ++k) {
          if (!sparse || !absent[i * job.k + k]) products += x[k] * y[k];
        }
        sum += products;
      }
      if (integer) {  // exact in double so far; the accumulator wraps or saturates
        const double total = sum + c[i * job.n + j];
        if ((job.flags & cucpu::kMatrixSaturate) != 0) {
          sum = std::fmin(std::fmax(total, -2147483648.0), 2147483647.0);
        } else {
          sum = static_cast<std::int32_t>(
              static_cast<std::uint32_t>(static_cast<std::int64_t>(total)));
        }
      }
      c[i * job.n + j] = sum;
    }
  }
  for_elements(
      job, 'c', width_of(job.d), job.nd, [&](unsigned lane, unsigned e, unsigned bits, Place p) {
        if (out[lane] == nullptr) return;
        const double v = c[p.row * job.n + p.col];
        const std::uint64_t value =
            integer ? static_cast<std::uint32_t>(static_cast<std::int32_t>(v)) : encode(job.d, v);
        set_element(static_cast<std::uint32_t*>(out[lane]), bits, e, value);
      });
}

/// Such a product as vectors, if there is one.
bool try_vectors(const Job& job, const std::uint32_t* words, std::uint32_t* made) {
  const WarpWords operands = WarpWords::of(job, words);
  if (are_halves(job)) return halves(job, operands, reinterpret_cast<float*>(made));
  return vector_product(job, operands, made);
}

}  // namespace

void cucpu::product_by_sums(const std::uint32_t* head, const std::uint32_t* words,
                            std::uint32_t* made, std::uint32_t count) {
  const Job job = Job::of(head);
  std::uint32_t in[32][kMostMatrixWords], out[32][kMostMatrixResults];
  const std::uint32_t* lanes[32];
  void* results[32];
  for (unsigned lane = 0; lane < 32; ++lane) {
    std::copy(head, head + 4, in[lane]);
    for (unsigned w = 0; w < count; ++w) in[lane][4 + w] = words[w * 32 + lane];
    lanes[lane] = in[lane];
    results[lane] = out[lane];
  }
  product(job, lanes, results);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned w = 0; w < job.nd; ++w) made[w * 32 + lane] = out[lane][w];
}

// Threads on fibers: the operands of each lane are in its stack.
extern "C" void cucpu_rt_warp_mma(std::uint32_t, const void* const* in, void* const* out) {
  const auto* const* lanes = reinterpret_cast<const std::uint32_t* const*>(in);
  const Job job = Job::of(lanes[0]);
  alignas(64) std::uint32_t words[kMostMatrixWords * 32], made[kMostMatrixResults * 32];
  const unsigned count = job.na + job.nb + job.nc;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned w = 0; w < count; ++w) words[w * 32 + lane] = lanes[lane][4 + w];
  if (!try_vectors(job, words, made)) return product(job, lanes, out);
  for (unsigned lane = 0; lane < 32; ++lane) {
    auto* const result = static_cast<std::uint32_t*>(out[lane]);
    for (unsigned w = 0; result != nullptr && w < job.nd; ++w) result[w] = made[w * 32 + lane];
  }
}

// Vector code: the constant operands at `head`, the others and the results by words of 32 lanes
// each. `count`: of the others.
extern "C" void cucpu_rt_warp_mma_words(const std::uint32_t* head, const std::uint32_t* words,
                                        std::uint32_t* results, std::uint32_t count) {
  if (!try_vectors(Job::of(head), words, results)) product_by_sums(head, words, results, count);
}
