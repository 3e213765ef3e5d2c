// cpu/engine/runtime/matrix.cpp: mma, ldmatrix, stmatrix and movmatrix for a whole warp.
// Products are exact and sums are made in double, rounded once: at least as accurate as the
// hardware, whose order and width of accumulation the manual leaves open.
#include "cpu/engine/runtime/matrix.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include "cpu/engine/runtime/small_floats.hpp"
#include "cpu/ptx/types.hpp"

namespace {

using cucpu::ptx::Type;

struct Job {
  unsigned m, n, k;
  Type a, b, c, d;
  std::uint32_t flags;
  unsigned na, nb, nc, nd;
};

unsigned width_of(Type t) { return t == Type::tf32 ? 32 : cucpu::ptx::bits_of(t); }

std::uint64_t element(const std::uint32_t* words, unsigned bits, unsigned index) {
  if (bits == 64) return words[2 * index] | std::uint64_t{words[2 * index + 1]} << 32;
  if (bits == 32) return words[index];
  const unsigned per = 32 / bits;
  return words[index / per] >> (index % per * bits) & ((1u << bits) - 1);
}

void set_element(std::uint32_t* words, unsigned bits, unsigned index, std::uint64_t value) {
  if (bits == 64) {
    words[2 * index] = static_cast<std::uint32_t>(value);
    words[2 * index + 1] = static_cast<std::uint32_t>(value >> 32);
  } else if (bits == 32) {
    words[index] = static_cast<std::uint32_t>(value);
  } else {
    const unsigned per = 32 / bits, shift = index % per * bits;
    const std::uint32_t mask = ((1u << bits) - 1) << shift;
    words[index / per] =
        (words[index / per] & ~mask) | (static_cast<std::uint32_t>(value) << shift & mask);
  }
}

double decode(Type t, std::uint64_t bits) {
  switch (t) {
    case Type::f16:
      return cucpu::half_to_float(static_cast<std::uint16_t>(bits));
    case Type::bf16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    case Type::tf32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) & 0xffffe000u);
    case Type::f32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case Type::f64:
      return std::bit_cast<double>(bits);
    case Type::e4m3:
      return cucpu::decode_small(static_cast<std::uint32_t>(bits), 4, 3);
    case Type::e5m2:
      return cucpu::decode_small(static_cast<std::uint32_t>(bits), 5, 2);
    case Type::s8:
      return static_cast<std::int8_t>(bits);
    case Type::s4:
      return static_cast<std::int8_t>(bits << 4) >> 4;
    case Type::s32:
      return static_cast<std::int32_t>(bits);
    default:
      return static_cast<double>(bits);
  }
}

std::uint64_t encode(Type t, double v) {
  if (t == Type::f64) return std::isnan(v) ? 0x7ff8000000000000u : std::bit_cast<std::uint64_t>(v);
  if (t == Type::f16) return cucpu::float_to_half(static_cast<float>(v));
  return std::isnan(v) ? 0x7fffffffu : std::bit_cast<std::uint32_t>(static_cast<float>(v));
}

/// Row and column (k along the second index of a, the first of b) of a lane's element.
struct Place {
  unsigned row, col;
};

Place place_of(const Job& job, char which, unsigned lane, unsigned index, unsigned bits) {
  if ((job.flags & cucpu::kMatrixWmma) != 0) {
    const unsigned rows = which == 'b' ? job.n : job.m, cols = which == 'c' ? job.n : job.k;
    const unsigned per_lane = rows * cols / 32;
    const unsigned at = lane * per_lane + index % per_lane;
    if (which == 'b') return {at % cols, at / cols};
    return {at / cols, at % cols};
  }
  const unsigned group = lane / 4, thread = lane % 4;
  if (which == 'c') return {group + (index / 2) * 8, thread * 2 + index % 2};
  const unsigned per = bits >= 32 ? 1 : 32 / bits;
  const unsigned reg = index / per, j = index % per;
  if (which == 'b') return {thread * per + reg * 4 * per + j, group};
  if (job.m == 8) return {group, thread * per + reg * 4 * per + j};
  return {group + 8 * (reg & 1), thread * per + (reg >> 1) * 4 * per + j};
}

template <typename Visit>
void for_elements(const Job& job, char which, Type t, unsigned words, Visit visit) {
  const unsigned bits = width_of(t);
  const unsigned count = bits == 64 ? words / 2 : words * (32 / bits);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned e = 0; e < count; ++e) visit(lane, e, bits, place_of(job, which, lane, e, bits));
  }
}

}  // namespace

extern "C" void cucpu_rt_warp_mma(std::uint32_t, const void* const* in, void* const* out) {
  const auto* const* words = reinterpret_cast<const std::uint32_t* const*>(in);
  const std::uint32_t* head = words[0];
  Job job{};
  job.m = head[0] & 0xff, job.n = head[0] >> 8 & 0xff, job.k = head[0] >> 16;
  job.a = static_cast<Type>(head[1] & 0xff), job.b = static_cast<Type>(head[1] >> 8 & 0xff);
  job.c = static_cast<Type>(head[1] >> 16 & 0xff), job.d = static_cast<Type>(head[1] >> 24);
  job.flags = head[2];
  job.na = head[3] & 0xff, job.nb = head[3] >> 8 & 0xff, job.nc = head[3] >> 16 & 0xff,
  job.nd = head[3] >> 24;
  // The largest shapes: 16 x 256 (b1) and 32 x 16. On the heap: thread-local arrays of this size
  // would keep the whole library from being loaded into a running program, whose room for
  // thread-local variables is small.
  struct Scratch {
    double a[32 * 256], b[32 * 256], c[32 * 32];
  };
  static thread_local const std::unique_ptr<Scratch> scratch = std::make_unique<Scratch>();
  auto& [a, b, c] = *scratch;
  for_elements(job, 'a', job.a, job.na, [&](unsigned lane, unsigned e, unsigned bits, Place p) {
    a[p.row * job.k + p.col] = decode(job.a, element(words[lane] + 4, bits, e));
  });
  for_elements(job, 'b', job.b, job.nb, [&](unsigned lane, unsigned e, unsigned bits, Place p) {
    b[p.col * job.k + p.row] = decode(job.b, element(words[lane] + 4 + job.na, bits, e));
  });
  for_elements(job, 'c', job.c, job.nc, [&](unsigned lane, unsigned e, unsigned bits, Place p) {
    c[p.row * job.n + p.col] = decode(job.c, element(words[lane] + 4 + job.na + job.nb, bits, e));
  });
  const bool integer = job.d == Type::s32;
  for (unsigned i = 0; i < job.m; ++i) {
    for (unsigned j = 0; j < job.n; ++j) {
      double sum = integer ? 0 : c[i * job.n + j];
      const double *x = a + i * job.k, *y = b + j * job.k;
      if (job.d == Type::f64) {
        for (unsigned k = 0; k < job.k; ++k) sum = std::fma(x[k], y[k], sum);
      } else if ((job.flags & (cucpu::kMatrixXor | cucpu::kMatrixAnd)) != 0) {
        const bool is_xor = (job.flags & cucpu::kMatrixXor) != 0;
        for (unsigned k = 0; k < job.k; ++k) sum += is_xor ? x[k] != y[k] : x[k] * y[k];
      } else {
        double products = 0;
        for (unsigned k = 0; k < job.k; ++k) products += x[k] * y[k];
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
  for_elements(job, 'c', job.d, job.nd, [&](unsigned lane, unsigned e, unsigned bits, Place p) {
    if (out[lane] == nullptr) return;
    const double v = c[p.row * job.n + p.col];
    const std::uint64_t value =
        integer ? static_cast<std::uint32_t>(static_cast<std::int32_t>(v)) : encode(job.d, v);
    set_element(static_cast<std::uint32_t*>(out[lane]), bits, e, value);
  });
}

namespace {

struct MatrixAccess {  // operands of ldmatrix and stmatrix
  std::uint64_t address;
  std::uint32_t count, trans;
  std::uint32_t words[4];
};

}  // namespace

// Lane 8 i + r gives the address of row r of matrix i; every lane gets two neighbours of each
// matrix.
extern "C" void cucpu_rt_warp_ldmatrix(std::uint32_t, const void* const* in, void* const* out) {
  const auto* const* access = reinterpret_cast<const MatrixAccess* const*>(in);
  const std::uint32_t count = access[0]->count;
  std::uint16_t matrix[4][8][8];
  for (unsigned i = 0; i < count; ++i) {
    for (unsigned r = 0; r < 8; ++r)
      std::memcpy(matrix[i][r], reinterpret_cast<const void*>(access[8 * i + r]->address), 16);
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (out[lane] == nullptr) continue;
    auto* result = static_cast<std::uint32_t*>(out[lane]);
    const unsigned row = lane / 4, col = lane % 4 * 2;
    for (unsigned i = 0; i < count; ++i) {
      const bool trans = access[0]->trans != 0;
      const std::uint32_t low = trans ? matrix[i][col][row] : matrix[i][row][col];
      const std::uint32_t high = trans ? matrix[i][col + 1][row] : matrix[i][row][col + 1];
      result[i] = low | high << 16;
    }
  }
}

extern "C" void cucpu_rt_warp_stmatrix(std::uint32_t, const void* const* in, void* const*) {
  const auto* const* access = reinterpret_cast<const MatrixAccess* const*>(in);
  const std::uint32_t count = access[0]->count;
  std::uint16_t matrix[4][8][8];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned row = lane / 4, col = lane % 4 * 2;
    for (unsigned i = 0; i < count; ++i) {
      const bool trans = access[0]->trans != 0;
      for (unsigned j = 0; j < 2; ++j) {
        const auto v = static_cast<std::uint16_t>(access[lane]->words[i] >> (16 * j));
        (trans ? matrix[i][col + j][row] : matrix[i][row][col + j]) = v;
      }
    }
  }
  for (unsigned i = 0; i < count; ++i) {
    for (unsigned r = 0; r < 8; ++r)
      std::memcpy(reinterpret_cast<void*>(access[8 * i + r]->address), matrix[i][r], 16);
  }
}

extern "C" void cucpu_rt_warp_movmatrix(std::uint32_t, const void* const* in, void* const* out) {
  std::uint16_t matrix[8][8];
  for (unsigned lane = 0; lane < 32; ++lane) {
    std::uint32_t word = 0;
    std::memcpy(&word, in[lane], 4);
    matrix[lane / 4][lane % 4 * 2] = static_cast<std::uint16_t>(word);
    matrix[lane / 4][lane % 4 * 2 + 1] = static_cast<std::uint16_t>(word >> 16);
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (out[lane] == nullptr) continue;
    const unsigned row = lane / 4, col = lane % 4 * 2;
    const std::uint32_t word = matrix[col][row] | std::uint32_t{matrix[col + 1][row]} << 16;
    std::memcpy(out[lane], &word, 4);
  }
}
