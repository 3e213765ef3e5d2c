// SPDX-License-Identifier: Apache-2.0
// cpu/mem/shared_arena.hpp: memory in a memfd that other processes can map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace cucpu::driver {

class SharedArena {
 public:
  explicit SharedArena(std::size_t capacity);  ///< a new file; throws std::bad_alloc
  /// Opens another process's file; duplicates the descriptor. Throws std::invalid_argument for a
  /// file that is no arena.
  static SharedArena* adopt(int fd);
  ~SharedArena();
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::uintptr_t base() const noexcept { return base_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  std::size_t take(
      std::size_t bytes);  ///< returns an offset; mapped and zeroed; throws std::bad_alloc
  void give(std::size_t offset, std::size_t bytes) noexcept;
  /// Maps a part of an imported file until it is unmapped. Parts may overlap: the exporter may have
  /// divided its memory again before all old parts are unmapped. Throws std::invalid_argument for a
  /// part outside of the file.
  void map(std::size_t offset, std::size_t bytes);
  void unmap(std::size_t offset, std::size_t bytes) noexcept;

  /// Identifies the file: equal in all processes that share it, different for all other files.
  struct Identity {
    std::uint64_t device, inode;
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  [[nodiscard]] const Identity& identity() const noexcept { return identity_; }

 private:
  SharedArena(int fd, std::size_t capacity);
  void identify();
  /// Calls `f` with the bounds of every run of unused units.
  template <class F>
  void for_unused(std::size_t first, std::size_t end, F f) const {
    for (std::size_t unit = first; unit < end;) {
      std::size_t next = unit;
      while (next < end && uses_[next] == 0) ++next;
      if (next > unit) f(unit, next);
      unit = next + 1;
    }
  }
  int fd_;
  std::uintptr_t base_ = 0;
  std::size_t capacity_;
  std::mutex mutex_;
  std::size_t end_ = 0;                      // of the file
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes
  std::vector<std::uint32_t> uses_;          // use count by unit of an imported file
  Identity identity_{};
};

}  // namespace cucpu::driver
