// cpu/engine/compile.cpp
#include "cpu/engine/compile.hpp"

#include <dlfcn.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <utility>

#include "cpu/engine/dump.hpp"
#include "cpu/engine/jit/code_generator.hpp"
#include "cpu/engine/jit/crash_recovery.hpp"
#include "cpu/engine/jit/host_target.hpp"
#include "cpu/engine/jit/instrument.hpp"
#include "cpu/engine/jit/lower.hpp"
#include "cpu/engine/jit/optimize.hpp"
#include "cpu/engine/jit/state_space_check.hpp"
#include "cpu/engine/nan/canonical_select.hpp"
#include "cpu/engine/nan/f64_nan_fixup.hpp"
#include "cpu/engine/nan/min_max.hpp"
#include "cpu/engine/nan/operand_order.hpp"
#include "cpu/engine/peer_access.hpp"
#include "cpu/engine/run/crash_recovery.hpp"
#include "cpu/engine/run/tier_up.hpp"
#include "cpu/engine/simt/vectorize.hpp"
#include "cpu/engine/simt/widen_masks.hpp"

namespace cucpu {
namespace {

using namespace llvm;

/// Errors of LLVM become exceptions; left alone, it prints them and ends the process. Only inside
/// run_with_crash_recovery().
class Guarded {
 public:
  explicit Guarded(LLVMContext& context) : context_{context} {
    context_.setDiagnosticHandlerCallBack(
        [](const DiagnosticInfo* info, void* text) {
          if (info->getSeverity() != DS_Error) return;
          raw_string_ostream out{*static_cast<std::string*>(text)};
          DiagnosticPrinterRawOStream printer{out};
          info->print(printer);
          out << "\n";
        },
        &errors_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  void check() const {
    if (!errors_.empty()) throw std::runtime_error{errors_};
  }

 private:
  LLVMContext& context_;
  std::string errors_;
};

/// LLVM asks before most passes of its code generator whether they shall run: work in the
/// background can stop there when the process ends.
class StopsWithProcess final : public OptPassGate {
 public:
  bool shouldRunPass(StringRef, StringRef) override {
    block_if_exiting();
    return true;
  }
  [[nodiscard]] bool isEnabled() const override { return true; }
};

/// The thread code; with `kernel`, only that kernel and what it reaches: other kernels are not even
/// read.
std::unique_ptr<llvm::Module> parse(std::string_view bitcode, LLVMContext& context,
                                    TargetMachine& target, const std::string& kernel = {}) {
  const MemoryBufferRef buffer{StringRef{bitcode.data(), bitcode.size()}, "thread code"};
  auto parsed =
      kernel.empty() ? parseBitcodeFile(buffer, context) : getLazyBitcodeModule(buffer, context);
  if (!parsed)
    throw LoadError{999, "thread code cannot be read back: " + toString(parsed.takeError())};
  llvm::Module& module = **parsed;
  if (Function* root = kernel.empty() ? nullptr : module.getFunction(kernel)) {
    const auto read = [](Error error) {
      if (error)
        throw LoadError{999, "thread code cannot be read back: " + toString(std::move(error))};
    };
    SmallPtrSet<Function*, 16> reached{root};
    SmallVector<Function*, 16> work{root};
    while (!work.empty()) {
      Function* function = work.pop_back_val();
      read(function->materialize());
      for (Instruction& instruction : instructions(*function)) {
        SmallVector<Value*, 8> operands(instruction.operands());
        while (!operands.empty()) {
          Value* operand = operands.pop_back_val();
          if (auto* other = dyn_cast<Function>(operand)) {
            if (reached.insert(other).second) work.push_back(other);
          } else if (auto* expression = dyn_cast<ConstantExpr>(operand)) {
            operands.append(expression->op_begin(), expression->op_end());
          }
        }
      }
    }
    for (Function& function : module)
      if (!reached.contains(&function) && !function.isDeclaration()) function.deleteBody();
    read(module.materializeAll());
  }
  module.setTargetTriple(host_target().triple);
  module.setDataLayout(target.createDataLayout());
  return std::move(*parsed);
}

/// Stack a call of the code needs, generously: what is allocated by name, and room for spills and
/// routines. Any vector may be spilled, and in a large kernel with many lanes that is what there is
/// most of. Without optimisation every one is, together with what it is made of.
std::uint32_t stack_need(llvm::Module& module, bool quick) {
  std::uint64_t bytes = 0, vectors = 0;
  const DataLayout& layout = module.getDataLayout();
  for (Function& function : module)
    for (Instruction& instruction : instructions(function)) {
      if (const auto* local = dyn_cast<AllocaInst>(&instruction)) {
        if (const auto size = local->getAllocationSize(layout)) bytes += *size;
      } else if (const auto* type = dyn_cast<FixedVectorType>(instruction.getType())) {
        const std::uint64_t size = layout.getTypeAllocSize(instruction.getType());
        vectors += quick ? std::max<std::uint64_t>(2 * size, 8 * type->getNumElements()) : size;
      }
    }
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(48 * 1024 + bytes + bytes / 4 + vectors, 1U << 30));
}

/// A frame larger than the guard page must not step over it: it touches every page on its way.
void probe_stacks(llvm::Module& module) {
  for (Function& function : module)
    if (!function.isDeclaration()) function.addFnAttr("probe-stack", "inline-asm");
}

/// Processor time of this thread in milliseconds: what other programs do shows least in it.
class Stopwatch {
 public:
  double lap() {
    const double before = std::exchange(last_, now());
    return last_ - before;
  }

 private:
  static double now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
  }
  double last_ = now();
};

/// Whether this host's f64 arithmetic gives other NaNs than were asked for: x86-64 makes those of a
/// GPU, but chooses otherwise between two.
bool gives_other_nans(const Settings& settings) {
  return settings.nans == Settings::Nans::exact ||
         (settings.nans == Settings::Nans::gpu && Triple{host_target().triple}.isAArch64());
}

/// Of optimising (simt/vectorize.cpp): what takes more than about 60 ms (Neoverse N1).
constexpr unsigned kTakesLong = 2500;

std::optional<unsigned> quick_beyond(const CompileJob& job, const Settings& settings) {
  if (!job.may_be_quick) return std::nullopt;
  return settings.quick == Settings::Quick::always ? 0 : kTakesLong;
}

int level_of(int optimization) { return optimization <= 0 ? 0 : optimization == 1 ? 1 : 2; }

}  // namespace

namespace {

std::optional<ObjectCode> compile_unprotected(const CompileJob& job, const Settings& settings) {
  Stopwatch watch;
  LLVMContext context;
  const Guarded guarded{context};
  StopsWithProcess gate;
  if (job.in_background) context.setOptPassGate(gate);
  const auto generator = CodeGenerator::make(job.optimization);
  std::unique_ptr<CodeGenerator> quick_generator;
  TargetMachine* const target = generator->target();
  const auto module = parse(job.bitcode, context, *target, job.kernel);
  Function* kernel = module->getFunction(job.kernel);
  if (!kernel) throw LoadError{500, "no thread code for kernel " + job.kernel};
  extract_kernel(*kernel, job.check ? instrument_locals : nullptr);
  kernel = module->getFunction(job.kernel);
  ObjectCode code;
  trap_state_space_violations(*module);
  code.assumed = check_alignment(*module, job.aligned);
  if (peer_access_check()) code.reached = check_peer_access(*module, job.aligned);
  if (job.check) instrument(*module);
  dump(settings.dump_thread, settings, job.kernel + ".thread.ll", *module);
  const bool settles = gives_other_nans(settings) && has_f64_arithmetic(*module);
  const double prepared = watch.lap();

  double vectorized = 0;
  Function* entry = nullptr;
  std::string path;
  if (job.block) {
    simt::Options options;
    options.block = *job.block;
    options.width = settings.width;
    options.small_grid = job.small_grid;
    options.ordered_doubles = settles;
    options.quick_beyond = quick_beyond(job, settings);
    options.target = target;
    const ThreadNeeds needs = find_needs(*kernel);
    simt::BlockCode block;
    if (needs.recursive) {
      block.report.refusal = "calls functions that are not inlined";
    } else {
      block = simt::vectorize(*kernel, options);
      if (!block.function && block.quick) {  // other lanes may do
        options.quick_beyond.reset();
        block = simt::vectorize(*kernel, options);
      }
    }
    if (!block.function) {
      report(settings, "kernel " + job.kernel + ": not vectorized: " + block.report.refusal);
      return std::nullopt;
    }
    entry = block.function;
    for (Function& other : *module)
      if (!other.isDeclaration() && &other != entry) other.setLinkage(GlobalValue::InternalLinkage);
    entry->setLinkage(GlobalValue::ExternalLinkage);
    run_module_passes(*module, nullptr,
                      [](ModulePassManager& passes) { passes.addPass(GlobalDCEPass()); });
    entry->setName(kEntry);
    try {
      verify(*module, "vectorization");
    } catch (const std::exception& error) {  // a mistake of ours must not cost the user the kernel:
                                             // the scalar path is always there; tests want to know
      if (settings.strict) throw;
      static std::atomic<unsigned> fallbacks{0};
      report(settings, "kernel " + job.kernel + ": not vectorized: invalid vector code (fallback " +
                           std::to_string(++fallbacks) +
                           " of this process; please report it): " + error.what());
      return std::nullopt;
    }
    code.width = block.report.width;
    code.waits_for_blocks = needs.spins;
    code.runs_on = !needs.spins;
    code.scratch_bytes = static_cast<std::uint32_t>(block.scratch_bytes);
    code.quick = block.quick;
    if (code.quick) quick_generator = CodeGenerator::make(0);
    path = (block.quick  ? "vector, quick: "
            : block.lean ? "vector, large: "
                         : "vector: ") +
           simt::to_string(block.report) + (needs.spins ? " spins" : "");
    vectorized = watch.lap();
    if (job.in_background) block_if_exiting();
    if (settles) mark_first_operands(*entry);
    simt::optimize(*entry, target, block.lean);
  } else {
    ThreadNeeds needs = find_needs(*kernel);
    needs.fibers |= job.check;
    code.fibers = needs.fibers;
    code.recursive = needs.recursive;
    code.waits_for_blocks = needs.spins;
    entry = needs.fibers ? lower_to_fiber(*kernel, kEntry) : lower_to_loop(*kernel, kEntry);
    path = needs.fibers ? needs.spins ? "scalar, fibers, spins" : "scalar, fibers"
                        : "scalar, loop over threads";
    verify(*module, "lowering");
    if (settles) for_each(*module, mark_first_operands);
    optimize_module(*module, target, level_of(job.optimization));
  }
  if (settles) fix_f64_nans(*module);
  for_each(*module, [&](Function& f) { lower_min_max(f, target); });
  if (job.block) fold_canonical_selects(*entry, target);
  const double optimized = watch.lap();
  if (job.in_background) block_if_exiting();
  insert_safepoint_polls(*module, entry, code.fibers);
  if (code.runs_on) combine_deferred_atomics(*entry);
  expand_float_atomics(*module);
  if (job.block) simt::widen_masks(*entry, target);
  if (settings.strict) verify(*module, "inserting polls");
  code.stack_bytes = stack_need(*module, code.quick);
  if (code.recursive) probe_stacks(*module);
  dump(settings.dump_block, settings, job.kernel + ".block.ll", *module);
  CodeGenerator& last = quick_generator ? *quick_generator : *generator;
  if (settings.dump_assembly)
    dump_text(settings, job.kernel + ".s", emit_assembly(*module, last.target()));
  code.object = last.object(*module);
  guarded.check();
  if (settings.report) {
    char times[200];
    std::snprintf(times, sizeof times,
                  " [prepare %.1f ms, vectorize %.1f ms, passes %.1f ms, code %.1f ms, %zu bytes]",
                  prepared, vectorized, optimized, watch.lap(), code.object.size());
    report(settings, "kernel " + job.kernel + ": " + path + times);
  }
  return code;
}

FunctionsObject compile_functions_unprotected(std::string_view bitcode,
                                              std::span<const std::string> also, int optimization,
                                              const Settings& settings) {
  LLVMContext context;
  const Guarded guarded{context};
  const auto generator = CodeGenerator::make(optimization);
  TargetMachine* const target = generator->target();
  const auto module = parse(bitcode, context, *target);
  FunctionsObject result;
  result.names = extract_functions(*module, also);
  if (result.names.empty()) return result;
  trap_state_space_violations(*module);
  check_alignment(*module, false);
  if (peer_access_check()) check_peer_access(*module, false);
  if (settings.check->kinds != 0) {
    instrument_locals(*module);
    instrument(*module);
  }
  const bool settles = gives_other_nans(settings) && has_f64_arithmetic(*module);
  lower_functions(*module);
  verify(*module, "lowering");
  if (settles) for_each(*module, mark_first_operands);
  optimize_module(*module, target, level_of(optimization));
  if (settles) fix_f64_nans(*module);
  for_each(*module, [&](Function& f) { lower_min_max(f, target); });
  insert_safepoint_polls(*module, nullptr, false);
  expand_float_atomics(*module);
  probe_stacks(*module);
  result.object = generator->object(*module);
  guarded.check();
  return result;
}

}  // namespace

void in_compiler(const std::string& what, std::string_view input, const Settings& settings,
                 const std::function<void()>& work, std::span<const int> optimizations) try {
  host_target();
  for (const int optimization : optimizations) initialize_codegen_passes(optimization);
  with_crash_recovery(work);
} catch (const LoadError&) {
  throw;
} catch (const std::bad_alloc&) {
  throw LoadError{2, what + ": the compiler is out of memory"};
} catch (const Crashed& crashed) {
  const std::string kept = keep_reproducer(settings, what, input, crashed.what());
  throw LoadError{218, what + ": the compiler failed: " + crashed.what() +
                           (kept.empty() ? "" : "; what it was given is kept in " + kept)};
} catch (const std::exception& error) {
  throw LoadError{218, what + ": " + error.what()};
}

std::optional<ObjectCode> compile_kernel(const CompileJob& job, const Settings& settings) try {
  std::optional<ObjectCode> code;
  const int optimizations[] = {job.optimization, 0};
  in_compiler(
      "kernel " + job.kernel, job.bitcode, settings,
      [&] { code = compile_unprotected(job, settings); },
      std::span{optimizations}.first(job.may_be_quick ? 2 : 1));
  return code;
} catch (const LoadError& error) {
  // The scalar path is there for what the vectorizer fails at; tests want to know.
  if (!job.block || settings.strict || error.code != 218) throw;
  report(settings, "kernel " + job.kernel + ": not vectorized: " + error.what());
  return std::nullopt;
}

FunctionsObject compile_functions(std::string_view bitcode, std::span<const std::string> also,
                                  int optimization, const Settings& settings) {
  FunctionsObject functions;
  in_compiler(
      "device functions", bitcode, settings,
      [&] { functions = compile_functions_unprotected(bitcode, also, optimization, settings); },
      std::span{&optimization, 1});
  return functions;
}

const std::string& compiler_identity() {
  static const auto* const identity = [] {
    const HostTarget& h = host_target();
    auto* text = new std::string{"cucore 0.1 " LLVM_VERSION_STRING};
    for (const std::string* part : {&h.triple, &h.cpu, &h.features})
      text->append(" ").append(*part);
    // A new build of this library may generate other code for the same source.
    Dl_info where{};
    struct stat info {};
    if (dladdr(reinterpret_cast<const void*>(&compiler_identity), &where) && where.dli_fname &&
        stat(where.dli_fname, &info) == 0) {
      for (const long number :
           {static_cast<long>(info.st_size), static_cast<long>(info.st_mtim.tv_sec),
            static_cast<long>(info.st_mtim.tv_nsec)})
        text->append(" ").append(std::to_string(number));
    }
    return text;
  }();
  return *identity;
}

}  // namespace cucpu
