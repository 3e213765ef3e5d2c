// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/canonicalize.cpp
#include "cpu/engine/nan/canonicalize.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace cucpu {

using namespace llvm;

namespace {

/// Whether this instruction produces NaNs, rather than forwarding bits. f64 arithmetic does not
/// count: a GPU propagates f64 NaNs as IEEE hosts do, and so do conversions from f64.
bool is_arithmetic(const Value* v) {
  const auto* i = dyn_cast<Instruction>(v);
  if (i == nullptr || !i->getType()->isFloatingPointTy() || i->getType()->isDoubleTy())
    return false;
  switch (i->getOpcode()) {
    case Instruction::FAdd:
    case Instruction::FSub:
    case Instruction::FMul:
    case Instruction::FDiv:
    case Instruction::FPExt:
      return true;
    case Instruction::FPTrunc:
      return !i->getOperand(0)->getType()->isDoubleTy();
    case Instruction::FNeg:
      return true;
    case Instruction::BitCast:
      return i->hasMetadata("cucpu.made");
    case Instruction::Call:
      return isa<IntrinsicInst>(i);
    default:
      return false;
  }
}

/// The shuffle between lanes that `v` is, which copies bits; else null.
const CallInst* shuffle(const Value* v) {
  const auto* call = dyn_cast<CallInst>(v);
  const Function* callee = call ? call->getCalledFunction() : nullptr;
  return callee && callee->getName().starts_with("cucpu.shfl.") ? call : nullptr;
}

/// The shuffle of which v is the result.
const CallInst* shuffle_of(const Value* v) {
  const auto* result = dyn_cast<ExtractValueInst>(v);
  return result && result->getIndices()[0] == 0 ? shuffle(result->getAggregateOperand()) : nullptr;
}

/// x of `bitcast x`, if it has the type; else null.
Value* number_of(Value* bits, const Type* type) {
  auto* found = dyn_cast<BitCastInst>(bits);
  return found && found->getSrcTy() == type ? found->getOperand(0) : nullptr;
}

enum class Origin { arithmetic, other, mixed };

/// What contributes to a value.
struct Sources {
  SmallPtrSet<Value*, 16> seen;
  SmallVector<Instruction*, 8> producers;  ///< arithmetic
  bool has_shuffles = false;
};

/// Where the bits of v come from, through phis, selects and shuffles.
Origin origin_of(Value* v, Sources& sources) {
  if (!sources.seen.insert(v).second) return Origin::other;
  if (is_arithmetic(v)) {
    sources.producers.push_back(cast<Instruction>(v));
    return Origin::arithmetic;
  }
  SmallVector<Value*, 4> inputs;
  if (auto* phi = dyn_cast<PHINode>(v)) {
    inputs.append(phi->incoming_values().begin(), phi->incoming_values().end());
  } else if (auto* s = dyn_cast<SelectInst>(v)) {
    inputs.append({s->getTrueValue(), s->getFalseValue()});
  } else if (auto* c = dyn_cast<BitCastInst>(v)) {
    Value* bits = c->getOperand(0);
    while (const CallInst* moved = shuffle_of(bits)) {
      bits = moved->getArgOperand(0);
      sources.has_shuffles = true;
    }
    Value* number = number_of(bits, c->getType());
    if (number == nullptr) return Origin::mixed;
    inputs.push_back(number);
  } else if (auto* c = dyn_cast<ConstantFP>(v)) {
    return c->isNaN() ? Origin::mixed : Origin::other;
  } else if (isa<UndefValue, SIToFPInst, UIToFPInst>(v)) {
    return Origin::other;  // never a NaN
  } else {
    return Origin::mixed;  // a load, an argument, bits of an integer: must not change
  }
  Origin all = Origin::other;
  for (Value* in : inputs) {
    const Origin one = origin_of(in, sources);
    if (one == Origin::mixed) all = Origin::mixed;
    if (one == Origin::arithmetic && all == Origin::other) all = Origin::arithmetic;
  }
  return all;
}

class NanFixer {
 public:
  /// The canonical form of v for a use before `at`.
  void fix(Instruction* at, unsigned operand) {
    Value* v = at->getOperand(operand);
    if (!v->getType()->isFloatingPointTy()) return;
    Sources sources;
    const Origin origin = origin_of(v, sources);
    if (sources.producers.empty()) return;
    if (origin == Origin::arithmetic) {
      if (Value*& known = at_use_[v]; known == nullptr || isa<PHINode>(v) || isa<SelectInst>(v)) {
        if (is_arithmetic(v)) {
          known = canonical(cast<Instruction>(v));
          at->setOperand(operand, known);
        } else {
          IRBuilder<> b{at};
          at->setOperand(operand, select_canonical(b, v));
        }
      } else {
        at->setOperand(operand, known);
      }
      return;
    }
    if (!sources.has_shuffles) {
      IRBuilder<> b{at};
      at->setOperand(operand, select_canonical(b, v, is_from_arithmetic(v)));
      return;
    }
    // Mixed with bits that must stay, of other threads: canonicalize the arithmetic results at
    // their definitions, for all their uses.
    for (Instruction* m : sources.producers) {
      if (!replaced_.insert(m).second) continue;
      Value* c = canonical(m);
      at_use_[m] = c;
      m->replaceUsesWithIf(
          c, [&](Use& use) { return !own_.contains(cast<Instruction>(use.getUser())); });
    }
  }

 private:
  Value* canonical(Instruction* v) {
    auto at = v->getInsertionPointAfterDef();
    IRBuilder<> b{(*at)->getParent(), *at};
    return select_canonical(b, v);
  }

  /// Whether the bits of v come from arithmetic, not from memory: a value that is known wherever v
  /// is. A sum that starts with an element of an array is canonicalized after its loop like that.
  Value* is_from_arithmetic(Value* v) {
    LLVMContext& context = v->getContext();
    if (is_arithmetic(v)) return ConstantInt::getTrue(context);
    if (auto* bits = dyn_cast<BitCastInst>(v))
      if (Value* number = number_of(bits->getOperand(0), bits->getType()))
        return is_from_arithmetic(number);
    if (!isa<PHINode, SelectInst>(v)) return ConstantInt::getFalse(context);
    if (Value* known = from_arithmetic_.lookup(v)) return known;
    if (auto* select = dyn_cast<SelectInst>(v)) {
      Value *yes = is_from_arithmetic(select->getTrueValue()),
            *no = is_from_arithmetic(select->getFalseValue());
      IRBuilder<> b{select};
      return from_arithmetic_[v] = b.CreateSelect(select->getCondition(), yes, no);
    }
    auto* phi = cast<PHINode>(v);
    PHINode* from = PHINode::Create(Type::getInt1Ty(context), phi->getNumIncomingValues(), "",
                                    phi->getIterator());
    from_arithmetic_[v] = from;
    for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i)
      from->addIncoming(is_from_arithmetic(phi->getIncomingValue(i)), phi->getIncomingBlock(i));
    return from;
  }

  // A select between integers: LLVM may treat all NaNs of a float select as equal.
  Value* select_canonical(IRBuilder<>& b, Value* v, Value* condition = nullptr) {
    const unsigned bits = static_cast<unsigned>(v->getType()->getPrimitiveSizeInBits());
    const std::uint64_t nan = bits == 16 ? 0x7fff : 0x7fffffff;
    Value* is_nan = b.CreateFCmpUNO(v, v);
    Value* test = condition ? b.CreateAnd(is_nan, condition) : is_nan;
    Value* raw = b.CreateBitCast(v, b.getIntNTy(bits));
    Value* chosen = b.CreateSelect(test, b.getIntN(bits, nan), raw);
    Value* back = b.CreateBitCast(chosen, v->getType());
    for (Value* made : {is_nan, test, raw, chosen, back}) {
      if (auto* i = dyn_cast<Instruction>(made)) own_.insert(i);
    }
    return back;
  }

  DenseMap<Value*, Value*> at_use_;
  DenseMap<Value*, Value*> from_arithmetic_;
  SmallPtrSet<Instruction*, 32> own_, replaced_;
};

/// Whether the bits of a float are only converted back to a float: they need not be canonical
/// before the bits of that float are observed.
bool only_read_as_float(const Value* bits, const Type* type) {
  return all_of(bits->uses(), [&](const Use& use) {
    if (const auto* back = dyn_cast<BitCastInst>(use.getUser())) return back->getDestTy() == type;
    const CallInst* moved = shuffle(use.getUser());
    return moved && use.getOperandNo() == 0 && all_of(moved->users(), [&](const User* result) {
             return isa<ExtractValueInst>(result) &&
                    (shuffle_of(result) != moved || only_read_as_float(result, type));
           });
  });
}

}  // namespace

void canonicalize_nans(Function& f) {
  SmallVector<std::pair<Instruction*, unsigned>, 32> seen;
  for (Instruction& i : instructions(f)) {
    if (isa<StoreInst>(i)) {
      seen.push_back({&i, 0});
    } else if (auto* c = dyn_cast<BitCastInst>(&i)) {
      if (c->getSrcTy()->isFloatingPointTy() && !c->hasMetadata("cucpu.raw") &&
          !only_read_as_float(c, c->getSrcTy()))
        seen.push_back({&i, 0});
    } else if (auto* call = dyn_cast<CallInst>(&i); call != nullptr && !isa<IntrinsicInst>(call)) {
      for (unsigned k = 0; k < call->arg_size(); ++k) seen.push_back({&i, k});
    } else if (isa<AtomicRMWInst>(i)) {
      seen.push_back({&i, 1});
    } else if (isa<FPExtInst>(i) && i.hasMetadata("cucpu.seen")) {
      seen.push_back({&i, 0});
    }
  }
  NanFixer fixer;
  for (const auto& [i, k] : seen) fixer.fix(i, k);
}

}  // namespace cucpu
