// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/tcgen05_mma.cpp: matrix products with accumulators in tensor memory. Products
// of elements are exact; a sum over k is rounded to f32 at each step, and the accumulator is added
// last. No manual defines these roundings, and no GPU of this kind was asked.
#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/engine/runtime/row_product.hpp"
#include "cpu/engine/runtime/small_floats.hpp"
#include "cpu/engine/runtime/tcgen05.hpp"
#include "cpu/engine/runtime/tcgen05_elements.hpp"
#include "cpu/engine/runtime/tensor_memory_access.hpp"
#include "cpu/mem/per_thread.hpp"

namespace cucpu {
namespace {

constexpr unsigned kMaxRows = 128, kMaxStored = 96, kMaxDepth = 128, kRowsAtOnce = 8;
constexpr unsigned kMaxScales = 6;

struct Scratch {
  alignas(64) float a[kMaxRows * kMaxStored];
  alignas(64) float b[kMaxDepth * kProductColumns];
  alignas(64) float sums[kRowsAtOnce * kProductColumns];
  std::uint8_t index[kMaxRows * kMaxStored];  ///< of a sparse a: the k of each stored element
  double totals[kProductColumns], scale_b[kMaxScales * kProductColumns];
  double scale_a[kMaxRows * kMaxScales];
};

enum class Result : std::uint8_t { f16, f32, s32 };

class Product {
 public:
  explicit Product(const MmaOperands& operands)
      : o_(operands),
        kind_(static_cast<MmaKind>(operands.flags & 15)),
        scales_(operands.flags >> kMmaScales),
        scratch_(PerThread<Scratch>::get()) {
    decode_instruction();
  }

  void run() {
    Block& running = *Worker::running()->current().block;
    Block* blocks[2] = {&running, nullptr};
    if (has(kMmaPair)) {
      blocks[1] = &peer_block(running);
      if ((running.context.cluster_rank & 1) != 0) std::swap(blocks[0], blocks[1]);
    }
    read_b(*blocks[0], 0);
    if (has(kMmaPair)) read_b(*blocks[1], n_ / 2);
    for (unsigned rank = 0; rank < (has(kMmaPair) ? 2U : 1U); ++rank) {
      read_a(*blocks[rank]);
      if (scales_ != 0) read_scales(*blocks[rank]);
      multiply(*blocks[rank], o_.disabled + 4 * rank);
    }
  }

 private:
  [[nodiscard]] bool is_long() const { return depth_ == 96; }
  [[nodiscard]] bool has(std::uint32_t flag) const { return (o_.flags & flag) != 0; }
  [[nodiscard]] std::uint32_t field(unsigned at, unsigned bits) const {
    return o_.instruction >> at & ((1U << bits) - 1);
  }
  [[noreturn]] static void illegal(std::string&& what) {
    tensor_fault(kIllegalInstruction,
                 "the instruction descriptor of tcgen05.mma has " + std::move(what));
  }

  static Element element_of(MmaKind kind, std::uint32_t code) {
    constexpr Element kBytes[] = {Element::e4m3, Element::e5m2, Element::f16, Element::e2m3,
                                  Element::e3m2, Element::e2m1, Element::f16, Element::f16};
    switch (kind) {
      case MmaKind::f16:
        if (code < 2) return code == 0 ? Element::f16 : Element::bf16;
        break;
      case MmaKind::tf32:
        if (code == 2) return Element::tf32;
        break;
      case MmaKind::i8:
        if (code < 2) return code == 0 ? Element::u8 : Element::s8;
        break;
      case MmaKind::f8f6f4:
      case MmaKind::mxf8f6f4:
        if (code < 8 && kBytes[code] != Element::f16) return kBytes[code];
        break;
      default:
        if (code == 1) return Element::fp4;
    }
    illegal("element type " + std::to_string(code) + ", which this .kind does not have");
  }

  void decode_instruction() {
    const bool mx = scales_ != 0;
    if ((field(2, 1) != 0) != has(kMmaSparse))
      illegal(has(kMmaSparse) ? "no sparsity bit (bit 2), which .sp needs"
                              : "the sparsity bit (bit 2), which only .sp takes");
    type_a_ = element_of(kind_, field(7, 3));
    type_b_ = element_of(kind_, field(10, kind_ >= MmaKind::mxf4 ? 2 : 3));
    m_ = field(24, 5) * 16;
    n_ = field(17, 6) * 8;
    depth_ = kind_ == MmaKind::tf32   ? 8
             : kind_ == MmaKind::f16  ? 16
             : kind_ >= MmaKind::mxf4 ? 64
                                      : 32;
    if (kind_ >= MmaKind::mxf4 && field(31, 1) != 0) {
      if (!has(kMmaLong)) illegal("K = 96 (bit 31), which only sm_103a has");
      if (has(kMmaSparse))
        illegal("K = 192 (bit 31): no text describes the metadata of such a matrix");
      depth_ = 96;
      scales_ += scales_ / 2;
    }
    if (has(kMmaSparse)) depth_ *= 2;
    stored_ = has(kMmaSparse) ? depth_ / 2 : depth_;
    if (mx) {
      result_ = Result::f32;
    } else {
      constexpr Result kResults[] = {Result::f16, Result::f32, Result::s32};
      const std::uint32_t code = field(4, 2);
      const bool integer = kind_ == MmaKind::i8;
      if (code > 2 || integer != (code == 2) || (code == 0 && kind_ == MmaKind::tf32))
        illegal("type " + std::to_string(code) + " for d, which this .kind does not have");
      result_ = kResults[code];
    }
    check_shape();
    rows_ = has(kMmaPair) ? m_ / 2 : m_;
    // How the rows of a block lie in the lanes (layouts A to G of the manual).
    const bool folded = has(kMmaStationary) || (has(kMmaPair) && !has(kMmaSparse));
    parts_ = folded ? kMaxRows / rows_ : 1;
    half_lanes_ = !folded && rows_ == 64;
  }

  void check_shape() const {
    const bool pair = has(kMmaPair), stationary = has(kMmaStationary), mx = scales_ != 0;
    bool m_fits = m_ == 64 || m_ == 128;
    unsigned step = kind_ == MmaKind::i8 && n_ > 32 ? 16 : 8;
    bool n_fits = true;
    if (stationary) {
      m_fits |= m_ == 32;
      n_fits = n_ == 64 || n_ == 128 || (n_ == 256 && !has(kMmaSparse));
    } else if (pair) {
      m_fits = m_ == 256 || (m_ == 128 && !(mx && has(kMmaSparse)));
      step = kind_ == MmaKind::i8 ? 32 : 16;
    } else if (mx) {
      m_fits = m_ == 128;
    }
    n_fits = n_fits && n_ != 0 && n_ <= kProductColumns && n_ % step == 0;
    if (!m_fits || !n_fits)
      illegal("the shape M = " + std::to_string(m_) + ", N = " + std::to_string(n_) +
              ", which this form does not have");
    if (has(kMmaShift) && m_ < 128) illegal("M = 64, which .ashift does not take");
    if ((field(15, 2) != 0) && kind_ >= MmaKind::mxf4)
      illegal("a transposed matrix (bits 15 and 16), which this .kind does not have");
  }

  /// The lane of row `row` of a block, without the lane of an address.
  [[nodiscard]] std::uint32_t lane(std::uint32_t row) const {
    return half_lanes_ ? row / 16 * 32 + row % 16 : row;
  }

  /// visit(line, position along it, count, values) for the chunks of a matrix in shared memory.
  template <typename Visit>
  void visit_shared(const Block& block, std::uint64_t bits, bool transposed, Element type,
                    unsigned first, unsigned lines, unsigned width, Visit visit) const {
    const MatrixDescriptor descriptor = checked_descriptor(bits, is_long() && !transposed);
    with_element(type, [&](auto element) {
      constexpr unsigned kCount = elements_of_chunk(element());
      float values[kCount];
      for (unsigned line = 0; line < lines; ++line) {
        for (unsigned at = 0; at < width; at += kCount) {
          const unsigned from = transposed ? line : line + first;
          const unsigned chunk = (transposed ? at + first : at) / kCount;
          decode_chunk<element()>(
              false, shared_chunk(block, descriptor.at(transposed, from, chunk)), values);
          visit(line, at, std::min(kCount, width - at), values);
        }
      }
    });
  }

  void read_a(Block& block) {
    float* a = scratch_.a;
    if (has(kMmaTensorA)) {
      read_tensor_a(block);
    } else if (field(15, 1) != 0) {  // m is contiguous
      visit_shared(block, o_.a, true, type_a_, 0, stored_, rows_,
                   [&](unsigned k, unsigned row, unsigned count, const float* values) {
                     for (unsigned e = 0; e < count; ++e) a[(row + e) * stored_ + k] = values[e];
                   });
    } else {
      visit_shared(block, o_.a, false, type_a_, 0, rows_, stored_,
                   [&](unsigned row, unsigned k, unsigned count, const float* values) {
                     std::copy_n(values, count, a + row * stored_ + k);
                   });
    }
    if (field(13, 1) != 0)
      for (unsigned i = 0; i < rows_ * stored_; ++i) a[i] = -a[i];
    if (has(kMmaSparse)) read_metadata(block);
  }

  void read_tensor_a(Block& block) {
    const auto address = static_cast<std::uint32_t>(o_.a);
    const unsigned words = is_long() ? 12 : 8;  // every type has 32 bytes in a row
    const TensorMemory& memory = allocated_columns(block, column_of(address), words);
    check_lane(address, "a");
    with_element(type_a_, [&](auto element) {
      constexpr unsigned kCount = elements_of_chunk(element());
      for (unsigned row = 0; row < rows_; ++row) {
        // .ashift moves every row but the last down by one.
        const unsigned from = has(kMmaShift) && row != 0 ? row - 1 : row;
        const std::uint32_t* cells =
            &memory.cells[lane_of(address) + lane(from)][column_of(address)];
        for (unsigned chunk = 0; chunk * 4 < words; ++chunk)
          decode_chunk<element()>(true, cells + 4 * chunk,
                                  scratch_.a + row * stored_ + chunk * kCount);
      }
    });
  }

  /// Layouts of half the lanes start at lane 0 or 16, others at 0.
  void check_lane(std::uint32_t address, const char* what) const {
    const std::uint32_t lane = lane_of(address);
    if (lane == 0 || (lane == 16 && half_lanes_)) return;
    tensor_fault(kIllegalAddress, "tcgen05.mma has matrix " + std::string{what} + " at lane " +
                                      std::to_string(lane) + " of tensor memory, expected 0" +
                                      (half_lanes_ ? " or 16" : ""));
  }

  /// Each half byte of metadata describes two stored elements (one of tf32, four of fp4) by two
  /// 2-bit indices. 16-bit types and tf32: a word has 16 bits of row r and above them those of row
  /// r + 8; the rows r + 8 of tensor memory have the second half of k. Others: a row has 64 bits.
  void read_metadata(Block& block) {
    const bool words = kind_ == MmaKind::f16 || kind_ == MmaKind::tf32;
    const std::uint32_t column = column_of(o_.metadata) + (words ? field(0, 2) : 0);
    const TensorMemory& memory = allocated_columns(block, column, words ? 1 : 2);
    check_lane(o_.metadata, "of metadata");
    const bool pairs = kind_ >= MmaKind::mxf4;
    const unsigned per_nibble = kind_ == MmaKind::tf32 ? 1 : pairs ? 4 : 2;
    for (unsigned row = 0; row < rows_; ++row) {
      for (unsigned e = 0; e < stored_; ++e) {
        const unsigned group = e / per_nibble;
        std::uint32_t nibble = 0;
        if (words) {
          const unsigned at = row / 16 * 16 + row % 8 + group / 4 * 8;
          const std::uint32_t word = memory.cells[lane_of(o_.metadata) + lane(at)][column];
          nibble = word >> (row / 8 % 2 * 16 + group % 4 * 4) & 15;
        } else {
          const std::uint32_t word =
              memory.cells[lane_of(o_.metadata) + lane(row)][column + group / 8];
          nibble = word >> group % 8 * 4 & 15;
        }
        std::uint32_t k = 0;
        if (kind_ == MmaKind::tf32) {
          k = group * 2 + (nibble & 3) / 2;
        } else if (pairs) {
          k = group * 8 + (nibble >> e / 2 % 2 * 2 & 3) * 2 + e % 2;
        } else {
          k = group * 4 + (nibble >> e % 2 * 2 & 3);
        }
        scratch_.index[row * stored_ + e] = static_cast<std::uint8_t>(k);
      }
    }
  }

  /// The columns of b from `first` on that are in this block.
  void read_b(const Block& block, unsigned first) {
    const unsigned columns = has(kMmaPair) ? n_ / 2 : n_;
    const unsigned shift =
        has(kMmaStationary) ? static_cast<unsigned>(o_.zero_columns >> 56 & 63) : 0;
    const bool transposed = field(16, 1) != 0;
    const float sign = field(14, 1) != 0 ? -1.0F : 1.0F;
    float* b = scratch_.b + first;
    if (transposed && shift % elements_of_chunk(type_b_) != 0)
      tensor_fault(kIllegalInstruction, "tcgen05.mma.ws shifts the columns of a transposed b by " +
                                            std::to_string(shift) +
                                            ", which the CPU device does not support");
    visit_shared(block, o_.b, transposed, type_b_, shift, transposed ? depth_ : columns,
                 transposed ? columns : depth_,
                 [&](unsigned line, unsigned at, unsigned count, const float* values) {
                   if (transposed) {
                     for (unsigned e = 0; e < count; ++e)
                       b[line * kProductColumns + at + e] = sign * values[e];
                   } else {
                     for (unsigned e = 0; e < count; ++e)
                       b[(at + e) * kProductColumns + line] = sign * values[e];
                   }
                 });
    if (has(kMmaStationary) && (o_.zero_columns >> 39 & 1) != 0) zero_columns();
  }

  /// Runs of used and of zero columns take turns, in each of the parts of b.
  void zero_columns() {
    const auto bits = [&](unsigned at, unsigned count) {
      return static_cast<unsigned>(o_.zero_columns >> at & ((1U << count) - 1));
    };
    const unsigned zero_run = bits(40, 8) + 1, used_run = bits(48, 8) + 1;
    const unsigned width = n_ / parts_;
    for (unsigned part = 0; part < parts_; ++part) {
      bool zero = bits(32 + part, 1) != 0;
      unsigned left = zero ? zero_run : used_run;
      const auto next = [&] {
        if (--left != 0) return;
        zero = !zero;
        left = zero ? zero_run : used_run;
      };
      for (unsigned skipped = 0; skipped < bits(8 * part, 8); ++skipped) next();
      for (unsigned j = 0; j < width; ++j, next()) {
        if (!zero) continue;
        for (unsigned k = 0; k < depth_; ++k)
          scratch_.b[k * kProductColumns + part * width + j] = 0;
      }
    }
  }

  /// Row r of a scale matrix is lane r % 32 of column r / 32; factors along k are bytes. Those
  /// after the fourth byte (of K = 96) are in the words 4 columns on, or 8 if there are more than
  /// 128 rows.
  void read_scales(Block& block) {
    const bool ue8m0 = field(23, 1) != 0;
    if (!ue8m0 && (kind_ != MmaKind::mxf4nvf4 || scales_ < 4))
      illegal("scale factors of type ue4m3 (bit 23), which this form does not have");
    const auto read = [&](std::uint32_t address, unsigned id, unsigned count, unsigned halves,
                          auto put) {
      if (is_long() ? scales_ == 6 && id % 2 != 0
                    : id + scales_ > 4 || (scales_ == 2 && id % 2 != 0))
        illegal("scale factor id " + std::to_string(id) + ", which this form does not have");
      const unsigned width = count / halves, next = width <= 128 ? 4 : 8;
      const TensorMemory& memory = allocated_columns(
          block, column_of(address), (id + scales_ - 1) / 4 * next + (width + 31) / 32);
      for (unsigned r = 0; r < count; ++r) {
        const unsigned at = r % width;
        const std::uint32_t* words =
            memory.cells[r / width * 64 + at % 32] + column_of(address) + at / 32;
        for (unsigned s = 0; s < scales_; ++s) {
          const std::uint32_t word = words[(id + s) / 4 * next];
          put(r, s, decode_scale(word >> (id + s) % 4 * 8 & 0xff, ue8m0));
        }
      }
    };
    read(o_.scale_a, field(29, 2), rows_, 1,
         [&](unsigned r, unsigned s, double v) { scratch_.scale_a[r * kMaxScales + s] = v; });
    // Where the halves of n are in different lanes, so are their scale factors.
    read(o_.scale_b, field(4, 2), n_, parts_,
         [&](unsigned r, unsigned s, double v) { scratch_.scale_b[s * kProductColumns + r] = v; });
  }

  void multiply(Block& block, const std::uint32_t* disabled) {
    const std::uint32_t column = column_of(o_.d);
    TensorMemory& memory = allocated_columns(block, column, n_ / parts_);
    check_lane(o_.d, "d");
    const RowProducts& products = row_products();
    const unsigned sections = std::max(scales_, 1U), depth = stored_ / sections;
    const unsigned width = n_ / parts_;
    for (unsigned row = 0; row < rows_; row += kRowsAtOnce) {
      const unsigned rows = std::min(kRowsAtOnce, rows_ - row);
      const auto sum_section = [&](unsigned r, unsigned count, unsigned section, float* sums) {
        const float* a = scratch_.a + r * stored_ + section * depth;
        if (has(kMmaSparse)) {
          products.sparse(a, scratch_.index + r * stored_ + section * depth, scratch_.b, depth, n_,
                          sums);
        } else {
          products.dense(a, stored_, count, scratch_.b + section * depth * kProductColumns, depth,
                         n_, sums);
        }
      };
      if (scales_ == 0 && !has(kMmaSparse)) sum_section(row, rows, 0, scratch_.sums);
      for (unsigned r = 0; r < rows; ++r) {
        float* sums = scratch_.sums + r * kProductColumns;
        if (scales_ != 0) {
          std::fill_n(scratch_.totals, n_, 0.0);
          for (unsigned section = 0; section < sections; ++section) {
            sum_section(row + r, 1, section, sums);
            const double scale = scratch_.scale_a[(row + r) * kMaxScales + section];
            const double* scale_b = scratch_.scale_b + section * kProductColumns;
            for (unsigned j = 0; j < n_; ++j)
              scratch_.totals[j] += static_cast<double>(sums[j]) * (scale * scale_b[j]);
          }
        } else if (has(kMmaSparse)) {
          sum_section(row + r, 1, 0, sums);
        }
        for (unsigned part = 0; part < parts_; ++part) {
          const std::uint32_t at = lane_of(o_.d) + lane(row + r) + part * rows_;
          if ((disabled[at / 32] >> at % 32 & 1) != 0) continue;
          write(memory.cells[at] + column, part * width, width, sums);
        }
      }
    }
  }

  /// Columns `first` on of a row of d.
  void write(std::uint32_t* d, unsigned first, unsigned width, const float* sums) {
    const bool add = o_.add != 0;
    const float scale = std::bit_cast<float>((127 - o_.scale_d) << 23);
    if (scales_ != 0) {
      for (unsigned j = 0; j < width; ++j) {
        const double old = add ? std::bit_cast<float>(d[j]) : 0.0F;
        const auto v = static_cast<float>(scratch_.totals[first + j] + old);
        d[j] = v != v ? 0x7fffffff : std::bit_cast<std::uint32_t>(v);
      }
      return;
    }
    switch (result_) {
      case Result::f32:
        return row_products().sum(sums + first, d, width, add, scale);
      case Result::f16:
        for (unsigned j = 0; j < width; ++j) {
          const float old = add ? half_to_float(static_cast<std::uint16_t>(d[j])) * scale : 0.0F;
          d[j] = float_to_half(sums[first + j] + old);
        }
        return;
      case Result::s32:
        for (unsigned j = 0; j < width; ++j) {
          const std::int64_t old = add ? static_cast<std::int32_t>(d[j]) : 0;
          std::int64_t v = old + static_cast<std::int64_t>(sums[first + j]);  // exact
          if (field(3, 1) != 0) v = std::clamp<std::int64_t>(v, -2147483648LL, 2147483647LL);
          d[j] = static_cast<std::uint32_t>(v);
        }
    }
  }

  const MmaOperands& o_;
  MmaKind kind_;
  unsigned scales_;  ///< scale factors along k; 0: none
  Scratch& scratch_;
  Element type_a_, type_b_;
  Result result_;
  unsigned m_, n_, depth_;
  unsigned stored_;  ///< elements of a row of a that are in memory
  unsigned rows_;    ///< of one block
  unsigned parts_;   ///< of a row of d, in lanes `rows_` apart
  bool half_lanes_;  ///< 16 of each 32 lanes
};

}  // namespace
}  // namespace cucpu

extern "C" void cucpu_rt_tcgen05_mma(const void* operands) {
  cucpu::Product{*static_cast<const cucpu::MmaOperands*>(operands)}.run();
}
