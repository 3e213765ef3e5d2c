// cpu/engine/simt/prepare.cpp: inlining, specialisation on the block shape, LLVM's scalar clean-up,
// and what is refused.
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
#include <llvm/Transforms/Scalar/Scalarizer.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>

#include "cpu/engine/nan/operand_order.hpp"
#include "cpu/engine/simt/analyses.hpp"
#include "cpu/engine/simt/if_convert.hpp"
#include "cpu/engine/simt/markers.hpp"
#include "cpu/engine/simt/poison_flags.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kMaxInlinedCalls = 20'000;

std::string inline_calls(Function& thread) {
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

void set_range(CallInst& call, std::uint64_t low, std::uint64_t high) {
  unsigned bits = call.getType()->getIntegerBitWidth();
  call.addRangeRetAttr(ConstantRange::getNonEmpty(APInt{bits, low}, APInt{bits, high}));
}

void specialise(Function& thread, const Options& options) {
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

// One return; a thread that exits or traps goes there. (A trap does not come back, but flow with
// one end is simpler.)
void unify_ends(Function& thread) {
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

void run_passes(Function& thread, StringRef pipeline, bool split_vectors = false) {
  Analyses analyses;
  FunctionPassManager passes;
  if (split_vectors) {
    ScalarizerPassOptions options;
    options.ScalarizeLoadStore = true;
    passes.addPass(ScalarizerPass{options});
  }
  if (auto error = analyses.builder.parsePassPipeline(passes, pipeline))
    report_fatal_error(std::move(error));
  passes.run(thread, analyses.functions);
}

constexpr StringRef kCleanUp =
    "sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "simplifycfg<no-switch-to-lookup;no-hoist-common-insts;no-sink-common-insts>,"
    "correlated-propagation,instcombine<no-verify-fixpoint>,early-cse<memssa>,adce,"
    "lower-switch,simplifycfg<no-switch-to-lookup;no-switch-range-to-icmp;no-hoist-common-insts>";

void clean_up(Function& thread, const Options& options, bool split_vectors) {
  if (options.ordered_doubles) mark_first_operands(thread);
  run_passes(thread, kCleanUp, split_vectors);
  if (options.ordered_doubles) restore_operand_order(thread);
}

// (x >> k) & c becomes (x & c << k) >> k: cutting off the low bits first is what makes a thread
// index uniform.
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

// A comparison is made again in every block that uses it: it may need no more than a scalar test
// there, and is not kept.
void repeat_comparisons(Function& thread, bool for_branches_only = false) {
  SmallVector<ICmpInst*> comparisons;
  for (Instruction& inst : instructions(thread))
    if (auto* compare = dyn_cast<ICmpInst>(&inst)) comparisons.push_back(compare);
  for (ICmpInst* compare : comparisons) {
    DenseMap<BasicBlock*, Instruction*> copies;
    for (Use& use : make_early_inc_range(compare->uses())) {
      auto* user = cast<Instruction>(use.getUser());
      if (isa<PHINode>(user) || user->getParent() == compare->getParent()) continue;
      if (for_branches_only && !(isa<BranchInst>(user) && compare->isEquality())) continue;
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

bool irreducible(Function& thread) {
  DominatorTree tree{thread};
  LoopInfo loops{tree};
  ReversePostOrderTraversal<const Function*> rpo{&thread};
  return containsIrreducibleCFG<const BasicBlock*>(rpo, loops);
}

// The block behind a branch that one thread of the block takes and that leads to `block` alone, or
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

// Whether what `block` waits for can only come from other blocks of the grid, so that the groups of
// this one may run one after the other: one thread waits, and from the barrier before to the
// barrier behind the other threads write nothing that it could see.
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
      if (is_barrier(name) || is_warp_operation(name) || isa<FenceInst>(inst)) continue;
      if (auto* load = dyn_cast<LoadInst>(&inst); load) continue;  // volatile
      if (isa<IntrinsicInst>(inst) && cast<IntrinsicInst>(inst).isAssumeLikeIntrinsic()) continue;
      if (!isa<StoreInst, AtomicRMWInst, AtomicCmpXchgInst>(inst) || space_of(inst) != "shared")
        return false;
      writes_shared = true;
    }
  return looks_at_global || !writes_shared;
}

// A loop that waits for a value another lane has yet to write would wait for ever: lanes of a group
// run in step, and groups one after the other.
std::string find_spin_loop(Function& thread, const Options& options) {
  DominatorTree tree{thread};
  LoopInfo loops{tree};
  for (BasicBlock& block : thread)
    for (Instruction& inst : block)
      if (marker_name(&inst) == "yield" && !waits_for_others(&block, tree, options))
        return "waits for another thread";
  // Every turn of such a loop passes a barrier: the other threads of the block get on meanwhile.
  SmallPtrSet<Loop*, 4> turns;
  for (Instruction& inst : instructions(thread))
    if (marker_name(&inst) == "turn") turns.insert(loops.getLoopFor(inst.getParent()));
  for (Loop* loop : loops.getLoopsInPreorder()) {
    if (turns.contains(loop)) continue;
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
        return "loop that waits for another thread";
      if (auto* cas = dyn_cast<AtomicCmpXchgInst>(inst)) {
        if (loop->isLoopInvariant(cas->getCompareOperand()) && !elsewhere)
          return "loop that takes a lock";
        continue;  // a retry loop: some lane always succeeds
      }
      if (auto* rmw = dyn_cast<AtomicRMWInst>(inst)) {
        if (rmw->getOperation() == AtomicRMWInst::Xchg && !elsewhere)
          return "loop that takes a lock";
        continue;
      }
      for (Value* operand : inst->operands()) work.push_back(operand);
    }
  }
  return {};
}

std::string find_unsupported(Function& thread, const Options& options) {
  for (Instruction& inst : instructions(thread)) {
    auto fits = [](const Type* type) { return !type->isVectorTy() && !type->isArrayTy(); };
    bool all_fit = fits(inst.getType());
    for (Value* operand : inst.operands()) all_fit &= fits(operand->getType());
    if (!all_fit) return "vector or array value in thread code";  // what matrix operations hand out
    if (isa<InvokeInst, CallBrInst, IndirectBrInst, SwitchInst, VAArgInst>(inst))
      return "unsupported flow";
    if (auto* call = dyn_cast<CallInst>(&inst); call && call->isInlineAsm())
      return "inline assembly";
    if (auto* alloca = dyn_cast<AllocaInst>(&inst); alloca && !alloca->isStaticAlloca())
      return "dynamic stack allocation";
    StringRef name = marker_name(&inst);
    if (name.empty()) continue;
    auto& call = cast<CallInst>(inst);
    if (name.starts_with("cluster.")) return "cluster barrier";
    if (name == "barrier.arrive") return "barrier.arrive";
    if ((name.starts_with("warp.") && name != "warp.sync") || name.starts_with("warpgroup."))
      return "matrix operation";
    if (is_barrier(name)) {
      auto* id = dyn_cast<ConstantInt>(call.getArgOperand(0));
      auto* count = dyn_cast<ConstantInt>(call.getArgOperand(1));
      if (!id || !count || (!count->isZero() && count->getZExtValue() != options.block.volume()))
        return "barrier of part of the block";
    }
  }
  return {};
}

}  // namespace

void split_before(ArrayRef<Instruction*> points) {
  for (Instruction* point : points) SplitBlock(point->getParent(), point);
}

std::string prepare(Function& thread, const Options& options) {
  if (auto why = inline_calls(thread); !why.empty()) return why;
  specialise(thread, options);
  unify_ends(thread);
  removeUnreachableBlocks(thread);
  clean_up(thread, options, true);
  if (if_convert(thread)) clean_up(thread, options, false);
  if (irreducible(thread)) {
    // The last of these knows branches only, and LLVM 19's fails at some critical edges.
    run_passes(thread, "lower-switch,break-crit-edges,fix-irreducible");
    if (irreducible(thread)) return "irreducible flow";
  }
  mask_before_shift(thread);
  run_passes(thread, "loop-simplify,lcssa");
  repeat_comparisons(thread);
  run_passes(thread, "lcssa");
  unify_ends(thread);
  removeUnreachableBlocks(thread);
  SmallVector<Instruction*> after;
  for (BasicBlock& block : thread)  // lanes that are done wait at a block that does nothing
    if (isa<ReturnInst>(block.getTerminator()) && block.size() > 1)
      after.push_back(block.getTerminator());
  for (Instruction& inst : instructions(thread))
    if (is_barrier(marker_name(&inst)) && !isa<ReturnInst>(inst.getNextNode()))
      after.push_back(inst.getNextNode());
  split_before(after);
  // Behind barriers too, now that a block ends at its barrier: if (index == bound) there is for one
  // lane.
  repeat_comparisons(thread, true);
  run_passes(thread, "lcssa");
  rederive_poison_flags(thread);
  bool ends = false;
  for (BasicBlock& block : thread) ends |= isa<ReturnInst>(block.getTerminator());
  if (!ends) return "endless loop";
  if (auto why = find_spin_loop(thread, options); !why.empty()) return why;
  return find_unsupported(thread, options);
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
