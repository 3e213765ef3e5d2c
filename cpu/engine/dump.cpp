// SPDX-License-Identifier: Apache-2.0
// cpu/engine/dump.cpp
#include "cpu/engine/dump.hpp"

#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cpu/engine/compile.hpp"
#include "cpu/engine/jit/disk_cache.hpp"

namespace cucpu {

void dump_text(const Settings& settings, const std::string& name, std::string_view text) {
  std::string safe;
  for (const char c : name.substr(name.size() > 160 ? name.size() - 160 : 0))
    safe += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ? c : '_';
  std::error_code ignored;
  std::filesystem::create_directories(settings.dump_folder, ignored);
  std::ofstream{std::filesystem::path{settings.dump_folder} / safe, std::ios::binary} << text;
}

void dump(bool wanted, const Settings& settings, const std::string& name,
          const llvm::Module& module) {
  if (!wanted) return;
  std::string text;
  llvm::raw_string_ostream out{text};
  out << module;
  dump_text(settings, name, out.str());
}

std::string keep_reproducer(const Settings& settings, const std::string& what,
                            std::string_view input, const std::string& reason) noexcept try {
  if (settings.cache_folder.empty()) return {};
  const std::filesystem::path folder = std::filesystem::path{settings.cache_folder} / "crashes";
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  const std::filesystem::path path =
      folder / (digest(input).substr(0, 16) + (input.starts_with("BC") ? ".bc" : ".ptx"));
  std::ofstream{path, std::ios::binary} << input;
  std::ofstream{std::filesystem::path{path}.replace_extension(".txt")} << what << "\n"
                                                                       << reason << "\n"
                                                                       << compiler_identity()
                                                                       << "\n";
  return path;
} catch (...) {
  return {};
}

std::vector<std::string> write_debug_texts(const Settings& settings,
                                           std::span<const std::string_view> ptx) {
  std::vector<std::string> paths;
  for (const std::string_view text : ptx) {
    paths.emplace_back();
    if (text.find("\n.file") != text.npos || text.find("\t.file") != text.npos) continue;
    std::error_code failed;
    const std::filesystem::path folder =
        settings.cache_folder.empty()
            ? std::filesystem::temp_directory_path() / ("cucore-" + std::to_string(getuid()))
            : std::filesystem::path{settings.cache_folder};
    std::filesystem::create_directories(folder / "debug", failed);
    std::filesystem::permissions(folder / "debug", std::filesystem::perms::owner_all, failed);
    const std::filesystem::path path = folder / "debug" / (digest(text).substr(0, 16) + ".ptx");
    std::ofstream file{path, std::ios::binary};
    file << text.substr(0, text.find('\0'));
    if (file.flush()) paths.back() = path;
  }
  return paths;
}

void report(const Settings& settings, const std::string& line) {
  if (settings.report) std::fprintf(stderr, "cucore: %s\n", line.c_str());
}

}  // namespace cucpu
