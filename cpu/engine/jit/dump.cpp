// cpu/engine/jit/dump.cpp
#include "cpu/engine/jit/dump.hpp"

#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

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

void report(const Settings& settings, const std::string& line) {
  if (settings.report) std::fprintf(stderr, "cucore: %s\n", line.c_str());
}

}  // namespace cucpu
