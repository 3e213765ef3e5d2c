// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/table.hpp: the instruction table, rendered from api/ptx.json: instructions and their
// syntax.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "cpu/ptx/types.hpp"

namespace cucpu::ptx {

/// Every modifier that may follow a dot in an opcode, including types.
enum class Mod : std::uint16_t {
#define CUCPU_PTX_MOD(id, text) id,
#include "ptx_mods.inc"
#undef CUCPU_PTX_MOD
};

/// The member function of FunctionTranslator that translates an instruction to LLVM IR.
enum class Emit : std::uint16_t {
#define CUCPU_PTX_EMIT(id) id,
#include "ptx_emits.inc"
#undef CUCPU_PTX_EMIT
};

/// One modifier position of an opcode: one of `mods`, or none if `optional`.
struct Slot {
  std::span<const Mod> mods;
  bool optional;
  bool type;  ///< a type of the instruction: stored in Instruction::types
};

/// One form of an instruction. `args` is a list of operand patterns separated by spaces:
///   d  destination (register, vector of registers, or _)   p  predicate destination   d|p  both
///   (the second is optional)   v|p  the same with a vector of registers   a b c …  source   [a]
///   address   i  constant   l  label   f  called function   *  any further operands; `?x` optional
struct Row {
  std::string_view op;
  std::span<const Slot> slots;
  std::string_view args;
  Emit emit;
  bool effects;  ///< accesses memory or other threads: a predicate becomes a branch, not a select
  std::uint8_t version;  ///< minimum .version, times ten; 0: any
  std::uint16_t target;  ///< minimum .target; 0: any
  /// 0: every target from `target` on; 1: only architecture-specific ones, such as sm_90a;
  /// 2: only those of the same major version; 3: only those of 10.x and 11.x, with tensor memory;
  /// 4: of the same major version, and no family-specific ones (sm_120f)
  std::uint8_t specific;
  bool wide;  ///< the destination register may be wider than the result
};

[[nodiscard]] std::optional<Mod> find_mod(std::string_view text);
[[nodiscard]] std::string_view text_of(Mod mod);
[[nodiscard]] std::string_view text_of(Emit emit);
[[nodiscard]] Type type_of(Mod mod);  ///< Type::none if the modifier is not a type

/// All rows of one opcode; empty if there is no such instruction.
[[nodiscard]] std::span<const Row> find_rows(std::string_view op);
[[nodiscard]] std::span<const Row> all_rows();

/// A special register, e.g. "tid.x" (components of vector registers are separate entries).
struct Special {
  std::string_view name;  ///< without the percent sign
  Type type;
};
[[nodiscard]] std::span<const Special> all_specials();
[[nodiscard]] std::optional<std::uint32_t> find_special(std::string_view name);

}  // namespace cucpu::ptx
