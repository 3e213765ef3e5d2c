// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/recover_divisions.cpp
//
// With M = (2^p + e) / d, x * M / 2^p is x / d + x * e / (d * 2^p). For x >= 0 its floor is that of
// x / d if the second term is less than 1 / d, the least distance of x / d from the next integer:
// x * e < 2^p. For x < 0 and e > 0 it is that of -x, negated, minus one ("Division by Invariant
// Integers using Multiplication", Granlund, Montgomery).
#include "cpu/engine/simt/recover_divisions.hpp"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Support/KnownBits.h>
#include <llvm/Transforms/Utils/Local.h>

#include <optional>

namespace cucpu::simt {

using namespace llvm;
using namespace PatternMatch;

namespace {

/// The d for which floor(x * factor / 2^shift) is floor(x / d) for 0 <= x <= most; `factor` < 2^33.
std::optional<std::uint32_t> divisor_of(std::uint64_t factor, unsigned shift, std::uint64_t most) {
  if (factor == 0 || shift >= 96) return {};
  constexpr unsigned kBits = 192;
  const APInt m{kBits, factor}, power = APInt::getOneBitSet(kBits, shift);
  const APInt d = power.udiv(m) + (power.urem(m) == 0 ? 0 : 1);
  if (d.ult(2) || !d.isIntN(31)) return {};
  const APInt excess = m * d - power;
  if (excess.isZero() || !(APInt{kBits, most} * excess).ult(power)) return {};
  return static_cast<std::uint32_t>(d.getZExtValue());
}

struct Quotient {
  WeakTrackingVH dividend;  // which may be a quotient itself
  std::uint32_t divisor;
  bool is_signed;
};

/// The upper half of a product of a signed number and a constant, with the dividend added where the
/// constant is written as a negative number.
struct SignedProduct {
  Value* dividend;
  std::uint64_t factor;
};

std::optional<SignedProduct> signed_product(Value* high) {
  const auto half = [](Value* v) -> std::optional<SignedProduct> {
    Value* x;
    const APInt* factor;
    if (!match(v, m_Trunc(m_LShr(m_Mul(m_SExt(m_Value(x)), m_APInt(factor)), m_SpecificInt(32)))) &&
        !match(v, m_Trunc(m_AShr(m_Mul(m_SExt(m_Value(x)), m_APInt(factor)), m_SpecificInt(32)))))
      return {};
    if (!x->getType()->isIntegerTy(32) || !factor->isSignedIntN(32)) return {};
    return SignedProduct{x, factor->getZExtValue()};
  };
  if (auto product = half(high))
    return static_cast<std::int64_t>(product->factor) > 0 ? product : std::nullopt;
  Value *a, *b;
  if (!match(high, m_Add(m_Value(a), m_Value(b)))) return {};
  for (auto [sum, x] : {std::pair{a, b}, std::pair{b, a}})
    if (auto product = half(sum);
        product && product->dividend == x && static_cast<std::int64_t>(product->factor) < 0)
      return SignedProduct{x, product->factor + (std::uint64_t{1} << 32)};
  return {};
}

/// floor(x * M / 2^p), where the product has 64 bits and is shifted by another `by` bits later.
std::optional<Quotient> unsigned_quotient(Value* wide, unsigned by, const DataLayout& layout) {
  Value* x;
  const APInt *factor, *upper;
  if (!match(wide, m_LShr(m_Mul(m_ZExt(m_Value(x)), m_APInt(factor)), m_APInt(upper)))) return {};
  if (!x->getType()->isIntegerTy(32) || !wide->getType()->isIntegerTy(64) || upper->uge(64) ||
      upper->ult(32) || !factor->isIntN(32) || factor->isNegative())
    return {};
  by += static_cast<unsigned>(upper->getZExtValue());
  const std::uint64_t most = computeKnownBits(x, layout).getMaxValue().getZExtValue();
  if (const auto d = divisor_of(factor->getZExtValue(), by, most)) return Quotient{x, *d, false};
  return {};
}

std::optional<Quotient> quotient(Instruction& inst) {
  const DataLayout& layout = inst.getModule()->getDataLayout();
  if (inst.getType()->isIntegerTy(64)) return unsigned_quotient(&inst, 0, layout);
  if (!inst.getType()->isIntegerTy(32)) return {};
  Value *high, *a, *b;
  const APInt* shift;
  // Signed: floor(x * M / 2^p), plus one for negative numbers, whose quotients are rounded towards
  // zero.
  if (match(&inst, m_Add(m_Value(a), m_Value(b)))) {
    for (auto [sign, rest] : {std::pair{a, b}, std::pair{b, a}}) {
      if (!match(sign, m_LShr(m_Value(high), m_SpecificInt(31)))) continue;
      unsigned by = 32;
      if (match(rest, m_AShr(m_Specific(high), m_APInt(shift))) && shift->ult(32))
        by += static_cast<unsigned>(shift->getZExtValue());
      else if (rest != high)
        continue;
      const auto product = signed_product(high);
      if (!product) continue;
      // The magnitude of a dividend is at most 2^31.
      if (const auto d = divisor_of(product->factor, by, std::uint64_t{1} << 31))
        return Quotient{product->dividend, *d, true};
    }
    return {};
  }
  unsigned by = 0;
  Value *narrow = &inst, *wide;
  if (match(&inst, m_LShr(m_Value(a), m_APInt(shift))) && shift->ult(32)) {
    by = static_cast<unsigned>(shift->getZExtValue());
    narrow = a;
  }
  if (!match(narrow, m_Trunc(m_Value(wide)))) return {};
  return unsigned_quotient(wide, by, layout);
}

}  // namespace

void recover_divisions(Function& thread) {
  SmallVector<std::pair<Instruction*, Quotient>> found;
  for (Instruction& inst : instructions(thread))
    if (const auto one = quotient(inst)) found.push_back({&inst, *one});
  SmallVector<WeakTrackingVH> replaced;
  for (auto& [inst, one] : found) {
    // A shift of a quotient is a quotient too.
    if (inst->use_empty()) continue;
    IRBuilder<> b{inst};
    Value* by = b.getInt32(one.divisor);
    Value* result = one.is_signed ? b.CreateSDiv(one.dividend, by) : b.CreateUDiv(one.dividend, by);
    if (inst->getType()->isIntegerTy(64)) {
      for (User* user : make_early_inc_range(inst->users()))
        if (isa<TruncInst>(user) && user->getType() == result->getType()) {
          user->replaceAllUsesWith(result);
          replaced.emplace_back(user);
        }
      result = b.CreateZExt(result, inst->getType());
    }
    inst->replaceAllUsesWith(result);
    replaced.emplace_back(inst);
  }
  RecursivelyDeleteTriviallyDeadInstructionsPermissive(replaced);
}

}  // namespace cucpu::simt
