// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/instrument.cpp
#include "cpu/engine/jit/instrument.hpp"

#include <llvm/ADT/SetVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/jit/routine_call.hpp"
#include "cpu/engine/jit/underlying_values.hpp"

namespace cucpu {
namespace {

using namespace llvm;
using namespace check;

bool is_parameter(const Value* value) {
  const auto* load = dyn_cast<LoadInst>(value);
  if (!load || !load->getType()->isIntegerTy(64)) return false;
  const Value* base = load->getPointerOperand();
  while (const auto* gep = dyn_cast<GEPOperator>(base)) base = gep->getPointerOperand();
  const auto* call = dyn_cast<CallInst>(base);
  return call && call->getCalledFunction() &&
         call->getCalledFunction()->getName() == "cucpu.params";
}

/// The only 64-bit parameter that an address derives from; null for none or several candidates.
Value* root_of(Value* address) {
  SmallSetVector<Value*, 4> roots;
  const bool known = visit_underlying_values(address, [&](Value* value) {
    // A pointer that is selected from a parameter and a variable has two roots.
    if (isa<GlobalVariable, AllocaInst>(value)) return Visit::stop;
    if (!is_parameter(value)) return Visit::descend;
    roots.insert(value);
    return Visit::skip;
  });
  return known && roots.size() == 1 ? roots[0] : nullptr;
}

class Instrumenter {
 public:
  explicit Instrumenter(Module& module) : module_{module}, b_{module.getContext()} {}

  void run() {
    SmallVector<Instruction*, 64> all;
    for (Function& function : module_)
      for (Instruction& i : instructions(function)) all.push_back(&i);
    for (Instruction* i : all) {
      b_.SetInsertPoint(i);
      if (isa<FenceInst>(i)) {
        routine("cucpu_rt_check_fence", {});
      } else if (auto* call = dyn_cast<CallInst>(i)) {
        visit_call(*call);
      } else {
        visit_access(*i);
      }
    }
  }

 private:
  Value* i64(std::uint64_t n) { return b_.getInt64(n); }

  void routine(const char* name, ArrayRef<Value*> arguments) {
    call_routine(module_, b_, name, arguments);
  }

  void check(Value* pointer, Value* bytes, unsigned flags, Value* value = nullptr) {
    Value* root = (flags & (kSharedSpace | kLocalSpace)) != 0 ? nullptr : root_of(pointer);
    Value* address =
        pointer->getType()->isPointerTy() ? b_.CreatePtrToInt(pointer, b_.getInt64Ty()) : pointer;
    routine("cucpu_rt_check",
            {address, bytes, b_.getInt32(flags), value ? value : i64(0), root ? root : i64(0)});
  }

  static unsigned order_flags(AtomicOrdering order) {
    unsigned flags = kStrong;
    if (isReleaseOrStronger(order)) flags |= kRelease;
    if (isAcquireOrStronger(order)) flags |= kAcquire;
    return flags;
  }

  void visit_access(Instruction& i) {
    const MDNode* node = i.getMetadata("cucpu.space");
    if (!node) return;
    const StringRef space = cast<MDString>(node->getOperand(0))->getString();
    if (space == "param" || space == "const") return;
    unsigned flags = 0;
    if (space == "shared") flags = kSharedSpace;
    if (space == "local") flags = kLocalSpace;
    if (space == "global") flags = kGlobalSpace;
    const DataLayout& layout = module_.getDataLayout();
    Value *pointer = nullptr, *value = nullptr;
    Type* type = nullptr;
    if (auto* load = dyn_cast<LoadInst>(&i)) {
      pointer = load->getPointerOperand(), type = load->getType();
      flags |= kRead | (load->isAtomic()     ? order_flags(load->getOrdering())
                        : load->isVolatile() ? unsigned{kStrong}
                                             : 0U);
    } else if (auto* store = dyn_cast<StoreInst>(&i)) {
      pointer = store->getPointerOperand(), type = store->getValueOperand()->getType();
      flags |= kWrite | (store->isAtomic()     ? order_flags(store->getOrdering())
                         : store->isVolatile() ? unsigned{kStrong}
                                               : 0U);
      const unsigned bits = static_cast<unsigned>(type->getPrimitiveSizeInBits());
      if (bits >= 8 && bits <= 64 && !type->isVectorTy()) {
        value = b_.CreateZExt(b_.CreateBitCast(store->getValueOperand(), b_.getIntNTy(bits)),
                              b_.getInt64Ty());
        flags |= kHasValue;
      }
    } else if (auto* rmw = dyn_cast<AtomicRMWInst>(&i)) {
      pointer = rmw->getPointerOperand(), type = rmw->getType();
      flags |= kRead | kWrite | order_flags(rmw->getOrdering());
    } else if (auto* cas = dyn_cast<AtomicCmpXchgInst>(&i)) {
      pointer = cas->getPointerOperand(), type = cas->getCompareOperand()->getType();
      flags |= kRead | kWrite | order_flags(cas->getSuccessOrdering());
    }
    if (!pointer) return;
    check(pointer, b_.getInt32(static_cast<std::uint32_t>(layout.getTypeStoreSize(type))), flags,
          value);
  }

  void visit_call(CallInst& call) {
    const Function* callee = call.getCalledFunction();
    if (!callee) return;
    StringRef name = callee->getName();
    if (name == "cucpu.warp.stmatrix") {
      b_.SetInsertPoint(call.getNextNode());
      return routine("cucpu_rt_check_writes", {i64(0), i64(0)});
    }
    if (!name.consume_front("cucpu_rt_")) return;
    const auto argument = [&](unsigned n) { return call.getArgOperand(n); };
    if (name == "copy_fill") {  // to, from, bytes of the destination, bytes of the source
      check(argument(1), argument(3), kRead);
      check(argument(0), argument(2), kWrite);
    } else if (name.starts_with("mbarrier_")) {
      Value* address = argument(0);
      if (address->getType()->isPointerTy()) address = b_.CreatePtrToInt(address, b_.getInt64Ty());
      if (address->getType()->isIntegerTy(64)) {
        routine("cucpu_rt_check_sync", {address});
        routine("cucpu_rt_check_writes", {address, i64(8)});
        b_.SetInsertPoint(call.getNextNode());
        routine("cucpu_rt_check_sync", {address});
      }
    } else if (name.starts_with("atom_")) {
      const unsigned bytes =
          static_cast<unsigned>(module_.getDataLayout().getTypeStoreSize(call.getType()));
      check(argument(0), b_.getInt32(bytes), kRead | kWrite | kStrong);
    }
  }

  Module& module_;
  IRBuilder<> b_;
};

}  // namespace

void instrument_locals(Module& module) {
  LLVMContext& context = module.getContext();
  Type* const word = Type::getInt64Ty(context);
  for (Function& function : module) {
    SmallVector<AllocaInst*, 8> locals;
    for (Instruction& i : instructions(function))
      if (auto* local = dyn_cast<AllocaInst>(&i); local && local->getMetadata("cucpu.local"))
        locals.push_back(local);
    for (AllocaInst* local : locals) {
      const auto size = local->getAllocationSize(module.getDataLayout());
      if (!size) continue;
      IRBuilder<> b{local->getNextNode()};
      FunctionCallee callee =
          module.getOrInsertFunction("cucpu_rt_check_local", Type::getVoidTy(context), word, word);
      b.CreateCall(callee, {b.CreatePtrToInt(local, word), b.getInt64(size->getFixedValue())});
    }
  }
}

void instrument(Module& module) { Instrumenter{module}.run(); }

}  // namespace cucpu
