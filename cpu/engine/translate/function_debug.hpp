// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/function_debug.hpp: debug mode: source positions and variables of one
// function. Registers that hold variables stay in memory, so that a debugger reads and writes them.
#pragma once

#include <llvm/IR/DebugInfoMetadata.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/engine/translate/source_debug_info.hpp"

namespace llvm {
class AllocaInst;
class Value;
}  // namespace llvm

namespace cucpu::ir {

class FunctionTranslator;

/// Where the positions and variables of a function come from:
/// - the DWARF of its module (`-G`): names, types and places of the source;
/// - `.loc` alone (`-lineinfo`): lines of the source; parameters have their PTX names;
/// - neither: lines of the PTX text, and its registers as variables.
/// In all cases threadIdx, blockIdx, blockDim, gridDim and shared variables are variables too.
class FunctionDebug {
 public:
  /// Sets the subprogram of the function. Null: the function has no positions.
  static std::unique_ptr<FunctionDebug> make(FunctionTranslator&);

  /// At the end of the entry block, when registers, parameters and variables exist.
  void declare_variables();
  void set_line(const ptx::SourceLine&);
  /// Before the statement of this number.
  void begin_statement(std::size_t statement);
  void begin_block();

 private:
  explicit FunctionDebug(FunctionTranslator& translator) : t_{translator} {}

  void update_position();
  void update_values();
  void declare(llvm::Value* address, llvm::DILocalVariable*, llvm::DILocation*,
               llvm::ArrayRef<std::uint64_t> expression = {});
  /// A variable at an address that is known at run time only.
  void declare_at(llvm::Value* address, llvm::StringRef name, llvm::DIType*);
  void declare_at(llvm::Value* address, llvm::DILocalVariable*, llvm::DILocation*);
  void declare_builtins();
  void declare_shared();
  void declare_source_variables();
  void declare_parameters();
  void declare_registers();
  llvm::AllocaInst* register_of(const std::string& name);
  llvm::DIType* type_of(ptx::Type);
  llvm::DIType* type_of(const ptx::Variable&, ptx::Type element);
  std::vector<ptx::Type> shared_elements() const;

  FunctionTranslator& t_;
  std::unordered_map<std::string, llvm::AllocaInst*> registers_;  ///< by name; see register_of()
  const SourceFunction* source_ = nullptr;                        ///< from DWARF
  bool of_ptx_ = false;                                           ///< lines of the PTX text
  std::vector<std::uint32_t> changes_;  ///< statements where a scope or a place changes
  std::size_t next_change_ = 0;
  std::uint32_t statement_ = 0;
  bool in_prologue_ = false;  ///< statements that only fetch parameters
  ptx::SourceLine line_{};
  llvm::DILocalScope* scope_ = nullptr;
  llvm::DILocation* inlined_at_ = nullptr;
};

}  // namespace cucpu::ir
