// SPDX-License-Identifier: Apache-2.0
// cpu/engine/settings.cpp
#include "cpu/engine/settings.hpp"

#include <cstdlib>
#include <filesystem>

#include "cpu/base/environment.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/engine/jit/host_target.hpp"
#include "cpu/engine/pipeline.hpp"

namespace cucpu {
namespace {

using environment::flag;
using environment::number;
using environment::word;

[[noreturn]] void refuse(const char* name, const char* value, const char* expected) {
  throw environment::Invalid{name, value, expected};
}

}  // namespace

Settings Settings::from_environment() try {
  Settings s;
  if (const char* value = std::getenv("CUCORE_CPU_W"); value && *value) {
    const char* const expected = "1, 4, 8, 16 or 32";
    char* end = nullptr;
    const unsigned long width = std::strtoul(value, &end, 10);
    if (*end || (width != 1 && width != 4 && width != 8 && width != 16 && width != 32))
      refuse("CUCORE_CPU_W", value, expected);
    s.width = static_cast<unsigned>(width);
  }
  (void)disabled_features();  // CUCORE_CPU_FEATURES, read once per process: host_target()
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
  s.cache_folder = environment::cache_folder();
  s.cache_limit = static_cast<std::uint64_t>(
      number("CUCORE_CACHE_SIZE", 512, 1e12, "a number of MiB") * 1048576.0);
  s.time_limit = environment::timeout_seconds();
  s.debug = word("CUCORE_DEBUG", {{"0", Debug::off}, {"1", Debug::on}}, s.debug, "0 or 1");
  if (const auto folder = environment::text("CUCORE_COVERAGE"))
    s.coverage_folder = std::filesystem::absolute(*folder).string();
  s.check = check::Options::of_process();
  s.schedule = schedule::Options::from_environment();
  return s;
} catch (const environment::Invalid& error) {
  throw LoadError{1, error.what()};
}

}  // namespace cucpu
