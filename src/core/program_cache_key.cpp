// SPDX-License-Identifier: Apache-2.0
// program_cache_key.cpp: the digest of all inputs of a compilation.
#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/include_scan.hpp"
#include "core/nvjitlink.hpp"
#include "core/nvrtc.hpp"
#include "core/nvvm.hpp"
#include "core/program_implementation.hpp"
#include "core/program_options.hpp"
#include "core/sha256.hpp"
#include "cucore/program_cache.hpp"

namespace cucore {
namespace {

constexpr std::string_view kFormat = "cucore program 2";

/// Returns whether NVRTC's bundled headers contain the file and no file shadows it.
bool is_bundled(const std::string& file, const ProgramOptions& o) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!o.use_bundled_headers.value_or(false) || fs::exists(file, error)) return false;
  return std::ranges::any_of(detail::bundled_header_folders(), [&](const std::string& folder) {
    return fs::is_regular_file(fs::path{folder} / file, error);
  });
}

/// A comma-separated list of names for a message.
class Names {
 public:
  void add(bool is_meant, const std::string& name) {
    if (is_meant) text_ += (text_.empty() ? "" : ", ") + name;
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// Returns the options and includes through which the compiler reads files that are not part of the
/// options.
std::string unseen_inputs(std::string_view code, SourceType type, const ProgramOptions& o) {
  Names names;
  if (type == SourceType::nvvm) names.add(o.use_libdevice.value_or(false), "use_libdevice");
  if (type != SourceType::cxx) return names.text();
  names.add(!o.include_path.empty(), "include_path");
  names.add(!o.pre_include.empty(), "pre_include");
  names.add(o.pch.value_or(false), "pch");
  names.add(o.use_pch.has_value(), "use_pch");
  names.add(o.pch_dir.has_value(), "pch_dir");
  // NVRTC searches for quoted includes in the folder of the source's name.
  const bool has_folder = o.name.find_first_of("/\\") != o.name.npos;
  names.add(has_folder && !o.no_source_include.value_or(false), "the folder of name");
  const auto add_uses = [&](std::string_view source) {
    for (const detail::FileUse& use : detail::uses_of_files(source)) {
      const bool is_given = std::ranges::any_of(
          o.extra_sources, [&](const auto& given) { return given.first == use.file; });
      names.add(use.file.empty() || (!is_given && !is_bundled(use.file, o)), use.text);
    }
  };
  add_uses(code);
  for (const auto& [name, text] : o.extra_sources) add_uses(text);
  return names.text();
}

/// Returns the options that request an output file, which a cache hit would not write.
std::string written_files(SourceType type, const ProgramOptions& o) {
  Names names;
  if (type != SourceType::cxx) return names.text();
  names.add(o.create_pch.has_value(), "create_pch");
  names.add(o.time.has_value(), "time");
  names.add(o.fdevice_time_trace.has_value(), "fdevice_time_trace");
  return names.text();
}

/// Returns the command line of the compiler or linker, without the options that it does not
/// support.
std::vector<std::string> flags_for(SourceType type, const ProgramOptions& options,
                                   CodeType target) {
  if (type == SourceType::cxx) return options.flags(CompilerBackend::nvrtc, target);
  ProgramOptions used = options;
  if (!used.arch) used.arch = detail::arch_if_any();
  if (type == SourceType::ptx) {
    used.numba_debug.reset();
    return detail::linker_options(used).flags();
  }
  for (const detail::OptionField& field : detail::option_fields()) {
    if (field.nvvm == detail::NvvmForm::refused)
      std::visit([&](auto member) { used.*member = {}; }, field.member);
  }
  return used.flags(CompilerBackend::nvvm, target);
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
  if (!detail::NvJitLink::is_available()) return "linker driver";
  unsigned major = 0;
  unsigned minor = 0;
  const auto& linker = detail::NvJitLink::get();
  if (linker.nvJitLinkVersion != nullptr) linker.nvJitLinkVersion(&major, &minor);
  return "nvJitLink " + std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace

std::string make_program_cache_key(std::string_view code, SourceType type,
                                   const ProgramOptions& options, CodeType target,
                                   std::span<const std::string> name_expressions,
                                   std::optional<std::string_view> extra_digest) {
  if (type == SourceType::ptx && target != CodeType::ptx && target != CodeType::cubin)
    detail::refuse_target(target, type, "'cubin' or 'ptx'");
  if (const std::string written = written_files(type, options); !written.empty()) {
    throw std::invalid_argument{"code from a cache comes without the files that " + written +
                                " asks for: compile without a cache, or without the option"};
  }
  if (!extra_digest) {
    if (const std::string unseen = unseen_inputs(code, type, options); !unseen.empty()) {
      throw std::invalid_argument{"the cache key does not cover the files read through " + unseen +
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
  const auto flags = flags_for(type, options, target);
  hash.add_field(std::to_string(flags.size()));
  for (const auto& flag : flags) hash.add_field(flag);
  if (type != SourceType::ptx) {
    for (const auto& [name, text] : options.extra_sources)
      hash.add_field("source").add_field(name).add_field(text);
  }
  if (type == SourceType::nvvm)
    hash.add_field(options.use_libdevice.value_or(false) ? "libdevice" : "");
  if (type == SourceType::cxx) {  // other languages have no name expressions
    const std::set<std::string_view> names{name_expressions.begin(), name_expressions.end()};
    for (const auto& name : names) hash.add_field("name").add_field(name);
  }
  if (extra_digest) hash.add_field("extra").add_field(*extra_digest);
  return hash.digest();
}

}  // namespace cucore
