// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/kinds.cpp
#include "cpu/engine/check/kinds.hpp"

#include <fnmatch.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
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

constexpr unsigned kUnread = ~0U;
constinit std::atomic<unsigned> g_kinds{kUnread};

[[gnu::noinline, gnu::cold]] unsigned read_kinds() noexcept {
  static const unsigned kinds = [] {
    try {
      return Options::from_environment().kinds;
    } catch (...) {
      return 0U;
    }
  }();
  g_kinds.store(kinds, std::memory_order_relaxed);
  return kinds;
}

}  // namespace

unsigned kinds_in_environment() noexcept {
  const unsigned known = g_kinds.load(std::memory_order_relaxed);
  return known != kUnread ? known : read_kinds();
}

}  // namespace cucpu::check
