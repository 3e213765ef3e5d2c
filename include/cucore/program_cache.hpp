// SPDX-License-Identifier: Apache-2.0
// cucore/program_cache.hpp: compiled code kept for the next time, in memory or on disk.
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

/// A store of compiled code by key. Safe to use from several threads.
class CUCORE_EXPORT ProgramCache {
 public:
  virtual ~ProgramCache();
  [[nodiscard]] virtual std::optional<std::string> get(
      std::string_view key) = 0;                                      ///< nothing on a miss
  virtual void put(std::string_view key, std::string_view code) = 0;  ///< replaces what was there
  virtual bool erase(std::string_view key) = 0;        ///< false when it was not there
  virtual void clear() = 0;                            ///< all of it
  [[nodiscard]] virtual std::size_t size() const = 0;  ///< how many entries
  /// put() for the result of a compilation, of which a cache may keep more than the code.
  virtual void put_object(std::string_view key, const ObjectCode& object);
};

/// Keeps code in memory, at most a given number of bytes: evicts the least recently used code.
class CUCORE_EXPORT InMemoryProgramCache final : public ProgramCache {
 public:
  /// Without a limit nothing is ever dropped.
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

/// Keeps code in a folder, a file per entry, for this user's processes. The folder must be the
/// user's own and closed to others: code that others could have written is not loaded. Files appear
/// whole or not at all, links are not followed, and what fails its digest is thrown away and counts
/// as a miss.
class CUCORE_EXPORT FileStreamProgramCache final : public ProgramCache {
 public:
  /// Without a folder: cucore/programs in the user's cache folder. Throws std::system_error, or
  /// std::runtime_error when the folder belongs to another user, is a link, or is open to others.
  explicit FileStreamProgramCache(std::optional<std::filesystem::path> folder = std::nullopt,
                                  std::optional<std::uint64_t> max_size_bytes = std::nullopt);
  ~FileStreamProgramCache() override;
  [[nodiscard]] std::optional<std::string> get(std::string_view key) override;
  void put(std::string_view key, std::string_view code) override;
  bool erase(std::string_view key) override;
  void clear() override;
  [[nodiscard]] std::size_t size() const override;
  [[nodiscard]] const std::filesystem::path& folder() const noexcept;  ///< Where the files are.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A digest of all that decides the result of a compilation: source, options, compiler and its
/// version, target, kind of device. Files the compiler would read (include_path, a quoted #include,
/// ...) cannot be seen from here: such options need `extra_digest`, a digest of those files by the
/// caller. Throws std::invalid_argument that names them.
[[nodiscard]] CUCORE_EXPORT std::string make_program_cache_key(
    std::string_view code, SourceType type, const ProgramOptions& options, CodeType target,
    std::span<const std::string> name_expressions = {},
    std::optional<std::string_view> extra_digest = std::nullopt);

/// Compiles, or takes the result from the cache. The symbols of name expressions are kept beside
/// the code, as key + "/symbols". A cache that cannot be read or written (std::system_error) is
/// told in the log; the result of the compilation is returned all the same.
[[nodiscard]] CUCORE_EXPORT ObjectCode
compile_cached(ProgramCache& cache, Program& program, std::string_view key, CodeType target,
               std::span<const std::string> name_expressions = {}, std::string* log = nullptr);

}  // namespace cucore
