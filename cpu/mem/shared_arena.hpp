// cpu/mem/shared_arena.hpp: memory in a file of its own (memfd), so that another process can map
// the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace cucpu::driver {

class SharedArena {
 public:
  explicit SharedArena(std::size_t capacity);  ///< a new file; throws std::bad_alloc
  /// Another process's file; the descriptor is duplicated. Throws std::invalid_argument when it is
  /// no file of ours.
  static SharedArena* adopt(int fd);
  ~SharedArena();
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::uintptr_t base() const noexcept { return base_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  std::size_t take(std::size_t bytes);  ///< an offset, mapped and zeroed; throws std::bad_alloc
  void give(std::size_t offset, std::size_t bytes) noexcept;
  /// A part of somebody else's file, there until it is unmapped as often; throws when it lies
  /// outside.
  void map(std::size_t offset, std::size_t bytes);
  void unmap(std::size_t offset) noexcept;

 private:
  SharedArena(int fd, std::size_t capacity);
  int fd_;
  std::uintptr_t base_ = 0;
  std::size_t capacity_;
  std::mutex mutex_;
  std::size_t end_ = 0;                      // of the file
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes
  struct Mapped {
    std::size_t bytes = 0;
    unsigned uses = 0;
  };
  std::map<std::size_t, Mapped> mapped_;  // by offset, of somebody else's file
};

}  // namespace cucpu::driver
