// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/matrix_moves.cpp: ldmatrix, stmatrix and movmatrix for a whole warp.
#include <cstdint>
#include <cstring>

#include "cpu/engine/runtime/matrix.hpp"

using namespace cucpu;

namespace {

struct MatrixAccess {  // operands of ldmatrix and stmatrix
  std::uint64_t address;
  std::uint32_t count, layout;
  std::uint32_t words[4];

  bool is_signed() const { return (layout & kMatrixSigned) != 0; }
  bool is_trans() const { return (layout & kMatrixTrans) != 0; }
  MatrixShape shape() const { return static_cast<MatrixShape>(layout >> kMatrixShape & 15); }
  unsigned source_bits() const { return layout >> kMatrixSourceBits; }
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
void load_bytes(const MatrixAccess* const* access, void* const* out) {
  const bool square = access[0]->shape() == MatrixShape::m16n16;
  const unsigned rows = square ? 16 : 8, count = access[0]->count;
  std::uint8_t matrix[4][16][16];
  for (unsigned i = 0; i < count; ++i)
    for (unsigned r = 0; r < rows; ++r)
      read_row(access[rows * i + r]->address, access[0]->source_bits(), access[0]->is_signed(),
               matrix[i][r]);
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (out[lane] == nullptr) continue;
    auto* result = static_cast<std::uint32_t*>(out[lane]);
    const unsigned row = lane / 4, col = lane % 4 * 4;
    for (unsigned i = 0; i < count; ++i)
      for (unsigned half = 0; half < rows / 8; ++half) {
        std::uint32_t word = 0;
        for (unsigned j = 0; j < 4; ++j)
          word |=
              std::uint32_t{square ? matrix[i][col + j][row + 8 * half] : matrix[i][row][col + j]}
              << (8 * j);
        *result++ = word;
      }
  }
}

/// stmatrix of bytes, m16n8 transposed: a lane has two neighbours of rows lane / 4 and lane / 4
/// + 8.
void store_bytes(const MatrixAccess* const* access) {
  for (unsigned i = 0; i < access[0]->count; ++i) {
    std::uint8_t matrix[8][16];
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned j = 0; j < 4; ++j)
        matrix[lane % 4 * 2 + j % 2][lane / 4 + j / 2 * 8] =
            static_cast<std::uint8_t>(access[lane]->words[i] >> (8 * j));
    for (unsigned r = 0; r < 8; ++r)
      std::memcpy(reinterpret_cast<void*>(access[8 * i + r]->address), matrix[r], 16);
  }
}

}  // namespace

// Lane 8 i + r gives the address of row r of matrix i; every lane gets two neighbours of each
// matrix.
extern "C" void cucpu_rt_warp_ldmatrix(std::uint32_t, const void* const* in, void* const* out) {
  const auto* const* access = reinterpret_cast<const MatrixAccess* const*>(in);
  if (access[0]->shape() != MatrixShape::m8n8) return load_bytes(access, out);
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
      const bool trans = access[0]->is_trans();
      const std::uint32_t low = trans ? matrix[i][col][row] : matrix[i][row][col];
      const std::uint32_t high = trans ? matrix[i][col + 1][row] : matrix[i][row][col + 1];
      result[i] = low | high << 16;
    }
  }
}

extern "C" void cucpu_rt_warp_stmatrix(std::uint32_t, const void* const* in, void* const*) {
  const auto* const* access = reinterpret_cast<const MatrixAccess* const*>(in);
  if (access[0]->shape() != MatrixShape::m8n8) return store_bytes(access);
  const std::uint32_t count = access[0]->count;
  std::uint16_t matrix[4][8][8];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned row = lane / 4, col = lane % 4 * 2;
    for (unsigned i = 0; i < count; ++i) {
      const bool trans = access[0]->is_trans();
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
