// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/source_debug_info.hpp: the DWARF that a compiler wrote into PTX (`-G`), as
// metadata of LLVM. Debug mode only.
#pragma once

#include <llvm/IR/DIBuilder.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpu/ptx/ast.hpp"

namespace cucpu::ir {

/// Where a variable is while the statements [begin, end) of its function run: in a register, or
/// `offset` bytes after the start of a PTX variable.
struct SourcePlace {
  std::uint32_t begin, end;
  std::string reg;          ///< as PTX spells it, with %; empty: not in a register
  std::string_view symbol;  ///< a variable of the function or of the module
  std::uint64_t offset = 0;
};

struct SourceVariable {
  llvm::DILocalVariable* variable;
  llvm::DILocation* where;  ///< its declaration
  /// One place for all of its scope, or a list that changes from statement to statement.
  bool fixed;
  std::vector<SourcePlace> places;  ///< may be empty for parameters
  unsigned parameter = 0;           ///< of the function itself, from 1 on; 0: not a parameter of it
};

/// A lexical block, or an inlined function: the statements [begin, end) belong to it.
struct SourceScope {
  std::uint32_t begin, end;
  llvm::DILocalScope* scope;
  llvm::DILocation* inlined_at;  ///< null outside inlined functions
};

struct SourceFunction {
  llvm::DISubprogram* subprogram;
  std::vector<SourceScope> scopes;  ///< outer scopes before inner ones
  std::vector<SourceVariable> variables;
};

/// A variable of the module (.global, .const, .shared) with its name and type in the source.
struct SourceGlobal {
  std::string name;
  llvm::DIType* type;
  std::uint32_t file, line;
};

struct SourceDebugInfo {
  std::string producer, folder, name;                           ///< of the compile unit
  std::unordered_map<std::uint32_t, SourceFunction> functions;  ///< by index in Module::functions
  std::unordered_map<std::string_view, SourceGlobal> globals;   ///< by name in the PTX
};

/// Reads the DWARF sections of a module. `file` returns the .file of a number, and has created the
/// compile unit before it returns. Null: the module has no DWARF, or none that can be read.
std::unique_ptr<SourceDebugInfo> read_source_debug_info(
    const ptx::Module&, llvm::DIBuilder&, const std::function<llvm::DIFile*(std::uint32_t)>& file);

}  // namespace cucpu::ir
