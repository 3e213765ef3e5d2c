// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/widen_masks.cpp
#include "cpu/engine/simt/widen_masks.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/EquivalenceClasses.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/IR/ValueHandle.h>

#include <algorithm>
#include <bit>

#include "cpu/engine/simt/vector_target.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

bool is_mask(const Value* v) {
  auto* type = dyn_cast<FixedVectorType>(v->getType());
  return type && type->getElementType()->isIntegerTy(1) && type->getNumElements() > 1;
}

class Widener {
 public:
  Widener(Function& block, const MaskForm& form)
      : block_{block}, layout_{block.getDataLayout()}, form_{form} {}

  unsigned run() {
    SmallVector<Instruction*> found;
    for (Instruction& inst : instructions(block_))
      if (is_mask(&inst) && lanes(inst) <= form_.most_lanes) found.push_back(&inst);
    choose_widths(found);
    for (Instruction* inst : found)
      if (combines(*inst)) wide(inst);
    for (Instruction* inst : found) rewrite_uses(*inst);
    for (Instruction* inst : found)
      if (combines(*inst)) inst->replaceAllUsesWith(PoisonValue::get(inst->getType()));
    for (Instruction* inst : dead_) inst->eraseFromParent();
    for (Instruction* inst : found)
      if (combines(*inst)) inst->eraseFromParent();
    return static_cast<unsigned>(wide_.size());
  }

 private:
  /// Whether a mask is computed from masks, or from the bits of an integer; other masks are results
  /// of comparisons.
  static bool combines(const Instruction& inst) {
    switch (inst.getOpcode()) {
      case Instruction::PHI:
      case Instruction::And:
      case Instruction::Or:
      case Instruction::Xor:
      case Instruction::Select:
      case Instruction::Freeze:
        return true;
      case Instruction::BitCast:
        return inst.getOperand(0)->getType()->isIntegerTy(lanes(inst)) && lanes(inst) <= 32;
      case Instruction::Load:
        return cast<LoadInst>(inst).isSimple() && (lanes(inst) == 16 || lanes(inst) == 32);
      default:
        return false;
    }
  }

  static unsigned lanes(const Value& v) {
    return cast<FixedVectorType>(v.getType())->getNumElements();
  }

  /// The lane width of masks that are combined. If they select nothing wide: the width of what they
  /// select or access, or a byte. Else the width of the compared values if all have the same, or 32
  /// bits.
  void choose_widths(ArrayRef<Instruction*> masks) {
    EquivalenceClasses<const Value*> together;
    for (Instruction* mask : masks) {
      together.insert(mask);
      if (combines(*mask))
        for (const Value* operand : mask->operands())
          if (is_mask(operand) && isa<Instruction>(operand)) together.unionSets(mask, operand);
    }
    struct Widths {
      unsigned least = ~0u, most = 0, chosen = 0;
      bool spread = false;
    };
    DenseMap<const Value*, Widths> widths;
    for (Instruction* mask : masks) {
      Widths& all = widths[together.getLeaderValue(mask)];
      all.spread |= isa<BitCastInst>(mask) || isa<LoadInst>(mask);
      if (isa<CmpInst>(mask)) {
        const unsigned own = width_of(*mask->getOperand(0));
        all.least = std::min(all.least, own);
        all.most = std::max(all.most, own);
      }
      for (const User* user : mask->users())
        if (!is_mask(user) && (isa<SelectInst>(user) || isa<CastInst>(user)) &&
            user->getType()->isVectorTy())
          all.chosen = std::max(all.chosen, width_of(*user));
        else if (const Value* data = masked_data(*user))
          all.chosen = std::max(all.chosen, width_of(*data));
    }
    for (Instruction* mask : masks) {
      const Widths all = widths.lookup(together.getLeaderValue(mask));
      unsigned& width = width_[mask];
      if (all.spread || all.most == 0)
        width = 32;
      else if (all.chosen <= 16)
        width = std::max(all.chosen, 8u);
      else
        width = all.least >= 32 ? all.least : std::min(all.most, 32u);
    }
  }

  /// What an access with a mask loads or stores.
  static const Value* masked_data(const User& user) {
    auto* call = dyn_cast<IntrinsicInst>(&user);
    switch (call ? call->getIntrinsicID() : Intrinsic::not_intrinsic) {
      case Intrinsic::masked_load:
      case Intrinsic::masked_gather:
        return call;
      case Intrinsic::masked_store:
      case Intrinsic::masked_scatter:
        return call->getArgOperand(0);
      default:
        return nullptr;
    }
  }

  static unsigned width_of(const Value& v) {
    const Type* type = v.getType();
    if (type->isPtrOrPtrVectorTy()) return 64;
    return std::clamp(std::bit_ceil(type->getScalarSizeInBits()), 8u, 64u);
  }

  Type* wide_type(const Instruction& mask) const {
    return FixedVectorType::get(IntegerType::get(mask.getContext(), width_.lookup(&mask)),
                                lanes(mask));
  }

  static IRBuilder<> builder_after(Instruction& inst) {
    auto at = inst.getInsertionPointAfterDef();
    return IRBuilder<>{(*at)->getParent(), *at};
  }

  static Constant* constant(const Constant& mask, Type* wide) {
    SmallVector<Constant*> all;
    Type* type = wide->getScalarType();
    for (unsigned i = 0; i < lanes(mask); ++i) {
      auto* one = dyn_cast_or_null<ConstantInt>(mask.getAggregateElement(i));
      all.push_back(ConstantInt::getSigned(type, one && one->isOne() ? -1 : 0));
    }
    return ConstantVector::get(all);
  }

  /// An operand of a mask in the wide form.
  Value* wide(Value* operand, const Instruction& of) {
    if (auto* known = dyn_cast<Constant>(operand)) return constant(*known, wide_type(of));
    return wide(cast<Instruction>(operand));
  }

  /// The mask in the sign bits of integers.
  Value* wide(Instruction* inst) {
    if (auto known = wide_.find(inst); known != wide_.end()) return known->second;
    Value* made = nullptr;
    if (auto* phi = dyn_cast<PHINode>(inst)) {
      IRBuilder<> b{phi};
      PHINode* copy = b.CreatePHI(wide_type(*phi), phi->getNumIncomingValues(), phi->getName());
      wide_[inst] = copy;
      for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i)
        copy->addIncoming(wide(phi->getIncomingValue(i), *phi), phi->getIncomingBlock(i));
      return copy;
    }
    if (combines(*inst)) {
      made = combined(*inst);
    } else if (Value* signs = tested_sign(*inst)) {
      made = signs;
    } else {
      made = builder_after(*inst).CreateSExt(inst, wide_type(*inst));
    }
    wide_[inst] = made;
    return made;
  }

  /// X of X < 0.
  Value* tested_sign(const Instruction& inst) const {
    using namespace PatternMatch;
    ICmpInst::Predicate predicate;
    Value* x = nullptr;
    if (!match(&inst, m_ICmp(predicate, m_Value(x), m_Zero())) || predicate != ICmpInst::ICMP_SLT ||
        x->getType() != wide_type(inst))
      return nullptr;
    return x;
  }

  Value* combined(Instruction& inst) {
    IRBuilder<> b{&inst};
    switch (inst.getOpcode()) {
      case Instruction::And:
      case Instruction::Or:
      case Instruction::Xor:
        return b.CreateBinOp(cast<BinaryOperator>(inst).getOpcode(), wide(inst.getOperand(0), inst),
                             wide(inst.getOperand(1), inst));
      case Instruction::Select:
        return chosen(b, cast<SelectInst>(inst));
      case Instruction::Freeze:
        return b.CreateFreeze(wide(inst.getOperand(0), inst));
      case Instruction::BitCast:
        return spread(b, inst.getOperand(0), lanes(inst));
      default: {
        auto& load = cast<LoadInst>(inst);
        Value* bits = b.CreateAlignedLoad(b.getIntNTy(lanes(inst)), load.getPointerOperand(),
                                          load.getAlign());
        return spread(b, bits, lanes(inst));
      }
    }
  }

  // Poison lanes are harmless where a select becomes `and` or `or`: only instruction selection
  // follows.
  Value* chosen(IRBuilder<>& b, SelectInst& select) {
    Value *yes = wide(select.getTrueValue(), select), *no = wide(select.getFalseValue(), select);
    if (!is_mask(select.getCondition())) return b.CreateSelect(select.getCondition(), yes, no);
    Value* which = wide(select.getCondition(), select);
    auto* known_yes = dyn_cast<Constant>(yes);
    auto* known_no = dyn_cast<Constant>(no);
    if (known_no && known_no->isNullValue()) return b.CreateAnd(which, yes);
    if (known_yes && known_yes->isAllOnesValue()) return b.CreateOr(which, no);
    if (known_yes && known_yes->isNullValue()) return b.CreateAnd(b.CreateNot(which), no);
    if (known_no && known_no->isAllOnesValue()) return b.CreateOr(b.CreateNot(which), yes);
    return b.CreateSelect(b.CreateICmpSLT(which, Constant::getNullValue(which->getType())), yes,
                          no);
  }

  /// Copies bit i of an integer to all bits of lane i.
  static Value* spread(IRBuilder<>& b, Value* bits, unsigned lanes) {
    SmallVector<Constant*> places;
    for (unsigned i = 0; i < lanes; ++i) places.push_back(b.getInt32(1u << i));
    Value* all = b.CreateVectorSplat(lanes, b.CreateZExtOrTrunc(bits, b.getInt32Ty()));
    Value* own = b.CreateAnd(all, ConstantVector::get(places));
    return b.CreateSExt(b.CreateICmpNE(own, Constant::getNullValue(own->getType())),
                        own->getType());
  }

  bool fills(Value* signs) const {
    return ComputeNumSignBits(signs, layout_) == signs->getType()->getScalarSizeInBits();
  }

  Value* in_all_bits(IRBuilder<>& b, Value* signs) {
    return fills(signs) ? signs : b.CreateAShr(signs, signs->getType()->getScalarSizeInBits() - 1);
  }

  /// Users that need a vector of i1 get one in their own block.
  void rewrite_uses(Instruction& mask) {
    SmallVector<Use*> uses;
    for (Use& use : mask.uses()) {
      auto* user = cast<Instruction>(use.getUser());
      if (is_mask(user) && combines(*user)) continue;
      if (!combines(mask) && user->getParent() == mask.getParent()) continue;
      uses.push_back(&use);
    }
    for (Use* use : uses) {
      auto* user = cast<Instruction>(use->getUser());
      Value* signs = wide(&mask);
      IRBuilder<> b{user};
      if (isa<SExtInst>(user)) {
        user->replaceAllUsesWith(b.CreateSExtOrTrunc(in_all_bits(b, signs), user->getType()));
      } else if (isa<ZExtInst>(user)) {
        user->replaceAllUsesWith(b.CreateZExtOrTrunc(
            b.CreateLShr(signs, signs->getType()->getScalarSizeInBits() - 1), user->getType()));
      } else if (isa<BitCastInst>(user) && user->getType()->isIntegerTy()) {
        rewrite_bits(*user, signs);
      } else {
        use->set(narrow(*user->getParent(), signs));
        continue;
      }
      dead_.push_back(user);
    }
  }

  /// The bits of a mask as an integer, computed at the use and not for a mere test.
  void rewrite_bits(Instruction& bits, Value* signs) {
    SmallVector<Use*> uses;
    for (Use& use : bits.uses()) uses.push_back(&use);
    for (Use* use : uses) {
      auto* user = cast<Instruction>(use->getUser());
      auto* phi = dyn_cast<PHINode>(user);
      auto* number = use->getOperandNo() == 0 && isa<ICmpInst>(user)
                         ? dyn_cast<ConstantInt>(user->getOperand(1))
                         : nullptr;
      if (number && !form_.has_sign_bits && cast<ICmpInst>(user)->isEquality() &&
          (number->isZero() || number->isMinusOne())) {
        IRBuilder<> b{user};
        const bool all = number->isMinusOne();
        Value* one = all ? b.CreateIntMaxReduce(signs, true) : b.CreateIntMinReduce(signs, true);
        const bool set = all == (cast<ICmpInst>(user)->getPredicate() == ICmpInst::ICMP_EQ);
        user->replaceAllUsesWith(
            set ? b.CreateICmpSLT(one, Constant::getNullValue(one->getType()))
                : b.CreateICmpSGT(one, Constant::getAllOnesValue(one->getType())));
        dead_.push_back(user);
        continue;
      }
      BasicBlock& where = phi ? *phi->getIncomingBlock(*use) : *user->getParent();
      use->set(bits_in(where, signs, bits.getType()));
    }
  }

  Value* bits_in(BasicBlock& where, Value* signs, Type* type) {
    Value*& known = bits_[{&where, signs}];
    if (known) return known;
    IRBuilder<> b = in(where, signs);
    if (!form_.has_sign_bits && fills(signs))
      signs =
          b.CreateTrunc(signs, VectorType::get(b.getInt8Ty(), cast<VectorType>(signs->getType())));
    return known = b.CreateBitCast(b.CreateICmpSLT(signs, Constant::getNullValue(signs->getType())),
                                   type);
  }

  /// The position in a block at which code can use a value that reaches it.
  static IRBuilder<> in(BasicBlock& where, Value* of) {
    auto* inst = dyn_cast<Instruction>(of);
    if (inst && inst->getParent() == &where) return builder_after(*inst);
    return IRBuilder<>{&where, where.getFirstInsertionPt()};
  }

  Value* narrow(BasicBlock& where, Value* signs) {
    Value*& known = narrow_[{&where, signs}];
    if (!known)
      known = in(where, signs).CreateICmpSLT(signs, Constant::getNullValue(signs->getType()));
    return known;
  }

  Function& block_;
  const DataLayout& layout_;
  const MaskForm form_;
  DenseMap<const Value*, unsigned> width_;
  DenseMap<const Value*, WeakTrackingVH> wide_;  // may be a cast that is replaced later
  SmallVector<Instruction*> dead_;
  DenseMap<std::pair<BasicBlock*, Value*>, Value*> narrow_, bits_;
};

}  // namespace

std::optional<MaskForm> MaskForm::of(const TargetMachine* target) {
  if (!target) return {};
  if (target->getTargetTriple().isAArch64()) return MaskForm{};
  const VectorTarget can = VectorTarget::of(target);
  if (!can.masks || can.wide_masks) return {};
  return MaskForm{.has_sign_bits = true, .most_lanes = can.lanes};
}

unsigned widen_masks(Function& block, const std::optional<MaskForm>& form) {
  return form ? Widener{block, *form}.run() : 0;
}

}  // namespace cucpu::simt
