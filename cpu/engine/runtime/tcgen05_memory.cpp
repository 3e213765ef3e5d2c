// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/tcgen05_memory.cpp: tensor memory: its allocation, and copies between it and
// registers or shared memory. Asynchronous instructions execute when they are issued.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "cpu/engine/runtime/tcgen05.hpp"
#include "cpu/engine/runtime/tensor_memory_access.hpp"

extern "C" std::uint64_t cucpu_rt_mbarrier_arrive(void*, std::uint32_t, std::uint32_t);

namespace cucpu {
namespace {

Block& running_block() { return *Worker::running()->current().block; }

TensorMemory& memory_of(Block& block) {
  if (!block.tensor_memory) block.tensor_memory = std::make_unique<TensorMemory>();
  return *block.tensor_memory;
}

template <typename T>
const T& first_of(std::uint32_t lanes, const void* const* in) {
  return *static_cast<const T*>(in[std::countr_zero(lanes)]);
}

/// The units that the columns of an allocation take. Wrong sizes are faults.
std::uint32_t units_of(const TensorAllocation& o) {
  if (o.columns < TensorMemory::kUnit || o.columns > TensorMemory::kColumns ||
      (o.exclusive != 0 ? o.columns % TensorMemory::kUnit != 0 : !std::has_single_bit(o.columns)))
    tensor_fault(kIllegalInstruction,
                 "tcgen05.alloc and tcgen05.dealloc take 32, 64, 128, 256 or "
                 "512 columns, not " +
                     std::to_string(o.columns));
  return o.columns / TensorMemory::kUnit;
}

/// The first of so many units that are not in `used`; kTensorNotYet if there are too few.
std::uint32_t find_columns(std::uint32_t used, std::uint32_t units) {
  const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << units) - 1);
  for (std::uint32_t at = 0; at + units <= TensorMemory::kUnits; ++at)
    if ((used & mask << at) == 0) return at;
  return kTensorNotYet;
}

void take_columns(TensorMemory& memory, std::uint32_t at, std::uint32_t units) {
  memory.used |= static_cast<std::uint32_t>((std::uint64_t{1} << units) - 1) << at;
  memory.units[at] = static_cast<std::uint8_t>(units);
}

void check_permit(const TensorMemory& memory) {
  if (!memory.permit)
    tensor_fault(kIllegalInstruction,
                 "tcgen05.alloc after tcgen05.relinquish_alloc_permit of the same block");
}

std::uint32_t allocate(Block& block, const TensorAllocation& wanted) {
  const std::uint32_t units = units_of(wanted);
  TensorMemory& own = memory_of(block);
  if (wanted.ctas == 1) {
    check_permit(own);
    const std::uint32_t at = find_columns(own.used, units);
    if (at == kTensorNotYet) return kTensorNotYet;
    take_columns(own, at, units);
    return at * TensorMemory::kUnit;
  }
  // The same columns of both blocks, once a warp of each asks for them.
  using Pair = TensorMemory::Pair;
  TensorMemory& peer = memory_of(peer_block(block));
  if (own.pair == Pair::none) {
    check_permit(own);
    own.pair = Pair::waiting;
    own.pair_columns = wanted.columns;
    own.pair_warp = wanted.warp;
  }
  if (own.pair_warp != wanted.warp) return kTensorNotYet;  // another warp of this block allocates
  if (own.pair == Pair::waiting && peer.pair == Pair::waiting) {
    if (own.pair_columns != peer.pair_columns)
      tensor_fault(kIllegalInstruction, "the blocks of a pair allocate " +
                                            std::to_string(own.pair_columns) + " and " +
                                            std::to_string(peer.pair_columns) +
                                            " columns of tensor memory at the same time");
    const std::uint32_t at = find_columns(own.used | peer.used, units);
    if (at == kTensorNotYet) return kTensorNotYet;
    for (TensorMemory* memory : {&own, &peer}) {
      take_columns(*memory, at, units);
      memory->pair = Pair::done;
      memory->pair_address = at * TensorMemory::kUnit;
    }
  }
  if (own.pair != Pair::done) return kTensorNotYet;
  own.pair = Pair::none;
  return own.pair_address;
}

void release(Block& block, const TensorAllocation& given) {
  const std::uint32_t units = units_of(given), at = given.address / TensorMemory::kUnit;
  TensorMemory& memory = memory_of(block);
  if (given.address % TensorMemory::kUnit != 0 || at >= TensorMemory::kUnits ||
      memory.units[at] != units)
    tensor_fault(kIllegalInstruction, "tcgen05.dealloc of " + std::to_string(given.columns) +
                                          " columns at address " + std::to_string(given.address) +
                                          ", which tcgen05.alloc did not return for that size");
  memory.used &= ~(static_cast<std::uint32_t>((std::uint64_t{1} << units) - 1) << at);
  memory.units[at] = 0;
}

/// Lane, from the first one of the shape, and column of register `r` of thread `t`; packed columns
/// count once.
struct Place {
  std::uint32_t lane, column;
};
Place place_of(TensorShape shape, std::uint32_t t, std::uint32_t r) {
  switch (shape) {
    case TensorShape::m16x64b:
      return {t / 4 + t % 2 * 8, 2 * r + t / 2 % 2};
    case TensorShape::m16x128b:
      return {t / 4 + r % 2 * 8, r / 2 * 4 + t % 4};
    case TensorShape::m16x256b:
      return {t / 4 + r / 2 % 2 * 8, r / 4 * 8 + t % 4 * 2 + r % 2};
    case TensorShape::m16x32bx2:
      return {t % 16, r};
    default:
      return {t, r};
  }
}

/// Columns of one half of a move, packed ones counted once.
std::uint32_t columns_of(TensorShape shape, std::uint32_t registers) {
  switch (shape) {
    case TensorShape::m16x64b:
    case TensorShape::m16x128b:
    case TensorShape::m16x256b:
      return 2 * registers;
    default:
      return registers;
  }
}

/// visit(thread, register, cell): `cell` is the first of two with kTensorPack.
template <typename Visit>
void visit_cells(std::uint32_t lanes, const TensorMove& move, Visit visit) {
  const auto shape = static_cast<TensorShape>(move.shape);
  const std::uint32_t lane = lane_of(move.address), column = column_of(move.address);
  const std::uint32_t own = move.warp % 4 * 32;
  const bool fits = shape == TensorShape::m32x32b ? lane == own : lane == own || lane == own + 16;
  if (!fits)
    tensor_fault(kIllegalAddress,
                 "tcgen05.ld or tcgen05.st of warp " + std::to_string(move.warp) + " at lane " +
                     std::to_string(lane) + " of tensor memory: expected lane " +
                     std::to_string(own) +
                     (shape == TensorShape::m32x32b ? "" : " or " + std::to_string(own + 16)));
  const std::uint32_t each = (move.flags & kTensorPack) != 0 ? 2 : 1;
  const std::uint32_t columns = columns_of(shape, move.registers) * each;
  Block& block = running_block();
  TensorMemory& memory = allocated_columns(block, column, columns);
  const bool split = shape == TensorShape::m16x32bx2;
  if (split) allocated_columns(block, column + move.split, columns);
  for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
    const auto t = static_cast<std::uint32_t>(std::countr_zero(left));
    const std::uint32_t base = column + (split && t >= 16 ? move.split : 0);
    for (std::uint32_t r = 0; r < move.registers; ++r) {
      const Place p = place_of(shape, t, r);
      visit(t, r, &memory.cells[lane + p.lane][base + p.column * each]);
    }
  }
}

/// Whether `x` replaces `y` in a reduction.
bool wins(std::uint32_t flags, std::uint32_t x, std::uint32_t y) {
  const bool least = (flags & kTensorMin) != 0;
  if ((flags & kTensorFloat) != 0) {
    const auto is_nan = [](std::uint32_t v) { return (v & 0x7fffffff) > 0x7f800000; };
    if (is_nan(x) || is_nan(y)) return is_nan((flags & kTensorNan) != 0 ? x : y);
    // The order of floats is that of integers once the other bits of negative ones are inverted.
    const auto key = [](std::uint32_t v) {
      return static_cast<std::int32_t>(v ^ ((v >> 31) != 0 ? 0x7fffffffU : 0));
    };
    return least ? key(x) < key(y) : key(x) > key(y);
  }
  if ((flags & kTensorSigned) != 0)
    return least ? static_cast<std::int32_t>(x) < static_cast<std::int32_t>(y)
                 : static_cast<std::int32_t>(x) > static_cast<std::int32_t>(y);
  return least ? x < y : x > y;
}

std::uint32_t reduce(std::uint32_t flags, const std::uint32_t* words, std::uint32_t count) {
  const auto value = [&](std::uint32_t r) {
    return (flags & kTensorAbs) != 0 ? words[r] & 0x7fffffff : words[r];
  };
  std::uint32_t best = value(0);
  for (std::uint32_t r = 1; r < count; ++r)
    if (wins(flags, value(r), best)) best = value(r);
  const bool nan = (flags & kTensorFloat) != 0 && (best & 0x7fffffff) > 0x7f800000;
  return nan ? 0x7fffffff : best;
}

/// 16 elements of 4 or 6 bits to bytes: those of 4 bits go to bits 2 to 5.
void expand(std::uint32_t flags, const std::byte* from, std::byte* to) {
  std::uint8_t bytes[16];
  std::memcpy(bytes, from, sizeof bytes);
  const unsigned bits = (flags & kCopyFours) != 0 ? 4 : 6;
  for (unsigned e = 0; e < 16; ++e) {
    const unsigned at = e * bits / 8, shift = e * bits % 8;
    const unsigned pair = bytes[at] | static_cast<unsigned>(bytes[at + 1]) << 8;
    const unsigned value = pair >> shift & ((1U << bits) - 1);
    to[e] = static_cast<std::byte>(bits == 4 ? value << 2 : value);
  }
}

void copy(Block& block, std::uint32_t address, const MatrixDescriptor& matrix,
          std::uint32_t flags) {
  const std::uint32_t rows = flags >> kCopyRows, chunks = flags >> kCopyChunks & 15;
  const auto lanes = static_cast<CopyLanes>(flags >> kCopyLanes & 15);
  const std::uint32_t column = column_of(address);
  TensorMemory& memory = allocated_columns(block, column, 4 * chunks);
  const auto put = [&](std::uint32_t lane, std::uint32_t chunk, const std::byte* from) {
    lane += lane_of(address);
    if (lane >= TensorMemory::kLanes)
      tensor_fault(kIllegalAddress, "tcgen05.cp to lane " + std::to_string(lane) +
                                        " of tensor memory, which has 128");
    std::memcpy(&memory.cells[lane][column + 4 * chunk], from, 16);
  };
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const std::byte* from = shared_chunk(block, matrix.at(false, row, chunk));
      std::byte bytes[16];
      if ((flags & (kCopyFours | kCopySixes)) != 0) {
        expand(flags, from, bytes);
        from = bytes;
      }
      switch (lanes) {
        case CopyLanes::once:
          put(row, chunk, from);
          break;
        case CopyLanes::every_32:
          put(32 * row, chunk, from);
          break;
        case CopyLanes::pairs_02_13:
          for (std::uint32_t k : {0U, 64U}) put(row + k, chunk, from);
          break;
        case CopyLanes::pairs_01_23:
          for (std::uint32_t k : {0U, 32U}) put(row / 32 * 64 + row % 32 + k, chunk, from);
          break;
        case CopyLanes::four:
          for (std::uint32_t k : {0U, 32U, 64U, 96U}) put(row + k, chunk, from);
          break;
      }
    }
  }
}

void shift(Block& block, std::uint32_t address) {
  const std::uint32_t lane = lane_of(address), column = column_of(address);
  if (lane % 32 != 0 || lane >= TensorMemory::kLanes)
    tensor_fault(kIllegalAddress, "tcgen05.shift at lane " + std::to_string(lane) +
                                      " of tensor memory, expected 0, 32, 64 or 96");
  TensorMemory& memory = allocated_columns(block, column, 8);
  for (std::uint32_t row = lane + 31; row > lane; --row)
    std::memcpy(&memory.cells[row][column], &memory.cells[row - 1][column], 32);
}

}  // namespace
}  // namespace cucpu

using namespace cucpu;

extern "C" {

/// The address of the columns, or kTensorNotYet: other warps must run before the next attempt.
void cucpu_rt_warp_tcgen05_alloc(std::uint32_t lanes, const void* const* in, void* const* out) {
  const std::uint32_t address = allocate(running_block(), first_of<TensorAllocation>(lanes, in));
  for (; lanes != 0; lanes &= lanes - 1)
    std::memcpy(out[std::countr_zero(lanes)], &address, sizeof address);
}

void cucpu_rt_warp_tcgen05_dealloc(std::uint32_t lanes, const void* const* in, void* const*) {
  release(running_block(), first_of<TensorAllocation>(lanes, in));
}

void cucpu_rt_warp_tcgen05_relinquish(std::uint32_t, const void* const*, void* const*) {
  memory_of(running_block()).permit = false;
}

void cucpu_rt_warp_tcgen05_ld(std::uint32_t lanes, const void* const* in, void* const* out) {
  const auto& move = first_of<TensorMove>(lanes, in);
  const bool pack = (move.flags & kTensorPack) != 0;
  visit_cells(lanes, move, [&](std::uint32_t t, std::uint32_t r, const std::uint32_t* cell) {
    static_cast<std::uint32_t*>(out[t])[r] = pack ? (cell[0] & 0xffff) | cell[1] << 16 : *cell;
  });
  if ((move.flags & (kTensorMin | kTensorMax)) == 0) return;
  for (; lanes != 0; lanes &= lanes - 1) {
    auto* words = static_cast<std::uint32_t*>(out[std::countr_zero(lanes)]);
    words[move.registers] = reduce(move.flags, words, move.registers);
  }
}

void cucpu_rt_warp_tcgen05_st(std::uint32_t lanes, const void* const* in, void* const*) {
  const auto& move = first_of<TensorMove>(lanes, in);
  const bool pack = (move.flags & kTensorPack) != 0;
  visit_cells(lanes, move, [&](std::uint32_t t, std::uint32_t r, std::uint32_t* cell) {
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(in[t]) + sizeof(TensorMove) + 4 * r,
                sizeof word);
    cell[0] = pack ? word & 0xffff : word;
    if (pack) cell[1] = word >> 16;
  });
}

void cucpu_rt_tcgen05_cp(std::uint32_t address, std::uint64_t descriptor, std::uint32_t flags) {
  const MatrixDescriptor matrix = checked_descriptor(descriptor);
  Block& block = running_block();
  copy(block, address, matrix, flags);
  if ((flags & kCopyPair) != 0) copy(peer_block(block), address, matrix, flags);
}

void cucpu_rt_tcgen05_shift(std::uint32_t address, std::uint32_t ctas) {
  Block& block = running_block();
  shift(block, address);
  if (ctas == 2) shift(peer_block(block), address);
}

/// Arrives at the mbarrier at this place of every block of the mask.
void cucpu_rt_tcgen05_commit(void* barrier, std::uint32_t mask) {
  const Block& block = running_block();
  const auto address = reinterpret_cast<std::uintptr_t>(barrier);
  const Cluster* cluster = block.cluster;
  const std::size_t count = cluster == nullptr ? 0 : cluster->shared.size();
  std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(block.context.shared);
  for (std::size_t rank = 0; rank < count; ++rank) {
    const std::uintptr_t there = address - reinterpret_cast<std::uintptr_t>(cluster->shared[rank]);
    if (there < block.context.shared_bytes) offset = there;
  }
  for (std::uint32_t rank = 0; rank < 16; ++rank) {
    if ((mask >> rank & 1) == 0) continue;
    if (rank >= count)
      tensor_fault(kIllegalAddress, "tcgen05.commit to block " + std::to_string(rank) +
                                        " of a cluster of " + std::to_string(count));
    (void)cucpu_rt_mbarrier_arrive(cluster->shared[rank] + offset, 1, 0);
  }
}

}  // extern "C"
