// SPDX-License-Identifier: Apache-2.0
// search.cpp: the documented order of cuda.pathfinder 1.8: wheels, conda, the dynamic linker
// (libraries only), the product's environment variable, CUDA_PATH or CUDA_HOME, installed toolkits.
// Driver libraries are searched by the dynamic linker only.
#include "pathfinder/search.hpp"

#include "pathfinder/search_roots.hpp"
#include "pathfinder/system_linker.hpp"

namespace cucore::pathfinder {
namespace {

std::string folder_under(const std::string& root, std::string_view folder) {
  std::string path = root + "/" + std::string{folder};
  if (const auto at = path.find('@'); at != std::string::npos) path.replace(at, 1, target_name());
  return path;
}

class Walk {
 public:
  Walk(Kind kind, const Entry& entry, SearchReport& report,
       const std::function<bool(const Candidate&)>& visit)
      : kind_{kind}, files_{split(entry.files)}, report_{report}, visit_{visit} {}

  /// Visits the folders under a root in order, and the files of each folder newest version first.
  bool under(const std::string& step, const std::string& root, std::string_view folders) {
    for (const auto folder : split(folders)) {
      const std::string path = folder_under(root, folder);
      if (!is_folder(path)) {
        note(step, path, "no such folder");
        continue;
      }
      for (const auto file : files_) {
        const std::string full = path + "/" + std::string{file};
        if (visit_({step, kind_ == Kind::headers ? path : full, full, std::string{file}, root}))
          return true;
      }
    }
    return false;
  }

  bool linker() {
    for (const auto file : files_) {
      const auto candidates = linker_candidates(file);
      bool any = false;
      for (const auto& path : candidates) {
        if (!is_file(path))
          continue;  // the report lists no misses here: the linker has many folders
        any = true;
        if (visit_({"system-search", path, path, std::string{file}, {}})) return true;
      }
      if (!any)
        note("system-search", std::string{file},
             "not found (linker's folders, LD_LIBRARY_PATH and cache)");
    }
    return false;
  }

  void note(std::string step, std::string place, std::string outcome) {
    report_.attempts.push_back({std::move(step), std::move(place), std::move(outcome)});
  }

 private:
  Kind kind_;
  std::vector<std::string_view> files_;
  SearchReport& report_;
  const std::function<bool(const Candidate&)>& visit_;
};

}  // namespace

void walk(Kind kind, const Entry& entry, SearchReport& report,
          const std::function<bool(const Candidate&)>& visit) {
  Walk w{kind, entry, report, visit};
  if (entry.origin == Origin::driver) {
    w.linker();
    return;
  }
  const auto folders = site_packages();
  if (folders.empty())
    w.note("site-packages", "no folders of Python packages are known", "skipped");
  for (const auto& folder : folders) {
    if (w.under("site-packages", folder, entry.wheel)) return;
  }
  if (const auto conda = absolute_variable("CONDA_PREFIX")) {
    if (w.under("conda", *conda, entry.conda)) return;
  } else {
    w.note("conda", "CONDA_PREFIX is not set", "skipped");
  }
  if (kind == Kind::dynamic_lib && w.linker()) return;
  for (const auto variable : split(entry.variables)) {
    const std::string name{variable};
    if (const auto root = absolute_variable(name)) {
      if (w.under(name, *root, entry.root)) return;
    } else {
      w.note(name, name + " is not set", "skipped");
    }
  }
  if (const auto root = cuda_path_or_home(); root && root->starts_with('/')) {
    if (w.under("CUDA_PATH", *root, entry.root)) return;
  } else {
    w.note("CUDA_PATH",
           root ? "CUDA_PATH/CUDA_HOME is not an absolute path"
                : "CUDA_PATH and CUDA_HOME are not set",
           "skipped");
  }
  for (const auto& root : toolkit_roots()) {
    if (root == cuda_path_or_home()) continue;  // already visited
    if (w.under("system-ctk-root", root, entry.root)) return;
  }
}

bool exists(Kind kind, const Candidate& candidate) {
  return kind == Kind::binary ? is_executable(candidate.file) : is_file(candidate.file);
}

bool has_included_headers(const Entry& entry, const Candidate& candidate) {
  if (entry.needs != compiler_headers().name) return true;
  const Entry& needed = compiler_headers();
  const std::string file = "/" + std::string{needed.files};
  if (is_file(candidate.path + file)) return true;
  for (const auto folder : split(needed.wheel)) {
    if (is_file(folder_under(candidate.root, folder) + file)) return true;
  }
  return false;
}

}  // namespace cucore::pathfinder
