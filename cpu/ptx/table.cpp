// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/table.cpp: lookups in the instruction table.
#include "cpu/ptx/table.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace cucpu::ptx {
namespace {

constexpr std::string_view kMods[] = {
#define CUCPU_PTX_MOD(id, text) text,
#include "ptx_mods.inc"
#undef CUCPU_PTX_MOD
};
static_assert(std::ranges::is_sorted(kMods), "ptx_mods.inc is rendered in order");

constexpr std::string_view kEmits[] = {
#define CUCPU_PTX_EMIT(id) #id,
#include "ptx_emits.inc"
#undef CUCPU_PTX_EMIT
};

#include "ptx_rows.inc"  // kRows, sorted by op

constexpr Special kSpecials[] = {
#define CUCPU_PTX_SPECIAL(name, type) {name, Type::type},
#include "ptx_specials.inc"
#undef CUCPU_PTX_SPECIAL
};

// A search for each type: clang limits the steps of a constant expression.
constexpr auto kTypes = [] {
  std::array<Type, std::size(kMods)> types{};
  const auto put = [&](std::string_view name, Type type) {
    const auto* found = std::ranges::lower_bound(kMods, name);
    if (found != std::end(kMods) && *found == name) types[found - std::begin(kMods)] = type;
  };
#define X(name, bits, kind) put(#name, Type::name);
  CUCPU_PTX_TYPES(X)
#undef X
  return types;
}();

}  // namespace

std::optional<Mod> find_mod(std::string_view text) {
  const auto* found = std::ranges::lower_bound(kMods, text);
  if (found == std::end(kMods) || *found != text) return std::nullopt;
  return static_cast<Mod>(found - std::begin(kMods));
}

std::string_view text_of(Mod mod) { return kMods[static_cast<std::size_t>(mod)]; }
std::string_view text_of(Emit emit) { return kEmits[static_cast<std::size_t>(emit)]; }
Type type_of(Mod mod) { return kTypes[static_cast<std::size_t>(mod)]; }

std::span<const Row> find_rows(std::string_view op) {
  const auto rows = std::ranges::equal_range(kRows, op, {}, &Row::op);
  return {rows.begin(), rows.end()};
}

std::span<const Row> all_rows() { return kRows; }
std::span<const Special> all_specials() { return kSpecials; }

std::optional<std::uint32_t> find_special(std::string_view name) {
  const auto* found = std::ranges::lower_bound(kSpecials, name, {}, &Special::name);
  if (found == std::end(kSpecials) || found->name != name) return std::nullopt;
  return static_cast<std::uint32_t>(found - std::begin(kSpecials));
}

}  // namespace cucpu::ptx
