// SPDX-License-Identifier: Apache-2.0
// cucore/pathfinder.hpp: locates and loads CUDA components, with a report of the search.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cucore/export.hpp"

namespace cucore::pathfinder {

/// Kind of a component. A name may exist in several kinds: "nvrtc" is a library and a set of
/// headers.
enum class Kind { dynamic_lib, headers, static_lib, bitcode_lib, binary };

/// One candidate of a search: the search step, the file or folder, and the outcome.
struct Attempt {
  /// "site-packages", "conda", "system-search", "CUDA_PATH", "system-ctk-root", ...
  std::string step{};
  std::string place{};  ///< path of the candidate, or the reason why the step was skipped
  /// "found", "not found", "could not be loaded: ...", "also found, not used", "skipped", ...
  std::string outcome{};
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

/// The report of a search. `abs_path` and `found_via` are empty if the component was not found.
struct SearchReport {
  Kind kind = Kind::dynamic_lib;    ///< kind of the component
  std::string name{};               ///< short name of the component
  std::string abs_path{};           ///< absolute path of the component
  std::string found_via{};          ///< search step that found the component
  std::vector<Attempt> attempts{};  ///< all candidates, in search order
  /// Returns the report as text, one line per candidate.
  [[nodiscard]] CUCORE_EXPORT std::string str() const;
};

/// A loaded shared library. It stays loaded until the process ends: do not dlclose the handle.
struct LoadedDL {
  std::string abs_path{};                          ///< absolute path of the library
  bool was_already_loaded_from_elsewhere = false;  ///< true if other code had loaded the library
  void* handle = nullptr;                          ///< handle from dlopen
  std::string found_via{};                         ///< search step that found the library
};

/// A component that was located but not loaded.
struct Located {
  std::string name{};       ///< short name of the component
  std::string abs_path{};   ///< absolute path of the component
  std::string filename{};   ///< last element of the path
  std::string found_via{};  ///< search step that found the component
};

/// Thrown if a known component is not found. `report()` lists all candidates.
class CUCORE_EXPORT NotFoundError : public std::runtime_error {
 public:
  /// The message has the component, the command that installs it, and the candidates that could not
  /// be loaded.
  explicit NotFoundError(SearchReport report);
  /// Returns the report of the search.
  [[nodiscard]] const SearchReport& report() const noexcept { return report_; }

 private:
  SearchReport report_;
};

/// Thrown for a name that is not in the catalogue.
class CUCORE_EXPORT UnknownNameError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Thrown for a known library that NVIDIA does not provide for this architecture.
class CUCORE_EXPORT NotAvailableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Sets the site-packages folders, which are searched for NVIDIA's wheels in this order. The Python
/// packages set those of the interpreter. The default is CUCORE_SITE_PACKAGES (colon-separated),
/// otherwise the folders of VIRTUAL_ENV. Relative paths are ignored.
CUCORE_EXPORT void set_site_packages(std::vector<std::string> folders);

/// Loads a library by its short name, for example "nvrtc", after its dependencies. The result is
/// cached until the process ends. Thread-safe. Throws UnknownNameError, NotAvailableError or
/// NotFoundError.
CUCORE_EXPORT const LoadedDL& load_nvidia_dynamic_lib(std::string_view libname);

/// Locates the folder of a library's headers. Returns std::nullopt if it is not found. Throws
/// UnknownNameError.
CUCORE_EXPORT std::optional<Located> locate_nvidia_header_directory(std::string_view libname);
/// Locates a static library. Throws UnknownNameError or NotFoundError.
CUCORE_EXPORT Located locate_static_lib(std::string_view name);
/// Locates a library of device code as LLVM bitcode. Throws UnknownNameError or NotFoundError.
CUCORE_EXPORT Located locate_bitcode_lib(std::string_view name);
/// Locates a program of the toolkit. Returns std::nullopt if it is not found. Throws
/// UnknownNameError.
CUCORE_EXPORT std::optional<Located> locate_binary_utility(std::string_view name);

/// Returns the value of CUDA_PATH, otherwise of CUDA_HOME, otherwise std::nullopt. An empty
/// variable counts as unset. The variables are read once per process.
CUCORE_EXPORT std::optional<std::string> cuda_path_or_home();

/// Searches for a component without loading it and without stopping at the first match. The default
/// kind is the first one, in the order of Kind, that has the name. Throws UnknownNameError.
CUCORE_EXPORT SearchReport explain(std::string_view name, std::optional<Kind> kind = std::nullopt);

/// Returns the names in the catalogue, in its order. `toolkit_only` excludes components that are
/// not part of the CUDA Toolkit.
CUCORE_EXPORT std::vector<std::string> supported(Kind kind, bool toolkit_only = false);
/// Returns the header that identifies the header folder of `libname`. Throws UnknownNameError.
CUCORE_EXPORT std::string header_of(std::string_view libname);

}  // namespace cucore::pathfinder
