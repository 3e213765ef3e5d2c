// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/vectorize.cpp: chooses the width, analyses thread code and emits block code.
#include "cpu/engine/simt/vectorize.hpp"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/simt/columns.hpp"
#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"
#include "cpu/engine/simt/narrow_kernel.hpp"
#include "cpu/engine/simt/prefetch.hpp"
#include "cpu/engine/simt/vector_target.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

// Compile time dominates in large kernels. Their vectors are one register, and LLVM runs fewer
// passes.
constexpr unsigned kLarge = 1000;  // instructions of thread code
// The same for code with unrolled loops, whose copies LLVM simplifies.
constexpr unsigned kLargeUnrolled = 2000;
// Instructions times blocks. Above it, promotion of slots to registers takes too long, because LLVM
// visits all blocks for each slot.
constexpr std::uint64_t kTooLarge = 8'000'000;

// Live vector registers, of 32: some long-lived values may be spilled without cost. Above it, half
// the width is faster.
constexpr unsigned kRegisters = 40;
// The same where a wider group than usual would have two registers per value, of 16 (AVX2).
constexpr unsigned kFewRegisters = 12;
// Lanes of a group that access lines of their own: columns of a matrix whose rows are a power of
// two long share a set of the first-level cache, which has eight or twelve lines.
constexpr unsigned kColumns = 8;
// Lanes of a group that reads single bytes, and reads the next ones after long: a group of sixteen
// uses a quarter of each cache line that it fetches.
constexpr unsigned kBytes = 32;
// Lanes of a group whose vectors hold narrow numbers only: the instructions for addresses and tests
// of a group take as long as those for its vectors.
constexpr unsigned kNarrow = 32;

// By what unrolling the loops that load a tile multiplies the cost (unroll_tile_loops.hpp).
constexpr unsigned kTileCopies = 4;

/// Estimated cost of optimization: instructions times lanes. 2,500 is about 60 ms on a Neoverse N1.
/// On x86-64 with registers of sixteen lanes, vector code takes half as long.
unsigned cost_of(Function& thread, unsigned lanes) {
  unsigned cost = 0;
  for (const Instruction& inst : instructions(thread))
    cost += inst.getType()->isDoubleTy() ? 2 * lanes : lanes;
  return cost;
}

// Lanes in one row of the block have contiguous addresses, so a width that divides the row is
// better than a wider one.
unsigned choose_width(const Options& options, const Needs& needs, unsigned preferred) {
  if (needs.whole_warps) return 32;
  if (options.width) return options.width;
  unsigned threads = static_cast<unsigned>(options.block.volume());
  unsigned row = options.block.x > 1   ? options.block.x
                 : options.block.y > 1 ? options.block.y
                                       : options.block.z;
  unsigned width = preferred;
  while (width > 4 && width / 2 >= threads) width /= 2;
  if (row != threads)
    for (unsigned narrow = width; narrow >= 4; narrow /= 2)
      if (row % narrow == 0) return narrow;
  return width;
}

using BlockSet = SmallPtrSet<BasicBlock*, 32>;

// The blocks that control may pass from `first` to the reconvergence point (immediate
// post-dominator) of the branch at the end of `branch`.
BlockSet blocks_before_meeting(const Flow& flow, BasicBlock* branch, BasicBlock* first) {
  auto* node = flow.post_dominators.getNode(branch);
  BasicBlock* meet = node && node->getIDom() ? node->getIDom()->getBlock() : nullptr;
  SmallVector<BasicBlock*> work{first};
  BlockSet seen;
  while (!work.empty()) {
    BasicBlock* at = work.pop_back_val();
    if (at != meet && seen.insert(at).second) append_range(work, successors(at));
  }
  return seen;
}

// Whether every group reaches the same barriers in the same order: no divergent branch decides
// about a barrier.
bool groups_agree(const Flow& flow, const Shapes& block) {
  for (BasicBlock* from : flow.order) {
    if (!block.diverges(from)) continue;
    for (BasicBlock* next : successors(from))
      for (BasicBlock* at : blocks_before_meeting(flow, from, next))
        if (barrier_at_end(*at)) return false;
  }
  return true;
}

/// Null for operations of the whole warp, those on matrices.
const Value* mask_of(const CallInst* operation) {
  if (is_matrix_operation(marker_name(operation))) return nullptr;
  return operation->getArgOperand(operation->arg_size() - 1);
}

// Whether a mask contains exactly the lanes that take this side of the branch: the active mask, or
// a ballot of its condition.
bool names_side(const Value* mask, const BranchInst* branch, bool side) {
  using namespace PatternMatch;
  const StringRef name = marker_name(mask);
  if (name == "activemask") return true;
  if (name != "vote.ballot") return false;
  const Value* vote = cast<CallInst>(mask)->getArgOperand(0);
  const Value* condition = branch->getCondition();
  return side ? vote == condition
              : match(vote, m_Not(m_Specific(condition))) ||
                    match(condition, m_Not(m_Specific(vote)));
}

// A warp operation waits for all lanes of its mask, at whichever copy of the instruction they are.
// Compilers copy instructions, for example when they unswitch a loop. Block code runs the two sides
// of a divergent branch one after the other, so lanes could not meet there. Operations with
// different constant masks do not meet; computed masks may be equal.
bool splits_warp_operation(const Flow& flow, const Shapes& shapes) {
  const auto operations = [](const BlockSet& blocks, const BlockSet& without) {
    SmallVector<CallInst*> found;
    for (BasicBlock* block : blocks) {
      if (without.contains(block)) continue;
      for (Instruction& inst : *block)
        if (StringRef name = marker_name(&inst); is_warp_operation(name) && name != "activemask")
          found.push_back(cast<CallInst>(&inst));
    }
    return found;
  };
  for (BasicBlock* from : flow.order) {
    if (!shapes.diverges(from)) continue;
    auto* branch = cast<BranchInst>(from->getTerminator());
    const BlockSet yes = blocks_before_meeting(flow, from, branch->getSuccessor(0));
    const BlockSet no = blocks_before_meeting(flow, from, branch->getSuccessor(1));
    const auto left = operations(yes, no), right = operations(no, yes);
    for (const CallInst* one : left)
      for (const CallInst* other : right) {
        if (one->getCalledFunction() != other->getCalledFunction()) continue;
        const Value *a = mask_of(one), *b = mask_of(other);
        if (!a || !b) return true;
        const bool differ = isa<Constant>(a) && isa<Constant>(b) && a != b;
        if (!differ && !names_side(a, branch, true) && !names_side(b, branch, false)) return true;
      }
  }
  return false;
}

// The largest number of live vectors of W lanes; vectors of f64 count twice.
unsigned pressure(const Flow& flow, const Shapes& shapes) {
  const auto weight = [&](const Value* value) {
    if (!isa<Instruction>(value) || shapes[value].kind != Shape::Varying) return 0U;
    return value->getType()->getScalarSizeInBits() == 64 ? 2U : 1U;
  };
  unsigned most = 0;
  for (BasicBlock* block : flow.order) {
    SmallPtrSet<const Value*, 32> live;
    for (BasicBlock* next : successors(block)) {
      live.insert(flow.live_in(next).begin(), flow.live_in(next).end());
      for (PHINode& phi : next->phis()) live.insert(phi.getIncomingValueForBlock(block));
    }
    unsigned now = 0;
    for (const Value* value : live) now += weight(value);
    most = std::max(most, now);
    for (Instruction& inst : reverse(*block)) {
      if (live.erase(&inst)) now -= weight(&inst);
      if (isa<PHINode>(inst)) continue;
      for (const Value* operand : inst.operands())
        if (weight(operand) > 0 && live.insert(operand).second) now += weight(operand);
      most = std::max(most, now);
    }
  }
  return most;
}

// Whether lanes access memory in a loop that they leave one by one: a wider group would do more of
// that for lanes that have left.
bool accesses_in_divergent_loop(const Flow& flow, const Shapes& shapes) {
  return any_of(flow.order, [&](const BasicBlock* block) {
    for (const Loop* loop = flow.loop_of(block); loop; loop = loop->getParentLoop())
      if (shapes.diverges(loop))
        return any_of(*block, [](const Instruction& inst) { return inst.mayReadOrWriteMemory(); });
    return false;
  });
}

// Whether a loop reads single bytes, with a stride that is known only at launch.
bool streams_bytes(const Flow& flow, const Shapes& shapes, unsigned width) {
  return any_of(find_prefetches(flow, shapes, width), [](const auto& one) {
    return one.second.step && one.first->getType()->isIntegerTy(8);
  });
}

// Whether all vectors hold narrow numbers, also those of wide groups, which fit into registers.
bool has_wide_groups(const Flow& flow, const Shapes& shapes, const Options& options,
                     const VectorTarget& target, unsigned pressure) {
  if (options.block.volume() % kNarrow != 0 || bits_of_narrow_kernel(flow, shapes) == 0)
    return false;
  const Shapes wide{flow, Lanes{kNarrow, options.block}, Shapes::Scope::FullGroup};
  const unsigned bits = bits_of_narrow_kernel(flow, wide);
  const unsigned registers = std::max(kNarrow * bits / (32 * target.lanes), 1U);  // per value
  return bits != 0 && pressure * registers <= kFewRegisters;
}

// Moves extensions of one block that need a guard together after the first one, where their
// operands can be computed before it: one exit and one test serve all of them. Returns the
// remaining positions of guards.
SmallVector<Instruction*> gather_points(ArrayRef<Instruction*> points) {
  SmallVector<Instruction*> left;
  Instruction* last = nullptr;  // the last of the extensions moved together
  for (Instruction* point : points) {
    Instruction* first = left.empty() ? nullptr : left.back();
    bool together = first && first->getParent() == point->getParent();
    SmallSetVector<Instruction*, 8> moved;
    SmallVector<Value*> work(point->operands());
    while (together && !work.empty()) {
      auto* inst = dyn_cast<Instruction>(work.pop_back_val());
      if (!inst || inst->getParent() != first->getParent() || inst->comesBefore(first) ||
          moved.contains(inst))
        continue;
      together = isa<BinaryOperator, CastInst>(inst) && !inst->isIntDivRem() &&
                 !is_contained(points, inst) && moved.size() < 16;
      moved.insert(inst);
      append_range(work, inst->operands());
    }
    if (!together) {
      left.push_back(point);
      last = point;
      continue;
    }
    SmallVector<Instruction*> in_order(moved.begin(), moved.end());
    sort(in_order, [](Instruction* a, Instruction* b) { return a->comesBefore(b); });
    for (Instruction* inst : in_order) inst->moveBefore(first);
    point->moveAfter(last);
    last = point;
  }
  return left;
}

// Lanes that wait at such a block have ended.
bool only_returns(const BasicBlock* block) {
  while (block->size() == 1 && isa<BranchInst>(block->front()) && block->getSingleSuccessor())
    block = block->getSingleSuccessor();
  return isa<ReturnInst>(block->front());
}

std::string check(const Flow& flow, const Linear& linear) {
  if (!isa<ReturnInst>(flow.order.back()->getTerminator())) return "infinite loop";
  for (BasicBlock* block : flow.order) {
    bool apart = false;
    for (unsigned waiting : linear.pending(block)) apart |= !only_returns(flow.order[waiting]);
    if (!apart) continue;
    if (barrier_at_end(*block)) return "barrier in divergent control flow";
    for (Instruction& inst : *block)
      if (marker_name(&inst) == "warp.sync") return "warp barrier in divergent control flow";
  }
  return {};
}

void count(const Flow& flow, const Shapes& shapes, Report& report) {
  for (BasicBlock* block : flow.order) {
    report.divergent_branches += shapes.diverges(block);
    for (Instruction& inst : *block) {
      ++report.instructions;
      if (inst.getType()->isVoidTy()) continue;
      Shape::Kind kind = shapes[&inst].kind;
      (kind == Shape::Varying   ? report.varying
       : kind == Shape::Strided ? report.strided
                                : report.uniform) += 1;
    }
  }
  for (Loop* loop : flow.loops.getLoopsInPreorder())
    report.divergent_loops += shapes.diverges(loop);
}

}  // namespace

BlockCode vectorize(Function& thread, const Options& options) {
  BlockCode code;
  Report& report = code.report;
  const std::uint64_t size = thread.getInstructionCount();
  code.reduced = size > (options.unrolled ? kLargeUnrolled : kLarge);
  if (size * thread.size() > kTooLarge) {
    report.refusal = "too large: " + std::to_string(size) + " instructions in " +
                     std::to_string(thread.size()) + " blocks";
    return code;
  }
  const Needs needs = needs_of(thread);
  const VectorTarget target = VectorTarget::of(options.target);
  Lanes lanes{choose_width(options, needs, code.reduced ? target.lanes : target.preferred),
              options.block};
  unsigned cost_width = ~0U;  // lanes that count for the cost, at most
  {
    // Split blocks where indices may wrap inside a group, so that control can leave there; then
    // repeat the analyses.
    Flow flow{thread};
    if (options.width == 0 && !needs.whole_warps) {
      const Shapes shapes{flow, lanes, Shapes::Scope::FullGroup};
      report.pressure = pressure(flow, shapes);
      const unsigned registers = lanes.width / target.lanes;  // per value
      const unsigned wider = choose_width(options, needs, target.most);
      if (registers > 1 && report.pressure * registers > kRegisters)
        lanes = Lanes{lanes.width / 2, options.block};
      else if (!code.reduced && wider == 2 * target.lanes && wider > lanes.width &&
               report.pressure * 2 <= kFewRegisters && !accesses_in_divergent_loop(flow, shapes))
        lanes = Lanes{wider, options.block};
      if (const Lanes narrow{kColumns, options.block}; lanes.width > kColumns &&
                                                       can_run_by_columns(flow, narrow) &&
                                                       writes_columns(flow, shapes))
        lanes = narrow;
      else if (!code.reduced && options.block.x % kBytes == 0 &&
               streams_bytes(flow, shapes, lanes.width))
        lanes = Lanes{kBytes, options.block};
      else if (!code.reduced && choose_width(options, needs, kNarrow) == kNarrow &&
               has_wide_groups(flow, shapes, options, target, report.pressure)) {
        lanes = Lanes{kNarrow, options.block};
        cost_width = kNarrow / 2;  // whose vectors would be as large with usual numbers
      }
    }
    if (options.baseline_beyond) {
      unsigned cost = cost_of(thread, std::min(lanes.width, cost_width));
      if (MemoryEmitter::loads_tile(flow, lanes)) cost *= kTileCopies;
      code.baseline = cost > *options.baseline_beyond;
    }
    if (code.baseline) {
      code.reduced = true;
      lanes = Lanes{choose_width(options, needs, target.lanes), options.block};
    }
    lanes.whole_comparisons = groups_agree(flow, Shapes{flow, lanes, Shapes::Scope::Block});
    Shapes shapes{flow, lanes, Shapes::Scope::FullGroup};
    SmallVector<Instruction*> points;
    for (BasicBlock* block : flow.order)
      for (Instruction& inst : *block)
        if (shapes.needs_guard(&inst)) points.push_back(&inst);
    report.wrap_guards = static_cast<unsigned>(points.size());
    split_before(gather_points(points));
  }
  report.width = lanes.width;
  report.groups = lanes.groups();
  const bool partial = lanes.threads() % lanes.width != 0;
  Flow flow{thread};
  Shapes full{flow, lanes, Shapes::Scope::FullGroup};
  Shapes masked{flow, lanes, Shapes::Scope::MaskedGroup};
  Shapes block{flow, lanes, Shapes::Scope::Block};
  Linear linear{flow, masked, partial};
  report.refusal = check(flow, linear);
  if (report.refusal.empty() && splits_warp_operation(flow, full))
    report.refusal = "warp operation on both sides of a divergent branch";
  if (!report.refusal.empty()) return code;
  Plan plan{flow,         full, masked, block, linear, lanes, target, groups_agree(flow, block),
            code.baseline};
  for (BasicBlock* at : flow.order)
    for (Instruction& inst : *at) {
      if (!full.needs_guard(&inst)) break;
      plan.guards[at].push_back(&inst);
    }
  report.groups_agree = plan.groups_agree;
  plan.check = options.check;
  plan.by_columns = !needs.whole_warps && can_run_by_columns(flow, lanes) &&
                    (options.columns || (target.columns && writes_columns(flow, full)));
  if (!plan.groups_agree && (options.check & check::kSync) != 0) {
    report.refusal = "check mode: threads may reach different barriers";
    return code;
  }
  if (!plan.groups_agree && any_of(instructions(thread), [](Instruction& inst) {
        return marker_name(&inst) == "yield";
      })) {
    report.refusal = "spin loop on another block where lane groups may be at different barriers";
    return code;
  }
  count(flow, full, report);
  code.function = Emitter{plan, thread, report}.run();
  code.scratch_bytes = report.scratch_bytes;
  return code;
}

UnrollLimits unroll_limits(const Options& options, bool waited_for) {
  constexpr unsigned kWaitedFor = 5000;  // cost_of() of code as it is before LLVM simplifies it
  const unsigned lanes = options.width ? options.width : VectorTarget::of(options.target).preferred;
  if (options.baseline_beyond)
    return {std::min(kLarge, *options.baseline_beyond / lanes), kLargeUnrolled};
  const unsigned most = waited_for ? std::min(kWaitedFor / lanes, kLargeUnrolled) : kLargeUnrolled;
  return {most, most};
}

std::string to_string(const Report& r) {
  std::string text;
  raw_string_ostream out{text};
  if (!r.refusal.empty()) {
    out << "not vectorized: " << r.refusal;
    return out.str();
  }
  auto share = [](unsigned part, unsigned whole) { return whole ? 100 * part / whole : 0; };
  unsigned values = r.uniform + r.strided + r.varying;
  unsigned loads = r.loads_uniform + r.loads_contiguous + r.loads_strided + r.gathers;
  unsigned stores = r.stores_uniform + r.stores_contiguous + r.stores_strided + r.scatters;
  out << "W=" << r.width << " groups=" << r.groups << " regions=" << r.regions
      << (r.groups_agree ? "" : " (groups may differ)") << " instructions=" << r.instructions
      << " uniform=" << share(r.uniform, values) << "% strided=" << share(r.strided, values)
      << "% loads=" << loads << " (uniform " << r.loads_uniform << ", contiguous "
      << r.loads_contiguous << ", strided " << r.loads_strided << ", gathers " << r.gathers
      << ") stores=" << stores << " (uniform " << r.stores_uniform << ", contiguous "
      << r.stores_contiguous << ", strided " << r.stores_strided << ", scatters " << r.scatters
      << ") atomics=" << r.atomics << " warp=" << r.warp_operations
      << " lane-calls=" << r.lane_calls << " divergent branches=" << r.divergent_branches
      << " loops=" << r.divergent_loops << " one-lane=" << r.one_lane
      << " last-group=" << r.last_groups << " rows=" << r.row_tests << " edges=" << r.edges
      << " tails=" << r.tails << " masked blocks=" << r.masked_blocks << " guards=" << r.wrap_guards
      << " scratch=" << r.scratch_bytes;
  if (r.pressure) out << " vectors=" << r.pressure;
  return out.str();
}

}  // namespace cucpu::simt
