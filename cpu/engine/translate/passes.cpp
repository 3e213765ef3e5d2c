// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/passes.cpp: registers to SSA, redundant flushes, addresses as getelementptr.
#include "cpu/engine/translate/passes.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

namespace cucpu::ir {

using namespace llvm;

void promote_registers(Function& f) {
  std::vector<AllocaInst*> slots;
  for (llvm::Instruction& i : f.getEntryBlock()) {
    if (auto* a = dyn_cast<AllocaInst>(&i);
        a != nullptr && isAllocaPromotable(a) && !a->hasMetadata(kVariable))
      slots.push_back(a);
  }
  DominatorTree tree{f};
  PromoteMemToReg(slots, tree);
}

void lower_rounded_down_fma(Function& f) {
  SmallVector<CallInst*> calls;
  for (llvm::Instruction& i : instructions(f))
    if (auto* call = dyn_cast<CallInst>(&i);
        call && call->getCalledFunction() &&
        call->getCalledFunction()->getName() == "cucpu.fma.down")
      calls.push_back(call);
  const auto number = [](Value* v) {
    auto* c = dyn_cast<ConstantFP>(v);
    return c ? static_cast<double>(c->getValueAPF().convertToFloat()) : -1.0;
  };
  for (CallInst* call : calls) {
    Value *x = call->getArgOperand(0), *r = call->getArgOperand(3);
    double y = number(call->getArgOperand(1)), z = number(call->getArgOperand(2));
    auto* from = dyn_cast<llvm::Instruction>(x);
    bool fits = from && from->hasMetadata("cucpu.saturated") && y >= 0 && y <= 0x1p22 &&
                z >= 0x1p23 && z + y < 0x1p24;
    if (fits) {
      IRBuilder<> b{call};
      llvm::Type* t = x->getType();
      Value *cy = ConstantFP::get(t, y), *cz = ConstantFP::get(t, z);
      Value* nearest = b.CreateIntrinsic(Intrinsic::fma, {t}, {x, cy, cz});
      Value* rest = b.CreateIntrinsic(Intrinsic::fma, {t}, {x, cy, b.CreateFSub(cz, nearest)});
      Value* above = b.CreateSExt(b.CreateFCmpOLT(rest, ConstantFP::get(t, 0.0)), b.getInt32Ty());
      auto* bits = cast<llvm::Instruction>(b.CreateBitCast(nearest, b.getInt32Ty()));
      bits->setMetadata("cucpu.raw", MDNode::get(f.getContext(), {}));
      auto* made = cast<llvm::Instruction>(b.CreateBitCast(b.CreateAdd(bits, above), t));
      made->setMetadata("cucpu.made", MDNode::get(f.getContext(), {}));
      r = made;
    }
    call->replaceAllUsesWith(r);
    call->eraseFromParent();
  }
}

namespace {

/// The values that v forwards, except for its sign; returns false if nothing is known of v. Adds
/// nothing if v is never subnormal by itself.
bool flushed_parts(Value* v, SmallVectorImpl<Value*>& parts) {
  if (auto* c = dyn_cast<ConstantFP>(v)) return !c->getValueAPF().isDenormal();
  auto* i = dyn_cast<llvm::Instruction>(v);
  if (i == nullptr) return false;
  if (i->hasMetadata(kFlush) || i->hasMetadata(kFlushed)) return true;
  const auto from = [&](std::initializer_list<unsigned> operands) {
    for (unsigned k : operands) parts.push_back(i->getOperand(k));
    return true;
  };
  switch (i->getOpcode()) {
    case llvm::Instruction::SIToFP:
    case llvm::Instruction::UIToFP:
      return i->getType()->isFloatTy();
    case llvm::Instruction::FPExt:  // a subnormal half is a normal float
      return i->getOperand(0)->getType()->isHalfTy();
    case llvm::Instruction::FNeg:
      return from({0});
    case llvm::Instruction::Select:
      return from({1, 2});
    case llvm::Instruction::PHI:
      parts.append(i->op_begin(), i->op_end());
      return true;
    case llvm::Instruction::BitCast: {
      auto* back = dyn_cast<BitCastInst>(i->getOperand(0));
      if (back == nullptr || back->getSrcTy() != i->getType()) return false;
      parts.push_back(back->getOperand(0));
      return true;
    }
    case llvm::Instruction::Call:
      break;
    default:
      return false;
  }
  auto* call = dyn_cast<IntrinsicInst>(i);
  if (call == nullptr) return false;
  switch (call->getIntrinsicID()) {
    case Intrinsic::sqrt:
    case Intrinsic::rint:
    case Intrinsic::trunc:
    case Intrinsic::floor:
    case Intrinsic::ceil:
      return true;
    case Intrinsic::fabs:
    case Intrinsic::copysign:
      return from({0});
    case Intrinsic::minnum:
    case Intrinsic::maxnum:
      return from({0, 1});
    default:
      return false;
  }
}

bool is_flushed(Value* v) {
  constexpr unsigned kMost = 64;  // limit of values visited
  SmallPtrSet<Value*, 16> seen{v};
  SmallVector<Value*, 16> open{v};
  while (!open.empty()) {
    SmallVector<Value*, 4> parts;
    if (!flushed_parts(open.pop_back_val(), parts)) return false;
    for (Value* part : parts)
      if (seen.insert(part).second) open.push_back(part);
    if (seen.size() > kMost) return false;
  }
  return true;
}

}  // namespace

void drop_redundant_flushes(Function& f) {
  SmallVector<SelectInst*> flushes;
  for (llvm::Instruction& i : instructions(f))
    if (i.hasMetadata(kFlush)) flushes.push_back(cast<SelectInst>(&i));
  for (SelectInst* flush : flushes)
    if (Value* v = flush->getFalseValue(); is_flushed(v)) flush->replaceAllUsesWith(v);
}

namespace {

/// The variable that an address derives from: an alloca, a global, or the call of cucpu.shared or
/// cucpu.params.
class Roots {
 public:
  Value* root_of(Value* v, int depth = 0) {
    if (const auto known = roots_.find(v); known != roots_.end()) return known->second;
    if (depth > 64) return nullptr;
    roots_[v] = nullptr;  // a cycle of phis is decided by its other inputs
    Value* r = nullptr;
    if (auto* p = dyn_cast<PtrToIntOperator>(v)) {
      r = underlying(p->getPointerOperand());
    } else if (isa<TruncInst>(v) || (isa<ZExtInst>(v) && v->getType()->isIntegerTy(64))) {
      // A 32-bit address of a local, constant or parameter variable: the register holds only the
      // lower half of the host address.
      Value* from = cast<llvm::Instruction>(v)->getOperand(0);
      if (isa<TruncInst>(v) ? v->getType()->isIntegerTy(32) : from->getType()->isIntegerTy(32))
        r = root_of(from, depth + 1);
    } else if (auto* op = dyn_cast<BinaryOperator>(v)) {
      Value *x = root_of(op->getOperand(0), depth + 1), *y = root_of(op->getOperand(1), depth + 1);
      if (op->getOpcode() == llvm::Instruction::Add && (x == nullptr) != (y == nullptr))
        r = x != nullptr ? x : y;
      if (op->getOpcode() == llvm::Instruction::Sub && y == nullptr) r = x;
    } else if (auto* phi = dyn_cast<PHINode>(v)) {
      for (Value* in : phi->incoming_values()) {
        Value* one = root_of(in, depth + 1);
        if (one == nullptr && !isa<PHINode>(in) && !depends_on(in, phi, 0)) {
          r = nullptr;
          break;
        }
        if (one != nullptr && r != nullptr && one != r) {
          r = nullptr;
          break;
        }
        if (one != nullptr) r = one;
      }
      if (r != nullptr && !all_agree(phi, r)) r = nullptr;
    }
    roots_[v] = r;
    return r;
  }

  /// v - root as an integer of the type of v, computed at v.
  Value* offset_of(Value* v, Value* root) {
    if (const auto known = offsets_.find(v); known != offsets_.end()) return known->second;
    Value* o = nullptr;
    if (auto* p = dyn_cast<PtrToIntOperator>(v)) {
      o = pointer_offset(p, root);
    } else if (auto* resized = dyn_cast<CastInst>(v)) {  // distances are signed
      o = IRBuilder<>{resized}.CreateSExtOrTrunc(offset_of(resized->getOperand(0), root),
                                                 v->getType());
    } else if (auto* phi = dyn_cast<PHINode>(v)) {
      auto* fresh =
          PHINode::Create(phi->getType(), phi->getNumIncomingValues(), "", phi->getIterator());
      offsets_[v] = fresh;
      for (unsigned k = 0; k < phi->getNumIncomingValues(); ++k) {
        fresh->addIncoming(offset_of(phi->getIncomingValue(k), root), phi->getIncomingBlock(k));
      }
      return fresh;
    } else {
      auto* op = cast<BinaryOperator>(v);
      IRBuilder<> b{op};
      const bool left = rooted(op->getOperand(0), root);
      Value* x = left ? offset_of(op->getOperand(0), root) : op->getOperand(0);
      Value* y = left ? op->getOperand(1) : offset_of(op->getOperand(1), root);
      o = b.CreateBinOp(op->getOpcode(), x, y);
    }
    offsets_[v] = o;
    return o;
  }

 private:
  static Value* underlying(Value* p) {
    while (auto* gep = dyn_cast<GEPOperator>(p)) p = gep->getPointerOperand();
    if (isa<AllocaInst>(p) || isa<GlobalVariable>(p)) return p;
    if (auto* call = dyn_cast<CallInst>(p);
        call != nullptr && call->getCalledFunction() != nullptr &&
        call->getCalledFunction()->getName().starts_with("cucpu.")) {
      return p;
    }
    return nullptr;
  }

  static Value* pointer_offset(PtrToIntOperator* p, Value* root) {
    // Every gep here is an i8 gep with one index (offset_pointer and pointer() make no others).
    Value* ptr = p->getPointerOperand();
    Value* sum = nullptr;
    auto* at = dyn_cast<llvm::Instruction>(p);
    while (ptr != root) {
      auto* gep = cast<GEPOperator>(ptr);
      Value* index = gep->getOperand(1);
      if (sum == nullptr) {
        sum = index;
      } else if (auto* c = dyn_cast<ConstantInt>(sum), *d = dyn_cast<ConstantInt>(index);
                 c != nullptr && d != nullptr) {
        sum = ConstantInt::get(c->getType(), c->getValue() + d->getValue());
      } else {
        sum = IRBuilder<>{at}.CreateAdd(sum, index);
      }
      ptr = gep->getPointerOperand();
    }
    if (sum == nullptr) return ConstantInt::get(p->getType(), 0);
    if (auto* c = dyn_cast<ConstantInt>(sum))
      return ConstantInt::get(p->getType(),
                              c->getValue().sextOrTrunc(p->getType()->getIntegerBitWidth()));
    return IRBuilder<>{at}.CreateSExtOrTrunc(sum, p->getType());
  }

  bool rooted(Value* v, Value* root) { return root_of(v) == root; }

  static bool depends_on(Value* v, PHINode* phi, int depth) {
    if (v == phi) return true;
    auto* op = dyn_cast<BinaryOperator>(v);
    if (op == nullptr || depth > 8) return false;
    return depends_on(op->getOperand(0), phi, depth + 1) ||
           depends_on(op->getOperand(1), phi, depth + 1);
  }

  /// Whether all inputs of the phi have the root `r`, assuming that the phi has it (loops: p = phi
  /// [start], [p + step]).
  bool all_agree(PHINode* phi, Value* r) {
    const auto saved = roots_;
    roots_[phi] = r;
    bool good = true;
    for (Value* in : phi->incoming_values()) {
      if (in == phi) continue;
      for (auto& [k, known] : saved) {
        if (known == nullptr && k != phi && isa<BinaryOperator, CastInst>(k)) roots_.erase(k);
      }
      if (root_of(in) != r) good = false;
    }
    if (!good) roots_ = saved;
    return good;
  }

  DenseMap<Value*, Value*> roots_, offsets_;
};

}  // namespace

void recover_geps(Function& f) {
  Roots roots;
  SmallVector<IntToPtrInst*, 32> casts;
  for (llvm::Instruction& i : instructions(f)) {
    if (auto* c = dyn_cast<IntToPtrInst>(&i)) casts.push_back(c);
  }
  for (IntToPtrInst* c : casts) {
    Value* root = roots.root_of(c->getOperand(0));
    if (root == nullptr) continue;
    Value* offset = roots.offset_of(c->getOperand(0), root);
    IRBuilder<> b{c};
    c->replaceAllUsesWith(b.CreateGEP(b.getInt8Ty(), root, offset));
    c->eraseFromParent();
  }
}

}  // namespace cucpu::ir
