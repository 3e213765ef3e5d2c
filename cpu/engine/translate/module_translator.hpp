// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/module_translator.hpp: symbols, layouts and markers of one PTX module.
#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Module.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpu/engine/translate/shared_layout.hpp"
#include "cpu/engine/translate/source_debug_info.hpp"
#include "cpu/engine/translate/translate.hpp"
#include "cpu/ptx/diagnostics.hpp"

namespace cucpu::ir {

/// How a PTX function is called: scalars by value as integers, arrays by the address of the
/// caller's copy. One scalar result is the LLVM result; anything else is written through pointers
/// that come before the arguments.
struct Signature {
  llvm::FunctionType* type = nullptr;
  bool result_by_value = false;
  std::vector<bool> by_value;  ///< of the parameters
};

class ModuleTranslator {
 public:
  ModuleTranslator(llvm::Module& out, const ptx::Module& source, unsigned number,
                   const SharedLayout& shared, ptx::Diagnostics& diagnostics,
                   const TranslateOptions& options)
      : out{out},
        source{source},
        number{number},
        shared{shared},
        diagnostics{diagnostics},
        options{options},
        debug{out} {}

  void declare_symbols(std::unordered_map<std::string, std::string>& linked);
  /// A function like `known` that returns a value where `known` returns none, or the reverse, as
  /// `f` declares it: one of the two calls the other. Null if they differ in anything else. Linkers
  /// do not compare results, and compilers declare functions whose result they ignore as void.
  llvm::Function* with_other_result(llvm::Function& known, const ptx::Function& f);
  void translate_functions(Translation& result);
  void describe_variables(Translation& result);

  [[nodiscard]] bool is_by_value(const ptx::Variable& v) const {
    return !v.array && v.vector == 1 && v.type != ptx::Type::b128;
  }
  [[nodiscard]] Signature signature(const std::vector<const ptx::Variable*>& returns,
                                    const std::vector<const ptx::Variable*>& params) const;
  [[nodiscard]] Signature signature(const ptx::Function& f) const;

  /// The LLVM function of a PTX function; null after an error was reported.
  llvm::Function* function(std::uint32_t index, ptx::Location where);

  /// Declares a marker or a runtime routine with these memory effects.
  enum class Effect { none, reads, any, convergent };
  llvm::FunctionCallee marker(llvm::StringRef name, llvm::Type* result,
                              llvm::ArrayRef<llvm::Type*> params, Effect effect);

  /// The .file with this number. The first call creates the compile unit.
  llvm::DIFile* debug_file(std::uint32_t number);
  /// Debug mode or kernel coverage, a module without line numbers: the file with its PTX text.
  /// Null: there is none.
  llvm::DIFile* debug_ptx_file();
  void start_debug();  ///< Debug mode: reads DWARF, describes variables of the module.
  void finish_debug();

  llvm::Module& out;
  const ptx::Module& source;
  const unsigned number;  ///< of the linked module; 0 is the first
  const SharedLayout& shared;
  ptx::Diagnostics& diagnostics;
  const TranslateOptions& options;
  llvm::DIBuilder debug;
  std::unique_ptr<SourceDebugInfo> source_info;  ///< debug mode: from DWARF; null without
  std::vector<llvm::Function*> functions;        ///< by index in source.functions; null for externs
  std::vector<llvm::GlobalVariable*> variables;  ///< by index in source.variables; null for .shared

 private:
  llvm::DIFile* make_debug_file(std::string_view path);

  bool has_debug_ = false;
};

}  // namespace cucpu::ir
