// SPDX-License-Identifier: Apache-2.0
// cpu/engine/pipeline.cpp: the order of all passes, from top to bottom. The header of a pass says
// what it requires and what it guarantees.
#include "cpu/engine/pipeline.hpp"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>
#include <optional>

#include "cpu/engine/coverage/insert_coverage.hpp"
#include "cpu/engine/default_pipeline.hpp"
#include "cpu/engine/dump.hpp"
#include "cpu/engine/explanation.hpp"
#include "cpu/engine/jit/alignment_check.hpp"
#include "cpu/engine/jit/code_generator.hpp"
#include "cpu/engine/jit/deferred_atomics.hpp"
#include "cpu/engine/jit/extract.hpp"
#include "cpu/engine/jit/float_atomics.hpp"
#include "cpu/engine/jit/host_target.hpp"
#include "cpu/engine/jit/indirect_calls.hpp"
#include "cpu/engine/jit/instrument.hpp"
#include "cpu/engine/jit/lower.hpp"
#include "cpu/engine/jit/peer_access.hpp"
#include "cpu/engine/jit/safepoint_polls.hpp"
#include "cpu/engine/jit/schedule_points.hpp"
#include "cpu/engine/jit/shift_amounts.hpp"
#include "cpu/engine/jit/spin_loops.hpp"
#include "cpu/engine/jit/stack_size.hpp"
#include "cpu/engine/jit/state_space_check.hpp"
#include "cpu/engine/llvm_passes.hpp"
#include "cpu/engine/nan/canonical_select.hpp"
#include "cpu/engine/nan/canonicalize.hpp"
#include "cpu/engine/nan/f64_nan_fixup.hpp"
#include "cpu/engine/nan/min_max.hpp"
#include "cpu/engine/nan/operand_order.hpp"
#include "cpu/engine/nan/saturating_convert.hpp"
#include "cpu/engine/peer_access.hpp"
#include "cpu/engine/run/tier_up.hpp"
#include "cpu/engine/simt/analyses.hpp"
#include "cpu/engine/simt/dead_shared_stores.hpp"
#include "cpu/engine/simt/dot_products.hpp"
#include "cpu/engine/simt/forward_shared_stores.hpp"
#include "cpu/engine/simt/if_convert.hpp"
#include "cpu/engine/simt/jam_groups.hpp"
#include "cpu/engine/simt/linear_sum.hpp"
#include "cpu/engine/simt/lower_gathers.hpp"
#include "cpu/engine/simt/narrow_integers.hpp"
#include "cpu/engine/simt/poison_flags.hpp"
#include "cpu/engine/simt/prepare.hpp"
#include "cpu/engine/simt/recover_divisions.hpp"
#include "cpu/engine/simt/reroll.hpp"
#include "cpu/engine/simt/share_offsets.hpp"
#include "cpu/engine/simt/unroll_barrier_loops.hpp"
#include "cpu/engine/simt/unroll_tile_loops.hpp"
#include "cpu/engine/simt/vector_target.hpp"
#include "cpu/engine/simt/widen_masks.hpp"
#include "cpu/engine/translate/passes.hpp"
#include "cpu/trace/trace.hpp"
#include "protection.hpp"

namespace cucpu::pipeline {
namespace {

using namespace llvm;
namespace lp = llvm_passes;
using C = Compilation;

// ---- The form of the tables ----

struct Pass;

struct Action {
  enum class Kind {
    transform,  ///< a pass of this project
    analysis,   ///< reads the code, sets members of Compilation
    llvm,       ///< a pass of LLVM
    point,      ///< no pass: a name for the code at this point
    group,      ///< a list of passes that runs in several places
  };
  Kind kind;
  void (*run)(C&) = nullptr;
  const Pass* first = nullptr;
  std::size_t count = 0;
};

struct Condition {
  const char* name;
  bool (*holds)(const C&);
};

inline constexpr Condition kAlways{"", [](const C&) { return true; }};

struct Pass {
  const char* name;
  Action action;
  Condition when = kAlways;
  bool verified = false;  ///< LLVM's verifier runs after it in every mode, not only in strict mode
};

/// Which analyses the passes of LLVM in a stage use.
enum class Target {
  unused,  ///< the stage has no passes of LLVM's pass manager
  none,    ///< no cost model
  host,    ///< the cost model of the host
  module,  ///< no function of the C library is known: a device function may be called `sin`
  host_module,
};

/// What the passes of a stage work on.
enum class Unit { function, module };

struct Stage {
  const char* name;
  Unit unit;
  Target target;
  std::span<const Pass> passes;
};

constexpr Action transform(void (*run)(C&)) { return {Action::Kind::transform, run}; }
constexpr Action analysis(void (*run)(C&)) { return {Action::Kind::analysis, run}; }
constexpr Action point(void (*run)(C&) = nullptr) { return {Action::Kind::point, run}; }
template <std::size_t n>
constexpr Action group(const Pass (&passes)[n]) {
  return {Action::Kind::group, nullptr, passes, n};
}
/// A pass of this project over Compilation::function.
template <auto pass>
constexpr Action on_function = transform([](C& c) { pass(*c.function); });
/// A pass of this project over all functions that have a body.
template <auto pass>
constexpr Action on_each_function = transform([](C& c) {
  for (Function& f : c.module)
    if (!f.isDeclaration()) pass(f);
});
template <auto pass>
constexpr Action on_module = transform([](C& c) { pass(c.module); });
/// A pass of LLVM over Compilation::function, over every function, and over the module.
template <auto make>
constexpr Action llvm_function{Action::Kind::llvm,
                               [](C& c) { c.analyses->run(*c.function, make()); }};
template <auto make>
constexpr Action llvm_each{Action::Kind::llvm, [](C& c) {
                             c.analyses->run(c.module, createModuleToFunctionPassAdaptor(make()));
                           }};
template <auto make>
constexpr Action llvm_module{Action::Kind::llvm, [](C& c) { c.analyses->run(c.module, make()); }};

// ---- Conditions ----

bool runs_threads_apart(const C& c) { return c.job.check != 0 || c.job.debug || c.job.schedule; }
bool shares_fibers(const C& c) { return c.needs.only_spins && !runs_threads_apart(c); }

constexpr Condition kCheckMode{"check mode", [](const C& c) { return c.job.check != 0; }};
constexpr Condition kCheckedThreads{"check mode, scalar path",
                                    [](const C& c) { return c.job.check != 0 && !c.job.block; }};
constexpr Condition kCheckedLanes{"check mode, vector path", [](const C& c) {
                                    return c.job.check != 0 && c.job.block.has_value();
                                  }};
constexpr Condition kRandomSchedule{"random schedule", [](const C& c) { return c.job.schedule; }};
constexpr Condition kDebugger{"debug mode", [](const C& c) { return c.job.debug; }};
constexpr Condition kNoDebugger{"not in debug mode", [](const C& c) { return !c.job.debug; }};
constexpr Condition kCoverage{"kernel coverage", [](const C& c) { return c.coverage != nullptr; }};
constexpr Condition kSeveralDevices{
    "several devices", [](const C&) { return static_cast<bool>(peer_access_check()); }};
constexpr Condition kFixNans{"f64 NaNs differ from a GPU", [](const C& c) { return c.fix_nans; }};
constexpr Condition kFirstTime{"before if-convert", [](const C& c) { return !c.if_converted; }};
constexpr Condition kIfConverted{"if-convert changed the code",
                                 [](const C& c) { return c.if_converted; }};
constexpr Condition kRerolled{"reroll-loops changed the code",
                              [](const C& c) { return c.rerolled; }};
constexpr Condition kBarriersUnrolled{"unroll-barrier-loops changed the code",
                                      [](const C& c) { return c.vector.unrolled; }};
constexpr Condition kIrreducible{"irreducible", [](const C& c) { return c.irreducible; }};
constexpr Condition kReduced{"baseline tier or large kernel",
                             [](const C& c) { return c.block.reduced; }};
constexpr Condition kOptimized{"optimized tier", [](const C& c) { return !c.block.reduced; }};
constexpr Condition kLoops{"optimized tier, loops",
                           [](const C& c) { return !c.block.reduced && c.has_loops; }};
constexpr Condition kUnrolled{"optimized tier, unrolled", [](const C& c) { return c.unrolled; }};
constexpr Condition kForwarded{"forward-shared-stores changed the code",
                               [](const C& c) { return c.forwarded; }};
constexpr Condition kFibers{"fibers; always in check and debug mode and for random schedules",
                            [](const C& c) { return c.code.fibers && !shares_fibers(c); }};
constexpr Condition kFiberLoop{"fibers for spin loops only",
                               [](const C& c) { return c.code.fibers && shares_fibers(c); }};
constexpr Condition kThreadLoop{"no fibers", [](const C& c) { return !c.code.fibers; }};
constexpr Condition kVector{"vector path", [](const C& c) { return c.block.function != nullptr; }};
constexpr Condition kRunsOn{"vector path, no spin loops",
                            [](const C& c) { return c.code.runs_on; }};
constexpr Condition kKernelOnly{"kernels", [](const C& c) { return c.function != nullptr; }};
constexpr Condition kUnboundedStack{"recursion or address-taken functions", [](const C& c) {
                                      return c.code.recursive || c.function == nullptr;
                                    }};

// ---- Passes that set or read members of Compilation ----

void clone_thread_code(C& c) {
  ValueToValueMapTy map;
  c.function = CloneFunction(c.kernel, map);
  c.function->setName(c.kernel->getName());
  c.if_converted = c.rerolled = c.vector.unrolled = c.irreducible = false;
}

void find_f64_nans(C& c) {
  const bool host_differs =  // x86-64 makes the NaNs of a GPU, but chooses otherwise between two
      c.settings.nans == Settings::Nans::exact ||
      (c.settings.nans == Settings::Nans::gpu && Triple{host_target().triple}.isAArch64());
  c.fix_nans = c.vector.ordered_doubles = host_differs && has_f64_arithmetic(c.module);
}

void find_needs(C& c) {
  c.needs = find_thread_needs(*c.function);
  c.code.waits_for_blocks = c.needs.spins;
  c.code.recursive = c.needs.recursive && !c.job.block;
  c.code.fibers = !c.job.block && (c.needs.fibers || runs_threads_apart(c));
}

void unroll_barrier_loops(C& c) {
  const bool waited_for = c.settings.tier == Settings::Tier::automatic && !c.job.in_background;
  const auto unrolled = simt::unroll_barrier_loops(*c.function, *c.analyses,
                                                   simt::unroll_limits(c.vector, waited_for));
  c.vector.unrolled = unrolled.changed;
  if (unrolled.postponed) c.vector.baseline_beyond = 0;  // so that optimized code follows
}

void vectorize_thread(C& c) {
  Function* const thread = c.function;
  Function* copy = nullptr;  // vectorize() changes its input
  if (c.job.explanation) {
    ValueToValueMapTy map;
    copy = CloneFunction(thread, map);
  }
  c.block = simt::vectorize(*thread, c.vector);
  if (copy) {
    c.job.explanation->remarks =
        simt::find_remarks(*copy, std::max(c.block.report.width, 4U), c.vector.block);
    copy->eraseFromParent();
  }
  c.refusal = c.block.report.refusal;
  if (const std::string& value = c.block.report.undefined; !value.empty())
    throw InvalidCode{"invalid code after vectorize: nothing computes" + value};
  if (!c.block.function) return;
  thread->eraseFromParent();
  c.function = c.block.function;
  c.code.width = c.block.report.width;
  c.code.runs_on = !c.needs.spins;
  c.code.scratch_bytes = static_cast<std::uint32_t>(c.block.scratch_bytes);
  c.code.baseline = c.block.baseline;
  if (c.code.baseline) c.baseline_generator = CodeGenerator::make(0);
}

void make_entry(C& c) {
  for (Function& other : c.module)
    if (!other.isDeclaration() && &other != c.function)
      other.setLinkage(GlobalValue::InternalLinkage);
  c.function->setLinkage(GlobalValue::ExternalLinkage);
  c.function->setName(kEntry);
}

void find_loops(C& c) {
  // Loops over groups and blocks are final and marked.
  const LoopInfo& loops = c.analyses->functions.getResult<LoopAnalysis>(*c.function);
  c.has_loops = any_of(loops.getLoopsInPreorder(), [](const Loop* loop) {
    return !findOptionMDForLoop(loop, "llvm.loop.unroll.disable");
  });
}

/// Without phis and branches, which loop canonicalization adds and removes.
std::size_t size_of(Function& function) {
  return static_cast<std::size_t>(count_if(instructions(function), [](const Instruction& inst) {
    return !isa<PHINode>(inst) && !inst.isTerminator();
  }));
}

void default_pipeline(C& c) { c.analyses->run(c.module, default_passes(c.job.optimization)); }

CodeGenerator& generator_of(C& c) {
  return c.baseline_generator ? *c.baseline_generator : *c.generator;
}

void dump_assembly(C& c) {
  if (c.job.explanation)
    c.job.explanation->assembly = emit_assembly(c.module, generator_of(c).target());
  if (c.settings.dump_assembly)
    dump_text(c.settings, c.job.kernel + ".s", emit_assembly(c.module, generator_of(c).target()));
}

// ---- PTX to thread code: each function that translate() wrote ----

constexpr Pass kThread[] = {
    {"unreachable-blocks", transform([](C& c) { EliminateUnreachableBlocks(*c.function); })},
    {"insert-coverage", transform([](C& c) { insert_coverage(*c.function, *c.coverage); }),
     kCoverage},
    {"promote-registers", on_function<ir::promote_registers>},
    {"lower-rounded-down-fma", on_function<ir::lower_rounded_down_fma>},
    {"drop-redundant-flushes", on_function<ir::drop_redundant_flushes>},
    {"recover-geps", on_function<ir::recover_geps>},
    {"canonicalize-nans", on_function<canonicalize_nans>},
};

// ---- Thread code of a module to thread code of one kernel ----

constexpr Pass kKernel[] = {
    {"extract-kernel", transform([](C& c) { extract_kernel(*c.function, c.job.debug); })},
    {"always-inline", llvm_module<lp::always_inline>},
    {"globaldce", llvm_module<lp::globaldce>},
    {"reject-unsupported-checks",
     transform([](C& c) { c.refusal = find_unsupported_by_lane_checks(c.module, c.job.check); }),
     kCheckedLanes},
    {"instrument-locals", on_module<instrument_locals>, kCheckedThreads},
    {"sroa", llvm_each<lp::sroa>, kNoDebugger},
    {"simplifycfg", llvm_each<lp::simplifycfg>, kNoDebugger},
    {"trap-state-space-violations", on_module<trap_state_space_violations>},
    {"check-alignment", transform([](C& c) {
       if (CUCORE_PROTECTION("alignment-check"))
         c.code.assumed = check_alignment(c.module, c.job.aligned);
     })},
    {"check-peer-access",
     transform([](C& c) { c.code.reached = check_peer_access(c.module, c.job.aligned); }),
     kSeveralDevices},
    {"instrument", transform([](C& c) { instrument(c.module, c.job.block.has_value()); }),
     kCheckMode},
    {"insert-schedule-points", on_module<insert_schedule_points>, kRandomSchedule},
    {"thread-code", point([](C& c) {  // CUCORE_CPU_DUMP=thread
       dump(c.settings.dump_thread, c.settings, c.job.kernel + ".thread.ll", c.module);
     })},
    {"find-f64-nans", analysis(find_f64_nans)},
    {"find-thread-needs", transform(find_needs)},
};

// ---- Vector path: thread code of a kernel to block code ----

constexpr Pass kCleanUp[] = {
    {"mark-operand-order", on_function<mark_first_operands>, kFixNans},
    {"scalarizer", llvm_function<lp::scalarizer>, kFirstTime},
    {"sroa", llvm_function<lp::sroa>},
    {"early-cse", llvm_function<lp::early_cse_memssa>},
    {"instcombine", llvm_function<lp::instcombine>},
    {"simplifycfg", llvm_function<lp::simplifycfg>},
    {"correlated-propagation", llvm_function<lp::correlated_propagation>},
    {"instcombine", llvm_function<lp::instcombine>},
    {"early-cse", llvm_function<lp::early_cse_memssa>},
    {"adce", llvm_function<lp::adce>},
    {"lower-switch", llvm_function<lp::lower_switch>},
    {"simplifycfg", llvm_function<lp::simplifycfg>},
    {"restore-operand-order", on_function<restore_operand_order>, kFixNans},
};

constexpr Pass kVectorize[] = {
    {"clone-thread-code", transform(clone_thread_code)},
    {"inline-calls", transform([](C& c) { c.refusal = simt::inline_calls(*c.function); })},
    {"specialize-block-shape",
     transform([](C& c) { simt::specialize_block_shape(*c.function, c.vector); })},
    {"unify-exits", on_function<simt::unify_exits>},
    {"unreachable-blocks", transform([](C& c) { removeUnreachableBlocks(*c.function); })},
    {"clean-up", group(kCleanUp)},
    {"if-convert", transform([](C& c) { c.if_converted = simt::if_convert(*c.function); })},
    {"clean-up", group(kCleanUp), kIfConverted},
    {"reroll-loops", transform([](C& c) { c.rerolled = simt::reroll_loops(*c.function); })},
    {"clean-up", group(kCleanUp), kRerolled},
    {"unroll-barrier-loops", transform(unroll_barrier_loops)},
    {"clean-up", group(kCleanUp), kBarriersUnrolled},
    {"find-irreducible-loops",
     transform([](C& c) { c.irreducible = simt::is_irreducible(*c.function); })},
    // fix-irreducible knows branches only, and that of LLVM 19 fails at some critical edges.
    {"lower-switch", llvm_function<lp::lower_switch>, kIrreducible},
    {"break-crit-edges", llvm_function<lp::break_crit_edges>, kIrreducible},
    {"fix-irreducible", llvm_function<lp::fix_irreducible>, kIrreducible},
    {"reject-irreducible-loops", transform([](C& c) {
       if (simt::is_irreducible(*c.function)) c.refusal = "irreducible flow";
     }),
     kIrreducible},
    {"recover-divisions", on_function<simt::recover_divisions>},
    {"cancel-terms", on_function<simt::cancel_terms>},
    {"compare-indices", on_function<simt::compare_indices>},
    {"narrow-integers", on_function<simt::narrow_integers>},
    {"mask-before-shift", on_function<simt::mask_before_shift>},
    {"loop-simplify", llvm_function<lp::loop_simplify>},
    {"lcssa", llvm_function<lp::lcssa>},
    {"repeat-comparisons", on_function<simt::repeat_comparisons>},
    {"lcssa", llvm_function<lp::lcssa>},
    {"unify-exits", on_function<simt::unify_exits>},
    {"unreachable-blocks", transform([](C& c) { removeUnreachableBlocks(*c.function); })},
    {"split-at-barriers", on_function<simt::split_at_barriers>},
    {"repeat-branch-comparisons", on_function<simt::repeat_branch_comparisons>},
    {"lcssa", llvm_function<lp::lcssa>},
    {"share-offsets", on_function<simt::share_offsets>},
    {"rederive-poison-flags", on_function<simt::rederive_poison_flags>},
    {"reject-unsupported",
     transform([](C& c) { c.refusal = simt::find_unsupported(*c.function, c.vector); })},
    {"vectorize", transform(vectorize_thread)},
};

constexpr Pass kEntryPasses[] = {
    {"make-entry", transform(make_entry)},
    {"globaldce", llvm_module<lp::globaldce>, kAlways, true},
    {"mark-operand-order", on_function<mark_first_operands>, kFixNans},
};

// ---- Vector path: LLVM's passes over block code ----
// The compiler that wrote the PTX has optimized the code of one thread, block code consists of
// vectors already, and there is one function. These passes clean up after the vectorizer. Passes of
// -O2 that changed nothing measurable in the benchmark kernels are left out: they took half of the
// time that the compilation of a short kernel takes.

constexpr Pass kBlock[] = {
    // No loop passes: scalar evolution of a large function is expensive, and every change of a loop
    // discards it.
    {"sroa", llvm_function<lp::sroa>, kReduced},
    {"early-cse", llvm_function<lp::early_cse>, kReduced},
    {"simplifycfg", llvm_function<lp::simplifycfg>, kReduced},
    {"instcombine", llvm_function<lp::instcombine>, kReduced},
    {"early-cse", llvm_function<lp::early_cse_memssa>, kReduced},
    {"simplifycfg", llvm_function<lp::simplifycfg>, kReduced},
    {"adce", llvm_function<lp::adce>, kReduced},

    {"simplifycfg", llvm_function<lp::simplifycfg>, kOptimized},
    {"sroa", llvm_function<lp::sroa>, kOptimized},
    {"early-cse", llvm_function<lp::early_cse_memssa>, kOptimized},
    {"simplifycfg", llvm_function<lp::simplifycfg_switch_to_icmp>, kOptimized},
    {"instcombine", llvm_function<lp::instcombine>, kOptimized},
    {"loop-rotate+licm+loop-deletion", llvm_function<lp::rotate_licm_delete>, kOptimized},
    {"find-loops", analysis(find_loops), kOptimized},
    {"simplifycfg", llvm_function<lp::simplifycfg_switch_to_icmp>, kLoops},
    {"instcombine", llvm_function<lp::instcombine>, kLoops},
    {"unroll-tile-loops", analysis([](C& c) { simt::unroll_tile_loops(*c.function, *c.analyses); }),
     kLoops},
    {"indvars+simple-loop-unswitch+loop-unroll-full",
     llvm_function<lp::indvars_unswitch_unroll_full>, kLoops},
    {"gvn", llvm_function<lp::gvn>, kOptimized},
    {"jump-threading", llvm_function<lp::jump_threading>, kOptimized},
    {"dse", llvm_function<lp::dse>, kOptimized},
    {"licm", llvm_function<lp::licm>, kOptimized},
    {"simplifycfg", llvm_function<lp::simplifycfg_merge>, kOptimized},
    {"instcombine", llvm_function<lp::instcombine>, kOptimized},
    {"measure-size", analysis([](C& c) { c.size_before_unrolling = size_of(*c.function); }),
     kLoops},
    {"loop-unroll", llvm_function<lp::loop_unroll>, kLoops},
    {"find-unrolled-loops",
     analysis([](C& c) { c.unrolled = size_of(*c.function) != c.size_before_unrolling; }), kLoops},
    {"sroa", llvm_function<lp::sroa_preserve_cfg>, kUnrolled},
    {"instcombine", llvm_function<lp::instcombine>, kUnrolled},
    {"licm", llvm_function<lp::licm>, kUnrolled},
    {"simplifycfg", llvm_function<lp::simplifycfg_merge>, kUnrolled},
    {"forward-shared-stores",
     transform([](C& c) { c.forwarded = simt::forward_shared_stores(*c.function) != 0; }),
     kOptimized},
    {"instcombine", llvm_function<lp::instcombine>, kForwarded},
    {"remove-dead-shared-stores", on_function<simt::remove_dead_shared_stores>, kOptimized},
    {"jam-groups", transform([](C& c) { simt::jam_groups(*c.function, *c.analyses); }), kOptimized},
};

// ---- Scalar path and check mode: thread code of a kernel to a loop over threads or to fibers ----

constexpr Pass kScalar[] = {
    {"lower-to-fiber", transform([](C& c) { c.function = lower_to_fiber(*c.function, kEntry); }),
     kFibers, true},
    {"lower-to-fiber-loop",
     transform([](C& c) { c.function = lower_to_fiber_loop(*c.function, kEntry); }), kFiberLoop,
     true},
    {"lower-to-thread-loop",
     transform([](C& c) { c.function = lower_to_thread_loop(*c.function, kEntry); }), kThreadLoop,
     true},
    {"mark-operand-order", on_each_function<mark_first_operands>, kFixNans},
    {"default-pipeline", {Action::Kind::llvm, default_pipeline}},
};

// ---- Scalar path: functions that are called through pointers ----

constexpr Pass kFunctions[] = {
    {"extract-functions",
     transform([](C& c) { c.names = extract_functions(c.module, c.exported); })},
    {"globaldce", llvm_module<lp::globaldce>},
    {"mark-spin-loops", on_each_function<mark_spin_loops>},
    {"trap-state-space-violations", on_module<trap_state_space_violations>},
    {"check-alignment", transform([](C& c) { check_alignment(c.module, false); })},
    {"check-peer-access", transform([](C& c) { check_peer_access(c.module, false); }),
     kSeveralDevices},
    {"instrument-locals", on_module<instrument_locals>, kCheckMode},
    {"instrument", transform([](C& c) { instrument(c.module, false); }), kCheckMode},
    {"insert-schedule-points", on_module<insert_schedule_points>, kRandomSchedule},
    {"find-f64-nans", analysis(find_f64_nans)},
    {"lower-functions", on_module<lower_functions>, kAlways, true},
    {"mark-operand-order", on_each_function<mark_first_operands>, kFixNans},
    {"default-pipeline", {Action::Kind::llvm, default_pipeline}},
};

// ---- All paths: what LLVM's passes must not see, or would undo ----

constexpr Pass kFinish[] = {
    {"fix-f64-nans", on_module<fix_f64_nans>, kFixNans},
    {"drop-canonical-selects", on_each_function<drop_canonical_selects>},
    {"lower-min-max", transform([](C& c) {
       for (Function& f : c.module)
         if (!f.isDeclaration()) lower_min_max(f, c.target);
     })},
    {"lower-saturating-conversions",
     transform([](C& c) { lower_saturating_conversions(*c.function, c.target); }), kVector},
    {"form-dot-products", transform([](C& c) { simt::form_dot_products(*c.function, c.target); }),
     kVector},
    {"fold-canonical-selects",
     transform([](C& c) { fold_canonical_selects(*c.function, c.target); }), kVector},
    {"insert-safepoint-polls",
     transform([](C& c) { insert_safepoint_polls(c.module, c.function, c.code.fibers); })},
    {"combine-deferred-atomics", on_function<combine_deferred_atomics>, kRunsOn},
    {"expand-float-atomics", on_module<expand_float_atomics>},
    {"lower-gathers", transform([](C& c) {
       if (!c.code.baseline) simt::lower_gathers(*c.function, simt::VectorTarget::of(c.target));
     }),
     kVector},
    {"bound-shift-amounts", on_each_function<bound_shift_amounts>},
    {"widen-masks",
     transform([](C& c) { simt::widen_masks(*c.function, simt::MaskForm::of(c.target)); }),
     kVector},
};

constexpr Pass kCodegen[] = {
    {"estimate-stack",
     analysis([](C& c) { c.code.stack_bytes = estimate_stack_bytes(c.module, !c.code.baseline); })},
    {"probe-stacks", on_module<probe_stacks>, kUnboundedStack},
    {"call-through-pointers", on_module<call_through_pointers>, kDebugger},
    {"block-code", point([](C& c) {  // CUCORE_CPU_DUMP=block
       dump(c.settings.dump_block, c.settings, c.job.kernel + ".block.ll", c.module);
       dump_assembly(c);  // CUCORE_CPU_DUMP=asm
     }),
     kKernelOnly},
    {"codegen",
     {Action::Kind::llvm, [](C& c) { c.code.object = generator_of(c).object(c.module); }}},
};

// ---- Stages and paths ----

constexpr Stage kThreadStage{"thread", Unit::function, Target::unused, kThread};
constexpr Stage kKernelStage{"kernel", Unit::module, Target::module, kKernel};
constexpr Stage kVectorStage{"vector", Unit::function, Target::none, kVectorize};
constexpr Stage kEntryStage{"entry", Unit::module, Target::module, kEntryPasses};
constexpr Stage kBlockStage{"block", Unit::function, Target::host, kBlock};
constexpr Stage kScalarStage{"scalar", Unit::module, Target::host_module, kScalar};
constexpr Stage kFunctionsStage{"functions", Unit::module, Target::host_module, kFunctions};
constexpr Stage kFinishStage{"finish", Unit::module, Target::unused, kFinish};
constexpr Stage kCodegenStage{"codegen", Unit::module, Target::unused, kCodegen};

constexpr Stage kVectorPath[] = {kEntryStage, kBlockStage, kFinishStage, kCodegenStage};
constexpr Stage kScalarPath[] = {kScalarStage, kFinishStage, kCodegenStage};
constexpr Stage kFunctionsPath[] = {kFinishStage, kCodegenStage};
constexpr Stage kAll[] = {kThreadStage, kKernelStage,    kVectorStage, kEntryStage,  kBlockStage,
                          kScalarStage, kFunctionsStage, kFinishStage, kCodegenStage};

// ---- Running them ----

/// The analyses of a stage, made when its first pass of LLVM runs.
class StageAnalyses {
 public:
  StageAnalyses(const Stage& stage, C& c) : stage_{stage}, c_{c} { c_.analyses = nullptr; }
  ~StageAnalyses() { c_.analyses = nullptr; }
  StageAnalyses(const StageAnalyses&) = delete;
  StageAnalyses& operator=(const StageAnalyses&) = delete;

  void need() {
    if (analyses_ || stage_.target == Target::unused) return;
    const bool host = stage_.target == Target::host || stage_.target == Target::host_module;
    const bool no_library = stage_.target == Target::module || stage_.target == Target::host_module;
    if (no_library) {
      library_.emplace(Triple{c_.module.getTargetTriple()});
      library_->disableAllFunctions();
      for (const LibFunc f : {LibFunc_memcpy, LibFunc_memmove, LibFunc_memset})
        library_->setAvailable(f);
    }
    analyses_.emplace(host ? c_.target : nullptr, library_ ? &*library_ : nullptr);
    c_.analyses = &*analyses_;
  }
  void clear() {
    if (analyses_) analyses_->clear();
  }

 private:
  const Stage& stage_;
  C& c_;
  std::optional<TargetLibraryInfoImpl> library_;
  std::optional<simt::Analyses> analyses_;
};

void run_passes(const Stage& stage, std::span<const Pass> passes, C& c, StageAnalyses& analyses) {
  for (const Pass& pass : passes) {
    if (!pass.when.holds(c)) continue;
    const Action& action = pass.action;
    if (action.kind == Action::Kind::group) {
      run_passes(stage, {action.first, action.count}, c, analyses);
      if (!c.refusal.empty()) return;
      continue;
    }
    const bool ours = action.kind == Action::Kind::transform;
    if (ours)
      analyses.clear();
    else if (action.kind == Action::Kind::llvm)
      analyses.need();
    if (action.run) action.run(c);
    if (!c.refusal.empty()) return;
    c.instrumentation.after(pass.name, c.module,
                            stage.unit == Unit::function ? c.function : nullptr,
                            pass.verified || (ours && c.settings.strict));
  }
}

void run(const Stage& stage, C& c) {
  c.instrumentation.begin_stage(stage.name);
  std::optional<trace::Scope> scope;  // of kernels; stage "thread" is part of the translation
  if (trace::is_on() && !c.job.kernel.empty()) {
    scope.emplace("compile", std::string{"stage "} + stage.name);
    scope->arguments().add("kernel", c.job.kernel);
  }
  StageAnalyses analyses{stage, c};
  run_passes(stage, stage.passes, c, analyses);
}

void run(std::span<const Stage> path, C& c) {
  for (const Stage& stage : path) {
    if (c.job.in_background) block_if_exiting();
    run(stage, c);
  }
}

void run_vector_stage(C& c) {
  c.kernel = c.function;
  run(kVectorStage, c);
  if (!c.refusal.empty() && c.function != c.kernel) c.function->eraseFromParent();
  if (!c.refusal.empty()) c.function = c.kernel;
}

void add_rows(const char* stage, std::span<const Pass> passes, const std::string& group,
              std::vector<Row>& out) {
  for (const Pass& pass : passes) {
    std::string when = group;
    if (*pass.when.name) when += (group.empty() ? "" : "; ") + std::string{pass.when.name};
    if (pass.action.kind == Action::Kind::group)
      add_rows(stage, {pass.action.first, pass.action.count}, when, out);
    else
      out.push_back({stage, pass.name, when, pass.action.kind == Action::Kind::llvm});
  }
}

}  // namespace

Translation thread_code(std::span<const ptx::Module* const> modules, LLVMContext& context,
                        const TranslateOptions& options, const Settings& settings) {
  Translation translation = translate(modules, context, options);
  const CompileJob job;
  for (Function& function : *translation.module) {
    if (function.isDeclaration()) continue;
    PassInstrumentation instrumentation{settings, function.getName().str()};
    Compilation c{*translation.module, job, settings, instrumentation};
    c.function = &function;
    if (!settings.coverage_folder.empty()) c.coverage = &translation.coverage;
    run(kThreadStage, c);
    instrumentation.report_times();
  }
  return translation;
}

void compile_kernel(Compilation& c) {
  run(kKernelStage, c);
  if (!c.job.block) return run(kScalarPath, c);
  if (!c.refusal.empty()) return;
  if (c.job.check != 0 && c.needs.spins) {
    c.refusal = "check mode: its blocks wait for other blocks";
    return;
  }
  if (c.needs.recursive) {
    c.refusal = "calls functions that are not inlined";
    return;
  }
  run_vector_stage(c);
  if (!c.refusal.empty() && c.block.baseline) {  // other widths may be possible
    c.refusal.clear();
    c.vector.baseline_beyond.reset();
    run_vector_stage(c);
  }
  if (c.refusal.empty()) run(kVectorPath, c);
}

void compile_functions(Compilation& c) {
  run(kFunctionsStage, c);
  if (!c.names.empty()) run(kFunctionsPath, c);
}

simt::BlockCode vectorize(Function& thread, const simt::Options& options) {
  const Settings settings;
  const CompileJob job;
  PassInstrumentation instrumentation{settings, thread.getName().str()};
  Compilation c{*thread.getParent(), job, settings, instrumentation};
  c.function = &thread;
  c.vector = options;
  c.fix_nans = options.ordered_doubles;
  run_vector_stage(c);
  if (c.block.report.refusal.empty()) c.block.report.refusal = c.refusal;
  return std::move(c.block);
}

void optimize_block(Function& block, TargetMachine* target) {
  const Settings settings;
  const CompileJob job;
  PassInstrumentation instrumentation{settings, block.getName().str()};
  Compilation c{*block.getParent(), job, settings, instrumentation};
  c.function = &block;
  c.target = target;
  run(kBlockStage, c);
}

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const Stage& stage : kAll) add_rows(stage.name, stage.passes, {}, all);
  return all;
}

bool has_pass(std::string_view name) {
  const auto all = rows();
  return std::any_of(all.begin(), all.end(), [&](const Row& row) { return row.pass == name; });
}

std::string pass_names() {
  std::vector<std::string_view> names;
  std::string text;
  for (const Row& row : rows()) {
    if (std::find(names.begin(), names.end(), row.pass) != names.end()) continue;
    names.push_back(row.pass);
    text.append(text.empty() ? "" : ", ").append(row.pass);
  }
  return text;
}

}  // namespace cucpu::pipeline
