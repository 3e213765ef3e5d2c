// SPDX-License-Identifier: Apache-2.0
// cpu/engine/thread_code.cpp
#include "cpu/engine/thread_code.hpp"

#include <cstdint>
#include <utility>

#include "cpu/engine/dump.hpp"
#include "cpu/engine/peer_access.hpp"

namespace cucpu {

ThreadCode::ThreadCode(Settings with, int level, bool for_debugger, std::string_view source)
    : settings{std::move(with)},
      optimization{for_debugger ? 0 : level},
      debug{for_debugger},
      digest{cucpu::digest(source)},
      cache_{settings.cache ? settings.cache_folder : "", settings.cache_limit} {}

FunctionsObject ThreadCode::address_taken_functions(const std::vector<std::string>& wanted) const {
  std::string key = compiler_identity() + "\n" + digest + "\nfunctions\n" +
                    std::to_string(optimization) + "\n" + std::to_string(settings.check->kinds) +
                    (settings.schedule ? "\nschedule" : "") + "\n" +
                    std::to_string(static_cast<int>(settings.nans)) + (debug ? "\ndebug" : "") +
                    (settings.coverage_folder.empty() ? "" : "\ncoverage");
  for (const std::string& name : wanted) key += "\n" + name;
  key = cucpu::digest(key);
  if (cache_.usable()) {
    if (const auto found = cache_.get(key)) {
      if (auto functions = FunctionsObject::unpack(*found)) {
        report(settings, "address-taken functions: from the cache on disk");
        return *functions;
      }
    }
  }
  FunctionsObject functions = compile_functions(bitcode, wanted, optimization, settings, debug);
  report(settings, "address-taken functions: compiled");
  cache_.put(key, functions.pack());
  return functions;
}

std::optional<ObjectCode> ThreadCode::object(const CompileJob& job) const {
  std::string key;
  const auto add = [&key](std::string_view part) { key.append(part).append("\n"); };
  add(compiler_identity());
  add(digest);
  add(job.kernel);
  add(job.small_grid ? "small" : "large");
  if (!settings.coverage_folder.empty()) add("coverage");
  if (job.debug) add("debug");
  std::vector<std::uint64_t> numbers{static_cast<std::uint64_t>(job.optimization),
                                     settings.width,
                                     job.aligned,
                                     job.check,
                                     job.schedule,
                                     static_cast<bool>(peer_access_check()),
                                     static_cast<std::uint64_t>(settings.nans)};
  if (job.block) numbers.insert(numbers.end(), {job.block->x, job.block->y, job.block->z});
  for (const std::uint64_t number : numbers) add(std::to_string(number));
  // Optimized code is preferred.
  const std::string optimized = cucpu::digest(key), baseline = cucpu::digest(key + "baseline\n");
  const bool dumping = settings.dump_thread || settings.dump_block || settings.dump_assembly ||
                       !settings.dump_after.empty();
  if (cache_.usable() && !dumping) {
    for (const std::string* const which : {&optimized, &baseline}) {
      if (which == &baseline && !job.may_be_baseline) break;
      const auto found = cache_.get(*which);
      if (!found) continue;
      if (*found == "refused") return std::nullopt;
      if (auto code = ObjectCode::unpack(*found)) {
        report(settings, "kernel " + job.kernel + ": from the cache on disk");
        return code;
      }
    }
  }
  std::optional<ObjectCode> code = compile_kernel(job, settings);
  cache_.put(code && code->baseline ? baseline : optimized, code ? code->pack() : "refused");
  return code;
}

}  // namespace cucpu
