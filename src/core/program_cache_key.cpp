// program_cache_key.cpp: the digest of all that decides the result of a compilation.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/nvjitlink.hpp"
#include "core/nvrtc.hpp"
#include "core/nvvm.hpp"
#include "core/program_implementation.hpp"
#include "core/sha256.hpp"
#include "cucore/program_cache.hpp"

namespace cucore {
namespace {

constexpr std::string_view kFormat = "cucore program 1";

/// Files named by #include "file"; the compiler looks for them in folders that are not part of the
/// options.
std::vector<std::string> quoted_includes(std::string_view code) {
  std::vector<std::string> files;
  const auto skip_blanks = [&code] {
    code.remove_prefix(std::min(code.find_first_not_of(" \t"), code.size()));
  };
  constexpr std::string_view kWord = "include";
  for (auto at = code.find('#'); at != code.npos; at = code.find('#')) {
    code.remove_prefix(at + 1);
    skip_blanks();
    if (!code.starts_with(kWord)) continue;
    code.remove_prefix(kWord.size());
    skip_blanks();
    if (!code.starts_with('"')) continue;
    const auto end = code.find_first_of("\"\n", 1);
    if (end != code.npos && code[end] == '"') files.emplace_back(code.substr(1, end - 1));
  }
  return files;
}

/// Options that make the compiler read or write files whose contents are not part of the options.
std::string unseen_inputs(std::string_view code, SourceType type, const ProgramOptions& o) {
  std::string names;
  const auto add = [&names](bool is_set, const char* name) {
    if (is_set) names += (names.empty() ? "" : ", ") + std::string{name};
  };
  if (type != SourceType::cxx) return names;
  add(!o.include_path.empty(), "include_path");
  add(!o.pre_include.empty(), "pre_include");
  add(o.pch.value_or(false), "pch");
  add(o.use_pch.has_value(), "use_pch");
  add(o.create_pch.has_value(), "create_pch");
  for (const std::string& file : quoted_includes(code)) {
    const bool given = std::ranges::any_of(
        o.extra_sources, [&](const auto& source) { return source.first == file; });
    add(!given, ("#include \"" + file + "\"").c_str());
  }
  return names;
}

std::string compiler_version(SourceType type) {
  switch (type) {
    case SourceType::cxx: {
      const auto& nvrtc = detail::Nvrtc::get();
      return "nvrtc " + std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor);
    }
    case SourceType::nvvm: {
      int major = 0;
      int minor = 0;
      detail::Nvvm::get().nvvmVersion(&major, &minor);
      return "nvvm " + std::to_string(major) + "." + std::to_string(minor);
    }
    case SourceType::ptx:
      break;
  }
  return std::string{"linker "} + (detail::NvJitLink::is_available()
                                       ? pathfinder::load_nvidia_dynamic_lib("nvJitLink").abs_path
                                       : "driver");
}

}  // namespace

std::string make_program_cache_key(std::string_view code, SourceType type,
                                   const ProgramOptions& options, CodeType target,
                                   std::span<const std::string> name_expressions,
                                   std::optional<std::string_view> extra_digest) {
  if (!extra_digest) {
    if (const std::string unseen = unseen_inputs(code, type, options); !unseen.empty()) {
      throw std::invalid_argument{"a cache key cannot see the files behind " + unseen +
                                  ": pass extra_digest, a digest of their contents"};
    }
  }
  detail::Sha256 hash;
  hash.add_field(kFormat)
      .add_field(code)
      .add_field(std::to_string(static_cast<int>(type)))
      .add_field(code_type_name(target));
  hash.add_field(compiler_version(type))
      .add_field(detail::code_runs_on_the_cpu_device() ? "cpu" : "gpu")
      .add_field(options.name);
  // For PTX the compiler flags stand for the linker's: both are made from the same fields.
  const auto flags = options.flags(
      type == SourceType::nvvm ? CompilerBackend::nvvm : CompilerBackend::nvrtc, target);
  hash.add_field(std::to_string(flags.size()));
  for (const auto& flag : flags) hash.add_field(flag);
  for (const auto& [name, text] : options.extra_sources)
    hash.add_field("source").add_field(name).add_field(text);
  hash.add_field(options.use_libdevice.value_or(false) ? "libdevice" : "");
  for (const auto& name : name_expressions) hash.add_field("name").add_field(name);
  if (extra_digest) hash.add_field("extra").add_field(*extra_digest);
  return hash.digest();
}

}  // namespace cucore
