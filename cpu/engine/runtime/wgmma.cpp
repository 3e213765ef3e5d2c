// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/wgmma.cpp: matrix products of a warpgroup: 64 x n, with b (and a, if it is not
// in registers) in shared memory as described by a matrix descriptor. Sums of floats in f32 are
// those of an H200 (tensor_sum.hpp).
#include "cpu/engine/runtime/wgmma.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"
#include "cpu/engine/runtime/matrix_descriptor.hpp"
#include "cpu/engine/runtime/matrix_elements.hpp"
#include "cpu/engine/runtime/sparse.hpp"
#include "cpu/engine/runtime/tensor_sum.hpp"
#include "cpu/mem/per_thread.hpp"

namespace cucpu {
namespace {

using ptx::Type;

constexpr unsigned kRows = 64, kMaxN = 256, kMaxK = 256;

/// Bit or element `index` of a 16-byte chunk.
std::uint64_t chunk_element(const std::byte* chunk, unsigned bits, unsigned index) {
  std::uint32_t words[4];
  std::memcpy(words, chunk, sizeof words);
  return element(words, bits, index);
}

struct Scratch {
  double a[kRows * kMaxK], b[kMaxK * kMaxN], d[kRows * kMaxN];
  bool absent[kRows * kMaxK];  ///< of a sparse a: multiplies nothing, not even infinity
  Factor x[kRows * kMaxK], y[kMaxN * kMaxK];  ///< rows of a, columns of b
  bool finite_row[kRows], finite_col[kMaxN];
};

/// Row and column of element `index` of a lane's accumulators; with 16-bit ones two share a
/// register.
struct Place {
  unsigned row, col;
};
Place accumulator(unsigned thread, unsigned index) {
  const unsigned lane = thread % 32, warp = thread / 32;
  return {warp * 16 + lane / 4 + index / 2 % 2 * 8, index / 4 * 8 + lane % 4 * 2 + index % 2};
}

class Product {
 public:
  Product(const void* const* in, void* const* out, const std::byte* shared,
          std::uint32_t shared_bytes)
      : operands_(reinterpret_cast<const WgmmaOperands* const*>(in)),
        out_(out),
        shared_(shared),
        shared_bytes_(shared_bytes) {
    for (unsigned t = 0; t < 128 && head_ == nullptr; ++t) head_ = operands_[t];
    type_a_ = static_cast<Type>(head_->types & 0xff);
    type_b_ = static_cast<Type>(head_->types >> 8 & 0xff);
    type_d_ = static_cast<Type>(head_->types >> 16 & 0xff);
    n_ = head_->n, k_ = head_->k;
    scratch_ = &PerThread<Scratch>::get();
  }

  void run() {
    read_a();
    read_b();
    multiply();
    write();
  }

 private:
  [[nodiscard]] bool has(std::uint32_t flag) const { return (head_->flags & flag) != 0; }

  const std::byte* chunk(std::uint32_t offset) const {
    if (offset + 16 > shared_bytes_) {
      Worker::running()->current_fault().text =
          "a matrix descriptor of wgmma addresses memory after the block's shared memory, at "
          "offset " +
          std::to_string(offset);
      cucpu_rt_trap(700);
    }
    return shared_ + offset;
  }

  /// visit(line, position along k or m or n, bits) for a matrix of `lines` by `width` elements.
  template <typename Visit>
  void visit_shared(std::uint64_t bits_of_descriptor, bool transposed, Type type, unsigned lines,
                    unsigned width, Visit visit) const {
    const MatrixDescriptor descriptor = wgmma_descriptor(bits_of_descriptor);
    const unsigned bits = width_of(type), per_chunk = 128 / bits;
    for (unsigned line = 0; line < lines; ++line) {
      for (unsigned c = 0; c * per_chunk < width; ++c) {
        const std::byte* from = chunk(descriptor.at(transposed, line, c));
        for (unsigned e = 0; e < per_chunk && c * per_chunk + e < width; ++e)
          visit(line, c * per_chunk + e, chunk_element(from, bits, e));
      }
    }
  }

  void set_a(unsigned row, unsigned col, std::uint64_t bits) {
    double v = decode(type_a_, bits);
    if (has(kWgmmaNegateA)) v = -v;
    if (!has(kWgmmaSparse)) {
      scratch_->a[row * k_ + col] = v;
      return;
    }
    const unsigned warp = row / 16;
    const auto metadata = [&](unsigned lane) {
      const WgmmaOperands* thread = operands_[warp * 32 + lane];
      return thread == nullptr ? 0 : thread->metadata;
    };
    const unsigned at =
        row * k_ + dense_column(type_a_, k_, head_->selector, row % 16, col, metadata);
    scratch_->a[at] = v;
    scratch_->absent[at] = false;
  }

  void read_a() {
    const unsigned stored = has(kWgmmaSparse) ? k_ / 2 : k_;
    const bool sparse = has(kWgmmaSparse);
    std::fill_n(scratch_->absent, kRows * k_, sparse);
    if (!has(kWgmmaRegisterA)) {
      const bool transposed = has(kWgmmaTransposeA);
      visit_shared(head_->a, transposed, type_a_, transposed ? stored : kRows,
                   transposed ? kRows : stored,
                   [&](unsigned line, unsigned at, std::uint64_t bits) {
                     transposed ? set_a(at, line, bits) : set_a(line, at, bits);
                   });
      return;
    }
    const unsigned bits = width_of(type_a_), per = 32 / bits;
    for (unsigned t = 0; t < 128; ++t) {
      if (operands_[t] == nullptr) continue;
      const unsigned lane = t % 32;
      for (unsigned e = 0; e < 4 * per; ++e) {
        const unsigned reg = e / per;
        set_a(t / 32 * 16 + lane / 4 + 8 * (reg & 1),
              lane % 4 * per + (reg >> 1) * 4 * per + e % per,
              element(operands_[t]->words, bits, e));
      }
    }
  }

  void read_b() {
    const bool transposed = has(kWgmmaTransposeB);
    const double sign = has(kWgmmaNegateB) ? -1 : 1;
    visit_shared(head_->b, transposed, type_b_, transposed ? k_ : n_, transposed ? n_ : k_,
                 [&](unsigned line, unsigned at, std::uint64_t bits) {
                   const unsigned row = transposed ? line : at, col = transposed ? at : line;
                   scratch_->b[row * n_ + col] = sign * decode(type_b_, bits);
                 });
  }

  void multiply() {
    factorise();
    bool all_modelled = modelled_;
    for (unsigned i = 0; i < kRows && all_modelled; ++i) all_modelled = scratch_->finite_row[i];
    for (unsigned j = 0; j < n_ && all_modelled; ++j) all_modelled = scratch_->finite_col[j];
    double* d = scratch_->d;
    std::memset(d, 0, sizeof(double) * kRows * n_);
    if (all_modelled)
      return;  // d is read only if an accumulator is not finite, and any finite value serves then
    for (unsigned i = 0; i < kRows; ++i) {
      double* sums = d + i * n_;
      for (unsigned k = 0; k < k_; ++k) {
        if (scratch_->absent[i * k_ + k]) continue;
        const double x = scratch_->a[i * k_ + k];
        const double* y = scratch_->b + k * n_;
        for (unsigned j = 0; j < n_; ++j) sums[j] += x * y[j];
      }
    }
  }

  /// Factors of rows of a and columns of b, for sums that follow TensorRule.
  void factorise() {
    const FactorFormat a = factor_format(type_a_), b = factor_format(type_b_);
    bits_ = a.bits + b.bits;
    bytes_ = type_a_ == Type::e4m3 || type_a_ == Type::e5m2;
    modelled_ = type_d_ == Type::f32 || (type_d_ == Type::f16 && bytes_);
    if (!modelled_) return;
    for (unsigned i = 0; i < kRows; ++i) {
      scratch_->finite_row[i] = true;
      for (unsigned k = 0; k < k_; ++k) {
        const unsigned at = i * k_ + k;
        const bool missing = scratch_->absent[at];
        if (!missing && !std::isfinite(scratch_->a[at])) scratch_->finite_row[i] = false;
        scratch_->x[at] =
            missing || !scratch_->finite_row[i] ? Factor{} : factor_of(scratch_->a[at], a);
      }
    }
    for (unsigned j = 0; j < n_; ++j) {
      scratch_->finite_col[j] = true;
      for (unsigned k = 0; k < k_; ++k) {
        const double v = scratch_->b[k * n_ + j];
        if (!std::isfinite(v)) scratch_->finite_col[j] = false;
        scratch_->y[j * k_ + k] = scratch_->finite_col[j] ? factor_of(v, b) : Factor{};
      }
    }
  }

  /// Element (i, j) of the product plus the accumulator.
  [[nodiscard]] std::uint64_t element_of(unsigned i, unsigned j, double old) const {
    if (!modelled_ || !scratch_->finite_row[i] || !scratch_->finite_col[j] || !std::isfinite(old))
      return finish(scratch_->d[i * n_ + j], old);
    const float sum = tensor_sum(
        scratch_->x + i * k_, scratch_->y + j * k_, k_, bits_, static_cast<float>(old),
        !bytes_                ? kHalfRule
        : type_d_ == Type::f16 ? TensorRule{kByteRule.fraction, kHalfRule.significant}
                               : kByteRule);  // rounded to f16, the sum is not cut before
    return type_d_ == Type::f16 ? encode(Type::f16, sum) : std::bit_cast<std::uint32_t>(sum);
  }

  [[nodiscard]] std::uint64_t finish(double sum, double old) const {
    if (type_d_ != Type::s32) return encode(type_d_, sum + old);
    const double total = sum + old;  // exact
    if (has(kWgmmaSaturate))
      return static_cast<std::uint32_t>(
          static_cast<std::int32_t>(std::fmin(std::fmax(total, -2147483648.0), 2147483647.0)));
    return static_cast<std::uint32_t>(static_cast<std::int64_t>(total));
  }

  void write() {
    const unsigned bits = width_of(type_d_), count = n_ / 2;
    for (unsigned t = 0; t < 128; ++t) {
      if (operands_[t] == nullptr || out_[t] == nullptr) continue;
      const std::uint32_t* old = operands_[t]->words + 4;
      auto* result = static_cast<std::uint32_t*>(out_[t]);
      for (unsigned e = 0; e < count; ++e) {
        const Place p = accumulator(t, e);
        const double before =
            operands_[t]->scale_d != 0 ? decode(type_d_, element(old, bits, e)) : 0;
        set_element(result, bits, e, element_of(p.row, p.col, before));
      }
    }
  }

  const WgmmaOperands* const* operands_;
  void* const* out_;
  const std::byte* shared_;
  std::uint32_t shared_bytes_;
  const WgmmaOperands* head_ = nullptr;
  Type type_a_, type_b_, type_d_;
  unsigned n_, k_;
  int bits_ = 0;
  bool bytes_ = false, modelled_ = false;
  Scratch* scratch_;
};

}  // namespace
}  // namespace cucpu

extern "C" void cucpu_rt_warpgroup_mma(const void* const* in, void* const* out) {
  const cucpu::Block& block = *cucpu::Worker::running()->current().block;
  cucpu::Product{in, out, block.context.shared, block.context.shared_bytes}.run();
}
