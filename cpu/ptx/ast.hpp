// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/ast.hpp: the syntax tree of a PTX module. Names are resolved: operands hold indices, not
// text. All string_views point into Module::text or Module::names, so a Module must not be copied
// or moved; pass a pointer.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "cpu/ptx/diagnostics.hpp"
#include "cpu/ptx/table.hpp"
#include "cpu/ptx/types.hpp"

namespace cucpu::ptx {

enum class Linkage : std::uint8_t { internal, visible, external, weak, common };

/// A relocation of an initializer: `width` bytes at `offset` hold (symbol + addend) >> shift.
struct Relocation {
  std::uint64_t offset;
  std::uint8_t width;
  std::uint8_t shift;  ///< bit offset of the byte that mask() selects
  bool function;       ///< true: symbol indexes Module::functions; false: Module::variables
  bool generic;        ///< written as generic(symbol)
  std::uint32_t symbol;
  std::int64_t addend;
};

struct Variable {
  std::string_view name;
  Location where;
  Space space = Space::generic;
  Linkage linkage = Linkage::internal;
  Type type = Type::b8;
  std::uint8_t vector = 1;  ///< 2, 4 or 8 for .v2 .v4 .v8
  bool array = false;
  bool unsized = false;  ///< `x[]`: extern shared memory, or an extern array
  bool managed = false, unified = false;
  bool scoped = false;  ///< in Module::variables: declared inside a function, and printed there
  std::uint32_t align = 1;
  std::uint64_t size = 0;  ///< in bytes
  std::uint32_t reg = 0;   ///< register of a .reg parameter
  bool pointer = false;    ///< .ptr on a kernel parameter
  Space pointer_space = Space::generic;
  std::uint32_t pointer_align = 0;
  std::vector<std::uint64_t> dims;  ///< as written, for the printer
  std::vector<std::uint8_t> data;   ///< initializer; empty: zeros
  std::vector<Relocation> relocations;
};

struct Register {
  std::string_view name;  ///< declared name, without the number of a `%r<10>` range
  std::int32_t number;    ///< number in the range, -1 for a single register
  std::int8_t component;  ///< 0..3 of a vector register, -1 for scalars
  Type type;
};

struct Operand {
  enum class Kind : std::uint8_t {
    sink,     ///< _
    reg,      ///< index: Function::registers; value: addend
    special,  ///< index: all_specials()
    integer,  ///< value
    f32,
    f64,       ///< value: the bits
    local,     ///< index: Function::variables; value: byte offset
    global,    ///< index: Module::variables; value: byte offset
    function,  ///< index: Module::functions
    label,     ///< index: Function::labels
    address,   ///< parts[0] + value, then further parts (coordinates, tensor maps)
    vector,    ///< {a, b, …}
    list,      ///< (a, b, …) of a call
    pair,      ///< d|p
  };
  Kind kind = Kind::sink;
  bool negated = false;  ///< !p
  bool minus = false;    ///< -reg: vmad only
  std::uint32_t index = 0;
  std::uint64_t value = 0;
  std::string_view selector;  ///< b0, h1, h10, b3210 …: video instructions only
  Location where;
  std::vector<Operand> parts;

  [[nodiscard]] bool is_constant() const {
    return kind == Kind::integer || kind == Kind::f32 || kind == Kind::f64;
  }
};

/// `@p` or `@!p`.
struct Guard {
  std::uint32_t reg;
  bool negated;
};

struct Instruction {
  Location where;
  const Row* row = nullptr;
  std::vector<Mod> mods;        ///< as written, types included
  std::array<Type, 8> types{};  ///< in the order of the row's type slots
  std::optional<Guard> guard;
  std::vector<Operand> operands;

  [[nodiscard]] bool has(Mod mod) const {
    for (Mod m : mods) {
      if (m == mod) return true;
    }
    return false;
  }
};

/// .loc: source file and line of the following instructions.
struct SourceLine {
  std::uint32_t file, line, column;
};

struct Label {
  std::string_view name;
  Location where;
  bool defined = false;
  enum class Kind : std::uint8_t {
    code,
    branch_targets,
    call_targets,
    prototype
  } kind = Kind::code;
  std::vector<Operand> targets;   ///< of .branchtargets and .calltargets
  std::vector<Variable> returns;  ///< of .callprototype
  std::vector<Variable> params;
  bool noreturn = false;
};

struct LabelMark {
  std::uint32_t label;
};
struct ScopeBegin {};
struct ScopeEnd {};
struct Pragma {
  std::string_view text;
};
/// A declaration in a function body. The printer uses its position; translation ignores it.
struct Declaration {
  enum class Kind : std::uint8_t {
    reg,              ///< index: Function::register_decls
    variable,         ///< index: Function::variables
    module_variable,  ///< index: Module::variables
  } kind;
  std::uint32_t index;
};

using Statement =
    std::variant<Instruction, LabelMark, SourceLine, ScopeBegin, ScopeEnd, Pragma, Declaration>;

struct RegisterDecl {
  Type type;
  std::uint8_t vector;
  std::string_view name;
  std::int64_t count;  ///< of `%r<count>`, -1 for a single register
};

struct Function {
  std::string_view name;
  Location where;
  Linkage linkage = Linkage::internal;
  bool entry = false;
  bool defined = false;
  bool noreturn = false;
  std::string_view alias;              ///< .alias: name of the aliased function
  std::vector<std::uint32_t> returns;  ///< indices into variables
  std::vector<std::uint32_t> params;
  std::vector<Variable> variables;  ///< parameters first, then the variables of all scopes
  std::vector<RegisterDecl> register_decls;
  std::vector<Register> registers;
  std::vector<Label> labels;
  std::vector<Statement> body;
  std::vector<std::string_view> pragmas;
  std::optional<std::array<std::uint32_t, 3>> maxntid, reqntid, reqnctapercluster;
  std::uint32_t minnctapersm = 0, maxnctapersm = 0, maxnreg = 0, maxclusterrank = 0;
  std::uint32_t minperctamemory = 0;  ///< bytes of global memory for each block
  bool explicitcluster = false, blocks_are_clusters = false;
  std::uint32_t language = 0;  ///< .language; kTileLanguage for kernels of Tile IR
};

/// Kernels of Tile IR are launched with a grid of tile blocks; their threads are .reqntid.
inline constexpr std::uint32_t kTileLanguage = 7;

struct File {
  std::uint32_t number;
  std::string_view name;
};

/// A section with DWARF: data with references to labels, variables and sections. Debug mode reads
/// it; the printer leaves it out.
struct DebugSection {
  struct Reference {
    std::size_t offset;       ///< of the bytes that hold symbol + addend
    std::uint8_t width;       ///< 1, 2, 4 or 8 bytes
    bool section;             ///< `symbol` names a section
    std::string_view symbol;  ///< without the dot of a section
    std::int64_t addend = 0;
    std::string_view minus;  ///< a label that is subtracted; empty: none
  };
  struct Mark {
    std::string_view label;
    std::size_t offset;
  };
  std::string_view name;  ///< without the dot
  std::string bytes;
  std::vector<Reference> references;
  std::vector<Mark> labels;
};

struct Symbol {
  bool function;
  std::uint32_t index;
};

struct Module {
  std::string name;  ///< file name in diagnostics
  std::string text;
  std::deque<std::string> names;  ///< names of numbered variables, which are not in `text`
  std::uint32_t version = 0;      ///< 94 for .version 9.4
  std::uint32_t target = 0;       ///< 90 for .target sm_90a
  char target_suffix = 0;         ///< 'a', 'f' or 0
  std::vector<std::string_view> target_options;
  std::uint32_t address_size = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<File> files;
  std::vector<DebugSection> debug_sections;
  std::vector<std::string_view> pragmas;
  std::unordered_map<std::string_view, Symbol> symbols;
};

}  // namespace cucpu::ptx
