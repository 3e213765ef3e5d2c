// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/lower.cpp
#include "cpu/engine/jit/lower.hpp"

#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <stdexcept>

#include "cpu/engine/coverage/count.hpp"
#include "cpu/engine/coverage/coverage_map.hpp"
#include "cpu/engine/jit/routine_call.hpp"
#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu {
namespace {

using namespace llvm;

/// The contexts of the current thread, as values that are valid everywhere in one function.
struct Place {
  Value* block = nullptr;   ///< BlockContext*
  Value* thread = nullptr;  ///< ThreadContext*; null in a thread loop, which has
  Value* tid[3] = {};
  Value* linear = nullptr;
  BasicBlock* on_exit = nullptr;  ///< thread loop: the block for a thread that exits
};

class Lowering {
 public:
  Lowering(Function& function, Place place)
      : function_{function},
        module_{*function.getParent()},
        place_{place},
        b_{module_.getContext()} {}

  void run() {
    SmallVector<CallInst*, 32> markers;
    for (Instruction& instruction : instructions(function_)) {
      auto* call = dyn_cast<CallInst>(&instruction);
      if (call && call->getCalledFunction() &&
          call->getCalledFunction()->getName().starts_with("cucpu."))
        markers.push_back(call);
    }
    for (CallInst* marker : markers) {
      if (!marker->getParent()) continue;
      b_.SetInsertPoint(marker);
      StringRef name = marker->getCalledFunction()->getName();
      name.consume_front("cucpu.");
      if (name == "exit" && place_.on_exit) {
        leave(marker);
        continue;
      }
      if (name == "check.align") {
        check_align(marker);
        continue;
      }
      Value* value = lower(*marker, name);
      if (value) marker->replaceAllUsesWith(value);
      marker->eraseFromParent();
    }
  }

 private:
  Type* i1() { return b_.getInt1Ty(); }
  Type* i32() { return b_.getInt32Ty(); }
  Type* i64() { return b_.getInt64Ty(); }

  /// In a thread loop, exit branches to the next thread. The code after the marker is unreachable
  /// and is removed.
  void leave(CallInst* marker) {
    BasicBlock* block = marker->getParent();
    for (BasicBlock* next : successors(block)) next->removePredecessor(block);
    while (&block->back() != marker) {
      if (!block->back().use_empty())
        block->back().replaceAllUsesWith(PoisonValue::get(block->back().getType()));
      block->back().eraseFromParent();
    }
    marker->eraseFromParent();
    BranchInst::Create(place_.on_exit, block);
  }

  void check_align(CallInst* marker) {
    Value* const address = marker->getArgOperand(0);
    Value* const low = b_.CreateAnd(address, b_.CreateZExt(marker->getArgOperand(1), i64()));
    Instruction* then =
        SplitBlockAndInsertIfThen(b_.CreateICmpNE(low, b_.getInt64(0)), marker->getIterator(), true,
                                  MDBuilder{module_.getContext()}.createBranchWeights(1, 1 << 20));
    b_.SetInsertPoint(then);
    b_.SetCurrentDebugLocation(marker->getDebugLoc());
    call("cucpu_rt_misaligned", b_.getVoidTy(), {address}, true);
    marker->eraseFromParent();
  }

  Value* call(StringRef name, Type* result, ArrayRef<Value*> arguments, bool noreturn = false) {
    SmallVector<Type*, 6> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    FunctionCallee callee =
        module_.getOrInsertFunction(name, FunctionType::get(result, types, false));
    if (auto* function = dyn_cast<Function>(callee.getCallee())) {
      function->setDoesNotThrow();
      if (noreturn) function->setDoesNotReturn();
    }
    CallInst* call = b_.CreateCall(callee, arguments);
    // C++ passes bool as an 8-bit value.
    for (unsigned i = 0; i < arguments.size(); ++i)
      if (arguments[i]->getType()->isIntegerTy(1)) call->addParamAttr(i, Attribute::ZExt);
    if (result->isIntegerTy(1)) call->addRetAttr(Attribute::ZExt);
    return call;
  }

  Value* load(Value* base, std::size_t offset, Type* type) {
    LoadInst* load =
        b_.CreateAlignedLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, offset),
                             Align(type->isIntegerTy(32) ? 4 : 8));
    load->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(module_.getContext(), {}));
    return load;
  }
  Value* block(std::size_t offset) { return load(place_.block, offset, i32()); }
  Value* block_dim(std::size_t offset, StringRef name) {
    return block(offset + 4 * static_cast<std::size_t>(name.back() - 'x'));
  }

  Value* tid(unsigned d) {
    return place_.thread ? load(place_.thread, offsetof(ThreadContext, tid) + 4 * d, i32())
                         : place_.tid[d];
  }
  Value* linear() {
    return place_.thread ? load(place_.thread, offsetof(ThreadContext, linear), i32())
                         : place_.linear;
  }
  Value* lane() { return b_.CreateAnd(linear(), 31); }

  Value* sreg(StringRef name, Type* type) {
    Value* value = sreg(name);
    return b_.CreateZExtOrTrunc(value, type);
  }

  Value* sreg(StringRef name) {
    const bool dimension = name.size() > 2 && name[name.size() - 2] == '.';
    const StringRef family = dimension ? name.drop_back(2) : name;
    if (family == "tid") return tid(static_cast<unsigned>(name.back() - 'x'));
    if (family == "ntid") return block_dim(offsetof(BlockContext, block), name);
    if (family == "ctaid") return block_dim(offsetof(BlockContext, index), name);
    if (family == "nctaid") return block_dim(offsetof(BlockContext, grid), name);
    if (family == "cluster_ctaid") return block_dim(offsetof(BlockContext, cluster_index), name);
    if (family == "cluster_nctaid") return block_dim(offsetof(BlockContext, cluster), name);
    if (family == "clusterid")
      return b_.CreateUDiv(block_dim(offsetof(BlockContext, index), name),
                           block_dim(offsetof(BlockContext, cluster), name));
    if (family == "nclusterid")
      return b_.CreateUDiv(block_dim(offsetof(BlockContext, grid), name),
                           block_dim(offsetof(BlockContext, cluster), name));
    if (name == "cluster_ctarank") return block(offsetof(BlockContext, cluster_rank));
    if (name == "cluster_nctarank") {
      Value* volume = block(offsetof(BlockContext, cluster));
      for (int d = 1; d < 3; ++d)
        volume = b_.CreateMul(volume, block(offsetof(BlockContext, cluster) + 4 * d));
      return volume;
    }
    if (name == "is_explicit_cluster") {
      Value* volume = sreg("cluster_nctarank");
      return b_.CreateZExt(b_.CreateICmpNE(volume, b_.getInt32(1)), i32());
    }
    if (name == "laneid") return lane();
    if (name == "warpid") return b_.CreateLShr(linear(), 5);
    if (name == "nwarpid")
      return b_.CreateLShr(
          b_.CreateAdd(block(offsetof(BlockContext, block_threads)), b_.getInt32(31)), 5);
    if (name == "lanemask_eq") return b_.CreateShl(b_.getInt32(1), lane());
    if (name == "lanemask_lt")
      return b_.CreateSub(b_.CreateShl(b_.getInt32(1), lane()), b_.getInt32(1));
    if (name == "lanemask_le") return b_.CreateNot(b_.CreateShl(b_.getInt32(-2), lane()));
    if (name == "lanemask_ge") return b_.CreateShl(b_.getInt32(-1), lane());
    if (name == "lanemask_gt") return b_.CreateShl(b_.getInt32(-2), lane());
    if (name == "smid") return block(offsetof(BlockContext, smid));
    if (name == "nsmid") return block(offsetof(BlockContext, nsmid));
    if (name == "gridid") return load(place_.block, offsetof(BlockContext, grid_id), i64());
    if (name == "dynamic_smem_size") return block(offsetof(BlockContext, dynamic_shared_bytes));
    if (name == "dynamic_smem_offset") {
      Value* bytes = b_.CreateSub(block(offsetof(BlockContext, shared_bytes)),
                                  block(offsetof(BlockContext, dynamic_shared_bytes)));
      return b_.CreateAnd(b_.CreateAdd(bytes, b_.getInt32(15)), b_.getInt32(-16));
    }
    if (name == "total_smem_size" || name == "aggr_smem_size")
      return block(offsetof(BlockContext, shared_bytes));
    if (name == "reserved_smem_offset_begin" || name == "reserved_smem_offset_0" ||
        name == "reserved_smem_offset_1")
      return block(offsetof(BlockContext, reserved_shared_offset));
    if (name == "reserved_smem_offset_end")
      return b_.CreateAdd(block(offsetof(BlockContext, reserved_shared_offset)), b_.getInt32(1024));
    if (name == "reserved_smem_offset_cap") return b_.getInt32(1024);
    if (name == "clock64") return call("cucpu_rt_clock64", i64(), {});
    if (name == "clock") return call("cucpu_rt_clock64", i64(), {});
    if (name == "clock_hi") return b_.CreateLShr(call("cucpu_rt_clock64", i64(), {}), 32);
    if (name == "globaltimer" || name == "globaltimer_lo")
      return call("cucpu_rt_globaltimer", i64(), {});
    if (name == "globaltimer_hi") return b_.CreateLShr(call("cucpu_rt_globaltimer", i64(), {}), 32);
    if (name == "envreg1" || name == "envreg2") {
      Value* address = load(place_.block, offsetof(BlockContext, grid_workspace), i64());
      return name == "envreg1" ? b_.CreateLShr(address, 32) : address;
    }
    if (name.starts_with("envreg") || name.starts_with("pm")) return b_.getInt64(0);
    throw std::runtime_error{"special register %" + name.str() +
                             " is not known to the scalar path"};
  }

  Value* warp(WarpOp kind, Value* mask, Value* a, Value* b = nullptr, Value* c = nullptr) {
    a = a->getType()->isIntegerTy() ? b_.CreateZExt(a, i64())
                                    : b_.CreateZExt(b_.CreateBitCast(a, i32()), i64());
    Value* zero = b_.getInt32(0);
    return call(
        "cucpu_rt_warp", i64(),
        {b_.getInt32(static_cast<std::uint32_t>(kind)), mask, a, b ? b : zero, c ? c : zero});
  }

  /// Unpacks the 64-bit result of a routine: the value, or {value, predicate}.
  Value* unpack(Value* word, Type* type) {
    if (auto* pair = dyn_cast<StructType>(type)) {
      Value* result = PoisonValue::get(type);
      result = b_.CreateInsertValue(result, b_.CreateTrunc(word, pair->getElementType(0)), 0);
      return b_.CreateInsertValue(
          result, b_.CreateTrunc(b_.CreateLShr(word, 32), pair->getElementType(1)), 1);
    }
    if (type->isFloatTy()) return b_.CreateBitCast(b_.CreateTrunc(word, i32()), type);
    return b_.CreateTrunc(word, type);
  }

  static WarpOp redux(StringRef name) {
    struct Name {
      const char* text;
      WarpOp op;
    };
    static constexpr Name kNames[] = {
        {"add", WarpOp::kReduxAdd},   {"umin", WarpOp::kReduxUMin}, {"umax", WarpOp::kReduxUMax},
        {"smin", WarpOp::kReduxSMin}, {"smax", WarpOp::kReduxSMax}, {"and", WarpOp::kReduxAnd},
        {"or", WarpOp::kReduxOr},     {"xor", WarpOp::kReduxXor},
    };
    for (const Name& row : kNames)
      if (name == row.text) return row.op;
    throw std::runtime_error{"unknown reduction cucpu.redux." + name.str()};
  }

  /// A collective routine, called once for a warp or warpgroup, with pointers to the operands and
  /// to the result of this lane.
  void collective(CallInst& marker, StringRef name) {
    std::string routine = "cucpu_rt_" + name.str();
    std::replace(routine.begin(), routine.end(), '.', '_');
    FunctionCallee callee =
        module_.getOrInsertFunction(routine, Type::getVoidTy(module_.getContext()));
    call(name.starts_with("warp.") ? "cucpu_rt_warp_call" : "cucpu_rt_warpgroup_call",
         b_.getVoidTy(), {callee.getCallee(), marker.getArgOperand(0), marker.getArgOperand(1)});
  }

  /// The same for a marker `warp.<name>.<in>.<out>` that takes and returns values: they are passed
  /// in memory.
  Value* matrix_operation(CallInst& marker, StringRef name) {
    SmallVector<Type*, 32> types;
    for (Value* operand : marker.args()) types.push_back(operand->getType());
    auto* const operands = StructType::get(module_.getContext(), types);
    const bool returns = !marker.getType()->isVoidTy();
    BasicBlock& entry = function_.getEntryBlock();
    IRBuilder<> at_entry{&entry, entry.getFirstInsertionPt()};
    AllocaInst* const in = at_entry.CreateAlloca(operands);
    AllocaInst* const out = at_entry.CreateAlloca(returns ? marker.getType() : i64());
    for (AllocaInst* slot : {in, out}) slot->setAlignment(Align{16});
    for (unsigned i = 0; i < types.size(); ++i)
      b_.CreateStore(marker.getArgOperand(i), b_.CreateStructGEP(operands, in, i));
    FunctionCallee callee = module_.getOrInsertFunction(
        ("cucpu_rt_warp_" + name.split('.').first).str(), Type::getVoidTy(module_.getContext()));
    call("cucpu_rt_warp_call", b_.getVoidTy(), {callee.getCallee(), in, out});
    return returns ? b_.CreateLoad(marker.getType(), out) : nullptr;
  }

  /// Of kernel coverage. A function that is called in between may count in the same counters.
  Value* counters() {
    if (!counters_) {
      BasicBlock& entry = function_.getEntryBlock();
      IRBuilder<> b{&entry, entry.getFirstNonPHIOrDbgOrAlloca()};
      counters_ = emit_counters(b, module_, !place_.thread);
    }
    return counters_;
  }

  Value* lower(CallInst& marker, StringRef name) {
    const auto argument = [&](unsigned i) { return marker.getArgOperand(i); };
    Type* const type = marker.getType();
    Type* const none = b_.getVoidTy();
    if (name.consume_front("sreg.")) return sreg(name, type);
    if (name == "params") return load(place_.block, offsetof(BlockContext, params), b_.getPtrTy());
    if (name == "shared") return load(place_.block, offsetof(BlockContext, shared), b_.getPtrTy());
    if (name == "cluster.shared") {  // ptr(i32 rank)
      Value* table = load(place_.block, offsetof(BlockContext, cluster_shared), b_.getPtrTy());
      return b_.CreateLoad(b_.getPtrTy(),
                           b_.CreateGEP(b_.getPtrTy(), table, b_.CreateZExt(argument(0), i64())));
    }
    if (name == "exit") return call("cucpu_rt_exit", none, {}, true), nullptr;
    if (name == "trap") return call("cucpu_rt_trap", none, {argument(0)}, true), nullptr;
    if (name == "yield") {
      auto* time = dyn_cast<ConstantInt>(argument(0));
      if (time && time->isZero()) return call("cucpu_rt_yield", none, {}), nullptr;
      return call("cucpu_rt_nanosleep", none, {argument(0)}), nullptr;
    }
    if (name == "yield_block") return call("cucpu_rt_yield_block", none, {}), nullptr;
    if (name == "coverage.block")
      return emit_count(b_, counters(), argument(0), b_.getInt64(1)), nullptr;
    if (name == "coverage.branch") {
      Value* const side = b_.CreateSelect(argument(1), b_.getInt32(CoverageBranch::kTrue),
                                          b_.getInt32(CoverageBranch::kFalse));
      return emit_count(b_, counters(), b_.CreateAdd(argument(0), side), b_.getInt64(1)), nullptr;
    }
    if (name == "barrier.sync")
      return call("cucpu_rt_barrier_sync", none, {argument(0), argument(1)}), nullptr;
    if (name == "barrier.arrive")
      return call("cucpu_rt_barrier_arrive", none, {argument(0), argument(1)}), nullptr;
    if (name.consume_front("barrier.red."))
      return call(("cucpu_rt_barrier_red_" + name).str(), type,
                  {argument(0), argument(1), argument(3)});
    if (name == "cluster.arrive") return call("cucpu_rt_cluster_arrive", none, {}), nullptr;
    if (name == "cluster.wait") return call("cucpu_rt_cluster_wait", none, {}), nullptr;
    if (name == "warp.sync") return warp(WarpOp::kSync, argument(0), b_.getInt32(0)), nullptr;
    // Lanes meet at the call that they wait in: calls on two sides of a branch must stay two.
    if (name == "activemask") return call_routine(module_, b_, i32(), "cucpu_rt_activemask", {});
    if (name == "elect") return unpack(warp(WarpOp::kElect, argument(0), b_.getInt32(0)), type);
    if (name.consume_front("shfl.")) {
      const WarpOp op = name.starts_with("up")     ? WarpOp::kShflUp
                        : name.starts_with("down") ? WarpOp::kShflDown
                        : name.starts_with("bfly") ? WarpOp::kShflBfly
                                                   : WarpOp::kShflIdx;
      return unpack(warp(op, argument(3), argument(0), argument(1), argument(2)), type);
    }
    if (name.consume_front("vote.")) {
      const WarpOp op = name == "all"   ? WarpOp::kVoteAll
                        : name == "any" ? WarpOp::kVoteAny
                        : name == "uni" ? WarpOp::kVoteUni
                                        : WarpOp::kVoteBallot;
      return unpack(warp(op, argument(1), argument(0)), type);
    }
    if (name.starts_with("match.any."))
      return unpack(warp(WarpOp::kMatchAny, argument(1), argument(0)), type);
    if (name.starts_with("match.all."))
      return unpack(warp(WarpOp::kMatchAll, argument(1), argument(0)), type);
    if (name.consume_front("redux."))
      return unpack(warp(redux(name), argument(1), argument(0)), type);
    if (simt::is_matrix_operation(name)) return matrix_operation(marker, name.substr(5));
    if (name.starts_with("warp.") || name.starts_with("warpgroup."))
      return collective(marker, name), nullptr;
    throw std::runtime_error{"unknown marker cucpu." + name.str()};
  }

  Function& function_;
  Module& module_;
  Place place_;
  IRBuilder<> b_;
  Value* counters_ = nullptr;
};

/// Moves the body of `from` into a new function of one pointer argument.
Function* take_body(Function& from, const std::string& name) {
  Module& module = *from.getParent();
  auto* type = FunctionType::get(Type::getVoidTy(module.getContext()),
                                 {PointerType::getUnqual(module.getContext())}, false);
  Function* to = Function::Create(type, GlobalValue::ExternalLinkage, name, module);
  to->setSubprogram(from.getSubprogram());
  from.setSubprogram(nullptr);
  to->setDoesNotThrow();
  to->addFnAttr(Attribute::NullPointerIsValid);
  // A routine that reports a fault finds its line by the return address.
  to->addFnAttr("disable-tail-calls", "true");
  to->splice(to->begin(), &from);
  from.deleteBody();
  if (from.use_empty()) from.eraseFromParent();
  to->addParamAttr(0, Attribute::NoUndef);
  return to;
}

Place fiber_place(IRBuilder<>& b, Value* thread) {
  Place place;
  place.thread = thread;
  LoadInst* block = b.CreateAlignedLoad(b.getPtrTy(), thread, Align(8));
  block->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(b.getContext(), {}));
  place.block = block;
  return place;
}

/// The blocks of a loop over threads, without branches: entry, then for each thread header, body
/// (the kernel's code, which continues at latch) and latch, then done.
struct ThreadLoop {
  Function* function;
  BasicBlock *entry, *header, *body, *latch, *done;
};

ThreadLoop loop_over_threads(Function& kernel, const std::string& name) {
  LLVMContext& context = kernel.getContext();
  Function* function = take_body(kernel, name);
  BasicBlock* body = &function->getEntryBlock();
  BasicBlock* entry = BasicBlock::Create(context, "entry", function, body);
  BasicBlock* header = BasicBlock::Create(context, "thread", function, body);
  BasicBlock* latch = BasicBlock::Create(context, "next", function);
  BasicBlock* done = BasicBlock::Create(context, "done", function);

  // All threads use the same local variables, one after the other.
  for (BasicBlock& block : *function)
    for (Instruction& instruction : make_early_inc_range(block))
      if (auto* local = dyn_cast<AllocaInst>(&instruction);
          local && isa<ConstantInt>(local->getArraySize()))
        local->moveBefore(*entry, entry->end());
  for (BasicBlock& block : *function) {
    if (auto* ret = dyn_cast_or_null<ReturnInst>(block.getTerminator())) {
      BranchInst::Create(latch, ret->getIterator());
      ret->eraseFromParent();
    }
  }
  return {function, entry, header, body, latch, done};
}

bool has_markers(Function& function) {
  for (Instruction& instruction : instructions(function)) {
    const auto* call = dyn_cast<CallInst>(&instruction);
    if (call && call->getCalledFunction() &&
        call->getCalledFunction()->getName().starts_with("cucpu."))
      return true;
  }
  return false;
}

}  // namespace

Value* current_thread(IRBuilderBase& b, Module& module) {
  FunctionCallee callee = module.getOrInsertFunction("cucpu_rt_thread", b.getPtrTy());
  cast<Function>(callee.getCallee())->setDoesNotThrow();
  return b.CreateCall(callee);
}

void lower_functions(Module& module) {
  for (Function& function : module) {
    if (function.isDeclaration() || !has_markers(function)) continue;
    IRBuilder<> b{&function.getEntryBlock(), function.getEntryBlock().getFirstInsertionPt()};
    Lowering{function, fiber_place(b, current_thread(b, module))}.run();
  }
}

Function* lower_to_fiber(Function& kernel, const std::string& name) {
  Module& module = *kernel.getParent();
  Function* fiber = take_body(kernel, name);
  IRBuilder<> b{&fiber->getEntryBlock(), fiber->getEntryBlock().getFirstInsertionPt()};
  Lowering{*fiber, fiber_place(b, fiber->getArg(0))}.run();
  lower_functions(module);
  return fiber;
}

Function* lower_to_fiber_loop(Function& kernel, const std::string& name) {
  const auto [function, entry, header, body, latch, done] = loop_over_threads(kernel, name);
  IRBuilder<> b{entry};
  Value* const thread = function->getArg(0);
  Place place = fiber_place(b, thread);
  place.thread = nullptr;
  place.on_exit = latch;
  Type* const i32 = b.getInt32Ty();
  const auto field = [&](Value* base, std::size_t offset) {
    return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, offset);
  };
  const auto load = [&](Value* base, std::size_t offset) {
    return b.CreateAlignedLoad(i32, field(base, offset), Align(4));
  };
  constexpr std::size_t kThread[4] = {
      offsetof(ThreadContext, tid), offsetof(ThreadContext, tid) + 4,
      offsetof(ThreadContext, tid) + 8, offsetof(ThreadContext, linear)};
  Value* const nx = load(place.block, offsetof(BlockContext, block));
  Value* const ny = load(place.block, offsetof(BlockContext, block) + 4);
  Value* const threads = load(place.block, offsetof(BlockContext, block_threads));
  Value* first[4];
  for (int i = 0; i < 4; ++i) first[i] = load(thread, kThread[i]);
  b.CreateBr(header);

  b.SetInsertPoint(header);
  PHINode* phis[4];
  for (int i = 0; i < 4; ++i) {
    phis[i] = b.CreatePHI(i32, 2);
    phis[i]->addIncoming(first[i], entry);
  }
  PHINode* const more = b.CreatePHI(i32, 2);
  more->addIncoming(b.getInt32(0), entry);
  for (int d = 0; d < 3; ++d) place.tid[d] = phis[d];
  place.linear = phis[3];
  b.CreateBr(body);

  // The last thread is left to the scheduler, which keeps a list of blocks with such threads.
  b.SetInsertPoint(latch);
  Value* const linear = load(place.block, offsetof(BlockContext, started));
  Value* const started = b.CreateAdd(linear, b.getInt32(1));
  BasicBlock* const next = BasicBlock::Create(b.getContext(), "take", function, done);
  b.CreateCondBr(b.CreateICmpULT(started, threads), next, done);
  b.SetInsertPoint(next);
  b.CreateAlignedStore(started, field(place.block, offsetof(BlockContext, started)), Align(4));
  Value* const row = b.CreateUDiv(linear, nx);
  Value* const slice = b.CreateUDiv(row, ny);
  Value* const now[4] = {b.CreateSub(linear, b.CreateMul(row, nx)),
                         b.CreateSub(row, b.CreateMul(slice, ny)), slice, linear};
  for (int i = 0; i < 4; ++i) {
    phis[i]->addIncoming(now[i], next);
    b.CreateAlignedStore(now[i], field(thread, kThread[i]), Align(4), true);  // for fault reports
  }
  more->addIncoming(b.CreateAdd(more, b.getInt32(1)), next);
  b.CreateBr(header);
  b.SetInsertPoint(done);
  b.CreateAlignedStore(more, field(thread, offsetof(ThreadContext, more)), Align(4));
  b.CreateRetVoid();

  Lowering{*function, place}.run();
  return function;
}

Function* lower_to_thread_loop(Function& kernel, const std::string& name) {
  LLVMContext& context = kernel.getContext();
  const auto [function, entry, header, body, latch, done] = loop_over_threads(kernel, name);
  IRBuilder<> b{entry};
  Value* const ctx = function->getArg(0);
  const auto field = [&](std::size_t offset) {
    return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), ctx, offset);
  };
  const auto dim = [&](int d) {
    LoadInst* load =
        b.CreateAlignedLoad(b.getInt32Ty(), field(offsetof(BlockContext, block) + 4 * d), Align(4));
    load->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(context, {}));
    return load;
  };
  Value* const nx = dim(0);
  Value* const ny = dim(1);
  Value* const threads =
      b.CreateAlignedLoad(b.getInt32Ty(), field(offsetof(BlockContext, block_threads)), Align(4));
  b.CreateAlignedStore(b.getInt32(1), field(offsetof(BlockContext, current_lanes)), Align(4));
  b.CreateBr(header);

  b.SetInsertPoint(header);
  Place place;
  place.block = ctx;
  PHINode* phis[4];
  for (PHINode*& phi : phis) {
    phi = b.CreatePHI(b.getInt32Ty(), 2);
    phi->addIncoming(b.getInt32(0), entry);
  }
  for (int d = 0; d < 3; ++d) place.tid[d] = phis[d];
  place.linear = phis[3];
  place.on_exit = latch;
  b.CreateAlignedStore(phis[3], field(offsetof(BlockContext, current_thread)), Align(4), true);
  b.CreateBr(body);

  b.SetInsertPoint(latch);
  Value* const linear = b.CreateAdd(phis[3], b.getInt32(1), "", true, true);
  Value* const x1 = b.CreateAdd(phis[0], b.getInt32(1), "", true, true);
  Value* const wrap_x = b.CreateICmpEQ(x1, nx);
  Value* const y1 = b.CreateAdd(phis[1], b.getInt32(1), "", true, true);
  Value* const wrap_y = b.CreateAnd(wrap_x, b.CreateICmpEQ(y1, ny));
  Value* const next[4] = {
      b.CreateSelect(wrap_x, b.getInt32(0), x1),
      b.CreateSelect(wrap_y, b.getInt32(0), b.CreateSelect(wrap_x, y1, phis[1])),
      b.CreateSelect(wrap_y, b.CreateAdd(phis[2], b.getInt32(1)), phis[2]),
      linear,
  };
  for (int i = 0; i < 4; ++i) phis[i]->addIncoming(next[i], latch);
  b.CreateCondBr(b.CreateICmpULT(linear, threads), header, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();

  Lowering{*function, place}.run();
  return function;
}

}  // namespace cucpu
