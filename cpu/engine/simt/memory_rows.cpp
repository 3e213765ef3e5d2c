// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/memory_rows.cpp: accesses whose addresses are contiguous in rows of a group.
//
// The threads of a warp access a matrix with rows of eight numbers as `m[(lane / 8) * stride + lane
// % 8]`. Lanes 0 to 7, 8 to 15 and so on are then contiguous, whatever the stride: vectors of eight
// replace a gather or scatter, and the address of each row is computed with scalar instructions.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;

/// How values change from lane to lane within a row. Groups start at multiples of their width, so
/// that no row crosses a multiple of its own length.
class MemoryEmitter::Rows {
 public:
  Rows(const Shapes& shapes, const Flow& flow, unsigned length)
      : shapes_{shapes}, flow_{flow}, length_{length} {}

  /// The difference of neighbouring lanes; nothing if it is not known to be the same in all rows.
  [[nodiscard]] std::optional<std::int64_t> step(const Value* v) {
    constexpr unsigned kMostVisits = 200;
    const Shape s = shapes_[v];
    if (isa<Constant>(v) || s.kind == Shape::Uniform) return 0;
    if (s.kind == Shape::Strided) return s.stride;
    const auto* inst = dyn_cast<Instruction>(v);
    if (!inst || s.kind != Shape::Varying || ++visits_ > kMostVisits) return {};
    const auto of = [&](unsigned i) { return step(inst->getOperand(i)); };
    const auto* number =
        inst->getNumOperands() == 2 ? dyn_cast<ConstantInt>(inst->getOperand(1)) : nullptr;
    if (number && number->getValue().getSignificantBits() > 32) number = nullptr;
    if (isa<BinaryOperator>(inst) && of(0) == 0 && of(1) == 0) return 0;
    switch (inst->getOpcode()) {
      case Instruction::PHI:
        return carried(cast<PHINode>(*inst));
      case Instruction::LShr:
        return number && number->getZExtValue() < 64
                   ? kept(inst->getOperand(0), ~std::uint64_t{0} << number->getZExtValue(), false)
                   : std::nullopt;
      case Instruction::And:
        return number ? kept(inst->getOperand(0), number->getZExtValue(), true) : std::nullopt;
      case Instruction::Or:
        if (!cast<PossiblyDisjointInst>(inst)->isDisjoint()) return {};
        [[fallthrough]];
      case Instruction::Add:
        return combine(of(0), of(1), [](std::int64_t x, std::int64_t y) { return x + y; });
      case Instruction::Sub:
        return combine(of(0), of(1), [](std::int64_t x, std::int64_t y) { return x - y; });
      case Instruction::Mul:
        return number ? times(of(0), number->getSExtValue()) : std::nullopt;
      case Instruction::Shl:
        if (!number || number->getZExtValue() > 20) return {};
        return times(of(0), std::int64_t{1} << number->getZExtValue());
      case Instruction::ZExt:
      case Instruction::SExt:
        return extended(inst->getOperand(0), isa<SExtInst>(inst) || inst->hasNonNeg());
      case Instruction::IntToPtr:
        return inst->getOperand(0)->getType()->isIntegerTy(64) ? of(0) : std::nullopt;
      case Instruction::GetElementPtr: {
        const auto& gep = cast<GetElementPtrInst>(*inst);
        if (gep.getNumIndices() != 1 || !gep.getOperand(1)->getType()->isIntegerTy(64)) return {};
        const auto size = static_cast<std::int64_t>(
            inst->getModule()->getDataLayout().getTypeAllocSize(gep.getSourceElementType()));
        return combine(of(0), times(of(1), size),
                       [](std::int64_t x, std::int64_t y) { return x + y; });
      }
      default:
        return {};
    }
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 32;  // no overflow of sums and products

  /// The step of a value that grows by the same number in all lanes of a row, which iterate
  /// together.
  [[nodiscard]] std::optional<std::int64_t> carried(const PHINode& phi) {
    const Loop* loop = flow_.loop_of(phi.getParent());
    const BasicBlock* before = loop ? loop->getLoopPredecessor() : nullptr;
    const BasicBlock* latch = loop ? loop->getLoopLatch() : nullptr;
    if (!before || !latch || loop->getHeader() != phi.getParent()) return {};
    const auto* next = dyn_cast<BinaryOperator>(phi.getIncomingValueForBlock(latch));
    if (!next || next->getOpcode() != Instruction::Add) return {};
    const unsigned self = next->getOperand(0) == &phi ? 0 : 1;
    const Value* growth = next->getOperand(1 - self);
    if (next->getOperand(self) != &phi ||
        (!isa<Constant>(growth) && shapes_[growth].kind != Shape::Uniform))
      return {};
    return step(phi.getIncomingValueForBlock(before));
  }

  /// The step of v if only the bits of a mask are kept. The lanes of a row differ in some bits of a
  /// strided number: if none of them is kept, they are the same; if all are (and the mask does not
  /// shift them), the step is the stride.
  [[nodiscard]] std::optional<std::int64_t> kept(const Value* v, std::uint64_t mask,
                                                 bool in_place) const {
    const Shape s = shapes_[v];
    if (s.kind != Shape::Strided || s.stride <= 0 || s.stride > 1 << 20 ||
        !isPowerOf2_64(static_cast<std::uint64_t>(s.stride)) || s.align >= 63)
      return {};
    const auto stride = static_cast<std::uint64_t>(s.stride), end = stride * length_;
    if (std::uint64_t{1} << s.align < end) return {};  // rows would cross multiples of `end`
    const std::uint64_t bits = end - stride;
    if ((mask & bits) == 0) return 0;
    return in_place && (mask & bits) == bits ? std::optional{s.stride} : std::nullopt;
  }
  /// The step of v as a number of more bits: that of v if it does not wrap within a row. Flags hold
  /// for all threads (poison_flags).
  [[nodiscard]] std::optional<std::int64_t> extended(const Value* v, bool is_signed) {
    const auto narrow = step(v);
    if (!narrow || *narrow == 0) return narrow;
    if (const Shape s = shapes_[v]; s.kind == Shape::Strided)
      return (is_signed ? s.no_signed_wrap : s.no_unsigned_wrap) ? narrow : std::nullopt;
    const auto* inst = cast<Instruction>(v);
    if (inst->getOpcode() == Instruction::And)
      return narrow;  // the bits that change are lower ones
    const auto* sum = dyn_cast<OverflowingBinaryOperator>(inst);
    const bool holds = sum ? (is_signed ? sum->hasNoSignedWrap() : sum->hasNoUnsignedWrap())
                           : inst->getOpcode() == Instruction::Or;  // of disjoint bits
    if (!holds) return {};
    for (const Value* operand : inst->operands())
      if (!extended(operand, is_signed)) return {};
    return narrow;
  }
  static std::optional<std::int64_t> times(std::optional<std::int64_t> step, std::int64_t factor) {
    if (!step || std::abs(*step) >= kMost || std::abs(factor) >= kMost) return {};
    if (std::abs(*step) >= 1 << 20 && std::abs(factor) >= 1 << 20) return {};
    return *step * factor;
  }
  template <typename F>
  static std::optional<std::int64_t> combine(std::optional<std::int64_t> x,
                                             std::optional<std::int64_t> y, F&& f) {
    if (!x || !y || std::abs(*x) >= kMost || std::abs(*y) >= kMost) return {};
    return f(*x, *y);
  }

  const Shapes& shapes_;
  const Flow& flow_;
  unsigned length_, visits_ = 0;
};

/// The length of the longest rows in which the addresses of neighbouring lanes differ by `step`; 0:
/// none of at least `least` lanes.
unsigned MemoryEmitter::row_length(Value* pointer, std::int64_t step, unsigned least) {
  if (mask() || parts_.partial.edge() || shape(pointer).kind != Shape::Varying) return 0;
  for (unsigned length = width_ / 2; length >= least; length /= 2)
    if (Rows{plan_.full, plan_.flow, length}.step(pointer) == step) return length;
  return 0;
}

bool MemoryEmitter::load_rows(LoadInst& load, std::int64_t size) {
  Value* const pointer = load.getPointerOperand();
  unsigned length = load.isSimple() ? row_length(pointer, size) : 0;
  const bool same = length == 0;  // in all lanes of a row
  if (same) length = load.isSimple() ? row_length(pointer, 0) : 0;
  if (length == 0) return false;
  ++report_.loads_contiguous;
  SmallVector<Value*, 8> rows;
  Type* const type = same ? load.getType() : FixedVectorType::get(load.getType(), length);
  for (unsigned lane = 0; lane < width_; lane += length) {
    Value* const row = b_.CreateAlignedLoad(type, lane_value(pointer, lane), load.getAlign());
    rows.push_back(same ? b_.CreateVectorSplat(length, row) : row);
  }
  define(&load, concatenateVectors(b_, rows));
  return true;
}

bool MemoryEmitter::store_rows(StoreInst& store, std::int64_t size) {
  Value* const pointer = store.getPointerOperand();
  const unsigned length = store.isSimple() ? row_length(pointer, size) : 0;
  if (length == 0) return false;
  ++report_.stores_contiguous;
  Value* const all = vec(store.getValueOperand());
  for (unsigned lane = 0; lane < width_; lane += length) {
    SmallVector<int, 16> lanes;
    for (unsigned i = 0; i < length; ++i) lanes.push_back(static_cast<int>(lane + i));
    b_.CreateAlignedStore(b_.CreateShuffleVector(all, lanes), lane_value(pointer, lane),
                          store.getAlign());
  }
  return true;
}

}  // namespace cucpu::simt
