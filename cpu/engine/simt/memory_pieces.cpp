// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/memory_pieces.cpp: loads whose addresses are contiguous in one or two pieces of a
// group unless a test fails.
//
// Loading a tile, threads read `in[clamp(y0 + i / 18) * width + clamp(x0 + i % 18)]`. In a group of
// 16 neighbouring threads the quotient changes at most once, at a lane that one division finds.
// Before and from that lane on, the address is contiguous if no lane of the piece is clamped. So
// one load, or two and a selection by lane, replace a gather, and the addresses are computed with
// scalar instructions, for the first lane and for the last one. Where a clamp depends on a
// remainder alone, one test for all remainders covers all groups, and loops do not repeat it.
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;
using namespace PatternMatch;

namespace {

constexpr std::int64_t kMostStride = 1 << 20;
constexpr unsigned kMostNodes = 48;

bool is_clamp(const Instruction& inst) { return isa<MinMaxIntrinsic>(inst); }

}  // namespace

/// The expression of an address. Its leaves are uniform or strided. Within a piece every value is
/// strided if clamps have no effect: `strides_` says by how much.
class MemoryEmitter::Pieces {
 public:
  Pieces(const Shapes& full, unsigned width, LoadInst& load)
      : full_{full}, width_{width}, block_{load.getParent()} {
    const std::uint64_t size =
        load.getModule()->getDataLayout().getTypeStoreSize(load.getType()).getFixedValue();
    const auto stride = visit(load.getPointerOperand());
    found_ = stride && *stride == static_cast<std::int64_t>(size) && (divides() || clamps_);
  }

  [[nodiscard]] bool found() const { return found_; }
  [[nodiscard]] bool divides() const { return dividend_ != nullptr; }
  [[nodiscard]] Value* dividend() const { return dividend_; }
  [[nodiscard]] std::uint64_t divisor() const { return divisor_; }
  [[nodiscard]] bool is_signed() const { return is_signed_; }
  [[nodiscard]] std::int64_t stride(Value* v) const { return strides_.lookup(v); }
  [[nodiscard]] bool is_uniform(Value* v) const {
    return isa<Constant>(v) || full_[v].kind == Shape::Uniform;
  }
  /// Also written as x - x / d * d, or x + x / d * -d.
  [[nodiscard]] bool is_remainder(const Instruction& inst) const {
    if (inst.getOpcode() == Instruction::SRem || inst.getOpcode() == Instruction::URem) return true;
    if (!dividend_) return false;
    const unsigned bits = dividend_->getType()->getIntegerBitWidth();
    const APInt by{bits, divisor_};
    BinaryOperator* quotient = nullptr;
    const APInt* factor = nullptr;
    const auto product = m_Mul(m_BinOp(quotient), m_APInt(factor));
    return (match(&inst, m_Sub(m_Specific(dividend_), product)) && *factor == by &&
            is_quotient(*quotient)) ||
           (match(&inst, m_c_Add(m_Specific(dividend_), product)) && *factor == -by &&
            is_quotient(*quotient));
  }
  /// The operand of a clamp that grows within a piece, and the other one.
  [[nodiscard]] std::pair<Value*, Value*> value_and_bound(const Instruction& clamp) const {
    Value *value = clamp.getOperand(0), *bound = clamp.getOperand(1);
    if (stride(value) == 0) std::swap(value, bound);
    return {value, bound};
  }
  /// Whether one test shows that a clamp has no effect in any group.
  [[nodiscard]] bool is_of_remainder(const Instruction& clamp) const {
    const auto [value, bound] = value_and_bound(clamp);
    return divides() && stride(value) != 0 && is_uniform(bound) && is_sum(value) &&
           stride(value) * static_cast<std::int64_t>(divisor_ - 1) >>
                   (value->getType()->getIntegerBitWidth() - 2) ==
               0;
  }
  /// Operands before their users.
  [[nodiscard]] ArrayRef<Instruction*> nodes() const { return nodes_; }

 private:
  [[nodiscard]] bool is_quotient(Instruction& inst) const {
    return strides_.contains(&inst) &&
           (inst.getOpcode() == Instruction::SDiv || inst.getOpcode() == Instruction::UDiv);
  }
  /// Whether v consists of uniform values and multiples of the remainder, if clamps have no effect.
  [[nodiscard]] bool is_sum(Value* v) const {
    if (is_uniform(v)) return true;
    auto* inst = dyn_cast<Instruction>(v);
    if (!inst || !strides_.contains(v) || full_[v].kind == Shape::Strided) return false;
    if (is_remainder(*inst)) return true;
    switch (inst->getOpcode()) {
      case Instruction::Add:
      case Instruction::Sub:
      case Instruction::Mul:
      case Instruction::Shl:
        return is_sum(inst->getOperand(0)) && is_sum(inst->getOperand(1));
      default:
        return is_clamp(*inst) && is_sum(inst->getOperand(0)) && is_sum(inst->getOperand(1));
    }
  }

  std::optional<std::int64_t> visit(Value* v) {
    if (auto known = strides_.find(v); known != strides_.end()) return known->second;
    std::optional<std::int64_t> stride;
    const Shape s = full_[v];
    if (isa<Constant>(v) || s.kind == Shape::Uniform)
      stride = 0;
    else if (s.kind == Shape::Strided)
      stride = s.stride;
    else if (auto* inst = dyn_cast<Instruction>(v);
             inst && s.kind == Shape::Varying && inst->getParent() == block_)
      stride = visit_node(*inst);
    if (!stride || *stride < 0 || *stride > kMostStride) return {};
    strides_[v] = *stride;
    return stride;
  }

  std::optional<std::int64_t> visit_node(Instruction& inst) {
    if (inst.isIntDivRem()) return visit_division(inst);
    if (!isa<BinaryOperator, CastInst, GetElementPtrInst, ICmpInst, SelectInst>(inst) &&
        !is_clamp(inst))
      return {};
    if (!inst.getType()->isIntOrPtrTy()) return {};
    SmallVector<std::int64_t, 3> operands;
    bool uniform = true;
    const unsigned count = isa<CallInst>(inst) ? 2 : inst.getNumOperands();
    for (unsigned i = 0; i < count; ++i) {
      if (!inst.getOperand(i)->getType()->isIntOrPtrTy()) return {};
      const auto one = visit(inst.getOperand(i));
      if (!one) return {};
      operands.push_back(*one);
      uniform &= *one == 0;
    }
    const auto stride = uniform ? std::optional<std::int64_t>{0} : combine(inst, operands);
    if (!stride || nodes_.size() == kMostNodes) return {};
    if (is_clamp(inst) && !uniform && !fits(*stride, inst.getType()->getIntegerBitWidth()))
      return {};
    nodes_.push_back(&inst);
    return stride;
  }

  std::optional<std::int64_t> combine(Instruction& inst, ArrayRef<std::int64_t> of) {
    if (is_clamp(inst)) {
      clamps_ = true;
      return of[0] == 0 ? std::optional{of[1]} : of[1] == 0 ? std::optional{of[0]} : std::nullopt;
    }
    auto* number = inst.getNumOperands() == 2 ? dyn_cast<ConstantInt>(inst.getOperand(1)) : nullptr;
    switch (inst.getOpcode()) {
      case Instruction::Or:
        if (!cast<PossiblyDisjointInst>(inst).isDisjoint()) return {};
        [[fallthrough]];
      case Instruction::Add:
        return of[0] + of[1];
      case Instruction::Sub:
        return of[1] == 0 ? std::optional{of[0]} : std::nullopt;
      case Instruction::Mul:
        if (!number || number->isNegative() || number->getValue().ugt(kMostStride)) return {};
        return of[0] * number->getSExtValue();
      case Instruction::Shl:
        if (!number || number->getValue().ugt(20)) return {};
        return of[0] << number->getZExtValue();
      case Instruction::Trunc:
      case Instruction::SExt:
      case Instruction::ZExt: {
        const unsigned bits = std::min(inst.getType()->getIntegerBitWidth(),
                                       inst.getOperand(0)->getType()->getIntegerBitWidth());
        return fits(of[0], bits) ? std::optional{of[0]} : std::nullopt;
      }
      case Instruction::IntToPtr:
      case Instruction::PtrToInt:
        return inst.getModule()->getDataLayout().getTypeSizeInBits(inst.getType()) == 64 &&
                       inst.getModule()->getDataLayout().getTypeSizeInBits(
                           inst.getOperand(0)->getType()) == 64
                   ? std::optional{of[0]}
                   : std::nullopt;
      case Instruction::GetElementPtr: {
        auto& gep = cast<GetElementPtrInst>(inst);
        if (gep.getNumIndices() != 1 || !gep.getOperand(1)->getType()->isIntegerTy(64)) return {};
        const std::uint64_t size =
            inst.getModule()->getDataLayout().getTypeAllocSize(gep.getSourceElementType());
        if (size > kMostStride) return {};
        return of[0] + of[1] * static_cast<std::int64_t>(size);
      }
      default:
        return {};
    }
  }

  /// Whether a group spans less than a quarter of the numbers of so many bits.
  [[nodiscard]] bool fits(std::int64_t stride, unsigned bits) const {
    return bits >= 16 && (bits >= 64 || span_of(stride, width_) >> (bits - 2) == 0);
  }

  /// One dividend and one divisor that is at least the width: its multiples lie so far apart that
  /// at most one of them is in a group.
  std::optional<std::int64_t> visit_division(Instruction& inst) {
    auto* number = dyn_cast<ConstantInt>(inst.getOperand(1));
    Value* dividend = inst.getOperand(0);
    const Shape s = full_[dividend];
    if (!number || number->getValue().ult(width_) || number->getValue().getActiveBits() > 31 ||
        !fits(1, inst.getType()->getIntegerBitWidth()) || s.kind != Shape::Strided ||
        s.stride != 1 || nodes_.size() == kMostNodes)
      return {};
    const bool is_signed =
        inst.getOpcode() == Instruction::SDiv || inst.getOpcode() == Instruction::SRem;
    if (dividend_ && (dividend_ != dividend || divisor_ != number->getZExtValue())) return {};
    dividend_ = dividend;
    divisor_ = number->getZExtValue();
    is_signed_ |= is_signed;
    nodes_.push_back(&inst);
    return inst.getOpcode() == Instruction::SDiv || inst.getOpcode() == Instruction::UDiv ? 0 : 1;
  }

  const Shapes& full_;
  unsigned width_;
  const BasicBlock* block_;
  bool found_ = false, clamps_ = false, is_signed_ = false;
  Value* dividend_ = nullptr;
  std::uint64_t divisor_ = 0;
  DenseMap<Value*, std::int64_t> strides_;
  SmallVector<Instruction*, 16> nodes_;
};

static bool may_be_in_pieces(const LoadInst& load, const Shapes& full) {
  if (!load.isSimple() || full[load.getPointerOperand()].kind != Shape::Varying) return false;
  const DataLayout& layout = load.getModule()->getDataLayout();
  const std::uint64_t size = layout.getTypeStoreSize(load.getType()).getFixedValue();
  return isPowerOf2_64(size) && size <= 8 && load.getAlign().value() >= size &&
         layout.getTypeSizeInBits(load.getType()) == 8 * size;
}

void MemoryEmitter::find_pieces() {
  if (plan_.baseline) return;
  for (BasicBlock* block : plan_.flow.order)
    for (Instruction& inst : *block) {
      auto* load = dyn_cast<LoadInst>(&inst);
      if (!load || !may_be_in_pieces(*load, plan_.full)) continue;
      const Pieces pieces{plan_.full, width_, *load};
      if (!pieces.found()) continue;
      in_pieces_.insert(load);
      for (Instruction* node : pieces.nodes())
        if (!parts_.values.needs_slot(node)) of_pieces_.insert(node);
    }
}

bool MemoryEmitter::loads_tile(const Flow& flow, const Lanes& lanes) {
  // Most kernels divide no integers, and need no analysis of shapes.
  if (none_of(instructions(flow.function), [](Instruction& inst) { return inst.isIntDivRem(); }))
    return false;
  const Shapes full{flow, lanes, Shapes::Scope::FullGroup};
  return any_of(instructions(flow.function), [&](Instruction& inst) {
    auto* load = dyn_cast<LoadInst>(&inst);
    if (!load || !may_be_in_pieces(*load, full)) return false;
    const Pieces pieces{full, lanes.width, *load};
    return pieces.found() && pieces.divides();
  });
}

/// Requires that a clamp has no effect, whatever the remainder is.
void MemoryEmitter::require_no_clamp(const Pieces& pieces, const MinMaxIntrinsic& clamp,
                                     const std::function<void(Value*)>& require) {
  const auto [value, bound] = pieces.value_and_bound(clamp);
  // The value at a remainder of zero.
  const std::function<Value*(Value*)> least = [&](Value* v) -> Value* {
    if (pieces.is_uniform(v)) return scalar(v);
    auto* inst = cast<Instruction>(v);
    if (pieces.is_remainder(*inst)) return Constant::getNullValue(v->getType());
    if (is_clamp(*inst)) return least(pieces.value_and_bound(*inst).first);  // no effect either
    return copy_with(inst, {least(inst->getOperand(0)), least(inst->getOperand(1))});
  };
  Value *first = least(value), *limit = scalar(bound);
  const unsigned bits = first->getType()->getIntegerBitWidth();
  const APInt span{bits, static_cast<std::uint64_t>(pieces.stride(value)) * (pieces.divisor() - 1)};
  const APInt most =
      (clamp.isSigned() ? APInt::getSignedMaxValue(bits) : APInt::getMaxValue(bits)) - span;
  Constant* distance = ConstantInt::get(first->getType(), span);
  require(b_.CreateICmp(clamp.isSigned() ? CmpInst::ICMP_SLE : CmpInst::ICMP_ULE, first,
                        ConstantInt::get(first->getType(), most)));
  const bool is_max = ICmpInst::isGT(clamp.getPredicate());
  require(b_.CreateICmp(CmpInst::getNonStrictPredicate(clamp.getPredicate()),
                        is_max ? first : b_.CreateAdd(first, distance), limit));
}

bool MemoryEmitter::load_pieces(LoadInst& load) {
  if (mask() || parts_.partial.edge() || !in_pieces_.contains(&load)) return false;
  constexpr std::uint64_t kPage = 4096;
  const Pieces pieces{plan_.full, width_, load};
  if (pieces.divides()) parts_.regions.mark_tile_loop();
  Type* const type = load.getType();
  Type* const all = vector_type(type);
  const auto size = static_cast<std::uint64_t>(module_.getDataLayout().getTypeStoreSize(type));
  Value *pointer = load.getPointerOperand(), *valid = nullptr;
  const auto require = [&](Value* test) { valid = valid ? b_.CreateAnd(valid, test) : test; };
  BasicBlock *slow = new_block("apart"), *after = new_block("loaded");
  const ValueMap::Known before_tests = parts_.values.known();
  /// Goes on in a new block if the tests so far hold.
  const auto branch = [&](const char* name) {
    if (!valid) return;
    BasicBlock* next = new_block(name);
    b_.CreateCondBr(std::exchange(valid, nullptr), next, slow,
                    MDBuilder{context_}.createBranchWeights(100, 1));
    b_.SetInsertPoint(next);
  };

  // Tests that are the same for all groups come first.
  for (Instruction* node : pieces.nodes())
    if (is_clamp(*node) && pieces.is_of_remainder(*node))
      require_no_clamp(pieces, cast<MinMaxIntrinsic>(*node), require);
  branch("unclamped");

  // `quotient` is that of the first lane. From lane `turn` on it is one more.
  Value *quotient = nullptr, *turn = nullptr;
  if (pieces.divides()) {
    Value* first = scalar(pieces.dividend());
    Type* number = first->getType();
    Constant* by = ConstantInt::get(number, pieces.divisor());
    // A dividend that is not negative and does not wrap, also as a signed number.
    const unsigned bits = number->getIntegerBitWidth();
    const APInt most =
        (pieces.is_signed() ? APInt::getSignedMaxValue(bits) : APInt::getMaxValue(bits)) -
        (width_ - 1);
    require(b_.CreateICmpULE(first, ConstantInt::get(number, most)));
    quotient = b_.CreateUDiv(first, by);
    turn = b_.CreateSub(by, b_.CreateSub(first, b_.CreateMul(quotient, by)));
  }
  // The address of the first lane of the group, or of its last one, in whose piece `more` other
  // lanes are.
  const auto address = [&](bool of_last, Value* more) {
    const unsigned lane = of_last ? width_ - 1 : 0;
    DenseMap<Value*, Value*> known;
    const auto at = [&](Value* v) {
      if (Value* one = known.lookup(v)) return one;
      return lane_value(v, lane);
    };
    // The value in the first and in the last lane of the piece.
    const auto ends = [&](Value* v) -> std::pair<Value*, Value*> {
      Value* here = at(v);
      Type* number = here->getType();
      Value* distance =
          b_.CreateMul(b_.CreateZExtOrTrunc(more, number),
                       ConstantInt::get(number, static_cast<std::uint64_t>(pieces.stride(v))));
      if (of_last) return {b_.CreateSub(here, distance), here};
      return {here, b_.CreateAdd(here, distance)};
    };
    // Tested for as many lanes as a group has, so that the bound is a constant.
    const auto require_no_wrap = [&](Value* v, bool is_signed) {
      const unsigned bits = v->getType()->getIntegerBitWidth();
      const APInt span{bits, static_cast<std::uint64_t>(pieces.stride(v)) * (width_ - 1)};
      APInt bound = is_signed ? APInt::getSignedMaxValue(bits) : APInt::getMaxValue(bits);
      if (of_last) bound = is_signed ? APInt::getSignedMinValue(bits) : APInt::getMinValue(bits);
      bound = of_last ? bound + span : bound - span;
      const auto predicate = of_last ? CmpInst::ICMP_UGE : CmpInst::ICMP_ULE;
      require(b_.CreateICmp(is_signed ? ICmpInst::getSignedPredicate(predicate) : predicate, at(v),
                            ConstantInt::get(v->getType(), bound)));
    };
    for (Instruction* node : pieces.nodes()) {
      if (node->isIntDivRem()) {
        Value* q = quotient;
        if (of_last)
          q = b_.CreateAdd(
              q, b_.CreateZExt(b_.CreateICmpULT(turn, ConstantInt::get(turn->getType(), width_)),
                               q->getType()));
        const bool remainder =
            node->getOpcode() == Instruction::SRem || node->getOpcode() == Instruction::URem;
        known[node] =
            remainder
                ? b_.CreateSub(at(pieces.dividend()),
                               b_.CreateMul(q, ConstantInt::get(q->getType(), pieces.divisor())))
                : q;
        continue;
      }
      if (is_clamp(*node) && pieces.stride(node) != 0) {
        const auto& clamp = cast<MinMaxIntrinsic>(*node);
        const auto [value, bound] = pieces.value_and_bound(clamp);
        if (pieces.is_of_remainder(*node)) {  // tested before
          known[node] = at(value);
          continue;
        }
        const auto [first, last] = ends(value);
        require_no_wrap(value, clamp.isSigned());
        // The predicate of a maximum is "greater".
        const bool is_max = ICmpInst::isGT(clamp.getPredicate());
        require(b_.CreateICmp(CmpInst::getNonStrictPredicate(clamp.getPredicate()),
                              is_max ? first : last, at(bound)));
        known[node] = at(value);
        continue;
      }
      if (isa<SExtInst, ZExtInst>(node) && pieces.stride(node) != 0)
        require_no_wrap(node->getOperand(0), isa<SExtInst>(node));
      SmallVector<Value*, 3> operands;
      for (unsigned i = 0; i < (isa<CallInst>(node) ? 2 : node->getNumOperands()); ++i)
        operands.push_back(at(node->getOperand(i)));
      known[node] = copy_with(node, operands);
    }
    return known.lookup(pointer);
  };

  ++report_.loads_contiguous;
  const Align align = load.getAlign();
  const auto least = [&](unsigned most) {
    return b_.CreateZExtOrTrunc(
        b_.CreateBinaryIntrinsic(Intrinsic::umin, turn, ConstantInt::get(turn->getType(), most)),
        b_.getInt64Ty());
  };
  Value* low =
      address(false, turn ? b_.CreateSub(least(width_), b_.getInt64(1)) : b_.getInt64(width_ - 1));
  branch("piece");
  prefetch_for_later_block(low, load);
  const ValueMap::Known of_low = parts_.values.known();
  SmallVector<std::pair<Value*, BasicBlock*>, 3> loaded;
  const auto done = [&](Value* value) {
    loaded.push_back({value, b_.GetInsertBlock()});
    b_.CreateBr(after);
  };
  if (turn) {
    BasicBlock *one = new_block("one.piece"), *two = new_block("two.pieces");
    b_.CreateCondBr(b_.CreateICmpUGE(turn, ConstantInt::get(turn->getType(), width_)), one, two);
    b_.SetInsertPoint(two);
    Value* high = address(true, b_.CreateSub(b_.getInt64(width_ - 1), least(width_ - 1)));
    high = lane_pointer(high, width_ - 1, -static_cast<std::int64_t>(size));
    prefetch_for_later_block(high, load);
    // Lanes of the other piece are loaded too, where they lie in the same page.
    const bool masked = plan_.target.has_masked_access(*type);
    if (!masked)
      for (Value* start : {low, high})
        require(b_.CreateICmpULE(
            b_.CreateAnd(b_.CreatePtrToInt(start, b_.getInt64Ty()), b_.getInt64(kPage - 1)),
            b_.getInt64(kPage - size * width_)));
    branch("pieces");
    Value* lane = b_.CreateZExtOrTrunc(turn, b_.getInt32Ty());
    Value* before = b_.CreateICmpULT(lane_numbers(b_.getInt32Ty()), splat(lane));
    if (masked)
      done(b_.CreateMaskedLoad(
          all, high, align, b_.CreateNot(before),
          b_.CreateMaskedLoad(all, low, align, before, Constant::getNullValue(all))));
    else
      done(b_.CreateSelect(before, b_.CreateAlignedLoad(all, low, align),
                           b_.CreateAlignedLoad(all, high, align)));
    b_.SetInsertPoint(one);
    parts_.values.restore(of_low);
  }
  done(b_.CreateAlignedLoad(all, low, align));
  b_.SetInsertPoint(slow);
  parts_.values.restore(before_tests);
  done(gather_by_loop(load, type, align));
  parts_.values.restore(before_tests);
  b_.SetInsertPoint(after);
  PHINode* result = b_.CreatePHI(all, static_cast<unsigned>(loaded.size()));
  for (auto [value, from] : loaded) result->addIncoming(value, from);
  define(&load, result);
  return true;
}

}  // namespace cucpu::simt
