// SPDX-License-Identifier: Apache-2.0
// cpu/engine/pipeline.hpp: the order of all passes from PTX to machine code. pipeline.cpp has the
// tables; docs/design/pipeline.md shows them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/engine/compilation.hpp"
#include "cpu/engine/translate/translate.hpp"

namespace cucpu::pipeline {

/// PTX to thread code: translate() and the passes of stage "thread". Throws LoadError.
[[nodiscard]] Translation thread_code(std::span<const ptx::Module* const> modules,
                                      llvm::LLVMContext& context,
                                      const TranslateOptions& options = {},
                                      const Settings& settings = {});

/// Thread code of a module to an object file for one kernel: `function` is the kernel, and
/// `job.block` selects the vector path. Compilation::refusal says why there is no vector code.
/// Throws InvalidCode.
void compile_kernel(Compilation&);

/// Thread code of a module to an object file for its address-taken functions. Without such
/// functions Compilation::names stays empty.
void compile_functions(Compilation&);

/// Stage "vector" alone: block code beside `thread`, which stays unchanged.
[[nodiscard]] simt::BlockCode vectorize(llvm::Function& thread, const simt::Options&);

/// Stage "block" alone: LLVM's passes over block code.
void optimize_block(llvm::Function& block, llvm::TargetMachine*);

/// A row of the tables. A pass that runs in several places has a row for each.
struct Row {
  std::string_view stage, pass;
  std::string when;  ///< empty: always
  bool of_llvm;
};
[[nodiscard]] std::vector<Row> rows();

/// Whether a pass has this name, for CUCORE_CPU_DUMP=after:NAME.
[[nodiscard]] bool has_pass(std::string_view name);
/// The names of all passes, each once, separated by commas.
[[nodiscard]] std::string pass_names();

}  // namespace cucpu::pipeline
