// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/peer_access.cpp
#include "cpu/engine/jit/peer_access.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>

#include "cpu/engine/jit/underlying_values.hpp"

namespace cucpu {
namespace {

using namespace llvm;

bool is_marker(const Value* value, StringRef name) {
  const auto* call = dyn_cast<CallInst>(value);
  return call && call->getCalledFunction() && call->getCalledFunction()->getName() == name;
}

/// The offset of the parameter that `value` is, if it can hold an address.
std::optional<std::uint32_t> parameter(const Value* value, const DataLayout& layout) {
  const auto* load = dyn_cast<LoadInst>(value);
  if (!load || !load->getType()->isIntegerTy(64)) return std::nullopt;
  APInt offset{64, 0};
  const Value* base =
      load->getPointerOperand()->stripAndAccumulateConstantOffsets(layout, offset, true);
  if (!is_marker(base, "cucpu.params") || offset.getActiveBits() > 32) return std::nullopt;
  return static_cast<std::uint32_t>(offset.getZExtValue());
}

enum class Root { unknown, own, parameter };

/// The origin of an address: one parameter, memory of the kernel itself (variables, shared and
/// local memory), or anything else.
Root root_of(Value* address, const DataLayout& layout, std::uint32_t& offset) {
  SmallSetVector<Value*, 4> roots;
  bool own = false;
  const bool known = visit_underlying_values(address, [&](Value* value) {
    if (parameter(value, layout)) {
      roots.insert(value);
      return Visit::skip;
    }
    if (isa<GlobalVariable, AllocaInst>(value) || is_marker(value, "cucpu.shared") ||
        is_marker(value, "cucpu.cluster.shared")) {
      own = true;
      return Visit::skip;
    }
    const bool elsewhere =
        !isa<Operator>(value) && (value->getType()->isPointerTy() || isa<Argument>(value));
    return elsewhere ? Visit::stop : Visit::descend;
  });
  if (!known) return Root::unknown;
  if (roots.empty()) return own ? Root::own : Root::unknown;
  if (own || roots.size() != 1) return Root::unknown;
  offset = *parameter(roots[0], layout);
  return Root::parameter;
}

struct Access {
  Instruction* instruction;
  Value* address;
  bool write;
};

void find_accesses(Instruction& i, SmallVectorImpl<Access>& out) {
  if (auto* call = dyn_cast<CallInst>(&i)) {
    const Function* callee = call->getCalledFunction();
    if (!callee || !callee->getName().starts_with("cucpu_rt_")) return;
    const StringRef name = callee->getName().drop_front(9);
    if (name == "copy_fill" || name == "reduce_copy") {  // to, from, ...
      out.push_back({&i, call->getArgOperand(0), true});
      out.push_back({&i, call->getArgOperand(1), false});
    } else if (name.starts_with("atom_")) {
      out.push_back({&i, call->getArgOperand(0), true});
    }
    return;
  }
  const MDNode* node = i.getMetadata("cucpu.space");
  if (!node) return;
  const StringRef space = cast<MDString>(node->getOperand(0))->getString();
  if (space == "param" || space == "const" || space == "shared" || space == "local") return;
  if (auto* load = dyn_cast<LoadInst>(&i)) out.push_back({&i, load->getPointerOperand(), false});
  if (auto* store = dyn_cast<StoreInst>(&i)) out.push_back({&i, store->getPointerOperand(), true});
  if (auto* rmw = dyn_cast<AtomicRMWInst>(&i)) out.push_back({&i, rmw->getPointerOperand(), true});
  if (auto* cas = dyn_cast<AtomicCmpXchgInst>(&i))
    out.push_back({&i, cas->getPointerOperand(), true});
}

}  // namespace

std::vector<ParamPeerAccess> check_peer_access(Module& module, bool assume_params) {
  const DataLayout& layout = module.getDataLayout();
  std::map<std::uint32_t, bool> needed;  // parameter -> written through
  SmallVector<Access, 32> accesses;
  for (Function& function : module)
    for (Instruction& i : instructions(function)) find_accesses(i, accesses);
  DenseMap<std::pair<BasicBlock*, Value*>, unsigned> checked;  // 1: read, 2: written
  for (const Access& access : accesses) {
    std::uint32_t offset = 0;
    const Root root = root_of(access.address, layout, offset);
    if (root == Root::own) continue;
    if (root == Root::parameter && assume_params) {
      needed[offset] |= access.write;
      continue;
    }
    // The parts of a vector access, and neighbouring uses of a pointer, are checked once.
    unsigned& done = checked[{access.instruction->getParent(), access.address}];
    const unsigned wanted = access.write ? 2 : 1;
    if (done >= wanted) continue;
    done = wanted;
    IRBuilder<> b{access.instruction};
    FunctionCallee callee = module.getOrInsertFunction("cucpu_rt_check_peer_access", b.getVoidTy(),
                                                       b.getInt64Ty(), b.getInt32Ty());
    auto* routine = cast<Function>(callee.getCallee());
    routine->setDoesNotThrow();
    routine->setOnlyAccessesInaccessibleMemory();
    Value* address = access.address;
    if (address->getType()->isPointerTy()) address = b.CreatePtrToInt(address, b.getInt64Ty());
    b.CreateCall(callee, {address, b.getInt32(access.write)});
  }
  std::vector<ParamPeerAccess> result;
  for (const auto& [offset, write] : needed) result.push_back({offset, write});
  return result;
}

}  // namespace cucpu
