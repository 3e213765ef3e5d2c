// SPDX-License-Identifier: Apache-2.0
// included_files.cpp: collects the candidate paths of included files.
#include "core/included_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <set>

#include "core/include_scan.hpp"
#include "core/sha256.hpp"

namespace cucore::detail {
namespace {

constexpr std::size_t kMostPlaces = 50'000;

/// Returns the contents of a regular file, or std::nullopt if there is none or it cannot be read.
std::optional<std::string> read_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  std::optional<std::string> content;
  struct stat status;
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    std::size_t done = 0;
    ssize_t n = 1;
    while (done < bytes.size() && n != 0) {
      n = ::read(file, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) break;
      done += static_cast<std::size_t>(n);
    }
    if (n >= 0) {
      bytes.resize(done);
      content = std::move(bytes);
    }
  }
  ::close(file);
  return content;
}

/// Returns whether the result depends on the date or time, through __DATE__, __TIME__ or
/// __TIMESTAMP__.
bool uses_the_time(std::string_view text) {
  return text.find("__DATE__") != text.npos || text.find("__TIME__") != text.npos ||
         text.find("__TIMESTAMP__") != text.npos;
}

class Search {
 public:
  Search(const std::vector<std::string>& folders, const ProgramOptions& options)
      : folders_{folders}, options_{options} {}

  void add_text(std::string text, std::string folder) {
    pending_.push_back({std::move(text), std::move(folder)});
  }
  /// Adds a file that a text in `folder` includes.
  void add_file(const std::string& name, const std::string& folder) {
    if (name.starts_with('/')) return add_place(name);
    add_place(folder + "/" + name);
    for (const std::string& other : folders_) add_place(other + "/" + name);
    // A source passed in the options: its includes are relative to its name.
    for (const auto& [given, text] : options_.extra_sources) {
      if (given != name || !given_.insert(given).second) continue;
      add_text(text, (std::filesystem::current_path() / given).parent_path().string());
    }
  }
  /// Returns the candidate paths of all files that the texts include, directly or indirectly.
  /// Returns std::nullopt in the cases listed in the header.
  std::optional<std::vector<std::string>> run() {
    while (!pending_.empty()) {
      Text next = std::move(pending_.back());
      pending_.pop_back();
      if (uses_the_time(next.text) || places_.size() > kMostPlaces) return std::nullopt;
      const std::size_t macros = has_include_macros_.size();
      for (const FileUse& use : all_uses_of_files(next.text, has_include_macros_)) {
        if (use.file.empty()) return std::nullopt;
        add_file(use.file, next.folder);
      }
      scanned_.push_back(std::move(next));
      // Texts that were scanned earlier may use a macro that was just found.
      if (has_include_macros_.size() != macros) {
        std::ranges::move(scanned_, std::back_inserter(pending_));
        scanned_.clear();
      }
    }
    return std::vector<std::string>{places_.begin(), places_.end()};
  }

 private:
  struct Text {
    std::string text;
    std::string folder;
  };
  void add_place(const std::string& path) {
    if (!places_.insert(path).second) return;
    if (auto content = read_file(path))
      add_text(*std::move(content), path.substr(0, path.rfind('/')));
  }

  const std::vector<std::string>& folders_;
  const ProgramOptions& options_;
  std::vector<Text> pending_;
  std::vector<Text> scanned_;
  HasIncludeMacros has_include_macros_;
  std::set<std::string> places_;
  std::set<std::string> given_;
};

}  // namespace

std::optional<std::vector<std::string>> places_of_included_files(
    std::string_view code, const ProgramOptions& options, const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  const fs::path here = fs::current_path();
  std::vector<std::string> absolute;
  absolute.reserve(folders.size());
  for (const auto& folder : folders) absolute.push_back((here / folder).string());
  const std::string beside = (here / fs::path{options.name}.parent_path()).string();
  Search search{absolute, options};
  for (const auto& header : options.pre_include) search.add_file(header, beside);
  search.add_text(std::string{code}, beside);
  return search.run();
}

std::string digest_of_files(const std::vector<std::string>& places) {
  Sha256 hash;
  for (const auto& place : places) {
    const auto content = read_file(place);
    hash.add_field(place).add_field(content ? "file" : "none").add_field(content.value_or(""));
  }
  return hash.digest();
}

}  // namespace cucore::detail
