// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/min_max_keys.cpp
#include "cpu/engine/nan/min_max_keys.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>

namespace cucpu {

using namespace llvm;

namespace {

constexpr std::uint32_t kNan = 0x7fffffff;  // the key of a NaN, and the NaN of a GPU

using Cluster = SmallVector<IntrinsicInst*>;

// Instructions of x86-64 with AVX2, halved.
constexpr unsigned kFloat = 10, kKey = 5, kToKey = 10, kFromKey = 6;

bool is_used_outside(const IntrinsicInst* call, const SmallPtrSetImpl<const Value*>& cluster) {
  return any_of(call->users(), [&](const User* user) { return !cluster.contains(user); });
}

bool pays(const Cluster& calls, const SmallPtrSetImpl<const Value*>& cluster) {
  SmallPtrSet<const Value*, 16> inputs;
  unsigned results = 0;
  for (const IntrinsicInst* call : calls) {
    for (const Value* operand : call->args())
      if (!cluster.contains(operand) && !isa<Constant>(operand)) inputs.insert(operand);
    if (is_used_outside(call, cluster)) ++results;
  }
  return (kFloat - kKey) * calls.size() > kToKey * inputs.size() + kFromKey * results;
}

/// The bits of a negative number with all but its sign inverted: back and forth.
Value* exchange_order(IRBuilder<>& b, Value* bits) {
  return b.CreateXor(bits, b.CreateLShr(b.CreateAShr(bits, 31), 1));
}

/// Of the calls of one basic block. Keys of other values are computed before the call that needs
/// them first, those of results where the result is.
class Keys {
 public:
  void lower(IntrinsicInst* call) {
    IRBuilder<> b{call};
    results_.insert(call);
    Value *x = call->getArgOperand(0), *y = call->getArgOperand(1);
    if (call->getIntrinsicID() == Intrinsic::minnum)
      keys_[call] = b.CreateBinaryIntrinsic(Intrinsic::smin, key(b, x), key(b, y));
    else
      above_[call] = b.CreateBinaryIntrinsic(Intrinsic::smax, above(b, x), above(b, y));
  }
  /// The float of a result.
  Value* result(IntrinsicInst* call) {
    IRBuilder<> b{call};
    return b.CreateBitCast(exchange_order(b, key(b, call)), call->getType());
  }

 private:
  static Constant* number(Type* type, std::uint32_t n) { return ConstantInt::get(type, n); }

  Value* key(IRBuilder<>& b, Value* x) {
    Value*& known = keys_[x];
    if (known) return known;
    Type* type = x->getType()->getWithNewType(b.getInt32Ty());
    if (const auto found = above_.find(x); found != above_.end())  // a maximum
      return known = IRBuilder<>{cast<Instruction>(x)}.CreateSub(found->second, number(type, 1));
    Value* const ordered = exchange_order(b, b.CreateBitCast(x, type));
    return known = b.CreateSelect(b.CreateFCmpUNO(x, x), number(type, kNan), ordered);
  }
  /// The key plus one, which wraps for a NaN.
  Value* above(IRBuilder<>& b, Value* x) {
    if (const auto found = above_.find(x); found != above_.end()) return found->second;
    const bool is_minimum = keys_.contains(x) && results_.contains(x);
    Value* const k = key(b, x);
    IRBuilder<> here{is_minimum ? cast<Instruction>(x) : &*b.GetInsertPoint()};
    return above_[x] = here.CreateAdd(k, number(k->getType(), 1));
  }

  DenseMap<Value*, Value*> keys_, above_;
  SmallPtrSet<Value*, 32> results_;
};

void lower(const Cluster& calls, const SmallPtrSetImpl<const Value*>& cluster) {
  Keys keys;
  for (IntrinsicInst* call : calls) keys.lower(call);
  for (IntrinsicInst* call : calls) {
    if (!is_used_outside(call, cluster)) continue;
    Value* const result = keys.result(call);
    call->replaceUsesWithIf(result,
                            [&](const Use& use) { return !cluster.contains(use.getUser()); });
  }
  for (IntrinsicInst* call : reverse(calls)) call->eraseFromParent();
}

}  // namespace

SmallVector<IntrinsicInst*> lower_to_keys(ArrayRef<IntrinsicInst*> calls) {
  MapVector<std::pair<BasicBlock*, Type*>, Cluster> clusters;
  SmallVector<IntrinsicInst*> left;
  for (IntrinsicInst* call : calls) {
    auto* type = dyn_cast<FixedVectorType>(call->getType());
    if (type && type->getElementType()->isFloatTy())
      clusters[{call->getParent(), type}].push_back(call);
    else
      left.push_back(call);
  }
  for (const auto& [where, found] : clusters) {
    const SmallPtrSet<const Value*, 32> cluster{found.begin(), found.end()};
    if (pays(found, cluster))
      lower(found, cluster);
    else
      left.append(found);
  }
  return left;
}

}  // namespace cucpu
