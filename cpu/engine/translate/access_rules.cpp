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

/// What is wrong with them; nothing: empty.
std::string_view FunctionTranslator::wrong_access(const Instruction& i, unsigned bytes) {
  const Space space = space_of(i);
  const bool global = space == Space::global || space == Space::generic;
  const bool ordered = has_any(i, {Mod::relaxed, Mod::acquire, Mod::release});
  const bool strong = ordered || i.has(Mod::volatile_) || i.has(Mod::mmio);
  const bool scope = has_any(i, {Mod::cta, Mod::cluster, Mod::gpu, Mod::sys});
  const bool cache =
      has_any(i, {Mod::ca, Mod::cg, Mod::cs, Mod::lu, Mod::cv, Mod::wb, Mod::wt, Mod::nc});
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
  if (strong && cache) return "a cache operator goes with weak accesses only";
  if (i.has(Mod::volatile_) && hint) return "'.volatile' takes no cache hints";
  if (i.has(Mod::mmio) && (!i.has(Mod::relaxed) || !i.has(Mod::sys) || space == Space::shared))
    return "'.mmio' is for '.relaxed.sys' in global memory";
  if (i.has(Mod::nc) && (space != Space::global || i.has(Mod::weak)))
    return "'.nc' goes with '.global' alone";
  if (first_level && cache && !i.has(Mod::nc)) return "a cache operator and an eviction priority";
  if ((hint || has_any(i, {Mod::L2_64B, Mod::L2_128B, Mod::L2_256B})) && !global)
    return "cache hints are for global memory";
  if (has_any(i, {Mod::L2_evict_normal, Mod::L2_evict_first, Mod::L2_evict_last}))
    return "eviction priorities of the second level need .target sm_100";
  if (bytes > 16) return "accesses of more than 128 bits need .target sm_100";
  return {};
}

}  // namespace cucpu::ir
