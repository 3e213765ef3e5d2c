// SPDX-License-Identifier: Apache-2.0
// core/debug_source.cpp: writes the sources of programs to files for debuggers.
#include "core/debug_source.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "core/cache_folder.hpp"
#include "core/sha256.hpp"

namespace cucore::detail {
namespace {

namespace fs = std::filesystem;

bool holds(const fs::path& path, const std::string& code) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream file{path, std::ios::binary};
  return std::string{std::istreambuf_iterator<char>{file}, {}} == code;
}

}  // namespace

bool debug_from_environment() {
  const char* const value = std::getenv("CUCORE_DEBUG");
  return value != nullptr && std::string_view{value} == "1";
}

std::string with_source_file(const std::string& code, const std::string& name) {
  const std::string file = fs::path{name}.filename().string();
  const auto cache = user_cache_folder();
  if (!cache || file.empty() || holds(name, code)) return code;
  const fs::path folder = *cache / "debug" / hex(sha256(code)).substr(0, 16);
  const fs::path path = folder / file;
  if (path.string().find_first_of("\"\\\n") != std::string::npos) return code;
  std::error_code error;
  fs::create_directories(folder, error);
  fs::permissions(*cache / "debug", fs::perms::owner_all, error);
  if (!holds(path, code)) {
    std::ofstream out{path, std::ios::binary};
    out << code;
    if (!out.flush()) return code;
  }
  return "#line 1 \"" + path.string() + "\"\n" + code;
}

}  // namespace cucore::detail
