// SPDX-License-Identifier: Apache-2.0
// cpu/engine/schedule/options.cpp
#include "cpu/engine/schedule/options.hpp"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include "cpu/base/environment.hpp"

namespace cucpu::schedule {
namespace {

constexpr const char* kExpected =
    "seed:N, such as seed:7, then ,keep:EVENTS (or @FILE) and ,log:FILE";

[[noreturn]] void refuse(const std::string& value, const char* expected) {
  throw environment::Invalid{"CUCORE_CPU_SCHEDULE", value, expected};
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::set<Event> parse_events(const std::string& list, const std::string& value) {
  std::string text = list;
  char separator = '+';
  if (list.starts_with('@')) {
    std::ifstream file{list.substr(1)};
    if (!file) refuse(value, "a file that can be read after keep:@");
    text.assign(std::istreambuf_iterator<char>{file}, {});
    separator = '\n';
  }
  std::set<Event> events;
  std::istringstream items{text};
  for (std::string item; std::getline(items, item, separator);) {
    if (item.empty()) continue;
    const auto event = Event::parse(item.substr(0, item.find(' ')));  // a log has more after it
    if (!event) refuse(value, "events such as p0.3.17.4 after keep:");
    events.insert(*event);
  }
  return events;
}

}  // namespace

std::string Event::text() const {
  std::string text(1, static_cast<char>(kind));
  text += std::to_string(launch) + "." + std::to_string(block) + "." + std::to_string(thread) +
          "." + std::to_string(point);
  return text;
}

std::optional<Event> Event::parse(const std::string& text) {
  if (text.empty() || std::string_view{"pdo"}.find(text[0]) == std::string_view::npos)
    return std::nullopt;
  std::uint64_t numbers[4];
  std::istringstream fields{text.substr(1)};
  for (std::uint64_t& number : numbers) {
    std::string field;
    if (!std::getline(fields, field, '.')) return std::nullopt;
    const auto parsed = parse_number<std::uint64_t>(field);
    if (!parsed) return std::nullopt;
    number = *parsed;
  }
  if (std::string rest; std::getline(fields, rest)) return std::nullopt;
  return Event{static_cast<Kind>(text[0]), numbers[0], numbers[1],
               static_cast<std::uint32_t>(numbers[2]), numbers[3]};
}

std::optional<Options> Options::from_environment() {
  const auto value = environment::text("CUCORE_CPU_SCHEDULE");
  if (!value) return std::nullopt;
  Options options;
  bool has_seed = false;
  std::istringstream items{*value};
  for (std::string item; std::getline(items, item, ',');) {
    if (item.starts_with("seed:")) {
      const auto seed = parse_number<std::uint64_t>(std::string_view{item}.substr(5));
      if (!seed) refuse(*value, kExpected);
      options.seed = *seed;
      has_seed = true;
    } else if (item.starts_with("keep:")) {
      options.kept = parse_events(item.substr(5), *value);
    } else if (item.starts_with("log:") && item.size() > 4) {
      options.log = item.substr(4);
    } else {
      refuse(*value, kExpected);
    }
  }
  if (!has_seed) refuse(*value, kExpected);
  return options;
}

Options Options::at_launch() noexcept {
  try {
    if (auto options = from_environment()) return *std::move(options);
  } catch (...) {
  }
  Options in_order;
  in_order.in_order = true;
  return in_order;
}

}  // namespace cucpu::schedule
