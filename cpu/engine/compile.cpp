// SPDX-License-Identifier: Apache-2.0
// cpu/engine/compile.cpp
#include "cpu/engine/compile.hpp"

#include <dlfcn.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>
#include <malloc.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <utility>

#include "cpu/engine/compilation.hpp"
#include "cpu/engine/dump.hpp"
#include "cpu/engine/explanation.hpp"
#include "cpu/engine/jit/code_generator.hpp"
#include "cpu/engine/jit/crash_recovery.hpp"
#include "cpu/engine/jit/host_target.hpp"
#include "cpu/engine/pass_instrumentation.hpp"
#include "cpu/engine/pipeline.hpp"
#include "cpu/engine/run/crash_recovery.hpp"
#include "cpu/engine/run/tier_up.hpp"
#include "cpu/trace/trace.hpp"

namespace cucpu {
namespace {

using namespace llvm;

/// Collects the errors of LLVM, which would print them and end the process. Only inside
/// run_with_crash_recovery().
class DiagnosticErrors {
 public:
  explicit DiagnosticErrors(LLVMContext& context) : context_{context} {
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
  DiagnosticErrors(const DiagnosticErrors&) = delete;
  DiagnosticErrors& operator=(const DiagnosticErrors&) = delete;
  void check() const {
    if (!errors_.empty()) throw std::runtime_error{errors_};
  }

 private:
  LLVMContext& context_;
  std::string errors_;
};

/// LLVM calls it before most passes of its code generator, so background compilation can stop there
/// at process exit.
class StopsWithProcess final : public OptPassGate {
 public:
  bool shouldRunPass(StringRef, StringRef) override {
    block_if_exiting();
    return true;
  }
  [[nodiscard]] bool isEnabled() const override { return true; }
};

/// Reads thread code; with `kernel`, only that kernel and what it reaches.
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

/// In units of cost_of() in simt/vectorize.cpp: about 60 ms of optimization on a Neoverse N1.
constexpr unsigned kExpensive = 2500;

std::optional<unsigned> baseline_beyond(const CompileJob& job, const Settings& settings) {
  if (!job.may_be_baseline) return std::nullopt;
  return settings.tier == Settings::Tier::baseline ? 0 : kExpensive;
}

/// How a kernel was compiled, for CUCORE_CPU_REPORT.
std::string path_of(const Compilation& c) {
  if (c.block.function)
    return (c.block.baseline  ? "vector, baseline: "
            : c.block.reduced ? "vector, large: "
                              : "vector: ") +
           simt::to_string(c.block.report) + (c.needs.spins ? " spins" : "");
  if (c.job.debug) return "scalar, fibers, debug mode";
  if (!c.code.fibers) return "scalar, loop over threads";
  return c.needs.spins ? "scalar, fibers, spins" : "scalar, fibers";
}

std::optional<ObjectCode> compile_unprotected(const CompileJob& job, const Settings& settings) {
  LLVMContext context;
  const DiagnosticErrors errors{context};
  StopsWithProcess gate;
  if (job.in_background) context.setOptPassGate(gate);
  PassInstrumentation instrumentation{settings, job.kernel};
  const auto generator = CodeGenerator::make(job.optimization);
  const auto module = parse(job.bitcode, context, *generator->target(), job.kernel);
  Compilation c{*module, job, settings, instrumentation};
  c.function = module->getFunction(job.kernel);
  if (!c.function) throw LoadError{500, "no thread code for kernel " + job.kernel};
  c.target = generator->target();
  c.generator = generator.get();
  if (job.block) {
    c.vector.block = *job.block;
    c.vector.width = settings.width;
    // Whether lanes diverge is a question about warps. Where rows of the block are no whole warps,
    // groups of 32 lanes would be many times slower, so smaller groups answer it.
    if (!settings.coverage_folder.empty() && settings.width == 0 && job.block->x % 32 == 0)
      c.vector.width = 32;
    c.vector.small_grid = job.small_grid;
    c.vector.check = job.check;
    c.vector.baseline_beyond = baseline_beyond(job, settings);
    c.vector.target = c.target;
  }
  try {
    pipeline::compile_kernel(c);
  } catch (const InvalidCode& error) {
    // The scalar path compiles every kernel, so a defect of the vectorizer does not cost the user
    // the kernel. Tests are strict.
    if (!job.block || settings.strict) throw;
    static std::atomic<unsigned> fallbacks{0};
    c.refusal = "invalid vector code (fallback " + std::to_string(++fallbacks) +
                " of this process; please report it): " + error.what();
  }
  if (job.explanation) {
    job.explanation->report = c.block.report;
    if (!c.refusal.empty()) job.explanation->refusal = c.refusal;
    job.explanation->path = path_of(c);
  }
  if (!c.refusal.empty()) {
    report(settings, "kernel " + job.kernel + ": not vectorized: " + c.refusal);
    return std::nullopt;
  }
  errors.check();
  instrumentation.report_times();
  if (settings.report) {
    const auto ms = [&](const char* stage) { return instrumentation.milliseconds(stage); };
    char times[200];
    std::snprintf(times, sizeof times,
                  " [prepare %.1f ms, vectorize %.1f ms, passes %.1f ms, code %.1f ms, %zu bytes]",
                  ms("kernel"), ms("vector") + ms("entry"),
                  ms("block") + ms("scalar") + ms("finish"), ms("codegen"), c.code.object.size());
    report(settings, "kernel " + job.kernel + ": " + path_of(c) + times);
  }
  return std::move(c.code);
}

FunctionsObject compile_functions_unprotected(std::string_view bitcode,
                                              std::span<const std::string> also, int optimization,
                                              bool debug, const Settings& settings) {
  LLVMContext context;
  const DiagnosticErrors errors{context};
  PassInstrumentation instrumentation{settings, "functions"};
  const auto generator = CodeGenerator::make(optimization);
  const auto module = parse(bitcode, context, *generator->target());
  CompileJob job;
  job.optimization = optimization;
  job.check = settings.check->kinds;
  job.schedule = settings.schedule.has_value();
  job.debug = debug;
  Compilation c{*module, job, settings, instrumentation};
  c.target = generator->target();
  c.generator = generator.get();
  c.exported = also;
  pipeline::compile_functions(c);
  errors.check();
  instrumentation.report_times();
  return {std::move(c.code.object), std::move(c.names)};
}

/// A compilation that takes this long has used megabytes of memory, and far longer than it takes to
/// give them back.
constexpr auto kLong = std::chrono::milliseconds{200};

/// LLVM has freed what it used; glibc would keep all of it for the process.
void return_memory() noexcept {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

void in_compiler(const std::string& what, std::string_view input, const Settings& settings,
                 const std::function<void()>& work, std::span<const int> optimizations) try {
  host_target();
  for (const int optimization : optimizations) initialize_codegen_passes(optimization);
  const auto start = std::chrono::steady_clock::now();
  with_crash_recovery(work);
  if (std::chrono::steady_clock::now() - start >= kLong) return_memory();
} catch (const LoadError&) {
  throw;
} catch (const std::bad_alloc&) {
  throw LoadError{2, what + ": the compiler is out of memory"};
} catch (const Crashed& crashed) {
  const std::string kept = keep_reproducer(settings, what, input, crashed.what());
  throw LoadError{218, what + ": the compiler failed: " + crashed.what() +
                           (kept.empty() ? "" : "; its input is kept in " + kept)};
} catch (const std::exception& error) {
  throw LoadError{218, what + ": " + error.what()};
}

std::optional<ObjectCode> compile_kernel(const CompileJob& job, const Settings& settings) try {
  const trace::Scope scope{"compile", trace::is_on() ? "compile " + job.kernel : std::string{}};
  std::optional<ObjectCode> code;
  const int optimizations[] = {job.optimization, 0};
  in_compiler(
      "kernel " + job.kernel, job.bitcode, settings,
      [&] { code = compile_unprotected(job, settings); },
      std::span{optimizations}.first(job.may_be_baseline ? 2 : 1));
  return code;
} catch (const LoadError& error) {
  // The scalar path compiles every kernel. Tests are strict.
  if (!job.block || settings.strict || error.code != 218) throw;
  report(settings, "kernel " + job.kernel + ": not vectorized: " + error.what());
  return std::nullopt;
}

FunctionsObject compile_functions(std::string_view bitcode, std::span<const std::string> also,
                                  int optimization, const Settings& settings, bool debug) {
  FunctionsObject functions;
  in_compiler(
      "device functions", bitcode, settings,
      [&] {
        functions = compile_functions_unprotected(bitcode, also, optimization, debug, settings);
      },
      std::span{&optimization, 1});
  return functions;
}

const std::string& compiler_identity() {
  static const auto* const identity = [] {
    const HostTarget& h = host_target();
    auto* text = new std::string{"cucore 0.1 " LLVM_VERSION_STRING};
    for (const std::string* part : {&h.triple, &h.cpu, &h.features})
      text->append(" ").append(*part);
    // Another build of this library may generate other code for the same source.
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
