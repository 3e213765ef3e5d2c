// SPDX-License-Identifier: Apache-2.0
// CUCORE_*, CUDA_VISIBLE_DEVICES and CUDA_LAUNCH_BLOCKING.
#include "cpu/base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "cpu/base/control_group.hpp"
#include "cpu/base/cpu_affinity.hpp"
#include "cpu/base/environment.hpp"
#include "cpu/base/error.hpp"
#include "protection.hpp"

namespace cucpu::driver {
namespace {

/// CUDA_VISIBLE_DEVICES as documented: entries up to the first invalid one count; a repeated entry
/// hides all devices.
std::vector<int> visible_devices(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = i;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!list) return all;
  std::vector<int> chosen;
  std::stringstream stream{list};
  for (std::string entry; std::getline(stream, entry, ',');) {
    std::erase_if(entry, [](unsigned char c) { return std::isspace(c); });
    int index = -1;
    if (entry.starts_with("GPU-")) {
      for (int i = 0; i < count; ++i)
        if (device_uuid_text(i).starts_with(entry)) index = index == -1 ? i : count;
    } else if (const auto number = environment::parse_integer(entry)) {
      index = *number >= 0 && *number < count ? static_cast<int>(*number) : -1;
    }
    if (index < 0 || index >= count) break;
    if (std::find(chosen.begin(), chosen.end(), index) != chosen.end()) return {};
    chosen.push_back(index);
  }
  return chosen;
}

std::uint64_t mix(std::uint64_t hash, std::string_view text) {  // FNV-1a
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

#ifdef __aarch64__
/// Names of common AArch64 processors: Linux reports numbers only.
const char* arm_name(unsigned implementer, unsigned part) {
  if (implementer == 0x61) return "Apple Silicon";
  if (implementer == 0xc0) return "Ampere-1";
  if (implementer != 0x41) return nullptr;
  switch (part) {
    case 0xd03:
      return "Cortex-A53";
    case 0xd07:
      return "Cortex-A57";
    case 0xd08:
      return "Cortex-A72";
    case 0xd0b:
      return "Cortex-A76";
    case 0xd0c:
      return "Neoverse-N1";
    case 0xd40:
      return "Neoverse-V1";
    case 0xd49:
      return "Neoverse-N2";
    case 0xd4f:
      return "Neoverse-V2";
    case 0xd83:
      return "Neoverse-V3AE";
    case 0xd84:
      return "Neoverse-V3";
    case 0xd8e:
      return "Neoverse-N3";
    default:
      return nullptr;
  }
}
#endif

}  // namespace

std::optional<std::size_t> parse_bytes(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const double number = std::strtod(text.c_str(), &end);
  if (errno || end == text.c_str() || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string unit{end};
  std::erase_if(unit, [](unsigned char c) { return std::isspace(c); });
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (unit.ends_with("IB"))
    unit.erase(unit.size() - 2);
  else if (unit.ends_with("B"))
    unit.pop_back();
  double factor = 1;
  if (!unit.empty()) {
    static constexpr char kUnits[] = "KMGT";
    const char* at = unit.size() == 1 ? std::strchr(kUnits, unit[0]) : nullptr;
    if (!at) return std::nullopt;
    factor = std::ldexp(1.0, 10 * static_cast<int>(at - kUnits + 1));
  }
  const double bytes = number * factor;
  if (bytes >= 9e18) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

namespace {

Settings from_environment() {
  Settings s;
  s.devices = environment::devices();
  s.threads = static_cast<unsigned>(environment::integer(
      "CUCORE_CPU_THREADS", usable_cores(), 1, 4096, "a number of threads from 1 to 4096"));
  s.capabilities = environment::compute_capabilities();
  s.memory = host_memory_bytes() / static_cast<std::size_t>(s.devices);
  if (const auto text = environment::text("CUCORE_CPU_MEMORY")) {
    const auto bytes = parse_bytes(*text);
    if (!bytes || *bytes < (1u << 20))
      throw environment::Invalid{"CUCORE_CPU_MEMORY", *text, "bytes of at least 1M, such as 4G"};
    s.memory = *bytes;
  }
  if (const auto text = environment::text("CUDA_LAUNCH_BLOCKING"))
    s.blocking_launches =
        std::strtol(text->c_str(), nullptr, 10) != 0;  // as the GPU's driver reads it
  s.timeout =
      std::chrono::nanoseconds{static_cast<std::int64_t>(environment::timeout_seconds() * 1e9)};
  s.visible = visible_devices(s.devices);
  return s;
}

}  // namespace

Settings read_settings() {
  try {
    return from_environment();
  } catch (const environment::Invalid& error) {
    const std::string text = "cucore: " + error.name + "=\"" + error.value +
                             "\" cannot be read; expected " + error.expected;
    std::fprintf(stderr, "%s\n", text.c_str());
    fail(CUDA_ERROR_INVALID_VALUE, text);
  }
}

std::string host_cpu_name() {
  std::ifstream info{"/proc/cpuinfo"};
  unsigned implementer = 0, part = 0;
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    std::string value = line.substr(std::min(line.size(), colon + 2));
    if (key == "model name") return value;
    if (key == "CPU implementer")
      implementer = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 0));
    if (key == "CPU part") part = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 0));
    if (implementer && part) break;
  }
#ifdef __aarch64__
  if (const char* name = arm_name(implementer, part)) return name;
  return "AArch64";
#else
  static_cast<void>(part);
  return "host CPU";
#endif
}

std::size_t host_memory_bytes() {
  const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (!CUCORE_PROTECTION("control-group-limit")) return bytes;
  return std::min(bytes, control_group_memory().value_or(bytes));
}

void device_uuid(int physical_index, unsigned char (&bytes)[16]) {
  std::string machine;
  std::ifstream{"/etc/machine-id"} >> machine;
  const std::string index = std::to_string(physical_index);
  for (int half = 0; half < 2; ++half) {
    std::uint64_t hash =
        mix(0xcbf29ce484222325u + static_cast<unsigned>(half), "cucore CPU device ");
    hash = mix(mix(mix(hash, host_cpu_name()), machine), index);
    for (int i = 0; i < 8; ++i) bytes[half * 8 + i] = static_cast<unsigned char>(hash >> (8 * i));
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // version 4, as drivers report
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
}

std::string device_name() { return "cucore CPU device (" + host_cpu_name() + ")"; }

std::string device_uuid_text(int physical_index) {
  unsigned char b[16];
  device_uuid(physical_index, b);
  char text[48];
  std::snprintf(text, sizeof text,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                b[14], b[15]);
  return text;
}

}  // namespace cucpu::driver
