// SPDX-License-Identifier: Apache-2.0
// cucore/program_cache.hpp: caches of compiled code, in memory or on disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cucore/export.hpp"
#include "cucore/program.hpp"

namespace cucore {

/// Interface of a cache of compiled code. Implementations must be thread-safe.
class CUCORE_EXPORT ProgramCache {
 public:
  virtual ~ProgramCache();
  /// Returns the code of an entry, or std::nullopt on a miss.
  [[nodiscard]] virtual std::optional<std::string> get(std::string_view key) = 0;
  /// Adds or replaces an entry.
  virtual void put(std::string_view key, std::string_view code) = 0;
  /// Removes an entry. Returns false if it does not exist.
  virtual bool erase(std::string_view key) = 0;
  virtual void clear() = 0;                            ///< Removes all entries.
  [[nodiscard]] virtual std::size_t size() const = 0;  ///< Returns the number of entries.
  /// Adds the result of a compilation. Calls put() with the code; override it to cache more of the
  /// object.
  virtual void put_object(std::string_view key, const ObjectCode& object);
};

/// A cache in memory. Evicts the least recently used entries if the code exceeds `max_size_bytes`.
class CUCORE_EXPORT InMemoryProgramCache final : public ProgramCache {
 public:
  /// Creates an empty cache. Without `max_size_bytes` its size is unlimited; code larger than the
  /// limit is not cached.
  explicit InMemoryProgramCache(std::optional<std::uint64_t> max_size_bytes = std::nullopt);
  ~InMemoryProgramCache() override;
  [[nodiscard]] std::optional<std::string> get(std::string_view key) override;
  void put(std::string_view key, std::string_view code) override;
  bool erase(std::string_view key) override;
  void clear() override;
  [[nodiscard]] std::size_t size() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A cache on disk, with one file per entry, that all processes of a user share. The user must own
/// the folder, and other users must not have write permission: code that another user could have
/// written is not loaded. Files are written atomically, symbolic links are not followed, and an
/// entry whose digest does not match is removed and counts as a miss.
class CUCORE_EXPORT FileStreamProgramCache final : public ProgramCache {
 public:
  /// Opens the cache; creates the folder if it does not exist. The default folder is
  /// cucore/programs in the user's cache folder. Evicts the least recently used entries if the
  /// files exceed `max_size_bytes`. Throws std::system_error, and std::runtime_error if the folder
  /// belongs to another user, is a symbolic link, or is writable by others.
  explicit FileStreamProgramCache(std::optional<std::filesystem::path> folder = std::nullopt,
                                  std::optional<std::uint64_t> max_size_bytes = std::nullopt);
  ~FileStreamProgramCache() override;
  [[nodiscard]] std::optional<std::string> get(std::string_view key) override;
  void put(std::string_view key, std::string_view code) override;
  bool erase(std::string_view key) override;
  void clear() override;
  [[nodiscard]] std::size_t size() const override;
  /// Returns the absolute path of the folder.
  [[nodiscard]] const std::filesystem::path& folder() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns a cache key: a digest of the source, options, compiler and its version, target and kind
/// of device. The key does not cover files that the compiler reads (include_path, a quoted
/// #include, ...): they require `extra_digest`, the caller's digest of those files. Throws
/// std::invalid_argument, naming the options or includes, if `extra_digest` is missing, or if an
/// option makes the compiler write a file.
[[nodiscard]] CUCORE_EXPORT std::string make_program_cache_key(
    std::string_view code, SourceType type, const ProgramOptions& options, CodeType target,
    std::span<const std::string> name_expressions = {},
    std::optional<std::string_view> extra_digest = std::nullopt);

/// Returns the cached result, or compiles the program and caches the result. The symbols of name
/// expressions are cached as a second entry, key + "/symbols". If the cache cannot be read or
/// written (std::system_error), reports that in `log` and returns the result of the compilation.
[[nodiscard]] CUCORE_EXPORT ObjectCode
compile_cached(ProgramCache& cache, Program& program, std::string_view key, CodeType target,
               std::span<const std::string> name_expressions = {}, std::string* log = nullptr);

}  // namespace cucore
