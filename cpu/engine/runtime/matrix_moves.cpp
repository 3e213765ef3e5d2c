// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/matrix_moves.cpp: ldmatrix, stmatrix and movmatrix for a whole warp. Operands
// and results are by words of 32 lanes each, so that four neighbouring lanes have a row of 16
// bytes.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/engine/runtime/matrix.hpp"
#include "cpu/engine/runtime/transpose.hpp"

using namespace cucpu;

namespace {

constexpr unsigned kLanes = 32, kRowWords = 4, kMostWords = 4;

struct Layout {  // operands of ldmatrix and stmatrix that are the same for all lanes
  std::uint32_t count, layout;

  bool is_signed() const { return (layout & kMatrixSigned) != 0; }
  bool is_trans() const { return (layout & kMatrixTrans) != 0; }
  MatrixShape shape() const { return static_cast<MatrixShape>(layout >> kMatrixShape & 15); }
  unsigned source_bits() const { return layout >> kMatrixSourceBits; }
};

/// The operands of a lane on a fiber.
struct LaneAccess {
  Layout layout;
  std::uint64_t address;
  std::uint32_t words[kMostWords];
};

/// A row of 16 elements of 8, 6 or 4 bits, which are contiguous, as bytes. Rows of signed elements
/// have no padding.
void read_row(std::uint64_t address, unsigned bits, bool is_signed, std::uint8_t (&row)[16]) {
  std::uint8_t packed[17] = {};
  std::memcpy(packed, reinterpret_cast<const void*>(address), is_signed ? 2 * bits : sizeof row);
  if (bits == 8) return std::memcpy(row, packed, sizeof row), void();
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned at = i * bits, pair = packed[at / 8] | packed[at / 8 + 1] << 8;
    const unsigned element = pair >> (at % 8) & ((1u << bits) - 1);
    const unsigned sign = is_signed ? element >> (bits - 1) : 0;
    row[i] = static_cast<std::uint8_t>(element - (sign << bits));
  }
}

/// ldmatrix of bytes: a lane gets four neighbours of row lane / 4 (m8n16), or of rows lane / 4 and
/// lane / 4 + 8 of the transposed matrix (m16n16).
void load_bytes(const Layout& layout, const std::uint64_t* addresses, std::uint32_t* results) {
  const bool square = layout.shape() == MatrixShape::m16n16;
  const unsigned rows = square ? 16 : 8;
  for (unsigned i = 0; i < layout.count; ++i) {
    std::uint8_t matrix[16][16];
    for (unsigned r = 0; r < rows; ++r)
      read_row(addresses[rows * i + r], layout.source_bits(), layout.is_signed(), matrix[r]);
    for (unsigned half = 0; half < rows / 8; ++half)
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        const unsigned row = lane / 4, col = lane % 4 * 4;
        std::uint32_t word = 0;
        for (unsigned j = 0; j < 4; ++j)
          word |= std::uint32_t{square ? matrix[col + j][row + 8 * half] : matrix[row][col + j]}
                  << (8 * j);
        *results++ = word;
      }
  }
}

/// stmatrix of bytes, m16n8 transposed: a lane has two neighbours of rows lane / 4 and lane / 4
/// + 8.
void store_bytes(const Layout& layout, const std::uint64_t* addresses, const std::uint32_t* words) {
  for (unsigned i = 0; i < layout.count; ++i) {
    std::uint8_t matrix[8][16];
    for (unsigned lane = 0; lane < kLanes; ++lane)
      for (unsigned j = 0; j < 4; ++j)
        matrix[lane % 4 * 2 + j % 2][lane / 4 + j / 2 * 8] =
            static_cast<std::uint8_t>(words[i * kLanes + lane] >> (8 * j));
    for (unsigned r = 0; r < 8; ++r)
      std::memcpy(reinterpret_cast<void*>(addresses[8 * i + r]), matrix[r], 16);
  }
}

void transpose_words(const std::uint32_t* from, std::uint32_t* to) {
  transpose_halves(reinterpret_cast<const std::uint16_t*>(from), 8,
                   reinterpret_cast<std::uint16_t*>(to), 8);
}

// Lane 8 i + r gives the address of row r of matrix i; every lane gets two neighbours of each
// matrix.
void load(const Layout& layout, const std::uint64_t* addresses, std::uint32_t* results) {
  if (layout.shape() != MatrixShape::m8n8) return load_bytes(layout, addresses, results);
  std::uint32_t rows[kMostWords * kLanes];
  std::uint32_t* const to = layout.is_trans() ? rows : results;
  for (unsigned r = 0; r < 8 * layout.count; ++r)
    std::memcpy(to + kRowWords * r, reinterpret_cast<const void*>(addresses[r]), 16);
  if (!layout.is_trans()) return;
  for (unsigned i = 0; i < layout.count; ++i)
    transpose_words(rows + kLanes * i, results + kLanes * i);
}

void store(const Layout& layout, const std::uint64_t* addresses, const std::uint32_t* words) {
  if (layout.shape() != MatrixShape::m8n8) return store_bytes(layout, addresses, words);
  std::uint32_t rows[kMostWords * kLanes];
  if (layout.is_trans()) {
    for (unsigned i = 0; i < layout.count; ++i)
      transpose_words(words + kLanes * i, rows + kLanes * i);
    words = rows;
  }
  for (unsigned r = 0; r < 8 * layout.count; ++r)
    std::memcpy(reinterpret_cast<void*>(addresses[r]), words + kRowWords * r, 16);
}

/// Calls f(lane, operands of the lane); absent lanes have none.
template <typename F>
void for_lanes(const void* const* in, F&& f) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if (in[lane] != nullptr) f(lane, *static_cast<const LaneAccess*>(in[lane]));
}

void give(const std::uint32_t* results, unsigned count, void* const* out) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned w = 0; out[lane] != nullptr && w < count; ++w)
      static_cast<std::uint32_t*>(out[lane])[w] = results[w * kLanes + lane];
}

}  // namespace

extern "C" {

// Vector code: the constant operands, the others, the results.
void cucpu_rt_warp_ldmatrix_words(const std::uint32_t* constants, const std::uint32_t* words,
                                  std::uint32_t* results, std::uint32_t) {
  load({constants[0], constants[1]}, reinterpret_cast<const std::uint64_t*>(words), results);
}

void cucpu_rt_warp_stmatrix_words(const std::uint32_t* constants, const std::uint32_t* words,
                                  std::uint32_t*, std::uint32_t) {
  store({constants[0], constants[1]}, reinterpret_cast<const std::uint64_t*>(words),
        words + 2 * kLanes);
}

void cucpu_rt_warp_movmatrix_words(const std::uint32_t*, const std::uint32_t* words,
                                   std::uint32_t* results, std::uint32_t) {
  transpose_words(words, results);
}

// Threads on fibers: the operands of each lane are in its stack.
void cucpu_rt_warp_ldmatrix(std::uint32_t, const void* const* in, void* const* out) {
  std::uint64_t addresses[kLanes] = {};
  std::uint32_t results[kMostWords * kLanes];
  for_lanes(in, [&](unsigned lane, const LaneAccess& a) { addresses[lane] = a.address; });
  const Layout& layout = static_cast<const LaneAccess*>(in[0])->layout;
  load(layout, addresses, results);
  give(results, layout.shape() == MatrixShape::m16n16 ? 2 * layout.count : layout.count, out);
}

void cucpu_rt_warp_stmatrix(std::uint32_t, const void* const* in, void* const*) {
  std::uint64_t addresses[kLanes] = {};
  std::uint32_t words[kMostWords * kLanes] = {};
  const Layout& layout = static_cast<const LaneAccess*>(in[0])->layout;
  for_lanes(in, [&](unsigned lane, const LaneAccess& a) {
    addresses[lane] = a.address;
    for (unsigned w = 0; w < layout.count; ++w) words[w * kLanes + lane] = a.words[w];
  });
  store(layout, addresses, words);
}

void cucpu_rt_warp_movmatrix(std::uint32_t, const void* const* in, void* const* out) {
  std::uint32_t words[kLanes] = {}, results[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if (in[lane] != nullptr) std::memcpy(words + lane, in[lane], 4);
  transpose_words(words, results);
  give(results, 1, out);
}

}  // extern "C"
