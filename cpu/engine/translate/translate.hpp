// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/translate.hpp: syntax trees to thread code (scalar LLVM IR, see
// docs/design/engine.md).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpu/engine/coverage/coverage_map.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/ptx/ast.hpp"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace cucpu {

/// An address that the loader writes into a variable: `width` bytes at `offset` are (address of
/// symbol + addend) >> shift.
struct VariableRelocation {
  std::uint64_t offset;
  std::uint8_t width, shift;
  bool function;       ///< symbol names a function of the LLVM module
  std::string symbol;  ///< its name in the LLVM module
  std::int64_t addend;
};

/// A .global or .const variable, which the loader places before code is linked.
struct ModuleVariable {
  std::string name;    ///< as in the PTX text
  std::string symbol;  ///< its external global in the LLVM module
  std::uint64_t size = 0;
  std::uint32_t align = 1;
  bool constant = false, managed = false;
  ReferenceKind reference = ReferenceKind::none;
  bool visible = false;  ///< found by name through the driver API (everything but internal symbols
                         ///< of linked-in modules)
  std::vector<std::uint8_t> data;  ///< initial value, `size` bytes; empty: zeros
  std::vector<VariableRelocation> relocations;
};

struct Translation {
  std::unique_ptr<llvm::Module> module;
  std::vector<KernelInfo> kernels;  ///< info.name is also the name of the LLVM function
  std::vector<ModuleVariable> variables;
  CoverageMap coverage;  ///< set by the passes of stage "thread", for kernel coverage
};

struct TranslateOptions {
  bool line_info = true;               ///< turn .loc into !dbg
  bool native_half = host_has_half();  ///< the host multiplies and adds halves with one rounding
  bool gpu_nans = true;                ///< f64 instructions give the NaNs of a GPU
  bool exact_nans = false;             ///< also in atomic operations on generic addresses

  /// Check mode: addresses of .shared variables are markers cucpu.shared.variable(address, offset,
  /// bytes), whose result is the address.
  bool shared_variables = false;
  bool copies = false;  ///< Check mode: asynchronous copies and waits for them call routines.
  /// Debug mode: variables and scopes for debuggers, and registers that hold variables in memory.
  bool debug = false;
  /// Debug mode and kernel coverage: files with the text of the modules, which have lines for
  /// modules without .loc.
  std::vector<std::string> ptx_files = {};

  static bool host_has_half();
};

/// Requires: syntax trees without errors.
/// Guarantees: one linked LLVM module with registers as allocas; pipeline::thread_code() runs the
/// passes of stage "thread" over it. Throws LoadError (218, or 209 where a device linker is needed)
/// with all diagnostics.
[[nodiscard]] Translation translate(std::span<const ptx::Module* const> modules,
                                    llvm::LLVMContext& context,
                                    const TranslateOptions& options = {});

}  // namespace cucpu
