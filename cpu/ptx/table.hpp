// cpu/ptx/table.hpp: the instruction table, rendered from api/ptx.json: which instructions exist
// and how they are written.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "cpu/ptx/types.hpp"

namespace cucpu::ptx {

/// Every word that may follow a dot in an opcode. Types are in it too, under their own names.
enum class Mod : std::uint16_t {
#define CUCPU_PTX_MOD(id, text) id,
#include "ptx_mods.inc"
#undef CUCPU_PTX_MOD
};

/// What makes LLVM IR of an instruction: a member function of translate's FunctionTranslator has
/// the same name.
enum class Emit : std::uint16_t {
#define CUCPU_PTX_EMIT(id) id,
#include "ptx_emits.inc"
#undef CUCPU_PTX_EMIT
};

/// One place of an opcode: one of `words`, or nothing when `optional`.
struct Slot {
  std::span<const Mod> words;
  bool optional;
  bool type;  ///< a type of the instruction: goes to Instruction::types
};

/// One form of an instruction. `args` is a list of operand patterns separated by spaces:
///   d  destination (register, vector of registers, or _)   p  predicate destination   d|p  both
///   (the second may be left out)   v|p  a vector of registers likewise   a b c …  source   [a]
///   address   i  constant   l  label   f called function   *  any rest; `?x` may be left out
struct Row {
  std::string_view op;
  std::span<const Slot> slots;
  std::string_view args;
  Emit emit;
  bool effects;  ///< touches memory or other threads: under a predicate it is branched around, not
                 ///< selected
  std::uint8_t version;  ///< least .version, times ten; 0: any
  std::uint16_t target;  ///< least .target; 0: any
  bool specific;         ///< only with an architecture-specific .target, such as sm_90a
  bool wide;             ///< the result may go to a larger register
};

[[nodiscard]] std::optional<Mod> find_mod(std::string_view text);
[[nodiscard]] std::string_view text_of(Mod mod);
[[nodiscard]] std::string_view text_of(Emit emit);
[[nodiscard]] Type type_of(Mod mod);  ///< Type::none when the word is no type

/// All rows of one opcode; empty when there is no such instruction.
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
