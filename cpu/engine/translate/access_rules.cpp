// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/access_rules.cpp: which qualifiers of a load or store go together. ptxas
// refuses the others, so a program that has them would not load on a GPU.
#include <algorithm>
#include <initializer_list>

#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

namespace {

bool has_any(const Instruction& i, std::initializer_list<Mod> mods) {
  return std::ranges::any_of(mods, [&](Mod m) { return i.has(m); });
}

}  // namespace

/// The error text; empty if there is none.
std::string_view FunctionTranslator::wrong_access(const Instruction& i, const Operand& address,
                                                  unsigned bytes) {
  const Space space = space_of(i);
  const bool global = space == Space::global || space == Space::generic;
  const bool ordered = has_any(i, {Mod::relaxed, Mod::acquire, Mod::release});
  const bool strong = ordered || i.has(Mod::volatile_) || i.has(Mod::mmio);
  const bool scope = has_any(i, {Mod::cta, Mod::cluster, Mod::gpu, Mod::sys});
  const bool cache = has_any(i, {Mod::ca, Mod::cg, Mod::cs, Mod::lu, Mod::cv, Mod::wb, Mod::wt});
  const bool first_level =
      has_any(i, {Mod::L1_evict_normal, Mod::L1_evict_unchanged, Mod::L1_evict_first,
                  Mod::L1_evict_last, Mod::L1_no_allocate});
  const bool hint = first_level || i.has(Mod::L2_cache_hint);
  if (scope && !ordered) return "a scope needs a memory order";
  if (ordered && !scope) return "a memory order needs a scope";
  if (space == Space::local && i.has(Mod::volatile_)) {
    constexpr std::uint32_t kSince = 91;
    if (module.source.version < kSince) return "'.volatile' in local memory needs .version 9.1";
  } else if (strong && !global && space != Space::shared)
    return "this memory has neither volatile accesses nor memory orders";
  if (strong && (cache || i.has(Mod::nc)))
    return "cache operators are allowed on weak accesses only";
  if (i.has(Mod::volatile_) && hint) return "'.volatile' takes no cache hints";
  if (i.has(Mod::mmio)) {
    constexpr std::uint32_t kSince = 93;
    if (!ordered || !i.has(Mod::sys) || space == Space::shared)
      return "'.mmio' is for '.relaxed.sys' in global memory";
    if (!i.has(Mod::relaxed) && module.source.version < kSince)
      return "'.mmio' with this memory order needs .version 9.3";
    if (has_any(i, {Mod::v2, Mod::v4, Mod::v8})) return "'.mmio' is for one value at a time";
  }
  if (i.has(Mod::nc) && (space != Space::global || has_any(i, {Mod::weak, Mod::lu, Mod::cv})))
    return "'.nc' is allowed with '.global' only";
  if (first_level && cache) return "a cache operator and an eviction priority";
  if ((hint || has_any(i, {Mod::L2_64B, Mod::L2_128B, Mod::L2_256B})) && !global)
    return "cache hints are for global memory";
  const bool wide = bytes == 32 && has_any(i, {Mod::v4, Mod::v8});
  if (has_any(i, {Mod::L2_evict_normal, Mod::L2_evict_first, Mod::L2_evict_last})) {
    if (module.source.target < 100)
      return "eviction priorities of the second level need .target sm_100";
    if (!wide) return "eviction priorities of the second level need '.v8.b32' or '.v4.b64'";
  }
  if (bytes > 16) {
    if (module.source.target < 100) return "accesses of more than 128 bits need .target sm_100";
    if (!wide || !global) return "accesses of 256 bits are '.v8.b32' or '.v4.b64' in global memory";
  }
  return wrong_parameter(i, address);
}

/// Parameters are read by their function and written by its callers.
std::string_view FunctionTranslator::wrong_parameter(const Instruction& i, const Operand& address) {
  const bool stores = i.row->op == "st";
  if (stores && (space_of(i) == Space::constant || i.has(Mod::param_entry)))
    return "this memory cannot be written";
  const Operand& base = address.parts[0];
  if (space_of(i) != Space::param || base.kind != Operand::Kind::local) return {};
  const bool own = std::ranges::find(source.params, base.index) != source.params.end();
  if (own && stores) return "a function's own parameters cannot be written";
  if (own && source.entry && i.has(Mod::param_func)) return "this parameter is a kernel's";
  return {};
}

std::string_view FunctionTranslator::wrong_atomic(const Instruction& i, const Operand& x) {
  if (i.has(Mod::L2_cache_hint) && space_of(i) == Space::shared)
    return "cache hints are for global memory";
  const std::size_t count = i.has(Mod::v2) ? 2 : i.has(Mod::v4) ? 4 : i.has(Mod::v8) ? 8 : 0;
  if (count != 0 && (x.kind != Operand::Kind::vector || x.parts.size() != count))
    return "the vector has another number of elements than the instruction says";
  return {};
}

// Cache lines and tensor descriptors have 128 bytes; the operand is only documentation.
void FunctionTranslator::emit_cache_line(const Instruction& i) {
  constexpr std::uint64_t kBytes = 128;
  const Operand& size = i.operands[1];
  if (size.kind != Operand::Kind::integer || size.value != kBytes)
    return error(size.where, "expected 128, the size in bytes");
  (void)pointer(i.operands[0], space_of(i));  // reports a wrong address
  if (i.row->op == "fence") emit_fence(i);
}

}  // namespace cucpu::ir
