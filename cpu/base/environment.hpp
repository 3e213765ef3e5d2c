// SPDX-License-Identifier: Apache-2.0
// cpu/base/environment.hpp: reads environment variables of the CPU device, for the driver layer,
// the engine and NVML. Header-only, because these are separate libraries.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace cucpu::environment {

/// A variable with a value that is not allowed. what(): `NAME=value: expected ...`.
struct Invalid : std::runtime_error {
  Invalid(const char* name, const std::string& value, const std::string& expected)
      : std::runtime_error{std::string{name} + "=" + value + ": expected " + expected},
        name{name},
        value{value},
        expected{expected} {}
  std::string name, value, expected;
};

/// The value, where the variable is set and not empty.
inline std::optional<std::string> text(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

inline std::optional<long> parse_integer(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (errno || end == text.c_str() || *end) return std::nullopt;
  return value;
}

/// A whole number from `low` to `high`. Throws Invalid.
inline long integer(const char* name, long fallback, long low, long high, const char* expected) {
  const auto given = text(name);
  if (!given) return fallback;
  const auto value = parse_integer(*given);
  if (!value || *value < low || *value > high) throw Invalid{name, *given, expected};
  return *value;
}

/// A number from 0 to `high`. Throws Invalid.
inline double number(const char* name, double fallback, double high, const char* expected) {
  const auto given = text(name);
  if (!given) return fallback;
  char* end = nullptr;
  const double value = std::strtod(given->c_str(), &end);
  if (end == given->c_str() || *end || !(value >= 0) || value > high)
    throw Invalid{name, *given, expected};
  return value;
}

/// 0 or 1. Throws Invalid.
inline bool flag(const char* name, bool fallback) {
  const auto given = text(name);
  if (!given) return fallback;
  if (*given == "0") return false;
  if (*given == "1") return true;
  throw Invalid{name, *given, "0 or 1"};
}

/// One of a few words. Throws Invalid.
template <typename T>
T word(const char* name, std::initializer_list<std::pair<const char*, T>> words, T fallback,
       const char* expected) {
  const auto given = text(name);
  if (!given) return fallback;
  for (const auto& [spelling, meaning] : words)
    if (*given == spelling) return meaning;
  throw Invalid{name, *given, expected};
}

/// CUCORE_CPU_TIMEOUT: the time limit of a grid in seconds; 0 for no limit. Throws Invalid.
inline double timeout_seconds() {
  return number("CUCORE_CPU_TIMEOUT", 0, 1e9, "seconds, such as 10 or 0.5; 0 for no limit");
}

/// CUCORE_CACHE_DIR, else `cucore` in the user's cache folder; empty when there is none.
inline std::string cache_folder() {
  if (const auto folder = text("CUCORE_CACHE_DIR")) return *folder;
  if (const auto folder = text("XDG_CACHE_HOME"); folder && folder->starts_with('/'))
    return *folder + "/cucore";
  if (const auto home = text("HOME"); home && home->starts_with('/'))
    return *home + "/.cache/cucore";
  return {};
}

}  // namespace cucpu::environment
