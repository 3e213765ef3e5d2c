// cpu/engine/settings.cpp
#include "cpu/engine/settings.hpp"

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "cpu/engine/engine.hpp"
#include "cpu/engine/pipeline.hpp"

namespace cucpu {
namespace {

[[noreturn]] void refuse(const char* name, const char* value, const char* expected) {
  throw LoadError{1, std::string{name} + "=" + value + ": expected " + expected};
}

bool flag(const char* name, bool otherwise) {
  const char* value = std::getenv(name);
  if (!value || !*value) return otherwise;
  if (!std::strcmp(value, "0")) return false;
  if (!std::strcmp(value, "1")) return true;
  refuse(name, value, "0 or 1");
}

double number(const char* name, double otherwise, double most, const char* expected) {
  const char* value = std::getenv(name);
  if (!value || !*value) return otherwise;
  char* end = nullptr;
  const double parsed = std::strtod(value, &end);
  if (*end || !(parsed >= 0) || parsed > most) refuse(name, value, expected);
  return parsed;
}

/// The value of a variable that is one of several words.
template <typename T>
T word(const char* name, std::initializer_list<std::pair<const char*, T>> words, T otherwise,
       const char* expected) {
  const char* value = std::getenv(name);
  if (!value || !*value) return otherwise;
  for (const auto& [text, meaning] : words)
    if (!std::strcmp(value, text)) return meaning;
  refuse(name, value, expected);
}

std::string default_cache_folder() {
  if (const char* folder = std::getenv("CUCORE_CACHE_DIR"); folder && *folder) return folder;
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder && *folder == '/')
    return std::string{folder} + "/cucore";
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::string{home} + "/.cache/cucore";
  return {};
}

}  // namespace

Settings Settings::from_environment() {
  Settings s;
  if (const char* value = std::getenv("CUCORE_CPU_W"); value && *value) {
    const char* const expected = "1, 4, 8, 16 or 32";
    char* end = nullptr;
    const unsigned long width = std::strtoul(value, &end, 10);
    if (*end || (width != 1 && width != 4 && width != 8 && width != 16 && width != 32))
      refuse("CUCORE_CPU_W", value, expected);
    s.width = static_cast<unsigned>(width);
  }
  s.report = flag("CUCORE_CPU_REPORT", false);
  s.times = flag("CUCORE_CPU_TIMES", false);
  s.strict = flag("CUCORE_CPU_STRICT", false);
  s.nans =
      word("CUCORE_CPU_NAN", {{"gpu", Nans::gpu}, {"exact", Nans::exact}, {"host", Nans::host}},
           s.nans, "gpu, exact or host");
  if (const char* value = std::getenv("CUCORE_CPU_DUMP"); value && *value) {
    std::string rest = value;
    while (!rest.empty()) {
      const auto comma = rest.find(',');
      const std::string what = rest.substr(0, comma);
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
      bool* const wanted = what == "ptx"                       ? &s.dump_ptx
                           : what == "thread" || what == "ssa" ? &s.dump_thread
                           : what == "block" || what == "llvm" ? &s.dump_block
                           : what == "asm"                     ? &s.dump_assembly
                                                               : nullptr;
      if (wanted) {
        *wanted = true;
      } else if (what.starts_with("after:") && pipeline::has_pass(what.substr(6))) {
        s.dump_after.push_back(what.substr(6));
      } else {
        const std::string names = pipeline::pass_names();
        refuse("CUCORE_CPU_DUMP", value,
               ("a list of ptx, thread, block, asm and after:NAME, where NAME is one of " + names)
                   .c_str());
      }
    }
  }
  if (const char* value = std::getenv("CUCORE_CPU_DUMP_DIR"); value && *value)
    s.dump_folder = value;
  if (s.width != 0 || s.strict || s.dump_block || s.dump_assembly || !s.dump_after.empty())
    s.tier = Tier::optimized;
  s.tier = word("CUCORE_CPU_QUICK",  // the former name
                {{"0", Tier::optimized}, {"1", Tier::automatic}, {"always", Tier::baseline}},
                s.tier, "0, 1 or always");
  s.tier = word(
      "CUCORE_CPU_TIER",
      {{"auto", Tier::automatic}, {"baseline", Tier::baseline}, {"optimized", Tier::optimized}},
      s.tier, "auto, baseline or optimized");
  s.cache = flag("CUCORE_CPU_CACHE", true);
  s.cache_folder = default_cache_folder();
  s.cache_limit = static_cast<std::uint64_t>(
      number("CUCORE_CACHE_SIZE", 512, 1e12, "a number of MiB") * 1048576.0);
  s.time_limit = number("CUCORE_CPU_TIMEOUT", 0, 1e9, "seconds, 0 for none");
  s.check = std::make_shared<check::Options>(check::Options::from_environment());
  return s;
}

}  // namespace cucpu
