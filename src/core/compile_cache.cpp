// SPDX-License-Identifier: Apache-2.0
// compile_cache.cpp: stores two kinds of entries. The key without included files maps to the list
// of the candidate paths of those files; the key with the contents of those files maps to the
// result. A lookup therefore reads the files but does not scan them for directives.
#include "core/compile_cache.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>

#include "core/cache_folder.hpp"
#include "core/coverage_source.hpp"
#include "core/debug_source.hpp"
#include "core/include_scan.hpp"
#include "core/included_files.hpp"
#include "core/program_implementation.hpp"
#include "core/sha256.hpp"
#include "cucore/program_cache.hpp"
#include "driver/mutex.hpp"

namespace cucore::detail {
namespace {

constexpr std::string_view kFormat = "cucore compiled program 1";
constexpr double kMebibyte = 1 << 20;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

/// Returns the folder in CUCORE_COMPILE_CACHE, else `nvrtc` in CUCORE_CACHE_DIR, else `nvrtc` in
/// the user's cache folder. Empty if the cache is disabled.
std::filesystem::path cache_folder() {
  const std::string own = variable("CUCORE_COMPILE_CACHE");
  if (own == "0") return {};
  if (own.starts_with('/')) return own;
  if (const std::string given = variable("CUCORE_CACHE_DIR"); !given.empty())
    return std::filesystem::absolute(given) / "nvrtc";
  const auto folder = user_cache_folder();
  return folder ? *folder / "nvrtc" : std::filesystem::path{};
}

/// Returns the size limit from CUCORE_CACHE_SIZE, which is in MiB. The driver reports values that
/// are not numbers.
std::uint64_t largest_size() {
  const std::string text = variable("CUCORE_CACHE_SIZE");
  double size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  const bool is_size =
      error == std::errc{} && end == text.data() + text.size() && size >= 0 && size < 1e9;
  return static_cast<std::uint64_t>((is_size ? size : 512) * kMebibyte);
}

/// Opens the cache in the folder that is configured now. Returns null if the cache is disabled.
/// Throws if the folder is unusable.
std::shared_ptr<FileStreamProgramCache> open_cache() {
  static auto* const mutex = new Mutex;  // never destroyed: programs may be compiled at exit
  static auto* const opened = new std::shared_ptr<FileStreamProgramCache>;
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return nullptr;
  const std::lock_guard lock{*mutex};
  std::error_code error;
  if (*opened == nullptr || (*opened)->folder() != folder ||
      !std::filesystem::is_directory(folder, error))
    *opened = std::make_shared<FileStreamProgramCache>(folder, largest_size());
  return *opened;
}

/// Returns path, size and modification time of a regular file, which change with an update, or
/// std::nullopt if there is no such file.
std::optional<std::string> identity(const std::string& path) {
  struct stat status;
  if (path.empty() || ::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
    return std::nullopt;
  return path + " " + std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) +
         "." + std::to_string(status.st_mtim.tv_nsec) + " " + std::to_string(status.st_ino);
}

/// Returns the identity of NVRTC and of its builtins libraries in the same folder.
std::optional<std::string> identity_of_compiler(const std::string& path) {
  auto library = identity(path);
  if (!library) return std::nullopt;
  std::set<std::string> beside;
  std::error_code error;
  for (const auto& file :
       std::filesystem::directory_iterator{std::filesystem::path{path}.parent_path(), error}) {
    if (!file.path().filename().string().starts_with("libnvrtc-builtins")) continue;
    if (const auto builtins = identity(file.path().string())) beside.insert(*builtins);
  }
  if (error) return std::nullopt;
  for (const auto& builtins : beside) *library += "\n" + builtins;
  return library;
}

/// Returns the identity of this library: its code is part of the results for the CPU device.
std::optional<std::string> identity_of_this_library() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&cache_folder), &info) == 0 ||
      info.dli_fname == nullptr)
    return std::nullopt;
  return identity(info.dli_fname);
}

/// Returns whether environment variables are set from which NVRTC reads options.
bool compiler_has_variables() {
  const std::string_view prefixes[] = {"NVRTC_", "EDG_"};
  for (char** row = environ; row != nullptr && *row != nullptr; ++row)
    for (const auto prefix : prefixes)
      if (std::string_view{*row}.starts_with(prefix)) return true;
  return false;
}

/// Returns whether the result consists of code, symbols and log only. Debug information and
/// coverage refer to files that the compilation writes.
bool can_be_cached(const ProgramOptions& o) {
  const bool has_files = o.pch.value_or(false) || o.create_pch || o.use_pch || o.pch_dir ||
                         o.time || o.fdevice_time_trace;
  return !has_files && !o.no_cache.value_or(false) && !o.debug.value_or(debug_from_environment()) &&
         !counts_kernels() && !compiler_has_variables();
}

std::vector<std::string> folders_of(const std::vector<std::string>& flags) {
  constexpr std::string_view kIncludeFlag = "--include-path=";
  std::vector<std::string> folders;
  for (const auto& flag : flags)
    if (flag.starts_with(kIncludeFlag)) folders.push_back(flag.substr(kIncludeFlag.size()));
  return folders;
}

/// Returns whether a source refers to any file, or to the date or time.
bool names_files(std::string_view code, const ProgramOptions& options) {
  if (!options.pre_include.empty() || !all_uses_of_files(code).empty()) return true;
  return code.find("__DATE__") != code.npos || code.find("__TIME") != code.npos;
}

class Writer {
 public:
  Writer& text(std::string_view value) {
    bytes_ += std::to_string(value.size());
    bytes_ += ':';
    bytes_ += value;
    return *this;
  }
  Writer& number(std::size_t value) { return text(std::to_string(value)); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads the format of Writer. After malformed input is_good() is false and values are empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_{bytes} {}

  std::string text() {
    const auto colon = std::min(rest_.find(':'), rest_.size());
    const auto size = number_of(rest_.substr(0, colon));
    if (!size || colon == rest_.size() || rest_.size() - colon - 1 < *size) {
      good_ = false;
      return {};
    }
    std::string value{rest_.substr(colon + 1, *size)};
    rest_.remove_prefix(colon + 1 + *size);
    return value;
  }
  std::size_t number() {
    const auto value = number_of(text());
    good_ = good_ && value.has_value();
    return value.value_or(0);
  }
  [[nodiscard]] bool is_good() const { return good_; }
  [[nodiscard]] bool is_end() const { return rest_.empty(); }

 private:
  static std::optional<std::size_t> number_of(std::string_view text) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size())
      return std::nullopt;
    return value;
  }
  std::string_view rest_;
  bool good_ = true;
};

std::string pack_places(const std::vector<std::string>& places) {
  Writer out;
  out.number(places.size());
  for (const auto& place : places) out.text(place);
  return out.take();
}

std::optional<std::vector<std::string>> unpack_places(std::string_view bytes) {
  Reader in{bytes};
  std::vector<std::string> places;
  const std::size_t count = in.number();
  for (std::size_t i = 0; i < count && in.is_good(); ++i) places.push_back(in.text());
  if (!in.is_good() || !in.is_end()) return std::nullopt;
  return places;
}

std::string key_with_files(const std::string& key, const std::vector<std::string>& places) {
  return Sha256{}.add_field(key).add_field(digest_of_files(places)).digest();
}

}  // namespace

void check_compile_cache_setting() {
  const std::string value = variable("CUCORE_COMPILE_CACHE");
  if (value.empty() || value == "0" || value == "1" || value.starts_with('/')) return;
  throw std::invalid_argument{"CUCORE_COMPILE_CACHE=" + value +
                              " cannot be read: expected 0, 1 or the absolute path of a folder"};
}

std::string pack(const CompiledProgram& program) {
  Writer out;
  out.number(program.symbols.size());
  for (const auto& [name, symbol] : program.symbols) out.text(name).text(symbol);
  out.text(program.log).number(program.params.size());
  for (const auto& [kernel, params] : program.params) {
    out.text(kernel).number(params.size());
    for (const auto& param : params)
      out.number(static_cast<std::size_t>(param.kind)).number(param.size).text(param.name);
  }
  return out.text(program.code).take();
}

std::optional<CompiledProgram> unpack(std::string_view bytes) {
  Reader in{bytes};
  CompiledProgram program;
  const std::size_t symbols = in.number();
  for (std::size_t i = 0; i < symbols && in.is_good(); ++i) {
    std::string name = in.text();
    program.symbols.emplace(std::move(name), in.text());
  }
  program.log = in.text();
  const std::size_t kernels = in.number();
  for (std::size_t i = 0; i < kernels && in.is_good(); ++i) {
    auto& params = program.params[in.text()];
    const std::size_t count = in.number();
    for (std::size_t j = 0; j < count && in.is_good(); ++j) {
      DeclaredParam& param = params.emplace_back();
      const std::size_t kind = in.number();
      if (kind > static_cast<std::size_t>(ParamKind::pointer)) return std::nullopt;
      param.kind = static_cast<ParamKind>(kind);
      param.size = in.number();
      param.name = in.text();
    }
  }
  program.code = in.text();
  if (!in.is_good() || !in.is_end()) return std::nullopt;
  return program;
}

CompileCacheEntry::CompileCacheEntry(std::string_view code, const ProgramOptions& options,
                                     CodeType target, std::span<const std::string> name_expressions,
                                     const std::vector<std::string>& flags,
                                     const std::string& compiler) noexcept
    : code_{code}, options_{options} {
  try {
    if (cache_folder().empty() || !can_be_cached(options)) return;
    const auto compiler_files = identity_of_compiler(compiler);
    const auto this_library = identity_of_this_library();
    if (!compiler_files || !this_library) return;
    folders_ = folders_of(flags);
    has_includes_ = names_files(code, options);
    Sha256 hash;
    hash.add_field(kFormat).add_field(*compiler_files).add_field(*this_library);
    hash.add_field(code).add_field(options.name).add_field(code_type_name(target));
    hash.add_field(code_runs_on_the_cpu_device() ? "cpu" : "gpu");
    hash.add_field(std::to_string(flags.size()));
    for (const auto& flag : flags) hash.add_field(flag);
    hash.add_field(std::to_string(options.extra_sources.size()));
    for (const auto& [name, text] : options.extra_sources) hash.add_field(name).add_field(text);
    hash.add_field(std::to_string(name_expressions.size()));
    for (const auto& name : name_expressions) hash.add_field(name);
    // File names may be relative.
    if (has_includes_) hash.add_field(std::filesystem::current_path().string());
    key_ = hash.digest();
    cacheable_ = true;
  } catch (const std::exception&) {  // for example out of memory, or no working directory
    cacheable_ = false;
  }
}

std::optional<CompiledProgram> CompileCacheEntry::find() noexcept {
  if (!cacheable_) return std::nullopt;
  try {
    const auto cache = open_cache();
    cacheable_ = cache != nullptr;
    if (!cacheable_) return std::nullopt;
    const auto result_of = [&cache](const std::string& key) {
      const auto bytes = cache->get(key);
      return bytes ? unpack(*bytes) : std::nullopt;
    };
    if (!has_includes_) return result_of(entry_key_ = key_);
    if (const auto list = cache->get(key_)) {
      if (const auto places = unpack_places(*list))
        if (auto found = result_of(key_with_files(key_, *places))) return found;
    }
    auto places = places_of_included_files(code_, options_, folders_);
    cacheable_ = places.has_value();
    if (!cacheable_) return std::nullopt;
    places_ = *std::move(places);
    return result_of(entry_key_ = key_with_files(key_, places_));
  } catch (const std::exception&) {  // a cache that cannot be read is a cache miss
    cacheable_ = false;
    return std::nullopt;
  }
}

void CompileCacheEntry::keep(const CompiledProgram& program) noexcept {
  if (!cacheable_) return;
  try {
    if (has_includes_ && key_with_files(key_, places_) != entry_key_) return;
    const auto cache = open_cache();
    if (cache == nullptr) return;
    if (has_includes_) cache->put(key_, pack_places(places_));
    cache->put(entry_key_, pack(program));
  } catch (const std::exception&) {  // a failed store is not an error: the program is compiled
    return;
  }
}

}  // namespace cucore::detail
