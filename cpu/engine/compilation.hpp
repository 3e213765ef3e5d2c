// SPDX-License-Identifier: Apache-2.0
// cpu/engine/compilation.hpp: the state of one compilation, which passes read and change.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpu/engine/compile.hpp"
#include "cpu/engine/jit/code_generator.hpp"
#include "cpu/engine/jit/object_code.hpp"
#include "cpu/engine/jit/thread_needs.hpp"
#include "cpu/engine/pass_instrumentation.hpp"
#include "cpu/engine/settings.hpp"
#include "cpu/engine/simt/vectorize.hpp"

namespace llvm {
class Function;
class Module;
class TargetMachine;
}  // namespace llvm

namespace cucpu {

struct CoverageMap;

namespace simt {
struct Analyses;
}

struct Compilation {
  Compilation(llvm::Module& module, const CompileJob& job, const Settings& settings,
              PassInstrumentation& instrumentation)
      : module{module}, job{job}, settings{settings}, instrumentation{instrumentation} {}
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  llvm::Module& module;
  const CompileJob& job;
  const Settings& settings;
  PassInstrumentation& instrumentation;

  /// What the passes of a stage work on: thread code; from "vectorize" on block code; from the
  /// "lower-to-..." passes on the entry point. Null in a module of address-taken functions.
  llvm::Function* function = nullptr;
  llvm::Function* kernel = nullptr;  ///< the thread code that the vector stage copies
  llvm::TargetMachine* target = nullptr;
  CodeGenerator* generator = nullptr;
  std::unique_ptr<CodeGenerator> baseline_generator;  ///< set in the baseline tier
  simt::Analyses* analyses = nullptr;                 ///< of the running stage

  // Results of analyses, which conditions of later passes read.
  ThreadNeeds needs;
  bool fix_nans = false;      ///< f64 NaNs of this host differ from those of the settings
  bool rerolled = false;      ///< "reroll-loops" changed the code
  bool if_converted = false;  ///< "if-convert" changed the code
  bool irreducible = false;
  bool has_loops = false;  ///< loops of the thread code, not those over groups and blocks
  bool unrolled = false;
  bool forwarded = false;  ///< "forward-shared-stores" changed the code
  std::size_t size_before_unrolling = 0;

  simt::Options vector;
  simt::BlockCode block;
  std::string refusal;  ///< why the kernel cannot be vectorized; ends the stage

  CoverageMap* coverage = nullptr;  ///< set in stage "thread" if kernels count

  std::span<const std::string> exported;  ///< functions that variables refer to
  std::vector<std::string> names;  ///< of the functions of a module of address-taken functions
  ObjectCode code;                 ///< the result
};

}  // namespace cucpu
