// cpu/engine/jit/disk_cache.hpp: compiled code on disk, in a folder that belongs to the user alone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cucpu {

/// SHA-256 as 64 hexadecimal digits.
std::string digest(std::string_view);

/// Entries are named by their key and carry a digest of their content; anything suspicious (a link,
/// a foreign owner, a wrong digest) counts as absent. Failures are silent: a cache that does not
/// work costs time, never correctness. Thread-safe, and safe among processes: entries appear whole
/// or not at all.
class DiskCache {
 public:
  /// Makes the folder (0700) when it is missing. `usable()` is false when it is not ours, open to
  /// others, or a link.
  DiskCache(const std::string& folder, std::uint64_t limit_bytes);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  [[nodiscard]] bool usable() const { return folder_ >= 0; }
  [[nodiscard]] std::optional<std::string> get(const std::string& key) const;
  void put(const std::string& key, std::string_view content) noexcept;
  /// How often the whole folder was looked through for entries to drop.
  [[nodiscard]] unsigned looks() const { return looks_.load(std::memory_order_relaxed); }

 private:
  void evict();
  bool grown(std::uint64_t bytes);
  void count_is(std::uint64_t bytes) const;
  std::atomic<unsigned> looks_{0};
  int folder_ = -1;
  std::uint64_t limit_;
};

}  // namespace cucpu
