// SPDX-License-Identifier: Apache-2.0
// coverage_source.cpp: stores the sources of programs for coverage reports.
#include "core/coverage_source.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "core/program_implementation.hpp"
#include "core/sha256.hpp"

namespace cucore::detail {
namespace {

std::filesystem::path folder() {
  const char* const value = std::getenv("CUCORE_COVERAGE");
  return value == nullptr ? std::filesystem::path{} : std::filesystem::path{value};
}

bool has_text(const std::filesystem::path& path, const std::string& text) {
  std::ifstream file{path, std::ios::binary};
  return file && std::string{std::istreambuf_iterator<char>{file}, {}} == text;
}

/// Writes to a temporary file and renames it: other processes may write the same source
/// concurrently.
void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::filesystem::path temporary = path;
  temporary += "." + std::to_string(::getpid());
  std::ofstream file{temporary, std::ios::binary};
  file << text;
  file.close();
  if (!file)
    throw std::system_error{errno, std::generic_category(), "cannot write " + temporary.string()};
  std::filesystem::rename(temporary, path);
}

}  // namespace

bool counts_kernels() { return !folder().empty() && code_runs_on_the_cpu_device(); }

std::string name_of_counted_source(const std::string& name, const std::string& text) {
  std::error_code error;
  if (std::filesystem::is_regular_file(name, error) && has_text(name, text))
    return std::filesystem::absolute(name).string();
  const std::filesystem::path given{name};
  const std::string stem = given.stem().empty() ? "program" : given.stem().string();
  const std::string extension = given.has_extension() ? given.extension().string() : ".cu";
  const auto path = std::filesystem::absolute(folder()) / "sources" /
                    (stem + "-" + hex(sha256(text)).substr(0, 12) + extension);
  if (!has_text(path, text)) write(path, text);
  return path.string();
}

}  // namespace cucore::detail
