// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/prepare.cpp
#include "cpu/engine/simt/prepare.hpp"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/CFG.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>

#include "cpu/engine/coverage/count.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

std::string inline_calls(Function& thread) {
  constexpr unsigned kMaxInlinedCalls = 20'000;
  SmallVector<CallInst*> work;
  auto collect = [&](BasicBlock* from = nullptr) {
    (void)from;
    work.clear();
    for (Instruction& inst : instructions(thread))
      if (auto* call = dyn_cast<CallInst>(&inst)) work.push_back(call);
  };
  unsigned inlined = 0;
  for (bool again = true; again;) {
    again = false;
    collect();
    for (CallInst* call : work) {
      if (call->isInlineAsm()) continue;
      Function* callee = call->getCalledFunction();
      if (!callee) return "indirect call";
      if (callee->isDeclaration()) continue;
      if (callee == &thread || ++inlined > kMaxInlinedCalls) return "recursion";
      InlineFunctionInfo info;
      if (!InlineFunction(*call, info).isSuccess()) return "call that cannot be inlined";
      again = true;
    }
  }
  return {};
}

namespace {

void set_range(CallInst& call, std::uint64_t low, std::uint64_t high) {
  unsigned bits = call.getType()->getIntegerBitWidth();
  call.addRangeRetAttr(ConstantRange::getNonEmpty(APInt{bits, low}, APInt{bits, high}));
}

}  // namespace

void specialize_block_shape(Function& thread, const Options& options) {
  const std::uint32_t size[3] = {options.block.x, options.block.y, options.block.z};
  std::uint64_t threads = options.block.volume();
  for (Instruction& inst : make_early_inc_range(instructions(thread))) {
    StringRef name = marker_name(&inst);
    if (!name.consume_front("sreg.")) continue;
    auto& call = cast<CallInst>(inst);
    auto replace = [&](std::uint64_t value) {
      call.replaceAllUsesWith(ConstantInt::get(call.getType(), value));
      call.eraseFromParent();
    };
    unsigned d = name.empty() ? 0 : static_cast<unsigned>(name.back() - 'x');
    std::uint64_t most_blocks = options.small_grid && d < 3 ? 0x7fffffffu / size[d] : 0x7fffffffu;
    if (name.starts_with("ntid.") && d < 3) {
      replace(size[d]);
    } else if (name.starts_with("tid.") && d < 3) {
      if (size[d] == 1)
        replace(0);
      else
        set_range(call, 0, size[d]);
    } else if (name.starts_with("ctaid.")) {
      set_range(call, 0, most_blocks);
    } else if (name.starts_with("nctaid.")) {
      set_range(call, 1, most_blocks + 1);
    } else if (name == "laneid") {
      set_range(call, 0, 32);
    } else if (name == "warpid") {
      if (threads <= 32)
        replace(0);
      else
        set_range(call, 0, (threads + 31) / 32);
    } else if (name == "nwarpid") {
      replace((threads + 31) / 32);
    }
  }
}

// A trap does not return, but control flow with one exit is simpler.
void unify_exits(Function& thread) {
  unsigned ends = 0, dead = 0;
  for (BasicBlock& block : thread) {
    ends += isa<ReturnInst>(block.getTerminator());
    dead += isa<UnreachableInst>(block.getTerminator());
  }
  if (ends == 1 && dead == 0) return;
  BasicBlock* end = BasicBlock::Create(thread.getContext(), "end", &thread);
  ReturnInst::Create(thread.getContext(), end);
  for (BasicBlock& block : thread) {
    Instruction* last = block.getTerminator();
    if (&block == end || !isa<ReturnInst, UnreachableInst>(last)) continue;
    if (last->getPrevNode() && marker_name(last->getPrevNode()) == "exit")
      last->getPrevNode()->eraseFromParent();
    for (Instruction& inst : block)
      if (auto* call = dyn_cast<CallInst>(&inst)) call->removeFnAttr(Attribute::NoReturn);
    BranchInst::Create(end, last);
    last->eraseFromParent();
  }
  if (pred_empty(end)) end->eraseFromParent();
}

// Clearing the low bits first lets the shape analysis see that a shifted thread index is uniform.
void mask_before_shift(Function& thread) {
  using namespace PatternMatch;
  for (Instruction& inst : make_early_inc_range(instructions(thread))) {
    Value* x;
    const APInt *shift, *mask;
    if (!match(&inst, m_And(m_OneUse(m_LShr(m_Value(x), m_APInt(shift))), m_APInt(mask)))) continue;
    if (shift->uge(mask->getBitWidth()) || mask->countl_zero() < shift->getZExtValue() ||
        mask->countr_zero() == 0)
      continue;
    IRBuilder<> b{&inst};
    Value* cut = b.CreateAnd(x, ConstantInt::get(inst.getType(), mask->shl(*shift)));
    inst.replaceAllUsesWith(b.CreateLShr(cut, ConstantInt::get(inst.getType(), *shift)));
    inst.eraseFromParent();
  }
}

namespace {

/// Whether a value follows from special registers, parameters and loop counters: it is one number
/// for a group, or one for the block, where a comparison with it is a mask of all lanes.
bool is_index(const Value* value, SmallPtrSetImpl<const Value*>& seen) {
  constexpr unsigned kMost = 16;
  auto* inst = dyn_cast<Instruction>(value);
  if (!inst || !seen.insert(inst).second) return true;
  if (seen.size() > kMost) return false;
  if (isa<CallInst>(inst)) return marker_name(inst).starts_with("sreg.");
  if (isa<LoadInst>(inst)) return space_of(*inst) == "param";
  return isa<PHINode, BinaryOperator, CastInst>(inst) &&
         all_of(inst->operands(), [&](const Value* operand) { return is_index(operand, seen); });
}

bool compares_indices(const ICmpInst& compare) {
  return all_of(compare.operands(), [](const Value* operand) {
    SmallPtrSet<const Value*, 16> seen;
    return is_index(operand, seen);
  });
}

void clone_comparisons(Function& thread, bool for_branches_only) {
  SmallVector<ICmpInst*> comparisons;
  for (Instruction& inst : instructions(thread))
    if (auto* compare = dyn_cast<ICmpInst>(&inst)) comparisons.push_back(compare);
  for (ICmpInst* compare : comparisons) {
    DenseMap<BasicBlock*, Instruction*> copies;
    for (Use& use : make_early_inc_range(compare->uses())) {
      auto* user = cast<Instruction>(use.getUser());
      if (isa<PHINode>(user) || user->getParent() == compare->getParent()) continue;
      if (for_branches_only &&
          !(isa<BranchInst>(user) && (compare->isEquality() || compares_indices(*compare))))
        continue;
      Instruction*& copy = copies[user->getParent()];
      if (!copy) {
        copy = compare->clone();
        copy->insertBefore(&*user->getParent()->getFirstInsertionPt());
      }
      use.set(copy);
    }
    if (compare->use_empty()) compare->eraseFromParent();
  }
}

}  // namespace

void repeat_comparisons(Function& thread) { clone_comparisons(thread, false); }
void repeat_branch_comparisons(Function& thread) { clone_comparisons(thread, true); }

bool is_irreducible(Function& thread) {
  DominatorTree tree{thread};
  LoopInfo loops{tree};
  ReversePostOrderTraversal<const Function*> rpo{&thread};
  return containsIrreducibleCFG<const BasicBlock*>(rpo, loops);
}

void split_before(ArrayRef<Instruction*> points) {
  for (Instruction* point : points) SplitBlock(point->getParent(), point);
}

void split_at_barriers(Function& thread) {
  SmallVector<Instruction*> after;
  for (BasicBlock& block : thread)  // lanes that have ended wait at a block without other code
    if (isa<ReturnInst>(block.getTerminator()) && block.size() > 1)
      after.push_back(block.getTerminator());
  for (Instruction& inst : instructions(thread))
    if (is_barrier(marker_name(&inst)) && !isa<ReturnInst>(inst.getNextNode()))
      after.push_back(inst.getNextNode());
  split_before(after);
}

namespace {

// The first block of code that one thread of the block executes and that dominates `block`, or
// null.
BasicBlock* one_thread_code(BasicBlock* block, const DominatorTree& tree, const Options& options) {
  using namespace PatternMatch;
  const std::uint32_t size[3] = {options.block.x, options.block.y, options.block.z};
  for (auto* node = tree.getNode(block); node && node->getIDom(); node = node->getIDom()) {
    BasicBlock *body = node->getBlock(), *before = body->getSinglePredecessor();
    if (!before) continue;
    auto* branch = dyn_cast<BranchInst>(before->getTerminator());
    if (!branch || !branch->isConditional() || branch->getSuccessor(0) == branch->getSuccessor(1))
      continue;
    auto* compare = dyn_cast<ICmpInst>(branch->getCondition());
    if (!compare || !compare->isEquality() || !isa<ConstantInt>(compare->getOperand(1))) continue;
    if (branch->getSuccessor(compare->getPredicate() == CmpInst::ICMP_EQ ? 0 : 1) != body) continue;
    StringRef name = marker_name(compare->getOperand(0));
    if (name.consume_front("sreg.tid.") && size[name[0] - 'x'] == options.block.volume())
      return body;
  }
  return nullptr;
}

// Whether the value that `block` waits for can only come from other blocks of the grid, so that the
// groups of this block may run one after the other: one thread waits, and between the surrounding
// barriers the other threads write nothing that it could read.
bool waits_for_others(BasicBlock* block, const DominatorTree& tree, const Options& options) {
  BasicBlock* body = one_thread_code(block, tree, options);
  if (!body) return false;
  SmallSetVector<BasicBlock*, 16> around;
  around.insert(body->getSinglePredecessor());
  for (unsigned i = 0; i < around.size(); ++i)
    for (BasicBlock* from : predecessors(around[i]))
      if (!barrier_at_end(*from)) around.insert(from);
  for (unsigned i = 0; i < around.size(); ++i)
    if (!barrier_at_end(*around[i])) around.insert(succ_begin(around[i]), succ_end(around[i]));
  bool looks_at_global = true, writes_shared = false;
  for (BasicBlock* at : around)
    for (Instruction& inst : *at) {
      if (tree.dominates(body, at)) {
        bool looks = isa<AtomicRMWInst, AtomicCmpXchgInst>(inst);
        if (auto* load = dyn_cast<LoadInst>(&inst)) looks = !load->isSimple();
        looks_at_global &= !looks || space_of(inst) == "global";
        continue;
      }
      if (!inst.mayWriteToMemory()) continue;
      StringRef name = marker_name(&inst);
      if (is_barrier(name) || is_warp_operation(name) || is_coverage_marker(name) ||
          is_check(name) || isa<FenceInst>(inst))
        continue;
      if (auto* load = dyn_cast<LoadInst>(&inst); load) continue;  // volatile
      if (isa<IntrinsicInst>(inst) && cast<IntrinsicInst>(inst).isAssumeLikeIntrinsic()) continue;
      if (!isa<StoreInst, AtomicRMWInst, AtomicCmpXchgInst>(inst) || space_of(inst) != "shared")
        return false;
      writes_shared = true;
    }
  return looks_at_global || !writes_shared;
}

// A loop that waits for a value of another lane would never end: lanes of a group run in lockstep,
// and groups run one after the other.
std::string find_spin_loop(Function& thread, const Options& options) {
  DominatorTree tree{thread};
  LoopInfo loops{tree};
  for (BasicBlock& block : thread)
    for (Instruction& inst : block)
      if (marker_name(&inst) == "yield" && !waits_for_others(&block, tree, options))
        return "spin loop on a value of another thread";
  // Every iteration of such a loop passes a barrier, so the other threads of the block make
  // progress.
  SmallPtrSet<Loop*, 4> at_barriers;
  for (Instruction& inst : instructions(thread))
    if (marker_name(&inst) == "yield_block") at_barriers.insert(loops.getLoopFor(inst.getParent()));
  for (Loop* loop : loops.getLoopsInPreorder()) {
    if (at_barriers.contains(loop)) continue;
    SmallVector<BasicBlock*> exiting;
    loop->getExitingBlocks(exiting);
    SmallVector<Value*> work;
    SmallPtrSet<Value*, 32> seen;
    for (BasicBlock* block : exiting)
      if (auto* branch = dyn_cast<BranchInst>(block->getTerminator());
          branch && branch->isConditional())
        work.push_back(branch->getCondition());
    while (!work.empty()) {
      auto* inst = dyn_cast<Instruction>(work.pop_back_val());
      if (!inst || !loop->contains(inst) || !seen.insert(inst).second) continue;
      const bool elsewhere = waits_for_others(loop->getHeader(), tree, options);
      if (auto* load = dyn_cast<LoadInst>(inst); load && !load->isSimple() && !elsewhere)
        return "spin loop on a value of another thread";
      if (auto* cas = dyn_cast<AtomicCmpXchgInst>(inst)) {
        if (loop->isLoopInvariant(cas->getCompareOperand()) && !elsewhere) return "spin lock";
        continue;  // a retry loop: some lane always succeeds
      }
      if (auto* rmw = dyn_cast<AtomicRMWInst>(inst)) {
        if (rmw->getOperation() == AtomicRMWInst::Xchg && !elsewhere) return "spin lock";
        continue;
      }
      for (Value* operand : inst->operands()) work.push_back(operand);
    }
  }
  return {};
}

std::string find_unsupported_instruction(Function& thread, const Options& options) {
  for (Instruction& inst : instructions(thread)) {
    auto fits = [](const Type* type) { return !type->isVectorTy() && !type->isArrayTy(); };
    bool all_fit = fits(inst.getType());
    for (Value* operand : inst.operands()) all_fit &= fits(operand->getType());
    if (!all_fit) return "vector or array value in thread code";
    if (isa<InvokeInst, CallBrInst, IndirectBrInst, SwitchInst, VAArgInst>(inst))
      return std::string{"instruction "} + inst.getOpcodeName();
    if (auto* call = dyn_cast<CallInst>(&inst); call && call->isInlineAsm())
      return "inline assembly";
    if (auto* alloca = dyn_cast<AllocaInst>(&inst); alloca && !alloca->isStaticAlloca())
      return "dynamic stack allocation";
    StringRef name = marker_name(&inst);
    if (name.empty()) continue;
    auto& call = cast<CallInst>(inst);
    if (name.starts_with("cluster.")) return "cluster barrier";
    if (name == "barrier.arrive") return "barrier.arrive";
    // They need whole warps. Check mode checks warp operations by their masks.
    if (is_matrix_operation(name) && options.check == 0 && options.block.volume() % 32 == 0)
      continue;
    if ((name.starts_with("warp.") && name != "warp.sync") || name.starts_with("warpgroup."))
      return "matrix operation";
    if (is_barrier(name)) {
      auto* id = dyn_cast<ConstantInt>(call.getArgOperand(0));
      auto* count = dyn_cast<ConstantInt>(call.getArgOperand(1));
      if (!id || !count || (!count->isZero() && count->getZExtValue() != options.block.volume()))
        return "barrier for part of the block";
    }
  }
  return {};
}

}  // namespace

std::string find_unsupported(Function& thread, const Options& options) {
  if (none_of(thread, [](BasicBlock& block) { return isa<ReturnInst>(block.getTerminator()); }))
    return "infinite loop";
  if (auto why = find_spin_loop(thread, options); !why.empty()) return why;
  return find_unsupported_instruction(thread, options);
}

Needs needs_of(Function& thread) {
  Needs needs;
  for (Instruction& inst : instructions(thread)) {
    StringRef name = marker_name(&inst);
    needs.whole_warps |= is_warp_operation(name);
    needs.barriers |= is_barrier(name);
    if (auto* load = dyn_cast<LoadInst>(&inst); load && load->isVolatile())
      needs.whole_warps = true;
  }
  return needs;
}

}  // namespace cucpu::simt
