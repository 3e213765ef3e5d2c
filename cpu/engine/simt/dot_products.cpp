// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/dot_products.cpp
#include "cpu/engine/simt/dot_products.hpp"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Transforms/Utils/Local.h>

#include <optional>

namespace cucpu::simt {

using namespace llvm;

namespace {

/// A byte of every lane of a vector, extended to 32 bits.
struct Byte {
  Value* word;
  unsigned at;  ///< 0: the lowest
  bool is_signed;
};

std::optional<Byte> byte_of(Value* value) {
  using namespace PatternMatch;
  const auto is_place = [](const APInt& shift) { return shift.ule(24) && shift.urem(8) == 0; };
  Value* word;
  const APInt* shift;
  if (match(value, m_AShr(m_Shl(m_Value(word), m_APInt(shift)), m_SpecificInt(24))) &&
      is_place(*shift))
    return Byte{word, 3 - static_cast<unsigned>(shift->getZExtValue()) / 8, true};
  if (match(value, m_AShr(m_Value(word), m_SpecificInt(24)))) return Byte{word, 3, true};
  if (match(value, m_LShr(m_Value(word), m_SpecificInt(24)))) return Byte{word, 3, false};
  if (match(value, m_And(m_LShr(m_Value(word), m_APInt(shift)), m_SpecificInt(255))) &&
      is_place(*shift))
    return Byte{word, static_cast<unsigned>(shift->getZExtValue()) / 8, false};
  if (match(value, m_And(m_Value(word), m_SpecificInt(255)))) return Byte{word, 0, false};
  return {};
}

/// The instructions of a target.
class Target {
 public:
  explicit Target(const TargetMachine& machine) {
    const MCSubtargetInfo& features = *machine.getMCSubtargetInfo();
    arm_ = machine.getTargetTriple().isAArch64() && features.checkFeatures("+dotprod");
    arm_mixed_ = arm_ && features.checkFeatures("+i8mm");
    if (!machine.getTargetTriple().isX86()) return;
    const bool avx512 = features.checkFeatures("+avx512vnni");
    if (avx512) most_lanes_ = 16;
    if (features.checkFeatures("+avxvnni") || (avx512 && features.checkFeatures("+avx512vl")))
      least_lanes_ = 4, most_lanes_ = std::max(most_lanes_, 8U);
    x86_ = most_lanes_ > 0;
  }

  [[nodiscard]] bool any() const { return arm_ || x86_; }
  [[nodiscard]] bool has(unsigned lanes, bool left_signed, bool right_signed) const {
    if (arm_) return lanes % 4 == 0 && (left_signed == right_signed || arm_mixed_);
    return x86_ && lanes >= least_lanes_ && lanes % 4 == 0;
  }

  Value* emit(IRBuilder<>& b, Value* sum, Value* left, bool left_signed, Value* right,
              bool right_signed) const {
    if (left_signed && !right_signed) {  // both kinds of targets want the unsigned one first
      std::swap(left, right);
      std::swap(left_signed, right_signed);
    }
    const unsigned lanes = cast<FixedVectorType>(sum->getType())->getNumElements();
    const unsigned piece = arm_ ? 4 : std::min(lanes, most_lanes_);
    SmallVector<Value*> pieces;
    for (unsigned first = 0; first < lanes; first += piece) {
      const auto part = [&](Value* v) {
        return lanes == piece ? v : b.CreateShuffleVector(v, createSequentialMask(first, piece, 0));
      };
      pieces.push_back(arm_
                           ? arm(b, part(sum), part(left), left_signed, part(right), right_signed)
                           : x86(b, part(sum), part(left), left_signed, part(right), right_signed));
    }
    return pieces.size() == 1 ? pieces[0] : concatenateVectors(b, pieces);
  }

 private:
  static Value* arm(IRBuilder<>& b, Value* sum, Value* left, bool left_signed, Value* right,
                    bool right_signed) {
    Type* bytes = FixedVectorType::get(b.getInt8Ty(), 16);
    const Intrinsic::ID id = left_signed    ? Intrinsic::aarch64_neon_sdot
                             : right_signed ? Intrinsic::aarch64_neon_usdot
                                            : Intrinsic::aarch64_neon_udot;
    return b.CreateIntrinsic(id, {sum->getType(), bytes},
                             {sum, b.CreateBitCast(left, bytes), b.CreateBitCast(right, bytes)});
  }

  /// The instruction multiplies unsigned with signed bytes. Others are moved by 128 into that form,
  /// and what this adds is subtracted.
  static Value* x86(IRBuilder<>& b, Value* sum, Value* left, bool left_signed, Value* right,
                    bool right_signed) {
    const unsigned lanes = cast<FixedVectorType>(sum->getType())->getNumElements();
    const Intrinsic::ID id = lanes == 16  ? Intrinsic::x86_avx512_vpdpbusd_512
                             : lanes == 8 ? Intrinsic::x86_avx512_vpdpbusd_256
                                          : Intrinsic::x86_avx512_vpdpbusd_128;
    const auto dot = [&](Value* to, Value* x, Value* y) {
      return b.CreateIntrinsic(id, {}, {to, x, y});
    };
    Constant* tops = ConstantInt::get(sum->getType(), 0x80808080);
    Constant* none = Constant::getNullValue(sum->getType());
    if (!left_signed && right_signed) return dot(sum, left, right);
    if (left_signed)
      return b.CreateSub(dot(sum, b.CreateXor(left, tops), right), dot(none, tops, right));
    return b.CreateSub(dot(sum, left, b.CreateXor(right, tops)), dot(none, left, tops));
  }

  bool arm_ = false, arm_mixed_ = false, x86_ = false;
  unsigned least_lanes_ = 16, most_lanes_ = 0;
};

/// The products of bytes of two words, as far as they have been found.
struct Product {
  Value *x, *y;
  bool x_signed, y_signed;
  Value* mul[4] = {};

  [[nodiscard]] bool takes(const Byte& a, const Byte& b) const {
    return a.word == x && a.is_signed == x_signed && b.word == y && b.is_signed == y_signed &&
           a.at == b.at && !mul[a.at];
  }
  [[nodiscard]] bool complete() const {
    return all_of(mul, [](const Value* m) { return m != nullptr; });
  }
};

/// All that a sum adds. Sums inside it are used nowhere else.
void add_terms(BinaryOperator* sum, SmallVectorImpl<Value*>& terms) {
  for (Value* operand : sum->operands()) {
    auto* inner = dyn_cast<BinaryOperator>(operand);
    if (inner && inner->getOpcode() == Instruction::Add && inner->hasOneUse() &&
        inner->getParent() == sum->getParent())
      add_terms(inner, terms);
    else
      terms.push_back(operand);
  }
}

unsigned rewrite(BinaryOperator* sum, const Target& target) {
  SmallVector<Value*> terms, left;
  add_terms(sum, terms);
  SmallVector<Product> products;
  for (Value* term : terms) {
    auto* mul = dyn_cast<BinaryOperator>(term);
    const bool product = mul && mul->getOpcode() == Instruction::Mul && mul->hasOneUse();
    const auto a = product ? byte_of(mul->getOperand(0)) : std::nullopt,
               b = product ? byte_of(mul->getOperand(1)) : std::nullopt;
    if (!a || !b || a->at != b->at) {
      left.push_back(term);
      continue;
    }
    auto* found =
        find_if(products, [&](const Product& p) { return p.takes(*a, *b) || p.takes(*b, *a); });
    if (found == products.end()) {
      products.push_back({a->word, b->word, a->is_signed, b->is_signed});
      found = &products.back();
    }
    found->mul[a->at] = mul;
  }
  const unsigned lanes = cast<FixedVectorType>(sum->getType())->getNumElements();
  erase_if(products, [&](const Product& p) {
    if (p.complete() && target.has(lanes, p.x_signed, p.y_signed)) return false;
    for (Value* mul : p.mul)
      if (mul) left.push_back(mul);
    return true;
  });
  if (products.empty()) return 0;
  IRBuilder<> b{sum};
  Value* result = nullptr;
  for (Value* term : left) result = result ? b.CreateAdd(result, term) : term;
  if (!result) result = Constant::getNullValue(sum->getType());
  for (const Product& p : products)
    result = target.emit(b, result, p.x, p.x_signed, p.y, p.y_signed);
  sum->replaceAllUsesWith(result);
  RecursivelyDeleteTriviallyDeadInstructions(sum);
  return static_cast<unsigned>(products.size());
}

}  // namespace

unsigned form_dot_products(Function& block, const TargetMachine* machine) {
  if (!machine) return 0;
  const Target target{*machine};
  if (!target.any()) return 0;
  const auto is_sum = [](const Value* value) {
    auto* add = dyn_cast<BinaryOperator>(value);
    return add && add->getOpcode() == Instruction::Add && isa<FixedVectorType>(add->getType()) &&
           add->getType()->getScalarType()->isIntegerTy(32);
  };
  SmallVector<WeakVH> sums;  // not those that are part of another
  for (Instruction& inst : instructions(block)) {
    if (!is_sum(&inst)) continue;
    const auto* user = inst.hasOneUse() ? cast<Instruction>(inst.user_back()) : nullptr;
    if (!user || !is_sum(user) || user->getParent() != inst.getParent()) sums.emplace_back(&inst);
  }
  unsigned count = 0;
  for (WeakVH& sum : sums)
    if (Value* value = sum) count += rewrite(cast<BinaryOperator>(value), target);
  return count;
}

}  // namespace cucpu::simt
