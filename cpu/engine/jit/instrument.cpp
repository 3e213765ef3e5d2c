// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/instrument.cpp
#include "cpu/engine/jit/instrument.hpp"

#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/jit/routine_call.hpp"
#include "cpu/engine/jit/underlying_values.hpp"
#include "cpu/engine/run/block_context.hpp"

namespace cucpu {
namespace {

using namespace llvm;
using namespace check;

bool is_marker(const Value* value, StringRef name) {
  const auto* call = dyn_cast<CallInst>(value);
  return call && call->getCalledFunction() && call->getCalledFunction()->getName() == name;
}

bool is_parameter(const Value* value) {
  const auto* load = dyn_cast<LoadInst>(value);
  if (!load || !load->getType()->isIntegerTy(64)) return false;
  const Value* base = load->getPointerOperand();
  while (const auto* gep = dyn_cast<GEPOperator>(base)) base = gep->getPointerOperand();
  return is_marker(base, "cucpu.params");
}

/// Whether the routine for surfaces returned the address.
bool is_surface(const Value* pointer) {
  const auto* address = dyn_cast<IntToPtrInst>(getUnderlyingObject(pointer));
  return address && is_marker(address->getOperand(0), "cucpu_rt_surface");
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

/// The .shared variable that an address is computed from.
class SharedVariables {
 public:
  /// Its marker (cucpu.shared.variable); null: none or unknown.
  CallInst* of(Value* address) {
    visited_.clear();
    const Base base = find(address);
    return base.kind == Base::variable ? base.marker : nullptr;
  }

 private:
  struct Base {
    enum Kind { none, variable, unknown, cycle } kind = none;
    CallInst* marker = nullptr;
    bool operator==(const Base&) const = default;
  };

  Base sum(const Base& a, const Base& b) {
    if (a.kind == Base::cycle || a.kind == Base::none) return b.kind == Base::none ? a : b;
    if (b.kind == Base::cycle || b.kind == Base::none) return a;
    return {Base::unknown};
  }

  static Base either(const Base& a, const Base& b) {
    if (a.kind == Base::cycle) return b;
    if (b.kind == Base::cycle || a == b) return a;
    return {Base::unknown};
  }

  Base find(Value* value) {
    constexpr unsigned kMost = 64;
    if (auto* call = dyn_cast<CallInst>(value)) {
      if (is_marker(call, "cucpu.cluster.shared")) return {Base::unknown};  // of another block
      return is_marker(call, "cucpu.shared.variable") ? Base{Base::variable, call} : Base{};
    }
    auto* const op = dyn_cast<Operator>(value);
    if (!op || isa<LoadInst>(value)) return {};
    if (visited_.size() > kMost) return {Base::unknown};
    switch (op->getOpcode()) {
      case Instruction::Add:
      case Instruction::Or:
      case Instruction::GetElementPtr: {
        Base all;
        for (Value* operand : op->operands()) all = sum(all, find(operand));
        return all;
      }
      case Instruction::Sub:
        return find(op->getOperand(1)).kind == Base::none ? find(op->getOperand(0))
                                                          : Base{Base::unknown};
      case Instruction::And:
      case Instruction::ZExt:
      case Instruction::SExt:
      case Instruction::Trunc:
      case Instruction::PtrToInt:
      case Instruction::IntToPtr:
      case Instruction::Freeze:
        return find(op->getOperand(0));
      case Instruction::Select:
        return either(find(op->getOperand(1)), find(op->getOperand(2)));
      case Instruction::PHI: {
        if (!visited_.insert(value).second) return {Base::cycle};
        Base all{Base::cycle};
        for (Value* operand : op->operands()) all = either(all, find(operand));
        return all;
      }
      default:
        return {};
    }
  }

  SmallPtrSet<Value*, 16> visited_;  ///< phis
};

class Instrumenter {
 public:
  Instrumenter(Module& module, bool lanes)
      : module_{module}, b_{module.getContext()}, lanes_{lanes} {}

  void run() {
    SmallVector<Instruction*, 64> all;
    for (Function& function : module_)
      for (Instruction& i : instructions(function)) all.push_back(&i);
    for (Instruction* i : all) {
      b_.SetInsertPoint(i);
      if (isa<FenceInst>(i)) {
        if (lanes_)
          marker("cucpu.check.fence", {});
        else
          routine("cucpu_rt_check_fence", {});
      } else if (auto* call = dyn_cast<CallInst>(i)) {
        visit_call(*call);
      } else {
        visit_access(*i);
      }
    }
    if (lanes_) mark_read_only();
    for (Instruction* i : all)
      if (is_marker(i, "cucpu.shared.variable")) {
        i->replaceAllUsesWith(i->getOperand(0));
        i->eraseFromParent();
      }
  }

 private:
  Value* i64(std::uint64_t n) { return b_.getInt64(n); }

  void routine(const char* name, ArrayRef<Value*> arguments) {
    call_routine(module_, b_, name, arguments);
  }

  /// For the vectorizer, which replaces it.
  CallInst* marker(const char* name, ArrayRef<Value*> arguments) {
    SmallVector<Type*, 8> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    FunctionCallee callee =
        module_.getOrInsertFunction(name, FunctionType::get(b_.getVoidTy(), types, false));
    auto* const function = cast<Function>(callee.getCallee());
    function->setDoesNotThrow();
    function->setOnlyAccessesInaccessibleMemory();
    return b_.CreateCall(callee, arguments);
  }

  static std::uint64_t offset_of(const DataLayout& layout, Value* parameter) {
    APInt offset{64, 0};
    cast<LoadInst>(parameter)->getPointerOperand()->stripAndAccumulateConstantOffsets(layout,
                                                                                      offset, true);
    return offset.getZExtValue();
  }

  /// Whether only instrumented accesses write memory: all other calls are markers, which access
  /// shared memory at most.
  [[nodiscard]] bool knows_all_writes() const {
    for (const Function& function : module_)
      for (const Instruction& i : instructions(function)) {
        if (const auto* store = dyn_cast<StoreInst>(&i); store && !i.getMetadata("cucpu.space")) {
          if (!isa<AllocaInst>(getUnderlyingObject(store->getPointerOperand()))) return false;
        }
        const auto* call = dyn_cast<CallBase>(&i);
        if (!call || isa<IntrinsicInst>(call)) continue;
        const Function* callee = call->getCalledFunction();
        if (!callee) return false;
        const StringRef name = callee->getName();
        if (!name.starts_with("cucpu.") && !name.starts_with("cucpu_rt_atom_") &&
            !callee->onlyReadsMemory())
          return false;
      }
    return true;
  }

  /// Marks reads through a parameter that the kernel writes nothing through.
  void mark_read_only() {
    namespace written = written_parameters;
    if (writes_elsewhere_ || written_.size() > written::kMost || !knows_all_writes()) return;
    std::uint64_t list = 0;
    for (const std::uint64_t offset : written_) {
      if (offset >= written::kMask) return;
      list = list << written::kBits | (offset + 1);
    }
    for (const auto& [access, offset] : reads_) {
      if (written_.contains(offset)) continue;
      access->setArgOperand(
          2, b_.getInt32(static_cast<std::uint32_t>(
                 cast<ConstantInt>(access->getArgOperand(2))->getZExtValue() | kReadOnly)));
      access->setArgOperand(9, i64(list));
    }
  }

  /// The CheckRange that an access compares with: that of the shared memory, of its root parameter,
  /// or of the access.
  std::uint32_t range_of(Value* pointer, Value* root, unsigned flags) {
    constexpr std::uint32_t kRoots = kCheckRanges / 4 * 3;
    if ((flags & kSharedSpace) != 0 || is_marker(getUnderlyingObject(pointer), "cucpu.shared"))
      return 0;
    if (root) {
      const std::uint64_t offset = offset_of(module_.getDataLayout(), root);
      const auto found = roots_.try_emplace(offset, roots_.size() + 1).first->second;
      return found < kRoots ? found : kCheckRanges;  // no range: the routine checks every access
    }
    return kRoots + sites_ % (kCheckRanges - kRoots);
  }

  void check(Value* pointer, Value* bytes, unsigned flags, Value* value = nullptr) {
    Value* root = (flags & (kSharedSpace | kLocalSpace | kImage)) != 0 ? nullptr : root_of(pointer);
    Value* address =
        pointer->getType()->isPointerTy() ? b_.CreatePtrToInt(pointer, b_.getInt64Ty()) : pointer;
    CallInst* const variable =
        (flags & (kLocalSpace | kGlobalSpace)) != 0 ? nullptr : SharedVariables{}.of(pointer);
    if (lanes_) {
      if ((flags & kLocalSpace) != 0) return;  // see find_unsupported_by_lane_checks()
      const std::uint32_t range = range_of(pointer, root, flags);
      CallInst* const access = marker(
          "cucpu.check.access", {address, bytes, b_.getInt32(flags), value ? value : i64(0),
                                 root ? root : i64(0), b_.getInt32(sites_++), b_.getInt32(range),
                                 variable ? variable->getArgOperand(1) : i64(0),
                                 variable ? variable->getArgOperand(2) : i64(0), i64(0)});
      const std::uint64_t parameter = root ? offset_of(module_.getDataLayout(), root) : 0;
      if ((flags & kWrite) != 0 && root)
        written_.insert(parameter);
      else if ((flags & kWrite) != 0)
        writes_elsewhere_ |= range != 0;
      else if (root && (flags & kStrong) == 0)
        reads_.emplace_back(access, parameter);
      return;
    }
    if (variable)
      routine("cucpu_rt_check_variable", {address, bytes, b_.getInt32(flags),
                                          variable->getArgOperand(1), variable->getArgOperand(2)});
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
    if (is_surface(pointer)) flags |= kImage;
    check(pointer, b_.getInt32(static_cast<std::uint32_t>(layout.getTypeStoreSize(type))), flags,
          value);
  }

  /// ldmatrix, stmatrix: the first lanes, eight for each matrix, give the addresses of rows of 16
  /// bytes.
  void visit_matrix(CallInst& call, unsigned flags) {
    FunctionCallee lane = module_.getOrInsertFunction("cucpu.sreg.laneid", b_.getInt32Ty());
    Value *const count = call.getArgOperand(0), *const address = call.getArgOperand(2);
    Value* rows = b_.CreateMul(count, b_.getInt32(8));
    Value* bytes = b_.CreateSelect(b_.CreateICmpULT(b_.CreateCall(lane), rows), b_.getInt32(16),
                                   b_.getInt32(0));
    check(address, bytes, flags);
  }

  void visit_call(CallInst& call) {
    const Function* callee = call.getCalledFunction();
    if (!callee) return;
    StringRef name = callee->getName();
    if (name.starts_with("cucpu.warp.ldmatrix.")) return visit_matrix(call, kRead);
    if (name.starts_with("cucpu.warp.stmatrix.")) return visit_matrix(call, kWrite);
    if (!name.consume_front("cucpu_rt_")) return;
    const auto argument = [&](unsigned n) { return call.getArgOperand(n); };
    if (name == "copy_fill") {  // to, from, bytes of the destination, bytes of the source
      check(argument(1), argument(3), kRead);
      check(argument(0), argument(2), kWrite);
    } else if (name == "reduce_copy") {  // to, from, bytes
      check(argument(1), argument(2), kRead);
      check(argument(0), argument(2), kRead | kWrite | kStrong);
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
  bool lanes_;
  std::uint32_t sites_ = 0;                       ///< accesses so far
  std::map<std::uint64_t, std::uint32_t> roots_;  ///< ranges by the offset of a parameter
  // Vector code.
  std::vector<std::pair<CallInst*, std::uint64_t>> reads_;  ///< with the offset of the parameter
  std::set<std::uint64_t> written_;  ///< offsets of parameters that memory is written through
  bool writes_elsewhere_ = false;    ///< to memory that may be device memory
};

}  // namespace

std::string find_unsupported_by_lane_checks(Module& module, unsigned kinds) {
  for (Function& function : module)
    for (Instruction& i : instructions(function)) {
      if ((kinds & (kMemory | kInit)) != 0 && isa<AllocaInst>(i) && i.getMetadata("cucpu.local"))
        return "check mode: local memory";
      const auto* call = dyn_cast<CallInst>(&i);
      const Function* callee = call ? call->getCalledFunction() : nullptr;
      if (!callee) continue;
      StringRef name = callee->getName();
      if (!name.consume_front("cucpu_rt_")) continue;
      for (StringRef one :
           {"check_copy", "copy_", "mbarrier_", "reduce_copy", "tensor_", "multimem_"})
        if (name.starts_with(one)) return "check mode: " + callee->getName().str();
    }
  return {};
}

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

void instrument(Module& module, bool lanes) { Instrumenter{module, lanes}.run(); }

}  // namespace cucpu
