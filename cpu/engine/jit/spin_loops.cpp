// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/spin_loops.cpp: a loop spins when its exit depends on values that it reads and an
// iteration may leave everything else that the exit depends on unchanged.
#include "cpu/engine/jit/spin_loops.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/CycleAnalysis.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <optional>

#include "cpu/engine/jit/back_edges.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu {
namespace {

using namespace llvm;
using simt::is_barrier;
using simt::marker_name;
using simt::space_of;

/// The condition of a branch or switch, or null.
Value* condition_of(const BasicBlock& block) {
  if (const auto* branch = dyn_cast<BranchInst>(block.getTerminator()))
    return branch->isConditional() ? branch->getCondition() : nullptr;
  if (const auto* choice = dyn_cast<SwitchInst>(block.getTerminator()))
    return choice->getCondition();
  return nullptr;
}

/// An increment under a condition, or none.
bool may_be_zero(const Value* value) {
  if (const auto* number = dyn_cast<ConstantInt>(value)) return number->isZero();
  if (const auto* choice = dyn_cast<SelectInst>(value))
    return may_be_zero(choice->getTrueValue()) || may_be_zero(choice->getFalseValue());
  if (const auto* cast = dyn_cast<CastInst>(value)) return may_be_zero(cast->getOperand(0));
  if (const auto* join = dyn_cast<PHINode>(value)) {
    const auto counts = [&](const Value* incoming) {  // from zero on
      const auto* step = dyn_cast<BinaryOperator>(incoming);
      return step && is_contained(step->operands(), join);
    };
    return none_of(join->incoming_values(), counts) &&
           any_of(join->incoming_values(), [](const Value* incoming) {
             const auto* number = dyn_cast<ConstantInt>(incoming);
             return number && number->isZero();
           });
  }
  return isa<Instruction>(value) && value->getType()->isIntegerTy(1);
}

/// An atomic operation that changes memory in every execution: no thread waits for another in it.
bool is_counter(const AtomicRMWInst& rmw) {
  return (rmw.getOperation() == AtomicRMWInst::Add || rmw.getOperation() == AtomicRMWInst::Sub) &&
         !may_be_zero(rmw.getValOperand());
}

/// The location of an access; accesses to the same location have equal ones.
struct Place {
  const Value* base = nullptr;
  std::int64_t offset = 0;

  static Place of(const Instruction& access) {
    const Value* at = getLoadStorePointerOperand(&access);
    if (!at && isa<AtomicRMWInst, AtomicCmpXchgInst>(access)) at = access.getOperand(0);
    Place place{at, 0};
    const DataLayout& layout = access.getModule()->getDataLayout();
    for (;;) {
      if (const auto* step = dyn_cast_or_null<GEPOperator>(place.base)) {
        APInt offset{64, 0};
        if (!step->accumulateConstantOffset(layout, offset)) return place;
        place.offset += offset.getSExtValue();
        place.base = step->getPointerOperand();
      } else if (const auto* same = dyn_cast_or_null<Operator>(place.base);
                 same && (same->getOpcode() == Instruction::IntToPtr ||
                          same->getOpcode() == Instruction::PtrToInt)) {
        place.base = same->getOperand(0);
      } else if (const auto* sum = dyn_cast_or_null<BinaryOperator>(place.base);
                 sum && sum->getOpcode() == Instruction::Add &&
                 isa<ConstantInt>(sum->getOperand(1))) {
        place.offset += cast<ConstantInt>(sum->getOperand(1))->getSExtValue();
        place.base = sum->getOperand(0);
      } else {
        return place;
      }
    }
  }
  bool operator==(const Place& other) const {
    if (offset != other.offset || !base || !other.base) return false;
    return base == other.base ||
           (marker_name(base) == "shared" && marker_name(other.base) == "shared");
  }
};

/// Whether a value computed inside the loop depends, as data, on an access that reads what other
/// threads write.
bool reads_others(Value* value, const Loop& loop, SmallPtrSetImpl<Value*>& seen) {
  auto* instruction = dyn_cast<Instruction>(value);
  if (!instruction || !loop.contains(instruction) || !seen.insert(instruction).second) return false;
  if (const auto* rmw = dyn_cast<AtomicRMWInst>(instruction); rmw && !is_counter(*rmw)) return true;
  if (isa<AtomicCmpXchgInst>(instruction)) return true;
  if (const auto* load = dyn_cast<LoadInst>(instruction); load && !load->isSimple()) return true;
  return any_of(instruction->operands(),
                [&](Value* operand) { return reads_others(operand, loop, seen); });
}

/// The dependences of the exit of a loop: data, branches that select values, and shared memory.
class Slice {
 public:
  Slice(const Loop& loop, const LoopInfo& loops, const DominatorTree& tree,
        const PostDominatorTree& ends)
      : loop_{loop}, loops_{loops}, tree_{tree}, ends_{ends} {
    for (BasicBlock* block : loop.blocks())
      for (Instruction& instruction : *block) look_at(instruction);
    const auto reads = [&](const BasicBlock* block) {
      return any_of(*block, [&](const Instruction& instruction) { return is_read(instruction); });
    };
    if (none_of(loop.blocks(), reads)) return;  // most loops
    SmallVector<BasicBlock*, 4> exiting;
    loop.getExitingBlocks(exiting);
    for (BasicBlock* block : exiting) {
      add(condition_of(*block));
      add_control(block);
    }
    while (!work_.empty()) follow(work_.pop_back_val());
  }

  /// Whether a value is read that other threads may write.
  [[nodiscard]] bool reads_memory() const {
    return any_of(seen_, [&](const Instruction* instruction) { return is_read(*instruction); });
  }

  /// Whether an iteration may leave everything unchanged except what is read.
  [[nodiscard]] bool may_stay() const {
    SmallVector<BasicBlock*, 4> latches;
    loop_.getLoopLatches(latches);
    return any_of(latches, [&](BasicBlock* latch) {
      return all_of(loop_.getHeader()->phis(), [&](PHINode& phi) {
        SmallPtrSet<Value*, 16> tried;
        return !seen_.contains(&phi) || may_stay(phi.getIncomingValueForBlock(latch), phi, tried);
      });
    });
  }

 private:
  void look_at(Instruction& instruction) {
    const StringRef name = marker_name(&instruction);
    // Plain loads are repeated only at barriers and after fences.
    orders_memory_ |=
        is_barrier(name) || name.starts_with("cluster.") || isa<FenceInst>(instruction);
    meets_cluster_ |= name.starts_with("cluster.");
    if (!isa<StoreInst, AtomicRMWInst, AtomicCmpXchgInst>(instruction)) return;
    writes_.push_back({&instruction, Place::of(instruction)});
    writes_shared_ |= is_shared(instruction);
  }

  void add(Value* value) {
    auto* instruction = dyn_cast_or_null<Instruction>(value);
    if (instruction && loop_.contains(instruction) && seen_.insert(instruction).second)
      work_.push_back(instruction);
  }

  /// The branches that decide whether this block of the loop executes.
  void add_control(BasicBlock* block) {
    for (auto* node = tree_.getNode(block); node && (node = node->getIDom());) {
      if (!loop_.contains(node->getBlock())) return;
      if (!ends_.dominates(block, node->getBlock())) add(condition_of(*node->getBlock()));
    }
  }

  /// The branches that select the value of a phi.
  void add_choice(BasicBlock* join) {
    if (const Loop* inner = loops_.getLoopFor(join); inner && inner->getHeader() == join) {
      // The trip count of an inner loop; for the outer loop, which back edge was taken.
      SmallVector<BasicBlock*, 4> blocks;
      if (inner != &loop_) {
        inner->getExitingBlocks(blocks);
        for (BasicBlock* block : blocks) add(condition_of(*block));
        return;
      }
      inner->getLoopLatches(blocks);
      if (blocks.size() > 1)
        for (BasicBlock* latch : blocks) {
          add(condition_of(*latch));
          add_control(latch);
        }
      return;
    }
    const auto* above = tree_.getNode(join) ? tree_.getNode(join)->getIDom() : nullptr;
    if (!above) return;
    SmallVector<BasicBlock*, 8> work(predecessors(join));
    SmallPtrSet<BasicBlock*, 8> passed;
    while (!work.empty()) {
      BasicBlock* block = work.pop_back_val();
      if (!loop_.contains(block) || !passed.insert(block).second) continue;
      add(condition_of(*block));
      if (block != above->getBlock()) append_range(work, predecessors(block));
    }
  }

  void follow(Instruction* instruction) {
    for (Value* operand : instruction->operands()) add(operand);
    if (isa<PHINode>(instruction)) add_choice(instruction->getParent());
    if (const auto* load = dyn_cast<LoadInst>(instruction); load && load->isSimple())
      follow_memory(*load);
  }

  /// One thread reads and passes the result to the others through memory.
  void follow_memory(const LoadInst& load) {
    if (!orders_memory_) return;
    const Place place = Place::of(load);
    const bool known = any_of(writes_, [&](const Write& write) { return write.place == place; });
    if (!known && !is_shared(load)) return;
    for (const auto& [write, at] : writes_) {
      if (known ? !(at == place) : !is_shared(*write)) continue;
      if (known && is_progress(load, *write)) {
        own_.insert(&load);
        continue;
      }
      add(write);
      for (Value* operand : write->operands()) add(operand);
      add_control(write->getParent());
    }
  }

  /// A thread has made progress and requests another iteration: `p[i] = x; changed = true;` in `do
  /// { ... } while (changed)`.
  [[nodiscard]] bool is_progress(const LoadInst& load, const Instruction& write) const {
    const auto* store = dyn_cast<StoreInst>(&write);
    const auto* number = store ? dyn_cast<ConstantInt>(store->getValueOperand()) : nullptr;
    if (!number || !makes_another_turn(load, *number)) return false;
    return any_of(*write.getParent(), [&](const Instruction& other) {
      return &other != &write && isa<StoreInst, AtomicRMWInst, AtomicCmpXchgInst>(other) &&
             !(Place::of(other) == Place::of(write));
    });
  }

  /// Whether the loop continues if the load returns this number.
  [[nodiscard]] bool makes_another_turn(const LoadInst& load, const ConstantInt& number) const {
    const Value* value = &load;
    while (value->hasOneUse() && isa<CastInst, FreezeInst>(*value->user_begin()))
      value = *value->user_begin();
    for (const User* user : value->users()) {
      const auto* compare = dyn_cast<ICmpInst>(user);
      const auto* limit = compare ? dyn_cast<ConstantInt>(compare->getOperand(1)) : nullptr;
      if (!limit || !compare->isEquality() || compare->getOperand(0) != value) continue;
      const bool same = number.getValue().zextOrTrunc(64) == limit->getValue().zextOrTrunc(64);
      const bool holds = same == (compare->getPredicate() == ICmpInst::ICMP_EQ);
      for (const User* at : compare->users())
        if (const auto* branch = dyn_cast<BranchInst>(at); branch && loop_.contains(branch))
          return loop_.contains(branch->getSuccessor(holds ? 0 : 1));
    }
    return false;
  }

  static bool is_shared(const Instruction& access) { return space_of(access) == "shared"; }

  /// A lock that is released in the same iteration: its owner needs no other thread to continue.
  [[nodiscard]] bool is_released(const Instruction& take) const {
    const Place place = Place::of(take);
    return any_of(writes_, [&](const Write& write) {
      return write.instruction != &take && write.place == place;
    });
  }

  [[nodiscard]] bool is_read(const Instruction& instruction) const {
    if (const auto* rmw = dyn_cast<AtomicRMWInst>(&instruction))
      return !is_counter(*rmw) && !is_released(*rmw);
    if (const auto* cas = dyn_cast<AtomicCmpXchgInst>(&instruction)) return !is_released(*cas);
    if (const auto* load = dyn_cast<LoadInst>(&instruction)) {
      const StringRef space = space_of(*load);
      if (space == "param" || space == "const" || space == "local") return false;
      if (!load->isSimple()) return true;
      // Values that the block communicates to itself, unless no thread that continues writes them.
      if (space == "shared" && !meets_cluster_ && writes_shared_) return false;
      return orders_memory_ && !own_.contains(load) && !isa<AllocaInst>(load->getPointerOperand());
    }
    if (const auto* call = dyn_cast<CallBase>(&instruction)) {
      const Function* callee = call->getCalledFunction();
      if (!callee) return true;
      const StringRef name = callee->getName();
      if (name.starts_with("cucpu_rt_atom_") || name == "cucpu_rt_multimem_load") return true;
      return !name.starts_with("cucpu") && !callee->isIntrinsic() && call->mayReadFromMemory();
    }
    return false;
  }

  /// Whether the value at the end of an iteration may equal that of `phi` at its start.
  bool may_stay(Value* value, PHINode& phi, SmallPtrSetImpl<Value*>& tried) const {
    auto* instruction = dyn_cast<Instruction>(value);
    if (value == &phi || !instruction || !loop_.contains(instruction)) return true;
    if (!tried.insert(value).second) return false;
    const auto stays = [&](Value* other) { return may_stay(other, phi, tried); };
    const auto moves = [&](Value* other) { return !isa<Constant>(other) && stays(other); };
    if (auto* join = dyn_cast<PHINode>(instruction))
      return join->getParent() == loop_.getHeader() || any_of(join->incoming_values(), stays);
    // A condition, or a value that was read, is unchanged as long as memory is.
    if (value->getType()->isIntegerTy(1)) return true;
    if (isa<LoadInst, AtomicRMWInst, AtomicCmpXchgInst, ExtractValueInst, CallBase>(instruction)) {
      SmallPtrSet<Value*, 16> seen;
      return none_of(instruction->operands(),
                     [&](Value* operand) { return depends_on(operand, phi, seen); });
    }
    if (auto* choice = dyn_cast<SelectInst>(instruction))
      return stays(choice->getTrueValue()) || stays(choice->getFalseValue());
    if (isa<CastInst, FreezeInst>(instruction)) return stays(instruction->getOperand(0));
    switch (instruction->getOpcode()) {
      case Instruction::Add:
      case Instruction::Or:
      case Instruction::Xor:
        return (may_be_zero(instruction->getOperand(1)) && moves(instruction->getOperand(0))) ||
               (may_be_zero(instruction->getOperand(0)) && moves(instruction->getOperand(1)));
      case Instruction::Sub:
        return may_be_zero(instruction->getOperand(1)) && moves(instruction->getOperand(0));
      case Instruction::And:
        return stays(instruction->getOperand(0)) || stays(instruction->getOperand(1));
      default:
        return false;
    }
  }

  bool depends_on(Value* value, PHINode& phi, SmallPtrSetImpl<Value*>& seen) const {
    auto* instruction = dyn_cast<Instruction>(value);
    if (value == &phi) return true;
    if (!instruction || !loop_.contains(instruction) || !seen.insert(value).second) return false;
    return any_of(instruction->operands(),
                  [&](Value* operand) { return depends_on(operand, phi, seen); });
  }

  const Loop& loop_;
  const LoopInfo& loops_;
  const DominatorTree& tree_;
  const PostDominatorTree& ends_;
  SmallPtrSet<Instruction*, 32> seen_;
  SmallVector<Instruction*, 32> work_;
  struct Write {
    Instruction* instruction;
    Place place;
  };
  SmallVector<Write, 8> writes_;
  SmallPtrSet<const LoadInst*, 8> own_;  ///< loads of values that the block communicates to itself
  bool orders_memory_ = false, meets_cluster_ = false, writes_shared_ = false;
};

/// Debug mode: variables of the source are in memory, and dependences through them are not
/// followed.
bool has_variables_in_memory(const Function& function) {
  return any_of(function.getEntryBlock(), [](const Instruction& instruction) {
    return isa<AllocaInst>(instruction) && instruction.hasMetadata("cucpu.variable");
  });
}

/// Whether blocks read anything that other threads may write.
template <typename Blocks>
bool read_anything(const Blocks& blocks) {
  const auto any = [&](auto&& holds) {
    return any_of(blocks, [&](const BasicBlock* block) { return any_of(*block, holds); });
  };
  const bool orders_memory = any([](const Instruction& instruction) {
    const StringRef name = marker_name(&instruction);
    return is_barrier(name) || name.starts_with("cluster.") || isa<FenceInst>(instruction);
  });
  return any([&](const Instruction& instruction) {
    if (isa<AtomicRMWInst, AtomicCmpXchgInst>(instruction)) return true;
    if (const auto* load = dyn_cast<LoadInst>(&instruction)) {
      const StringRef space = space_of(*load);
      if (space == "param" || space == "const" || space == "local") return false;
      return !load->isSimple() || (orders_memory && !isa<AllocaInst>(load->getPointerOperand()));
    }
    const auto* call = dyn_cast<CallBase>(&instruction);
    const Function* callee = call ? call->getCalledFunction() : nullptr;
    if (!callee) return call != nullptr;
    const StringRef name = callee->getName();
    if (name.starts_with("cucpu_rt_atom_") || name == "cucpu_rt_multimem_load") return true;
    return !name.starts_with("cucpu") && !callee->isIntrinsic() && call->mayReadFromMemory();
  });
}

}  // namespace

bool is_spin_loop(const Loop& loop, const LoopInfo& loops, const DominatorTree& tree,
                  const PostDominatorTree& ends) {
  if (has_variables_in_memory(*loop.getHeader()->getParent())) return read_anything(loop.blocks());
  SmallVector<BasicBlock*, 4> exiting;
  loop.getExitingBlocks(exiting);
  for (BasicBlock* block : exiting) {
    SmallPtrSet<Value*, 16> seen;
    Value* condition = condition_of(*block);
    if (condition && reads_others(condition, loop, seen)) return true;
  }
  const Slice slice{loop, loops, tree, ends};
  return slice.reads_memory() && slice.may_stay();
}

bool passes_barrier_every_iteration(const Loop& loop) {
  const auto has_barrier = [](const BasicBlock* block) {
    return any_of(*block, [](const Instruction& instruction) {
      const StringRef name = marker_name(&instruction);
      return is_barrier(name) && name != "barrier.arrive";
    });
  };
  SmallVector<const BasicBlock*, 8> work{loop.getHeader()};
  SmallPtrSet<const BasicBlock*, 8> passed;
  while (!work.empty()) {
    const BasicBlock* block = work.pop_back_val();
    if (has_barrier(block)) continue;
    for (const BasicBlock* next : successors(block)) {
      if (next == loop.getHeader()) return false;
      if (loop.contains(next) && passed.insert(next).second) work.push_back(next);
    }
  }
  return true;
}

namespace {

/// What gets calls that yield.
struct Spin {
  SmallVector<Edge, 4> back_edges;
  BasicBlock* before = nullptr;  ///< where the count of iterations begins; null: the entry
  bool at_barrier = false;
};

/// Spin loops, and cycles with several entries (of goto, or of PTX) that read what others write.
SmallVector<Spin, 4> find_spin_loops(Function& function) {
  const auto edges = back_edges(function);
  if (edges.empty()) return {};
  DominatorTree dominators{function};
  const LoopInfo loops{dominators};
  const PostDominatorTree ends{function};
  CycleInfo cycles;
  cycles.compute(function);
  SmallVector<Spin, 4> found;
  SmallDenseMap<const void*, std::optional<unsigned>> places;  // of loops and cycles
  for (const Edge& edge : edges) {
    const Loop* const loop = loop_of(edge, loops);
    const Cycle* cycle = loop ? nullptr : cycles.getCycle(edge.second);
    while (cycle && !cycle->contains(edge.first)) cycle = cycle->getParentCycle();
    const auto [place, is_new] = places.try_emplace(loop ? static_cast<const void*>(loop) : cycle);
    if (is_new && loop && is_spin_loop(*loop, loops, dominators, ends)) {
      place->second = found.size();
      found.push_back({{}, loop->getLoopPreheader(), passes_barrier_every_iteration(*loop)});
    } else if (is_new && cycle && read_anything(cycle->blocks())) {
      place->second = found.size();
      found.emplace_back();
    }
    if (!place->second) continue;
    auto& same = found[*place->second].back_edges;
    if (!is_contained(same, edge)) same.push_back(edge);
  }
  return found;
}

}  // namespace

/// The first iterations do not yield: a loop that searches a free slot, or repeats a failed
/// compare-and-swap, has mostly ended by then, and the first yield makes the runtime start other
/// threads on stacks of their own.
bool mark_spin_loops(Function& function) {
  constexpr unsigned kFree = 4;
  SmallVector<Spin, 4> found = find_spin_loops(function);
  if (found.empty()) return false;
  Module& module = *function.getParent();
  IRBuilder<> b{module.getContext()};
  const auto call = [&](const char* name, ArrayRef<Value*> arguments) {
    SmallVector<Type*, 1> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    FunctionCallee marker =
        module.getOrInsertFunction(name, FunctionType::get(b.getVoidTy(), types, false));
    cast<Function>(marker.getCallee())->setDoesNotThrow();
    return b.CreateCall(marker, arguments);
  };
  for (const Spin& spin : found) {
    AllocaInst* iterations = nullptr;
    if (!spin.at_barrier) {
      BasicBlock& entry = function.getEntryBlock();
      b.SetInsertPoint(&entry, entry.begin());
      iterations = b.CreateAlloca(b.getInt32Ty(), nullptr, "iterations");
      b.SetInsertPoint(spin.before ? spin.before->getTerminator() : iterations->getNextNode());
      b.CreateStore(b.getInt32(0), iterations);
    }
    for (const auto& [latch, header] : spin.back_edges) {
      // Only on the back edge; at a switch, which may have several edges to the header, always.
      const bool splits = isa<BranchInst>(latch->getTerminator());
      const DebugLoc line = latch->getTerminator()->getDebugLoc();
      Instruction* end = (splits ? SplitEdge(latch, header) : latch)->getTerminator();
      b.SetInsertPoint(end);
      if (spin.at_barrier) {
        call("cucpu.yield_block", {})->setDebugLoc(line);
        continue;
      }
      Value* iteration = b.CreateLoad(b.getInt32Ty(), iterations);
      b.CreateStore(b.CreateAdd(iteration, b.getInt32(1)), iterations);
      Value* waits = b.CreateICmpUGE(iteration, b.getInt32(kFree));
      b.SetInsertPoint(SplitBlockAndInsertIfThen(waits, end, false));
      call("cucpu.yield", {b.getInt32(0)})->setDebugLoc(line);
    }
  }
  return true;
}

}  // namespace cucpu
