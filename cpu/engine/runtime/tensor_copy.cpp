// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/tensor_copy.cpp: copies of a box of a tensor to and from shared memory
// (cp.async.bulk.tensor), and tensormap.replace.
#include "cpu/engine/runtime/tensor_copy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/check/routine_access.hpp"
#include "cpu/engine/run/peer_access.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"
#include "cpu/engine/runtime/reduce.hpp"
#include "cpu/engine/runtime/tensor_map.hpp"

namespace cucpu {
namespace {

constexpr unsigned kChunk = 16;  ///< bytes that stay together under every swizzle

[[noreturn]] void refuse(int code, std::string text) {
  Worker::running()->current_fault().text = std::move(text);
  cucpu_rt_trap(static_cast<std::uint32_t>(code));
}

const TensorMap& checked(const void* address, unsigned dims, std::uint32_t what) {
  const TensorMap::Mode mode = (what & kTensorIm2col) != 0    ? TensorMap::im2col
                               : (what & kTensorWide) != 0    ? TensorMap::im2col_w
                               : (what & kTensorWide128) != 0 ? TensorMap::im2col_w128
                                                              : TensorMap::tiled;
  const auto& map = *static_cast<const TensorMap*>(address);
  constexpr int kIllegalInstruction = 715;
  if (std::memcmp(map.magic, kTensorMapMagic, sizeof map.magic) != 0)
    refuse(kIllegalInstruction, "the operand of a tensor copy is no tensor map");
  if (map.rank != dims)
    refuse(kIllegalInstruction, "a tensor copy of " + std::to_string(dims) +
                                    " dimensions with a tensor map of " + std::to_string(map.rank));
  constexpr const char* kModes[] = {"tiled", "im2col", "im2col::w", "im2col::w::128"};
  if (map.mode != mode)
    refuse(kIllegalInstruction, mode == TensorMap::im2col && map.mode == TensorMap::tiled
                                    ? "an .im2col copy with a tiled tensor map"
                                : mode == TensorMap::tiled && map.mode == TensorMap::im2col
                                    ? "a .tile copy with an im2col tensor map"
                                    : std::string{"a copy of kind "} + kModes[mode] +
                                          " with a tensor map of kind " + kModes[map.mode & 3]);
  return map;
}

/// Shared memory with the map's swizzle: chunks of 16 bytes (32, 64 with that atomicity) are
/// permuted within their row of 128 bytes, by the number of the row. Shared memory starts at a
/// multiple of 1 KiB, so the pattern follows from the address.
std::byte* swizzled(const TensorMap& map, std::byte* at) {
  constexpr std::uintptr_t kMask[] = {0, 1, 3, 7};
  auto address = reinterpret_cast<std::uintptr_t>(at);
  switch (static_cast<TensorAtom>(map.atomicity)) {
    case TensorAtom::bytes16:
      address ^= (address >> 7 & kMask[map.swizzle & 3]) << 4;
      break;
    case TensorAtom::bytes32:
      address ^= (address >> 7 & 3) << 5;
      break;
    case TensorAtom::bytes64:
      address ^= (address >> 7 & 1) << 6;
      break;
    case TensorAtom::bytes32_flip8:
      refuse(715, "the CPU device has no swizzle of 32 bytes that flips 8 bytes");
  }
  return reinterpret_cast<std::byte*>(address);
}

/// The distance of the rows of a box in shared memory: with a swizzle, a whole row of its pattern.
std::uint32_t pitch_of(const TensorMap& map, std::uint32_t row_bytes) {
  return map.swizzle == 0 ? row_bytes : std::max(row_bytes, 16U << (map.swizzle & 3));
}

/// One row of a box: `count` elements from `first` (which may be out of bounds) along dimension 0,
/// at `row`; null: the whole row is out of bounds.
struct Row {
  std::byte* row;
  std::int64_t first;
  std::uint32_t count;
};

/// Visits the elements of a row by chunks of shared memory: (shared address, tensor address or
/// null, bytes). `extent`: the number of elements of a row of the tensor that are in bounds.
template <typename Visit>
void visit_row(const TensorMap& map, const Row& row, std::int64_t extent, std::byte* shared,
               Visit visit) {
  const std::uint32_t bytes = row.count * map.element;
  for (std::uint32_t at = 0; at < bytes;) {
    std::byte* place = shared + at;
    const auto room =
        static_cast<std::uint32_t>(kChunk - reinterpret_cast<std::uintptr_t>(place) % kChunk);
    const std::uint32_t size = std::min(bytes - at, room);
    std::byte* to = swizzled(map, place);
    const std::int64_t x = row.first + at / map.element, end = x + size / map.element;
    if (row.row != nullptr && x >= 0 && end <= extent) {
      visit(to, row.row + x * map.element, size);
    } else {
      for (std::uint32_t e = 0; e < size; e += map.element) {
        const std::int64_t k = x + e / map.element;
        const bool inside = row.row != nullptr && k >= 0 && k < extent;
        visit(to + e, inside ? row.row + k * map.element : nullptr, map.element);
      }
    }
    at += size;
  }
}

/// The address of a row in the tensor; null if a coordinate of dimension 1 and up is out of bounds.
std::byte* row_at(const TensorMap& map, const std::int64_t* position) {
  auto* at = reinterpret_cast<std::byte*>(map.address);
  for (unsigned i = 1; i < map.rank; ++i) {
    if (position[i] < 0 || position[i] > std::int64_t{map.dims[i]}) return nullptr;
    at += static_cast<std::uint64_t>(position[i]) * map.strides[i - 1];
  }
  return at;
}

template <typename Visit>
std::uint32_t tile(const TensorMap& map, std::int64_t extent, std::byte* shared,
                   const std::int64_t* start, Visit visit) {
  std::uint32_t count[5] = {}, index[5] = {};
  std::uint32_t rows = 1;
  for (unsigned i = 0; i < map.rank; ++i) {
    const std::uint32_t step = i == 0 ? 1 : std::max<std::uint32_t>(map.steps[i], 1);
    count[i] = (map.box[i] + step - 1) / step;
    if (i > 0) rows *= count[i];
  }
  const std::uint32_t row_bytes = count[0] * map.element, pitch = pitch_of(map, row_bytes);
  for (std::uint32_t r = 0; r < rows; ++r) {
    std::int64_t position[5] = {};
    for (unsigned i = 1; i < map.rank; ++i)
      position[i] = start[i] + std::int64_t{index[i]} * std::max<int>(map.steps[i], 1);
    visit_row(map, {row_at(map, position), start[0], count[0]}, extent,
              shared + std::size_t{r} * pitch, visit);
    for (unsigned i = 1; i < map.rank && ++index[i] == count[i]; ++i) index[i] = 0;
  }
  return rows * row_bytes;
}

/// Visits the pixels of the bounding box, which extends from `lower` to the tensor's last pixel +
/// `upper` in every spatial dimension, image after image. The offsets are added to all of them.
template <typename Visit>
std::uint32_t im2col(const TensorMap& map, std::int64_t extent, std::byte* shared,
                     const std::int64_t* start, std::uint64_t offsets, Visit visit) {
  const std::uint32_t channels = map.box[0], pixels = map.box[1];
  const unsigned image = map.rank - 1U;
  const std::uint32_t pitch = pitch_of(map, channels * map.element);
  std::int64_t at[5] = {};
  std::copy_n(start, map.rank, at);
  for (std::uint32_t p = 0; p < pixels; ++p) {
    std::int64_t position[5] = {};
    std::copy_n(at, map.rank, position);
    for (unsigned i = 1; i < image; ++i)
      position[i] += static_cast<std::int64_t>(offsets >> (16 * (i - 1)) & 0xffff);
    visit_row(map, {row_at(map, position), start[0], channels}, extent,
              shared + std::size_t{p} * pitch, visit);
    unsigned i = 1;
    for (; i < image; ++i) {
      at[i] += std::max<int>(map.steps[i], 1);
      if (at[i] <= std::int64_t{map.dims[i]} + map.upper[i - 1]) break;
      at[i] = map.lower[i - 1];
    }
    if (i == image) at[image] += 1;
  }
  return pixels * channels * map.element;
}

/// .tile::gather4, .tile::scatter4: part of four rows of a matrix: column, then the rows.
template <typename Visit>
std::uint32_t four_rows(const TensorMap& map, std::int64_t extent, std::byte* shared,
                        const std::int32_t (&c)[5], Visit visit) {
  if (map.box[1] != 1)
    refuse(715, "a copy of four rows needs a tensor map with a box of one row, not " +
                    std::to_string(map.box[1]));
  const std::uint32_t columns = map.box[0], row_bytes = columns * map.element;
  const std::uint32_t pitch = pitch_of(map, row_bytes);
  for (unsigned r = 0; r < 4; ++r) {
    const std::int64_t position[5] = {0, c[1 + r]};
    visit_row(map, {row_at(map, position), c[0], columns}, extent, shared + std::size_t{r} * pitch,
              visit);
  }
  return 4 * row_bytes;
}

/// .im2col::w and .im2col::w::128: pixels along W alone, from `lower` to the tensor's last pixel +
/// `upper`, image after image. The offset moves the box and the start.
template <typename Visit>
std::uint32_t wide(const TensorMap& map, std::int64_t extent, std::byte* shared,
                   const std::int64_t* start, std::uint64_t offsets, Visit visit) {
  if ((offsets & 0xffff) != 0) refuse(715, "the CPU device loads no halo in .im2col::w copies");
  const auto offset = static_cast<std::int64_t>(offsets >> 16 & 0xffff);
  const std::uint32_t channels = map.box[0];
  const std::uint32_t pixels = map.mode == TensorMap::im2col_w128 ? 128 : map.box[1];
  const std::uint32_t pitch = pitch_of(map, channels * map.element);
  const std::int64_t last = std::int64_t{map.dims[1]} + map.upper[0] + offset;
  std::int64_t at[5] = {};
  std::copy_n(start, map.rank, at);
  at[1] += offset;
  if (at[1] > last)
    refuse(715, "an .im2col::w copy from coordinate " + std::to_string(start[1]) +
                    " of dimension 1: it must not start after the map's box of pixels");
  for (std::uint32_t p = 0; p < pixels; ++p) {
    visit_row(map, {row_at(map, at), start[0], channels}, extent, shared + std::size_t{p} * pitch,
              visit);
    at[1] += std::max<int>(map.steps[1], 1);
    if (at[1] <= last) continue;
    at[1] = map.lower[0] + offset;
    at[map.rank - 1] += 1;
  }
  return pixels * channels * map.element;
}

/// An interleaved tensor (NC/8HWC8 and the like): its innermost dimension counts slices of 16 or 32
/// bytes, W of them in a row; then come H and D, which slice of the channels, and the image. A copy
/// transfers one slice of channels, independent of the box. All of this is the behavior of an H200.
class Slices {
 public:
  Slices(const TensorMap& map, std::byte* shared)
      : map_{map}, unit_{16U << (map.interleave - 1)}, channels_{map.rank - 2U}, shared_{shared} {}

  template <typename Visit>
  std::uint32_t tile(const std::int64_t* start, Visit visit) {
    std::uint32_t count[5] = {}, index[5] = {}, slices = 1;
    for (unsigned i = 0; i < map_.rank; ++i) {
      count[i] = i == channels_ ? 1 : (map_.box[i] + step(i) - 1) / step(i);
      slices *= count[i];
    }
    for (std::uint32_t n = 0; n < slices; ++n) {
      std::int64_t position[5] = {};
      for (unsigned i = 0; i < map_.rank; ++i)
        position[i] = start[i] + std::int64_t{index[i]} * step(i);
      slice(position, visit);
      for (unsigned i = 0; i < map_.rank && ++index[i] == count[i]; ++i) index[i] = 0;
    }
    return slices * unit_;
  }

  template <typename Visit>
  std::uint32_t im2col(const std::int64_t* start, std::uint64_t offsets, Visit visit) {
    const std::uint32_t pixels = map_.box[1];
    std::int64_t at[5] = {};
    std::copy_n(start, map_.rank, at);
    for (std::uint32_t p = 0; p < pixels; ++p) {
      std::int64_t position[5] = {};
      std::copy_n(at, map_.rank, position);
      for (unsigned i = 0; i < channels_; ++i)
        position[i] += static_cast<std::int64_t>(offsets >> (16 * i) & 0xffff);
      slice(position, visit);
      unsigned i = 0;
      for (; i < channels_; ++i) {
        at[i] += step(i);
        if (at[i] <= std::int64_t{map_.dims[i]} + map_.upper[i]) break;
        at[i] = map_.lower[i];
      }
      if (i == channels_) at[channels_ + 1] += 1;
    }
    return pixels * unit_;
  }

 private:
  [[nodiscard]] std::uint32_t step(unsigned i) const {
    return std::max<std::uint32_t>(map_.steps[i], 1);
  }

  template <typename Visit>
  void slice(const std::int64_t* position, const Visit& visit) {
    auto* from = reinterpret_cast<std::byte*>(map_.address);
    bool inside = true;
    for (unsigned i = 0; i < map_.rank; ++i) {
      inside &= position[i] >= 0 && position[i] <= std::int64_t{map_.dims[i]};
      from += position[i] * static_cast<std::int64_t>(i == 0 ? unit_ : map_.strides[i - 1]);
    }
    for (std::uint32_t at = 0; at < unit_; at += kChunk, shared_ += kChunk) {
      std::byte* to = swizzled(map_, shared_);
      if (inside) {
        visit(to, from + at, kChunk);
      } else {
        for (std::uint32_t e = 0; e < kChunk; e += map_.element)
          visit(to + e, nullptr, map_.element);
      }
    }
  }

  const TensorMap& map_;
  std::uint32_t unit_;
  unsigned channels_;  ///< the dimension that says which slice of the channels
  std::byte* shared_;
};

enum class Way { in, out };

/// As on an H200: stores start at coordinates that are not negative, and write whole chunks of 16
/// bytes, past the end of a row that ends within one; loads return zeros there.
template <typename Visit>
std::uint32_t box(Way way, const void* address, std::byte* shared, std::uint32_t what,
                  const std::int32_t (&c)[5], std::uint64_t offsets, unsigned access,
                  const void* pc, Visit make) {
  const bool pixels = (what & kTensorIm2col) != 0;
  const TensorMap& map = checked(address, what & kTensorRank, what);
  require_peer_access(nullptr, map.address, way == Way::out);
  const std::int64_t start[5] = {c[0], c[1], c[2], c[3], c[4]};
  const bool sliced = map.interleave != 0;
  if (!sliced && start[0] * map.element % kChunk != 0)
    refuse(715, "a tensor copy from coordinate " + std::to_string(c[0]) + " of " +
                    std::to_string(map.element) +
                    "-byte elements: along the innermost dimension it must start at a multiple of "
                    "16 bytes");
  for (unsigned k = 0; pixels && way == Way::in && k + 2 < map.rank; ++k) {
    const unsigned i = sliced ? k : k + 1;
    if (start[i] < map.lower[k] || start[i] > std::int64_t{map.dims[i]} + map.upper[k])
      refuse(715, "an im2col copy from coordinate " + std::to_string(c[i]) + " of dimension " +
                      std::to_string(i) + ": it must start inside of the map's box of pixels");
  }
  std::int64_t extent = std::int64_t{map.dims[0]} + 1;
  if (way == Way::out) {
    const unsigned named = (what & kTensorRows) != 0 ? 1 : map.rank;
    for (unsigned i = 0; i < named; ++i)
      if (start[i] < 0)
        refuse(715, "a tensor store at coordinate " + std::to_string(c[i]) + " of dimension " +
                        std::to_string(i) +
                        ": stores and reductions start at coordinates that are not negative");
    extent = (extent * map.element + kChunk - 1) / kChunk * kChunk / map.element;
  }
  auto copy = make(map);
  const bool checks = is_checked(~0U);
  const auto visit = [&](std::byte* here, std::byte* there, std::uint32_t bytes) {
    if (checks) [[unlikely]] {
      const bool in = way == Way::in;
      check_routine_access(here, bytes, in ? check::kWrite : check::kRead, pc);
      if (there) check_routine_access(there, bytes, check::kGlobalSpace | access, pc);
    }
    copy(here, there, bytes);
  };
  if ((what & kTensorRows) != 0) return four_rows(map, extent, shared, c, visit);
  if ((what & (kTensorWide | kTensorWide128)) != 0)
    return wide(map, extent, shared, start, offsets, visit);
  if (sliced) {
    Slices slices{map, shared};
    return pixels ? slices.im2col(start, offsets, visit) : slices.tile(start, visit);
  }
  return pixels ? im2col(map, extent, shared, start, offsets, visit)
                : tile(map, extent, shared, start, visit);
}

/// The value of elements out of bounds (the low bytes): zero, or the NaN of fma.oob, 0x7ff7,
/// repeated.
std::uint64_t filler(const TensorMap& map) { return map.fill == 0 ? 0 : 0x7ff7'7ff7'7ff7'7ff7; }

/// Rounds a float to tf32 (10 fraction bits), for loads by tf32 maps.
std::uint32_t rounded_to_tf32(std::uint32_t bits, bool flush) {
  const std::uint32_t size = bits & 0x7fffffff;
  if (size > 0x7f800000) return 0x7fffe000;
  if (flush && size < 0x00800000) return bits & 0x80000000;
  return (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
}

void round_all_to_tf32(std::byte* at, std::uint32_t bytes, bool flush) {
  for (std::uint32_t k = 0; k < bytes; k += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, at + k, 4);
    word = rounded_to_tf32(word, flush);
    std::memcpy(at + k, &word, 4);
  }
}

ptx::Type reduced_type(const TensorMap& map) {
  using ptx::Type;
  constexpr Type kTypes[] = {Type::none, Type::none, Type::u32, Type::s32,  Type::u64, Type::s64,
                             Type::f16,  Type::f32,  Type::f64, Type::bf16, Type::f32};
  return map.type < std::size(kTypes) ? kTypes[map.type] : Type::none;
}

}  // namespace
}  // namespace cucpu

using namespace cucpu;

extern "C" {

/// Loads the box at these coordinates into shared memory and returns its size in bytes. what: rank,
/// flags.
std::uint32_t cucpu_rt_tensor_load(const void* map, std::byte* shared, std::uint32_t what,
                                   std::int32_t c0, std::int32_t c1, std::int32_t c2,
                                   std::int32_t c3, std::int32_t c4, std::uint64_t offsets) {
  return box(
      Way::in, map, shared, what, {c0, c1, c2, c3, c4}, offsets, check::kRead,
      __builtin_return_address(0), [](const TensorMap& m) {
        const auto type = static_cast<TensorType>(m.type);
        const bool flush = type == TensorType::tf32_ftz, tf32 = type == TensorType::tf32 || flush;
        return [=, fill = filler(m)](std::byte* to, const std::byte* from, std::uint32_t bytes) {
          if (from != nullptr) {
            std::memcpy(to, from, bytes);
            if (tf32) round_all_to_tf32(to, bytes, flush);
          } else {
            std::memcpy(to, &fill, bytes);  // one element: the low bytes, hosts are little-endian
          }
        };
      });
}

void cucpu_rt_tensor_store(const void* map, std::byte* shared, std::uint32_t what, std::int32_t c0,
                           std::int32_t c1, std::int32_t c2, std::int32_t c3, std::int32_t c4) {
  box(Way::out, map, shared, what, {c0, c1, c2, c3, c4}, 0, check::kWrite,
      __builtin_return_address(0), [](const TensorMap&) {
        return [](const std::byte* from, std::byte* to, std::uint32_t bytes) {
          if (to != nullptr) std::memcpy(to, from, bytes);
        };
      });
}

/// what: rank, flags, ReduceOp << 16.
void cucpu_rt_tensor_reduce(const void* map, std::byte* shared, std::uint32_t what, std::int32_t c0,
                            std::int32_t c1, std::int32_t c2, std::int32_t c3, std::int32_t c4) {
  const auto op = static_cast<ReduceOp>(what >> 16);
  constexpr unsigned kAtomic = check::kRead | check::kWrite | check::kStrong;
  box(Way::out, map, shared, what & 0xffff, {c0, c1, c2, c3, c4}, 0, kAtomic,
      __builtin_return_address(0), [op](const TensorMap& m) {
        return [op, type = reduced_type(m)](const std::byte* from, std::byte* to,
                                            std::uint32_t bytes) {
          if (to == nullptr) return;
          const std::uint32_t size = ptx::bytes_of(type);
          bool good = size != 0;
          for (std::uint32_t at = 0; good && at < bytes; at += size)
            good = reduce_element(type, op, to + at, from + at);
          if (!good) refuse(715, "this reduction does not exist for the tensor map's type");
        };
      });
}

/// tensormap.replace: one field, or element `index` of it. field: TensorField.
void cucpu_rt_tensormap_replace(void* address, std::uint32_t field, std::uint32_t index,
                                std::uint64_t value) {
  auto& map = *static_cast<TensorMap*>(address);
  const auto small = static_cast<std::uint8_t>(value);
  if (index > 4) refuse(715, "tensormap.replace of dimension " + std::to_string(index));
  switch (static_cast<TensorField>(field)) {
    case TensorField::global_address:
      map.address = value;
      break;
    case TensorField::rank:
      map.rank = static_cast<std::uint8_t>(value + 1);
      break;
    case TensorField::box_dim:
      map.box[index] = static_cast<std::uint16_t>(value);
      break;
    case TensorField::global_dim:
      map.dims[index] = static_cast<std::uint32_t>(value - 1);
      break;
    case TensorField::global_stride:
      if (index > 3) refuse(715, "tensormap.replace of stride " + std::to_string(index));
      map.strides[index] = value;
      break;
    case TensorField::element_stride:
      map.steps[index] = small;
      break;
    case TensorField::elemtype: {  // the instruction counts types in another order than
                                   // CUtensorMapDataType
      using enum TensorType;
      constexpr TensorType kTypes[] = {u8,  u16,     u32, s32,  u64,  s64,     f16,
                                       f32, f32_ftz, f64, bf16, tf32, tf32_ftz};
      constexpr std::uint8_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};
      if (value >= std::size(kTypes))
        refuse(715, "tensormap.replace: unknown element type " + std::to_string(value));
      map.type = static_cast<std::uint8_t>(kTypes[value]);
      map.element = kBytes[value];
      break;
    }
    case TensorField::interleave_layout:
      map.interleave = small;
      break;
    case TensorField::swizzle_mode:
      map.swizzle = small;
      break;
    case TensorField::fill_mode:
      map.fill = small;
      break;
    case TensorField::swizzle_atomicity:
      map.atomicity = small;
      break;
  }
}

}  // extern "C"
