// SPDX-License-Identifier: Apache-2.0
// core/replacement.hpp: replacements for the functions of a library that is found at run time.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/device_code.hpp"
#include "driver/mutex.hpp"

namespace cucore::detail {

/// Looks up a library's own function, even if a replacement is installed in its symbol table.
template <class Function>
void find_function(void* library, Function& slot, const char* name) {
  slot = reinterpret_cast<Function>(without_replacement(::dlsym(library, name)));
}

/// The number of releases of one library that a process may have loaded. Each replacement is
/// instantiated once per release, because its C interface does not identify the library.
inline constexpr std::size_t kReleases = 4;

/// The functions of every loaded release of a library. `Functions` has `void load(void* library)`.
template <class Functions>
class Releases {
 public:
  static Releases& get() {
    // Never destroyed: threads may call until the process ends.
    static auto* const releases = new Releases;
    return *releases;
  }

  /// Returns the index of the release that contains `address`, or kReleases if it has none.
  std::size_t number_of(void* address) {
    Dl_info info{};
    if (::dladdr(address, &info) == 0) return kReleases;
    const std::lock_guard lock{mutex_};
    for (std::size_t i = 0; i < count_; ++i)
      if (bases_[i] == info.dli_fbase) return i;
    if (count_ == kReleases) return kReleases;
    // The handle stays open: the functions are called until the process ends.
    void* const library = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return kReleases;
    functions_[count_].load(library);
    bases_[count_] = info.dli_fbase;
    return count_++;
  }
  /// Written before any replacement with this index is returned.
  const Functions& operator[](std::size_t number) const { return functions_[number]; }

 private:
  Mutex mutex_;
  std::array<Functions, kReleases> functions_{};
  std::array<const void*, kReleases> bases_{};
  std::size_t count_ = 0;
};

/// One C function per release that calls `Function(functions, arguments...)`.
template <auto Function>
struct PerRelease;
template <class Result, class Functions, class... Arguments,
          Result (*Function)(const Functions&, Arguments...)>
struct PerRelease<Function> {
  template <std::size_t Number>
  static Result call(Arguments... arguments) {
    return Function(Releases<Functions>::get()[Number], arguments...);
  }
  static std::array<void*, kReleases> all() {
    return []<std::size_t... Numbers>(std::index_sequence<Numbers...>) {
      return std::array<void*, kReleases>{reinterpret_cast<void*>(&call<Numbers>)...};
    }
    (std::make_index_sequence<kReleases>{});
  }
};

template <class Functions>
struct Replacement {
  std::string_view name;
  std::array<void*, kReleases> ours;
  void* (*real)(const Functions&);
};

/// Returns the replacement for the function `name` at `address`, or null if it has none. Returns
/// `address` itself if it already is a replacement.
template <class Functions, class Replacements>
void* replacement_of(const Replacements& replacements, std::string_view name, void* address) {
  for (const Replacement<Functions>& row : replacements) {
    if (row.name != name) continue;
    for (void* ours : row.ours)
      if (ours == address) return address;
    const std::size_t number = Releases<Functions>::get().number_of(address);
    return number < kReleases ? row.ours[number] : nullptr;
  }
  return nullptr;
}

/// Returns the library's function for a replacement, or null for any other address.
template <class Functions, class Replacements>
void* replaced_by(const Replacements& replacements, void* address) {
  for (const Replacement<Functions>& row : replacements)
    for (std::size_t i = 0; i < kReleases; ++i)
      if (row.ours[i] == address) return row.real(Releases<Functions>::get()[i]);
  return nullptr;
}

/// Values by handle. Instances are never destroyed: threads may call until the process ends.
template <class Value>
class ByHandle {
 public:
  void set(void* handle, Value value) {
    const std::lock_guard lock{mutex_};
    values_.insert_or_assign(handle, std::move(value));
  }
  std::optional<Value> find(void* handle) {
    const std::lock_guard lock{mutex_};
    const auto found = values_.find(handle);
    return found != values_.end() ? std::optional<Value>{found->second} : std::nullopt;
  }
  void erase(void* handle) {
    const std::lock_guard lock{mutex_};
    values_.erase(handle);
  }

 private:
  Mutex mutex_;
  std::unordered_map<void*, Value> values_;
};

// Implemented in device_code_nvrtc.cpp and device_code_nvjitlink.cpp.
void* nvrtc_in_place_of(std::string_view function, void* address);
void* nvjitlink_in_place_of(std::string_view function, void* address);
void* replaced_nvrtc(void* address);
void* replaced_nvjitlink(void* address);

/// Returns the value of "-name=value" or "--name=value", or std::nullopt for another option.
std::optional<std::string_view> value_of_option(std::string_view option, std::string_view name);
std::optional<int> number_in(std::string_view text);

}  // namespace cucore::detail
