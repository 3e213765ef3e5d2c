// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/disk_cache.hpp: compiled code on disk, in a folder that only its owner can access.
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

/// Entries are files named by their key, with a digest of their content. A link, another owner or a
/// wrong digest makes an entry absent. Failures are not reported: without the cache kernels are
/// compiled. Thread-safe, and safe among processes: entries are written atomically.
class DiskCache {
 public:
  /// Creates a missing folder (mode 0700). `usable()` is false for a folder of another owner, with
  /// access for others, or reached through a link.
  DiskCache(const std::string& folder, std::uint64_t limit_bytes);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  [[nodiscard]] bool usable() const { return folder_ >= 0; }
  [[nodiscard]] std::optional<std::string> get(const std::string& key) const;
  void put(const std::string& key, std::string_view content) noexcept;
  /// The number of scans of the folder for entries to evict.
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
