// SPDX-License-Identifier: Apache-2.0
// pathfinder.cpp: the public functions that load, locate and explain. Results are cached for the
// life of the process.
#include "cucore/pathfinder.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "pathfinder/catalogue.hpp"
#include "pathfinder/search.hpp"
#include "pathfinder/search_roots.hpp"

namespace cucore::pathfinder {
namespace {

constexpr const char* kLoadedElsewhere = "was-already-loaded-from-elsewhere";
constexpr Kind kKinds[] = {Kind::dynamic_lib, Kind::headers, Kind::static_lib, Kind::bitcode_lib,
                           Kind::binary};

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::dynamic_lib:
      return "dynamic library";
    case Kind::headers:
      return "headers";
    case Kind::static_lib:
      return "static library";
    case Kind::bitcode_lib:
      return "bitcode library";
    case Kind::binary:
      return "program";
  }
  return "component";
}

std::string quoted_files(const Entry& entry) {
  std::string text;
  for (const auto file : split(entry.files))
    text += (text.empty() ? "" : " or ") + std::string{file};
  return text;
}

std::string names_of(Kind kind) {
  std::string text;
  for (const auto& row : entries(kind)) text += (text.empty() ? "" : ", ") + std::string{row.name};
  return text;
}

const Entry& entry_of(Kind kind, std::string_view name) {
  if (const Entry* entry = find_entry(kind, name)) return *entry;
  throw UnknownNameError{"Unknown " + std::string{kind_name(kind)} + " name: '" +
                         std::string{name} + "'. Known names: " + names_of(kind)};
}

std::string path_of(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map != nullptr &&
      map->l_name[0] == '/') {
    return map->l_name;
  }
  return fallback;
}

/// The library that is already loaded in this process under one of the entry's sonames.
std::optional<LoadedDL> already_loaded(const Entry& entry) {
  for (const auto file : split(entry.files)) {
    const std::string soname{file};
    if (void* handle = dlopen(soname.c_str(), RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL)) {
      return LoadedDL{path_of(handle, soname), true, handle, kLoadedElsewhere};
    }
  }
  return std::nullopt;
}

bool supports_this_architecture(const Entry& entry) {
  if (entry.machine.empty()) return true;
#if defined(__x86_64__)
  return entry.machine == "x86_64";
#elif defined(__aarch64__)
  return entry.machine == "aarch64";
#else
  return false;
#endif
}

/// Searches without loading. `all` continues after the first match, for reports. Headers without
/// the headers that they include are used only if no root has both.
SearchReport search(Kind kind, const Entry& entry, bool all, std::string* filename = nullptr) {
  SearchReport report{kind, std::string{entry.name}, {}, {}, {}};
  const std::string lacking =
      "found, without " + std::string{compiler_headers().files} + ", which it includes";
  std::optional<Candidate> partial;
  std::size_t line_of_partial = 0;
  const auto take = [&](const Candidate& candidate) {
    report.abs_path = candidate.path;
    report.found_via = candidate.step;
    if (filename != nullptr) *filename = candidate.filename;
  };
  walk(kind, entry, report, [&](const Candidate& candidate) {
    const bool there = exists(kind, candidate);
    if (there && kind == Kind::headers && !has_included_headers(entry, candidate)) {
      if (!partial) {
        partial = candidate;
        line_of_partial = report.attempts.size();
      }
      report.attempts.push_back({candidate.step, candidate.file, lacking});
      return false;
    }
    const bool first = there && report.abs_path.empty();
    report.attempts.push_back({candidate.step, candidate.file,
                               !there  ? "not found"
                               : first ? "found"
                                       : "also found, not used"});
    if (first) take(candidate);
    return first && !all;
  });
  if (report.abs_path.empty() && partial) {
    take(*partial);
    report.attempts[line_of_partial].outcome =
        "found, used " + lacking.substr(lacking.find("without"));
  }
  return report;
}

/// Search results by kind and name. A miss is searched again after the site-packages folders have
/// changed.
class LocateCache {
 public:
  SearchReport get(Kind kind, const Entry& entry, std::string& filename) {
    const std::lock_guard lock{mutex_};
    const unsigned generation = site_packages_generation();
    const auto key = std::pair{kind, entry.name};
    auto found = rows_.find(key);
    if (found == rows_.end() ||
        (found->second.report.abs_path.empty() && found->second.generation != generation)) {
      Row row;
      row.generation = generation;
      row.report = search(kind, entry, false, &row.filename);
      found = rows_.insert_or_assign(key, std::move(row)).first;
    }
    filename = found->second.filename;
    return found->second.report;
  }

 private:
  struct Row {
    SearchReport report;
    std::string filename;
    unsigned generation = 0;
  };
  std::mutex mutex_;
  std::map<std::pair<Kind, std::string_view>, Row> rows_;
};

std::optional<Located> locate(Kind kind, const Entry& entry, SearchReport* miss = nullptr) {
  static LocateCache cache;
  std::string filename;
  SearchReport report = cache.get(kind, entry, filename);
  if (report.abs_path.empty()) {
    if (miss != nullptr) *miss = std::move(report);
    return std::nullopt;
  }
  return Located{std::string{entry.name}, report.abs_path, filename, report.found_via};
}

Located locate_or_throw(Kind kind, std::string_view name) {
  SearchReport miss;
  if (auto located = locate(kind, entry_of(kind, name), &miss)) return *std::move(located);
  throw NotFoundError{std::move(miss)};
}

/// One lock for all libraries. It is recursive because a library's dependencies are loaded while it
/// is held.
struct Loaded {
  std::recursive_mutex mutex;
  std::map<std::string_view, LoadedDL> rows;  // rows are never erased: callers keep references
};

Loaded& loaded() {
  static auto* state = new Loaded;  // never destroyed: libraries are never unloaded
  return *state;
}

/// Loads libnvrtc-builtins from NVRTC's folder. NVRTC opens it by soname on the first compilation,
/// and the linker could find that of another toolkit.
void load_nvrtc_builtins(const std::string& nvrtc) {
  std::error_code error;
  const auto folder = std::filesystem::path{nvrtc}.parent_path();
  for (const auto& file : std::filesystem::directory_iterator{folder, error}) {
    if (!file.path().filename().string().starts_with("libnvrtc-builtins.so")) continue;
    if (dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  }
}

LoadedDL load(const Entry& entry) {
  if (!supports_this_architecture(entry)) {
    throw NotAvailableError{"'" + std::string{entry.name} +
                            "' is not available for this architecture, only for " +
                            std::string{entry.machine}};
  }
  for (const auto dependency : split(entry.needs)) load_nvidia_dynamic_lib(dependency);
  if (auto there = already_loaded(entry)) return *std::move(there);
  SearchReport report{Kind::dynamic_lib, std::string{entry.name}, {}, {}, {}};
  report.attempts.push_back({"already-loaded", quoted_files(entry), "not loaded in this process"});
  std::optional<LoadedDL> result;
  walk(Kind::dynamic_lib, entry, report, [&](const Candidate& candidate) {
    std::string outcome = "not found";
    if (exists(Kind::dynamic_lib, candidate)) {
      if (void* handle = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        result = LoadedDL{path_of(handle, candidate.path), false, handle, candidate.step};
        return true;
      }
      const char* reason = dlerror();
      outcome =
          std::string{"could not be loaded: "} + (reason != nullptr ? reason : "no reason given");
    }
    report.attempts.push_back({candidate.step, candidate.file, std::move(outcome)});
    return false;
  });
  if (!result) throw NotFoundError{std::move(report)};
  if (entry.name == "nvrtc") load_nvrtc_builtins(result->abs_path);
  return *std::move(result);
}

std::string headline(const SearchReport& report) {
  const Entry* entry = find_entry(report.kind, report.name);
  if (entry == nullptr) return "Failure finding \"" + report.name + "\"";
  if (entry->origin == Origin::driver) {
    return "\"" + report.name +
           "\" is an NVIDIA driver library and can only be found via system search. Ensure the "
           "NVIDIA display driver is "
           "installed.";
  }
  return "Failure finding \"" + quoted_files(*entry) + "\"";
}

std::string lines_of(const SearchReport& report) {
  std::string text;
  for (const auto& attempt : report.attempts)
    text += "\n  " + attempt.step + ": " + attempt.place + ": " + attempt.outcome;
  return text;
}

/// Returns the command that installs the missing component, or an empty string if none is known.
std::string install_command(const SearchReport& report) {
  static constexpr std::pair<std::string_view, std::string_view> kCommands[] = {
      {"nvrtc", "\"cucore[cu13]\""},     {"nvJitLink", "\"cucore[cu13]\""},
      {"nvvm", "\"cucore[cu13]\""},      {"cudart", "\"cucore[cu13]\""},
      {"cccl", "\"cucore[cu13]\""},      {"device", "\"cucore[cu13]\""},
      {"cudadevrt", "\"cucore[cu13]\""}, {"nvfatbin", "nvidia-nvfatbin"},
      {"cufile", "nvidia-cufile"}};
  for (const auto& [name, package] : kCommands)
    if (name == report.name) return "pip install " + std::string{package};
  return {};
}

/// Returns a one-sentence message with the remedy. It lists only files that were found and could
/// not be loaded; `cucore info --why` and explain() list all searched paths.
std::string message(const SearchReport& report) {
  std::string text = headline(report);
  if (const std::string command = install_command(report); !command.empty()) {
    text += "; install it with: " + command;
    if (command.find("cu13") != std::string::npos) text += " (cu12 for a CUDA 12 driver)";
  }
  for (const auto& attempt : report.attempts)
    if (attempt.outcome.starts_with("could not"))
      text += "\n  " + attempt.step + ": " + attempt.place + ": " + attempt.outcome;
  return text + "\n  " + std::to_string(report.attempts.size()) +
         " places were searched; this lists them: cucore info --why " + report.name;
}

}  // namespace

NotFoundError::NotFoundError(SearchReport report)
    : std::runtime_error{message(report)}, report_{std::move(report)} {}

std::string SearchReport::str() const {
  std::string text = name + " (" + kind_name(kind) + "): ";
  text += abs_path.empty() ? "not found" : abs_path + ", found via " + found_via;
  return text + lines_of(*this);
}

const LoadedDL& load_nvidia_dynamic_lib(std::string_view libname) {
  auto& state = loaded();
  const std::lock_guard lock{state.mutex};
  if (const auto row = state.rows.find(libname); row != state.rows.end()) return row->second;
  const Entry& entry = entry_of(Kind::dynamic_lib, libname);
  return state.rows.emplace(entry.name, load(entry)).first->second;
}

std::optional<std::string> path_of_dynamic_lib(std::string_view libname) {
  {
    auto& state = loaded();
    const std::lock_guard lock{state.mutex};
    if (const auto row = state.rows.find(libname); row != state.rows.end())
      return row->second.abs_path;
  }
  const Entry& entry = entry_of(Kind::dynamic_lib, libname);
  if (auto there = already_loaded(entry)) {
    dlclose(there->handle);  // releases the reference that already_loaded() took
    return there->abs_path;
  }
  const auto located = locate(Kind::dynamic_lib, entry);
  return located ? std::optional{located->abs_path} : std::nullopt;
}

std::optional<Located> locate_nvidia_header_directory(std::string_view libname) {
  return locate(Kind::headers, entry_of(Kind::headers, libname));
}
std::optional<Located> locate_compiler_headers() {
  return locate(Kind::headers, compiler_headers());
}
Located locate_static_lib(std::string_view name) { return locate_or_throw(Kind::static_lib, name); }
Located locate_bitcode_lib(std::string_view name) {
  return locate_or_throw(Kind::bitcode_lib, name);
}
std::optional<Located> locate_binary_utility(std::string_view name) {
  return locate(Kind::binary, entry_of(Kind::binary, name));
}

std::optional<std::string> cuda_path_or_home() {
  static const std::optional<std::string> value = []() -> std::optional<std::string> {
    for (const char* name : {"CUDA_PATH", "CUDA_HOME"}) {
      if (const char* text = std::getenv(name); text != nullptr && text[0] != '\0') return text;
    }
    return std::nullopt;
  }();
  return value;
}

SearchReport explain(std::string_view name, std::optional<Kind> kind) {
  if (!kind) {
    for (const Kind candidate : kKinds) {
      if (find_entry(candidate, name) != nullptr) {
        kind = candidate;
        break;
      }
    }
  }
  if (!kind)
    throw UnknownNameError{"Unknown name: '" + std::string{name} +
                           "' is not a library, header set or program of the catalogue"};
  const Entry& entry = entry_of(*kind, name);
  SearchReport report = search(*kind, entry, true);
  if (*kind != Kind::dynamic_lib) return report;
  if (auto there = already_loaded(entry)) {
    dlclose(there->handle);  // releases the reference that already_loaded() took
    std::string via = kLoadedElsewhere;
    {
      auto& state = loaded();
      const std::lock_guard lock{state.mutex};
      if (const auto row = state.rows.find(entry.name); row != state.rows.end())
        via = row->second.found_via;
    }
    for (auto& attempt : report.attempts) {
      if (attempt.outcome == "found")
        attempt.outcome =
            attempt.place == there->abs_path ? "found, loaded from here" : "also found, not used";
    }
    report.attempts.insert(report.attempts.begin(), {"already-loaded", there->abs_path, "found"});
    report.abs_path = there->abs_path;
    report.found_via = via;
  } else {
    report.attempts.insert(report.attempts.begin(),
                           {"already-loaded", quoted_files(entry), "not loaded in this process"});
  }
  return report;
}

std::vector<std::string> supported(Kind kind, bool toolkit_only) {
  std::vector<std::string> names;
  for (const auto& row : entries(kind)) {
    if (!toolkit_only || row.origin == Origin::toolkit) names.emplace_back(row.name);
  }
  return names;
}

std::string header_of(std::string_view libname) {
  return std::string{entry_of(Kind::headers, libname).files};
}

}  // namespace cucore::pathfinder
