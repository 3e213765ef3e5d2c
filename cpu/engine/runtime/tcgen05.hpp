// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/tcgen05.hpp: the operands of tcgen05 routines, shared by the translator and
// the routines.
#pragma once

#include <cstdint>

namespace cucpu {

/// The shape of tcgen05.ld and tcgen05.st.
enum class TensorShape : std::uint32_t { m32x32b, m16x64b, m16x128b, m16x256b, m16x32bx2 };

/// Registers of a thread for one repetition of a shape.
constexpr std::uint32_t registers_of(TensorShape shape) {
  return shape == TensorShape::m16x128b ? 2 : shape == TensorShape::m16x256b ? 4 : 1;
}

inline constexpr std::uint32_t kTensorPack = 1;  ///< 16 bits per column
inline constexpr std::uint32_t kTensorMin = 2, kTensorMax = 4, kTensorAbs = 8, kTensorNan = 16;
inline constexpr std::uint32_t kTensorSigned = 32, kTensorFloat = 64;  ///< of a reduction

/// The operands of one thread of tcgen05.ld and .st; the registers of .st follow.
struct TensorMove {
  std::uint32_t address;
  std::uint32_t shape;  ///< TensorShape
  std::uint32_t registers;
  std::uint32_t flags;
  std::uint32_t split;  ///< of .16x32bx2: the column of the second half
  std::uint32_t warp;
};

struct TensorAllocation {
  std::uint32_t columns, ctas, warp;
  std::uint32_t exclusive;  ///< any multiple of 32 columns
  std::uint32_t address;    ///< of dealloc
};
inline constexpr std::uint32_t kTensorNotYet = ~0U;  ///< the result of an allocation that waits

inline constexpr std::uint32_t kCopyPair = 1;                   ///< .cta_group::2
inline constexpr std::uint32_t kCopyFours = 2, kCopySixes = 4;  ///< of 4 and 6 bits to bytes
/// The lanes to which each row of tcgen05.cp goes.
enum class CopyLanes : std::uint32_t { once, every_32, pairs_02_13, pairs_01_23, four };
inline constexpr std::uint32_t kCopyLanes = 8, kCopyChunks = 12, kCopyRows = 16;  ///< shifts

enum class MmaKind : std::uint32_t { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };
inline constexpr std::uint32_t kMmaTensorA = 16;  ///< a is in tensor memory
inline constexpr std::uint32_t kMmaPair = 32;     ///< .cta_group::2
inline constexpr std::uint32_t kMmaStationary = 64, kMmaSparse = 128, kMmaShift = 256;
inline constexpr std::uint32_t kMmaLong = 512;   ///< K = 96 exists (sm_103a)
inline constexpr std::uint32_t kMmaScales = 12;  ///< shift: scale factors along k; 0: none

struct MmaOperands {
  std::uint64_t a, b;          ///< descriptors, or the address of a
  std::uint64_t zero_columns;  ///< of .ws
  std::uint32_t d, instruction;
  std::uint32_t flags;                       ///< MmaKind | ...
  std::uint32_t scale_a, scale_b, metadata;  ///< addresses
  std::uint32_t add;                         ///< enable-input-d
  std::uint32_t scale_d;                     ///< d is divided by this power of two
  std::uint32_t disabled[8];                 ///< by lane: not written
};

}  // namespace cucpu
