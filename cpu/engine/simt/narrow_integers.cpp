// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/narrow_integers.cpp
#include "cpu/engine/simt/narrow_integers.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kMostInstructions = 128;
/// Instructions per comparison: its lanes may have to be widened again to select other numbers.
constexpr unsigned kLeastPerComparison = 4;

/// The numbers that a value may be, without wrapping.
struct Interval {
  std::int64_t low = 0, high = 0;
};

bool is_word(const Value* value) { return value->getType()->isIntegerTy(32); }

bool is_extension(const Instruction* inst) {
  return isa<ZExtInst, SExtInst>(inst) && is_word(inst) &&
         (inst->getOperand(0)->getType()->isIntegerTy(8) ||
          inst->getOperand(0)->getType()->isIntegerTy(16));
}

bool is_min_max(const Instruction* inst) { return isa<MinMaxIntrinsic>(inst); }

/// An operation whose low bits follow from the low bits of its operands, or a right shift, minimum,
/// maximum or select.
bool is_operation(const Instruction* inst) {
  if (!is_word(inst)) return false;
  switch (inst->getOpcode()) {
    case Instruction::Add:
    case Instruction::Sub:
    case Instruction::Mul:
    case Instruction::And:
    case Instruction::Or:
    case Instruction::Xor:
    case Instruction::Select:
      return true;
    case Instruction::Shl:
    case Instruction::LShr:
    case Instruction::AShr:
      return isa<ConstantInt>(inst->getOperand(1)) &&
             cast<ConstantInt>(inst->getOperand(1))->getValue().ult(8);
    default:
      return is_min_max(inst);
  }
}

bool is_end(const Instruction* inst) {
  if (isa<TruncInst>(inst))
    return is_word(inst->getOperand(0)) &&
           (inst->getType()->isIntegerTy(8) || inst->getType()->isIntegerTy(16));
  return isa<ICmpInst>(inst) && is_word(inst->getOperand(0));
}

/// The operands that are numbers of the computation: not the condition of a select, not a shift.
SmallVector<Use*, 2> numbers_of(Instruction* inst) {
  if (isa<SelectInst>(inst)) return {&inst->getOperandUse(1), &inst->getOperandUse(2)};
  if (isa<TruncInst>(inst) || inst->isShift()) return {&inst->getOperandUse(0)};
  return {&inst->getOperandUse(0), &inst->getOperandUse(1)};
}

/// Instructions that depend on each other as far as 32-bit numbers go.
class Computation {
 public:
  /// All that is connected with an end of a computation; not found: it has other parts.
  bool find(Instruction* end) {
    SmallVector<Instruction*> work{end};
    while (!work.empty()) {
      Instruction* inst = work.pop_back_val();
      if (!all_.insert(inst)) continue;
      if (all_.size() > kMostInstructions) return false;
      if (is_end(inst)) {
        ends_.push_back(inst);
      } else if (is_extension(inst) || is_operation(inst)) {
        for (User* user : inst->users()) work.push_back(cast<Instruction>(user));
      } else {
        return false;
      }
      if (is_extension(inst)) continue;
      for (Use* use : numbers_of(inst)) {
        if (isa<ConstantInt>(use->get())) continue;
        auto* operand = dyn_cast<Instruction>(use->get());
        if (!operand) return false;
        work.push_back(operand);
      }
    }
    return true;
  }

  /// Whether narrow numbers suffice and are worth it; sets their width.
  bool fits() {
    Interval all{0, 0};
    unsigned comparisons = 0, sources = 0;
    for (Instruction* inst : all_) {
      comparisons += isa<ICmpInst>(inst);
      if (is_extension(inst)) {
        ++sources;
        bits_ = std::max(bits_, inst->getOperand(0)->getType()->getIntegerBitWidth());
      }
      SmallVector<Value*> values;
      if (!is_end(inst)) values.push_back(inst);
      if (!is_extension(inst))
        for (Use* use : numbers_of(inst))
          if (isa<ConstantInt>(use->get())) values.push_back(use->get());
      for (Value* value : values) {
        const auto interval = interval_of(value);
        if (!interval) return false;
        all = {std::min(all.low, interval->low), std::max(all.high, interval->high)};
      }
    }
    if (sources == 0 || all_.size() < kLeastPerComparison * comparisons) return false;
    for (Instruction* end : ends_)
      if (isa<TruncInst>(end)) bits_ = std::max(bits_, end->getType()->getIntegerBitWidth());
    is_signed_ = all.low < 0;
    for (; bits_ <= 16; bits_ *= 2) {
      const std::int64_t half = std::int64_t{1} << (bits_ - 1);
      if (is_signed_ ? all.low >= -half && all.high < half : all.high <= most()) return true;
      if (!is_signed_ && all_of(all_, [&](Instruction* inst) { return same_saturated(*inst); }))
        return true;
    }
    return false;
  }

  void rewrite() {
    for (Instruction* end : ends_) {
      IRBuilder<> b{end};
      Value* result;
      if (auto* compare = dyn_cast<ICmpInst>(end)) {
        CmpInst::Predicate predicate = compare->getPredicate();
        if (!is_signed_) predicate = ICmpInst::getUnsignedPredicate(predicate);
        result = b.CreateICmp(predicate, narrow(end->getOperand(0)), narrow(end->getOperand(1)));
      } else {
        result = b.CreateTrunc(narrow(end->getOperand(0)), end->getType());
      }
      result->takeName(end);
      end->replaceAllUsesWith(result);
    }
    for (Instruction* end : ends_) end->eraseFromParent();
    for (bool again = true; again;) {
      again = false;
      for (Instruction* inst : all_)
        if (!is_contained(ends_, inst) && !erased_.contains(inst) && inst->use_empty()) {
          inst->eraseFromParent();
          erased_.insert(inst);
          again = true;
        }
    }
  }

  [[nodiscard]] const SmallSetVector<Instruction*, 32>& all() const { return all_; }

 private:
  std::optional<Interval> interval_of(Value* value) {
    if (auto* number = dyn_cast<ConstantInt>(value)) {
      const std::int64_t n = number->getSExtValue();
      return Interval{n, n};
    }
    if (auto known = intervals_.find(value); known != intervals_.end()) return known->second;
    intervals_[value] = std::nullopt;
    const auto interval = compute(cast<Instruction>(value));
    // Beyond 32 bits it would have wrapped; so far below that nothing here overflows.
    const std::int64_t limit = std::int64_t{1} << 30;
    if (!interval || interval->low < -limit || interval->high > limit) return std::nullopt;
    return intervals_[value] = interval;
  }

  /// The largest number of `bits_` bits. Larger numbers, which are not negative, are replaced by
  /// it.
  [[nodiscard]] std::int64_t most() const { return (std::int64_t{1} << bits_) - 1; }

  bool may_saturate(Value* value) { return interval_of(value)->high > most(); }

  /// Whether the result is the same, or is `most()` where it would be larger, if operands are
  /// `most()` where they would be larger.
  bool same_saturated(Instruction& inst) {
    if (is_extension(&inst)) return true;
    const auto operands = numbers_of(&inst);
    const bool first = may_saturate(*operands.front()), last = may_saturate(*operands.back());
    if (auto* compare = dyn_cast<ICmpInst>(&inst)) {
      if (!first && !last) return true;
      if (first && last) return false;
      // Larger than any smaller number, but no longer different from the largest one.
      if (interval_of(*operands[first ? 1 : 0])->high < most()) return true;
      const CmpInst::Predicate predicate = ICmpInst::getUnsignedPredicate(
          first ? compare->getPredicate() : compare->getSwappedPredicate());
      return predicate == ICmpInst::ICMP_ULT || predicate == ICmpInst::ICMP_UGE;
    }
    if (inst.getOpcode() == Instruction::Add || isa<SelectInst>(inst) || is_min_max(&inst))
      return true;
    return !first && !last && (is_end(&inst) || !may_saturate(&inst));
  }

  std::optional<Interval> compute(Instruction* inst) {
    if (is_extension(inst)) {
      const unsigned bits = inst->getOperand(0)->getType()->getIntegerBitWidth();
      const std::int64_t all = std::int64_t{1} << bits;
      return isa<ZExtInst>(inst) ? Interval{0, all - 1} : Interval{-all / 2, all / 2 - 1};
    }
    const auto operands = numbers_of(inst);
    const auto first = interval_of(operands.front()->get()),
               last = interval_of(operands.back()->get());
    if (!first || !last) return std::nullopt;
    const Interval a = *first, b = *last;
    const bool positive = a.low >= 0 && b.low >= 0;
    switch (inst->getOpcode()) {
      case Instruction::Add:
        return Interval{a.low + b.low, a.high + b.high};
      case Instruction::Sub:
        return Interval{a.low - b.high, a.high - b.low};
      case Instruction::Mul: {
        const auto [low, high] =
            std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
        return Interval{low, high};
      }
      case Instruction::And:
        if (!positive && a.low < 0 && b.low < 0) return std::nullopt;
        return Interval{0, a.low < 0 ? b.high : b.low < 0 ? a.high : std::min(a.high, b.high)};
      case Instruction::Or:
      case Instruction::Xor:
        if (!positive) return std::nullopt;
        return Interval{0, static_cast<std::int64_t>(
                               NextPowerOf2(static_cast<std::uint64_t>(std::max(a.high, b.high)))) -
                               1};
      case Instruction::Shl: {
        const auto by = cast<ConstantInt>(inst->getOperand(1))->getZExtValue();
        return Interval{a.low * (std::int64_t{1} << by), a.high * (std::int64_t{1} << by)};
      }
      case Instruction::LShr:
        if (a.low < 0) return std::nullopt;
        [[fallthrough]];
      case Instruction::AShr: {
        const auto by = cast<ConstantInt>(inst->getOperand(1))->getZExtValue();
        return Interval{a.low >> by, a.high >> by};
      }
      default:  // select, minimum, maximum
        return Interval{std::min(a.low, b.low), std::max(a.high, b.high)};
    }
  }

  Value* narrow(Value* value) {
    Type* type = IntegerType::get(value->getContext(), bits_);
    if (auto* number = dyn_cast<ConstantInt>(value))
      return ConstantInt::get(
          type, is_signed_ ? number->getValue().trunc(bits_) : number->getValue().truncUSat(bits_));
    auto* inst = cast<Instruction>(value);
    if (auto made = narrow_.find(inst); made != narrow_.end()) return made->second;
    IRBuilder<> b{inst};
    Value* result;
    if (is_extension(inst)) {
      result = isa<ZExtInst>(inst) ? b.CreateZExt(inst->getOperand(0), type)
                                   : b.CreateSExt(inst->getOperand(0), type);
    } else if (auto* choice = dyn_cast<SelectInst>(inst)) {
      result = b.CreateSelect(choice->getCondition(), narrow(choice->getTrueValue()),
                              narrow(choice->getFalseValue()));
    } else if (auto* order = dyn_cast<MinMaxIntrinsic>(inst)) {
      Intrinsic::ID id = order->getIntrinsicID();
      if (!is_signed_)
        id = id == Intrinsic::smin ? Intrinsic::umin : id == Intrinsic::smax ? Intrinsic::umax : id;
      result = b.CreateBinaryIntrinsic(id, narrow(order->getLHS()), narrow(order->getRHS()));
    } else {
      auto opcode = static_cast<Instruction::BinaryOps>(inst->getOpcode());
      if (opcode == Instruction::AShr && !is_signed_) opcode = Instruction::LShr;
      Value *left = narrow(inst->getOperand(0)), *right = narrow(inst->getOperand(1));
      // Only sums may be larger than the largest number (same_saturated()).
      result = opcode == Instruction::Add && !is_signed_ && may_saturate(inst)
                   ? b.CreateBinaryIntrinsic(Intrinsic::uadd_sat, left, right)
                   : b.CreateBinOp(opcode, left, right);
    }
    return narrow_[inst] = result;
  }

  SmallSetVector<Instruction*, 32> all_;
  SmallVector<Instruction*> ends_;
  SmallPtrSet<Instruction*, 32> erased_;
  DenseMap<Value*, std::optional<Interval>> intervals_;
  DenseMap<Instruction*, Value*> narrow_;
  unsigned bits_ = 8;
  bool is_signed_ = false;
};

}  // namespace

void narrow_integers(Function& thread) {
  SmallVector<Instruction*> ends;
  for (Instruction& inst : instructions(thread))
    if (is_end(&inst)) ends.push_back(&inst);
  SmallPtrSet<Instruction*, 32> seen;
  for (Instruction* end : ends) {
    if (seen.contains(end)) continue;
    Computation computation;
    const bool found = computation.find(end);
    seen.insert(computation.all().begin(), computation.all().end());
    if (found && computation.fits()) computation.rewrite();
  }
}

}  // namespace cucpu::simt
