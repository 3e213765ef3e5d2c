// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/kinds.cpp
#include "cpu/engine/check/kinds.hpp"

#include <fnmatch.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include "cpu/engine/engine.hpp"

namespace cucpu::check {
namespace {

constexpr const char* kExpected = "a list of memory, race, init, sync, leak and continue, or all";

unsigned kind_of(std::string_view word) {
  if (word == "memory") return kMemory;
  if (word == "race") return kRace;
  if (word == "init") return kInit;
  if (word == "sync") return kSync;
  if (word == "all" || word == "*") return kMemory | kRace | kInit | kSync;
  return 0;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream in{text};
  for (std::string part; std::getline(in, part, at);) {
    const auto first = part.find_first_not_of(" \t\r");
    if (first == std::string::npos || part[first] == '#') continue;
    parts.push_back(part.substr(first, part.find_last_not_of(" \t\r") - first + 1));
  }
  return parts;
}

bool matches(const std::string& pattern, std::string_view text) {
  return !text.empty() && fnmatch(pattern.c_str(), std::string{text}.c_str(), 0) == 0;
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case kMemory:
      return "memory";
    case kRace:
      return "race";
    case kInit:
      return "init";
    default:
      return "sync";
  }
}

Options Options::from_environment() {
  Options options;
  if (const char* value = std::getenv("CUCORE_CHECK"); value && *value) {
    for (const std::string& word : split(value, ',')) {
      if (word == "continue") {
        options.continues = true;
      } else if (word == "leak") {
        options.leaks = true;
      } else if (const unsigned kind = kind_of(word)) {
        options.kinds |= kind;
      } else {
        throw LoadError{1, std::string{"CUCORE_CHECK="} + value + ": expected " + kExpected};
      }
    }
    if (options.kinds == 0 && !options.leaks)
      throw LoadError{1, std::string{"CUCORE_CHECK="} + value + ": expected " + kExpected};
  }
  if (const char* value = std::getenv("CUCORE_CHECK_SUPPRESS"); value && *value) {
    std::vector<std::string> entries;
    if (std::ifstream file{value}) {
      std::stringstream text;
      text << file.rdbuf();
      entries = split(text.str(), '\n');
    } else {
      entries = split(value, ',');
    }
    for (const std::string& entry : entries) {
      const auto colon = entry.find(':');
      const unsigned kinds = colon == std::string::npos ? 0 : kind_of(entry.substr(0, colon));
      if (kinds == 0)
        throw LoadError{1, std::string{"CUCORE_CHECK_SUPPRESS="} + value + ": '" + entry +
                               "': expected kind:pattern, with the kinds memory, race, init, sync, "
                               "all; or a file of them"};
      options.suppressions.push_back({kinds, entry.substr(colon + 1)});
    }
  }
  return options;
}

bool Options::suppressed(Kind kind, std::string_view kernel, std::string_view line) const {
  for (const Suppression& s : suppressions) {
    if ((s.kinds & kind) == 0) continue;
    if (matches(s.pattern, kernel) || matches(s.pattern, line) ||
        matches(s.pattern, line.substr(0, line.rfind(':'))))
      return true;
  }
  return false;
}

namespace {

struct ProcessOptions {
  std::string text;  ///< CUCORE_CHECK, for comparison with later values
  std::shared_ptr<const Options> options;
};
constinit std::atomic<const ProcessOptions*> g_process{nullptr};  // never destroyed

std::string check_text() {
  const char* const value = std::getenv("CUCORE_CHECK");
  return value ? value : "";
}

[[gnu::noinline, gnu::cold]] unsigned read_kinds() noexcept {
  try {
    Options::fix_for_process();
    return g_process.load(std::memory_order_acquire)->options->kinds;
  } catch (...) {
    return 0U;
  }
}

}  // namespace

void Options::fix_for_process() {
  if (g_process.load(std::memory_order_acquire)) return;
  auto made = std::make_unique<const ProcessOptions>(
      ProcessOptions{check_text(), std::make_shared<const Options>(from_environment())});
  const ProcessOptions* expected = nullptr;
  if (g_process.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel))
    static_cast<void>(made.release());
}

std::shared_ptr<const Options> Options::of_process() {
  const ProcessOptions* const process = g_process.load(std::memory_order_acquire);
  if (!process) return std::make_shared<const Options>(from_environment());
  static std::atomic<bool> is_reported{false};
  if (const std::string now = check_text(); now != process->text && !is_reported.exchange(true))
    std::fprintf(
        stderr,
        "cucore: CUCORE_CHECK=\"%s\" has no effect: the driver has read \"%s\" when it was "
        "first used\n",
        now.c_str(), process->text.c_str());
  return process->options;
}

unsigned kinds_in_environment() noexcept {
  const ProcessOptions* const process = g_process.load(std::memory_order_acquire);
  return process ? process->options->kinds : read_kinds();
}

}  // namespace cucpu::check
