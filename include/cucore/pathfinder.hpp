// SPDX-License-Identifier: Apache-2.0
// cucore/pathfinder.hpp: finds CUDA components in the user's environment, and says why when they
// are not there.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cucore/export.hpp"

namespace cucore::pathfinder {

/// What is looked for. One name may exist in several kinds ("nvrtc" is a library and a set of
/// headers).
enum class Kind { dynamic_lib, headers, static_lib, bitcode_lib, binary };

/// One place that was looked at: which step of the search, which file or folder, and what was
/// there.
struct Attempt {
  std::string
      step{};  ///< "site-packages", "conda", "system-search", "CUDA_PATH", "system-ctk-root", ...
  std::string place{};    ///< the file tried, or why the step was skipped
  std::string outcome{};  ///< "found", "not found", "could not be loaded: ...", "also found, not
                          ///< used", "skipped"
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

/// The story of one search, in order. `abs_path` and `found_via` are empty when nothing was found.
struct SearchReport {
  Kind kind = Kind::dynamic_lib;                        ///< what was looked for
  std::string name{};                                   ///< its short name
  std::string abs_path{};                               ///< where it is
  std::string found_via{};                              ///< the step that found it
  std::vector<Attempt> attempts{};                      ///< every place, in order
  [[nodiscard]] CUCORE_EXPORT std::string str() const;  ///< for people, one line per place
};

/// A library that is loaded and stays so: never dlclose the handle.
struct LoadedDL {
  std::string abs_path{};                          ///< the file
  bool was_already_loaded_from_elsewhere = false;  ///< other code had loaded it
  void* handle = nullptr;                          ///< dlopen's
  std::string found_via{};                         ///< the step that found it
};

/// A file or folder that was found, not loaded.
struct Located {
  std::string name{};       ///< its short name
  std::string abs_path{};   ///< where it is
  std::string filename{};   ///< the last part of the path
  std::string found_via{};  ///< the step that found it
};

/// A known component that is nowhere; `report()` lists every place tried.
class CUCORE_EXPORT NotFoundError : public std::runtime_error {
 public:
  explicit NotFoundError(SearchReport report);  ///< The text is the report for people.
  /// every place tried
  [[nodiscard]] const SearchReport& report() const noexcept { return report_; }

 private:
  SearchReport report_;
};

/// A name that the catalogue does not have.
class CUCORE_EXPORT UnknownNameError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// A known library that NVIDIA does not make for this platform.
class CUCORE_EXPORT NotAvailableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where Python packages are installed; NVIDIA's wheels are looked for under these folders, in this
/// order. Python passes its own; without Python they come from CUCORE_SITE_PACKAGES
/// (colon-separated), else from VIRTUAL_ENV. Relative paths are dropped.
CUCORE_EXPORT void set_site_packages(std::vector<std::string> folders);

/// Loads a library by its short name ("nvrtc"), its dependencies first. The answer is found once
/// per process, whatever thread asks first. Throws UnknownNameError, NotAvailableError,
/// NotFoundError.
CUCORE_EXPORT const LoadedDL& load_nvidia_dynamic_lib(std::string_view libname);

/// The folder of a library's headers; nothing when there are none. Throws UnknownNameError.
CUCORE_EXPORT std::optional<Located> locate_nvidia_header_directory(std::string_view libname);
/// Throw UnknownNameError, NotFoundError.
CUCORE_EXPORT Located locate_static_lib(std::string_view name);
/// The same for device code in LLVM form.
CUCORE_EXPORT Located locate_bitcode_lib(std::string_view name);
/// A program of the toolkit; nothing when it is not installed. Throws UnknownNameError.
CUCORE_EXPORT std::optional<Located> locate_binary_utility(std::string_view name);

/// CUDA_PATH, else CUDA_HOME, else nothing. Read once per process.
CUCORE_EXPORT std::optional<std::string> cuda_path_or_home();

/// The whole search for a component, every place in order, without loading anything.
/// Without a kind: the first kind that knows the name, in the order of Kind. Throws
/// UnknownNameError.
CUCORE_EXPORT SearchReport explain(std::string_view name, std::optional<Kind> kind = std::nullopt);

/// Names of the catalogue, in its order. `toolkit_only` leaves out what is not part of the CUDA
/// Toolkit.
CUCORE_EXPORT std::vector<std::string> supported(Kind kind, bool toolkit_only = false);
/// The header whose presence proves that a folder holds the headers of `libname`.
CUCORE_EXPORT std::string header_of(std::string_view libname);

}  // namespace cucore::pathfinder
