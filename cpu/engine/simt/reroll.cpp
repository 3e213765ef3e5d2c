// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/reroll.cpp: executes both loops symbolically and compares the results.
#include "cpu/engine/simt/reroll.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <optional>
#include <vector>

#include "cpu/engine/simt/markers.hpp"
#include "cpu/engine/simt/symbolic_form.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

/// A loop of one block that is entered from one other block.
struct Single {
  BasicBlock *body = nullptr, *before = nullptr, *after = nullptr;
};

std::optional<Single> single_loop(BasicBlock* body) {
  auto* branch = dyn_cast<BranchInst>(body->getTerminator());
  if (!branch || !branch->isConditional()) return {};
  const unsigned back = branch->getSuccessor(0) == body ? 0 : 1;
  if (branch->getSuccessor(back) != body || branch->getSuccessor(1 - back) == body) return {};
  Single loop{body, nullptr, branch->getSuccessor(1 - back)};
  for (BasicBlock* from : predecessors(body)) {
    if (from == body) continue;
    if (loop.before) return {};
    loop.before = from;
  }
  if (!loop.before || isa<PHINode>(body->getTerminator())) return {};
  return loop;
}

/// The condition under which a loop continues, as a comparison with the test's first operand left.
struct Continue {
  CmpInst::Predicate predicate;
  Value *left, *right;
};

std::optional<Continue> continues(const BasicBlock* body) {
  auto* branch = cast<BranchInst>(body->getTerminator());
  auto* test = dyn_cast<ICmpInst>(branch->getCondition());
  if (!test) return {};
  const bool on_true = branch->getSuccessor(0) == body;
  return Continue{on_true ? test->getPredicate() : test->getInversePredicate(), test->getOperand(0),
                  test->getOperand(1)};
}

bool writes(const BasicBlock* block) {
  return any_of(*block, [](const Instruction& inst) { return inst.mayHaveSideEffects(); });
}

/// Whether a value may differ between threads of a block.
bool depends_on_thread(const Value* v) {
  SmallSetVector<const Value*, 16> seen;
  seen.insert(v);
  for (unsigned i = 0; i < seen.size() && i < 64; ++i) {
    auto* inst = dyn_cast<Instruction>(seen[i]);
    if (!inst) continue;
    const StringRef name = marker_name(inst);
    if (name.starts_with("sreg.tid.") || name == "sreg.laneid") return true;
    for (const Value* operand : inst->operands())
      if (isa<Instruction>(operand)) seen.insert(operand);
  }
  return false;
}

class Reroller {
 public:
  explicit Reroller(const DataLayout& layout, BasicBlock* first)
      : symbols_{layout}, layout_{layout} {
    if (auto loop = single_loop(first)) first_ = *loop;
  }

  bool run() {
    if (!first_.body || !find_blocks() || !find_counts() || !find_states()) return false;
    if (!same_work() || !same_results()) return false;
    rewrite();
    return true;
  }

 private:
  // split -> before -> first -> middle -> before -> second -> end, where split may skip the first
  // loop and middle the second.
  bool find_blocks() {
    middle_ = first_.after;
    split_ = first_.before->getTerminator()->getNumSuccessors() == 1
                 ? first_.before->getSinglePredecessor()
                 : first_.before;
    if (!split_ || writes(middle_)) return false;
    if (first_.before != split_ && any_of(*first_.before, [](const Instruction& inst) {
          return !inst.isTerminator() && !isSafeToSpeculativelyExecute(&inst);
        }))
      return false;
    auto* skip = dyn_cast<BranchInst>(split_->getTerminator());
    auto* go_on = dyn_cast<BranchInst>(middle_->getTerminator());
    if (!skip || !skip->isConditional() || !go_on || !go_on->isConditional()) return false;
    if (!is_contained(successors(split_), middle_)) return false;
    for (BasicBlock* from : predecessors(middle_))
      if (from != split_ && from != first_.body) return false;
    for (BasicBlock* next : successors(middle_)) {
      BasicBlock* body = next->getSingleSuccessor() ? next->getSingleSuccessor() : next;
      const auto loop = single_loop(body);
      if (!loop || loop->body == first_.body) continue;
      if (loop->before != middle_ &&
          (loop->before != next || next->getSinglePredecessor() != middle_ || writes(next)))
        continue;
      second_ = *loop;
    }
    if (!second_.body) return false;
    end_ = second_.after;
    return is_contained(successors(middle_), end_);
  }

  // The first loop runs t & (copies - 1) times, where t = (last - start >> shift) + 1; the second
  // only if t >= copies, until its index reaches the bound.
  bool find_counts() {
    using namespace PatternMatch;
    const auto again = continues(first_.body);
    if (!again || again->predicate != CmpInst::ICMP_NE || !match(again->right, m_ZeroInt()))
      return false;
    if (!match(again->left, m_Add(m_Value(), m_AllOnes()))) return false;
    counter_ = dyn_cast<PHINode>(cast<Instruction>(again->left)->getOperand(0));
    if (!counter_ || counter_->getParent() != first_.body ||
        counter_->getIncomingValueForBlock(first_.body) != again->left)
      return false;
    Value* count = counter_->getIncomingValueForBlock(first_.before);
    const APInt *copies, *shift;
    if (!match(count, m_And(m_Add(m_LShr(m_Value(distance_), m_APInt(shift)), m_One()),
                            m_APInt(copies))) ||
        !copies->isMask() || copies->ugt(7) || shift->ugt(16) || shift->isZero())
      return false;
    copies_ = copies->getZExtValue() + 1;
    step_ = std::uint64_t{1} << shift->getZExtValue();
    // split: if (count == 0) goto middle
    auto* skip = cast<BranchInst>(split_->getTerminator());
    ICmpInst::Predicate predicate;
    Value* tested;
    if (!match(skip->getCondition(), m_ICmp(predicate, m_Value(tested), m_ZeroInt())) ||
        tested != count)
      return false;
    if (predicate != (skip->getSuccessor(0) == middle_ ? CmpInst::ICMP_EQ : CmpInst::ICMP_NE))
      return false;
    // middle: if (distance < (copies - 1) * step) goto end
    auto* go_on = cast<BranchInst>(middle_->getTerminator());
    const bool end_first = go_on->getSuccessor(0) == end_;
    const APInt* few;
    if (!match(go_on->getCondition(), m_ICmp(predicate, m_Specific(distance_), m_APInt(few))))
      return false;
    const std::uint64_t least = (copies_ - 1) * step_;
    const bool fits = end_first ? predicate == CmpInst::ICMP_ULT && *few == least
                                : (predicate == CmpInst::ICMP_UGE && *few == least) ||
                                      (predicate == CmpInst::ICMP_UGT && *few == least - 1);
    if (!fits) return false;
    const auto more = continues(second_.body);
    if (!more || (more->predicate != CmpInst::ICMP_SLT && more->predicate != CmpInst::ICMP_ULT))
      return false;
    order_ = more->predicate;
    bound_ = more->right;
    second_index_ = more->left;
    if (auto* inst = dyn_cast<Instruction>(bound_);
        inst && (inst->getParent() == second_.body || inst->getParent() == middle_ ||
                 inst->getParent() == second_.before))
      return false;
    return bound_->getType() == distance_->getType() && depends_on_thread(distance_);
  }

  // The values that the first loop carries: with a constant step (functions of the number of
  // iterations), and others (atoms).
  bool find_states() {
    Env env;
    Symbols::Effects effects;
    for (PHINode& phi : first_.body->phis()) env[&phi] = symbols_.leaf(&phi);
    if (!symbols_.execute(*first_.body, env, effects)) return false;
    Env outside;
    for (PHINode& phi : first_.body->phis()) {
      if (&phi == counter_) continue;
      Form step = symbols_.of(phi.getIncomingValueForBlock(first_.body), env);
      step.add(symbols_.leaf(&phi), ~std::uint64_t{0});
      Form start = symbols_.of(phi.getIncomingValueForBlock(first_.before), outside);
      if (step.bits == 0 || !step.terms.empty())
        states_[&phi] = symbols_.leaf(&phi);
      else
        steps_[&phi] = {start, step.constant};
    }
    return find_index();
  }

  bool find_index() {
    using namespace PatternMatch;
    Env outside;
    for (auto& [phi, growth] : steps_) {
      if (phi->getType() != bound_->getType() || growth.second != step_) continue;
      Value* start = phi->getIncomingValueForBlock(first_.before);
      // distance = bound - 1 - start. A bound of max(bound, start + step) gives the same count.
      Form distance = symbols_.of(distance_, outside);
      Form bound = symbols_.of(bound_, outside);
      const auto is_distance_to = [&](const Form& end) {
        Form sum = distance;
        sum.add(growth.first, 1);
        sum.add(Form{sum.bits, 1, {}}, 1);
        return sum == end;
      };
      bool matches = is_distance_to(bound);
      Form far = distance;
      far.add(growth.first, 1);
      far.add(Form{far.bits, 1, {}}, 1);
      if (!matches && far.constant == 0 && far.terms.size() == 1)
        matches = is_larger_bound(far, start);
      if (!matches) continue;
      if (isImpliedByDomCondition(order_, start, bound_, split_->getTerminator(), layout_) !=
          std::optional<bool>{true})
        continue;
      index_ = phi;
      return true;
    }
    return false;
  }

  /// Whether `far` is max(bound, start + step), which an instruction before the loops computes.
  bool is_larger_bound(const Form& far, Value* start) {
    Env outside;
    for (User* user : bound_->users()) {
      auto* call = dyn_cast<IntrinsicInst>(user);
      const auto id = order_ == CmpInst::ICMP_SLT ? Intrinsic::smax : Intrinsic::umax;
      if (!call || call->getIntrinsicID() != id || !(symbols_.of(call, outside) == far)) continue;
      Value* other = call->getArgOperand(call->getArgOperand(0) == bound_ ? 1 : 0);
      Form sum = symbols_.of(start, outside);
      sum.add(Form{sum.bits, step_, {}}, 1);
      return symbols_.of(other, outside) == sum;
    }
    return false;
  }

  /// The values of the first loop's phis after its iterations, `rounds` iterations of the second
  /// loop (as an atom, or none), and `done` more.
  Form value_after(PHINode* phi, bool rounds, std::uint64_t done,
                   const DenseMap<PHINode*, Form>& states) {
    if (auto it = states.find(phi); it != states.end()) return it->second;
    const auto& [start, step] = steps_.find(phi)->second;
    Form f = start;
    f.add(Form{f.bits, step * done, {{Symbols::kIterations, step}}}, 1);
    if (rounds) f.add(Form{f.bits, 0, {{Symbols::kRounds, step * copies_}}}, 1);
    return f;
  }

  /// The phis of the middle in terms of those of the first loop.
  bool enter_middle(Env& env, bool rounds, std::uint64_t done,
                    const DenseMap<PHINode*, Form>& states) {
    for (PHINode& phi : middle_->phis()) {
      Value *skipped = phi.getIncomingValueForBlock(split_),
            *left = phi.getIncomingValueForBlock(first_.body);
      bool found = false;
      for (PHINode& carried : first_.body->phis()) {
        if (&carried == counter_ || carried.getIncomingValueForBlock(first_.body) != left ||
            carried.getIncomingValueForBlock(first_.before) != skipped)
          continue;
        env[&phi] = value_after(&carried, rounds, done, states);
        found = true;
        break;
      }
      if (!found && left == skipped) {
        env[&phi] = symbols_.of(left, env);
        found = true;
      }
      if (!found && !phi.use_empty()) return false;
    }
    return true;
  }

  /// One iteration of the second loop does what `copies` iterations of the first do.
  bool same_work() {
    Symbols::Effects one, other;
    after_ = states_;
    for (std::uint64_t i = 0; i < copies_; ++i) {
      Env env;
      for (PHINode& phi : first_.body->phis())
        if (&phi != counter_) env[&phi] = value_after(&phi, true, i, after_);
      env[counter_] = symbols_.leaf(counter_);
      if (!symbols_.execute(*first_.body, env, one)) return false;
      for (auto& [phi, state] : after_)
        state = symbols_.of(phi->getIncomingValueForBlock(first_.body), env);
    }
    Env entry;
    if (!enter_middle(entry, false, 0, states_)) return false;
    end_of_second_ = entry;
    for (PHINode& phi : second_.body->phis()) {
      Form& value = end_of_second_[&phi] =
          symbols_.of(phi.getIncomingValueForBlock(second_.before), entry);
      if (const auto step = constant_step(phi))
        value.add(Form{value.bits, 0, {{Symbols::kRounds, *step}}}, 1);
      else
        carried_.push_back({&phi, value});
    }
    // Values from before the second loop are those of its entry.
    for (auto& [value, form] : entry) end_of_second_.try_emplace(value, form);
    return symbols_.execute(*second_.body, end_of_second_, other) && one == other;
  }

  /// By how much a phi of the second loop grows in an iteration.
  std::optional<std::uint64_t> constant_step(PHINode& phi) {
    if (!phi.getType()->isIntOrPtrTy()) return {};
    Env env;
    Form next = symbols_.of(phi.getIncomingValueForBlock(second_.body), env);
    next.add(symbols_.leaf(&phi), ~std::uint64_t{0});
    return next.terms.empty() ? std::optional{next.constant} : std::nullopt;
  }

  /// An iteration of the second loop leaves what `copies` iterations of the first would.
  bool same_results() {
    Env later;
    if (!enter_middle(later, true, copies_, after_)) return false;
    for (auto& [phi, value] : carried_) {
      const Form next = symbols_.of(phi->getIncomingValueForBlock(second_.body), end_of_second_);
      const auto same = find_if(states_, [&](auto& state) { return state.second == value; });
      if (same == states_.end() || !(next == after_[same->first])) return false;
    }
    for (PHINode& phi : end_->phis()) {
      const Form result = symbols_.of(phi.getIncomingValueForBlock(second_.body), end_of_second_);
      if (!(result == symbols_.of(phi.getIncomingValueForBlock(middle_), later))) return false;
    }
    for (const Instruction& inst : *second_.body)  // no other uses of its values
      for (const Use& use : inst.uses()) {
        auto* user = cast<Instruction>(use.getUser());
        auto* phi = dyn_cast<PHINode>(user);
        if (user->getParent() == second_.body) continue;
        if (!phi || user->getParent() != end_ || phi->getIncomingBlock(use) != second_.body)
          return false;
      }
    for (const Instruction& inst : *middle_)  // which now has the values after all iterations
      for (const Use& use : inst.uses()) {
        auto* user = cast<Instruction>(use.getUser());
        BasicBlock* at = user->getParent();
        if (auto* phi = dyn_cast<PHINode>(user); phi && at == end_) at = phi->getIncomingBlock(use);
        if (at != middle_ && at != second_.before && at != second_.body) return false;
      }
    Form index = value_after(index_, true, copies_, after_);
    return symbols_.of(second_index_, end_of_second_) == index;
  }

  void rewrite() {
    auto branch_to = [](BasicBlock* from, BasicBlock* to, BasicBlock* instead_of) {
      instead_of->removePredecessor(from, /*KeepOneInputPHIs=*/true);
      Instruction* last = from->getTerminator();
      BranchInst::Create(to, last);
      last->eraseFromParent();
    };
    auto* split = cast<BranchInst>(split_->getTerminator());
    branch_to(split_, split->getSuccessor(split->getSuccessor(0) == middle_ ? 1 : 0), middle_);
    auto* middle = cast<BranchInst>(middle_->getTerminator());
    branch_to(middle_, end_, middle->getSuccessor(middle->getSuccessor(0) == end_ ? 1 : 0));
    // An iteration is left if the index can grow by a step without passing the last element.
    auto* again = cast<BranchInst>(first_.body->getTerminator());
    IRBuilder<> b{again};
    Value* last = b.CreateSub(bound_, ConstantInt::get(bound_->getType(), 1));
    Value* more =
        b.CreateICmpUGE(b.CreateSub(last, index_), ConstantInt::get(bound_->getType(), step_));
    if (again->getSuccessor(0) != first_.body) more = b.CreateNot(more);
    again->setCondition(more);
    for (Instruction& inst : *first_.body) {
      inst.dropPoisonGeneratingFlags();
      inst.setMetadata(LLVMContext::MD_range, nullptr);
    }
  }

  Symbols symbols_;
  const DataLayout& layout_;
  Single first_, second_;
  BasicBlock *split_ = nullptr, *middle_ = nullptr, *end_ = nullptr;
  PHINode *counter_ = nullptr, *index_ = nullptr;
  Value *distance_ = nullptr, *bound_ = nullptr, *second_index_ = nullptr;
  CmpInst::Predicate order_ = CmpInst::ICMP_SLT;
  std::uint64_t copies_ = 0, step_ = 0;
  DenseMap<PHINode*, Form> states_, after_;
  DenseMap<PHINode*, std::pair<Form, std::uint64_t>> steps_;
  Env end_of_second_;
  SmallVector<std::pair<PHINode*, Form>> carried_;  // of the second loop, at its entry
};

}  // namespace

bool reroll_loops(Function& thread) {
  const DataLayout& layout = thread.getParent()->getDataLayout();
  bool changed = false;
  for (BasicBlock& block : thread) changed |= Reroller{layout, &block}.run();
  if (changed) EliminateUnreachableBlocks(thread);
  return changed;
}

}  // namespace cucpu::simt
