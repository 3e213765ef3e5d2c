// SPDX-License-Identifier: Apache-2.0
// Memory in a memfd.
#include "cpu/mem/shared_arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <stdexcept>

#include "cpu/mem/address_space.hpp"
#include "cpu/mem/shared_file.hpp"

namespace cucpu::driver {
namespace {
constexpr std::size_t kUnit = 64 << 10;
constexpr std::size_t round_up(std::size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }
/// Address space of one arena: the same in every process, and a small part of the reserved range.
std::size_t most_addresses() {
  return std::min(std::size_t{1} << 40, AddressSpace::instance().bytes() / 16);
}
}  // namespace

namespace {
/// The first bytes of every arena's file identify it: descriptors are plain numbers, and an import
/// of another file must fail. The rest of the first unit is unused.
constexpr char kMark[] = "cucore memory pool 1";

bool has_mark(int fd) {
  char mark[sizeof kMark] = {};
  return pread(fd, mark, sizeof mark, 0) == ssize_t{sizeof mark} &&
         std::memcmp(mark, kMark, sizeof mark) == 0;
}
}  // namespace

SharedArena::SharedArena(int fd, std::size_t capacity)
    : fd_{fd}, base_{AddressSpace::instance().take(capacity, kUnit)}, capacity_{capacity} {}

SharedArena::SharedArena(std::size_t capacity)
    : SharedArena{-1, round_up(std::min(capacity, most_addresses())) + kUnit} {
  fd_ = make_shared_file("cucore-pool");
  if (fd_ < 0 || ftruncate(fd_, kUnit) != 0 ||
      pwrite(fd_, kMark, sizeof kMark, 0) != ssize_t{sizeof kMark}) {
    if (fd_ >= 0) close(fd_);
    AddressSpace::instance().give(base_, capacity_);
    throw std::bad_alloc{};
  }
  end_ = kUnit;
  identify();
}

void SharedArena::identify() {
  struct stat info {};
  (void)fstat(fd_, &info);  // cannot fail: the descriptor is valid
  identity_ = {info.st_dev, info.st_ino};
}

SharedArena* SharedArena::adopt(int given) {
  struct stat info;
  if (fstat(given, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      !has_mark(given))
    throw std::invalid_argument{"not the file of a memory pool of this user"};
  const int fd = fcntl(given, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) throw std::bad_alloc{};
  try {
    // Reserves addresses only; the exporter's limit bounds the memory.
    auto* const arena = new SharedArena{fd, most_addresses() + kUnit};
    arena->identify();
    return arena;
  } catch (...) {
    close(fd);
    throw;
  }
}

SharedArena::~SharedArena() {
  if (fd_ >= 0) {
    AddressSpace::instance().give(base_, capacity_);
    close(fd_);
  }
}

std::size_t SharedArena::take(std::size_t bytes) {
  bytes = round_up(bytes);
  const std::lock_guard lock{mutex_};
  std::size_t offset = end_;
  for (auto at = free_.begin(); at != free_.end(); ++at)
    if (at->second >= bytes) {
      offset = at->first;
      const std::size_t left = at->second - bytes;
      free_.erase(at);
      if (left) free_.emplace(offset + bytes, left);
      break;
    }
  if (offset == end_) {
    if (bytes > capacity_ - end_ || ftruncate(fd_, static_cast<off_t>(end_ + bytes)) != 0)
      throw std::bad_alloc{};
    end_ += bytes;
  }
  if (mmap(reinterpret_cast<void*>(base_ + offset), bytes, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, fd_, static_cast<off_t>(offset)) == MAP_FAILED) {
    free_.emplace(offset, bytes);
    throw std::bad_alloc{};
  }
  return offset;
}

void SharedArena::give(std::size_t offset, std::size_t bytes) noexcept {
  bytes = round_up(bytes);
  AddressSpace::instance().decommit(base_ + offset, bytes);
  const std::lock_guard lock{mutex_};
  // Frees the pages; the file keeps its length.
  if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(bytes)) != 0) {
  }
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin())
    if (auto before = std::prev(next); before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  try {
    free_.emplace(offset, bytes);
  } catch (const std::bad_alloc&) {  // this part of the file is not reused
  }
}

void SharedArena::map(std::size_t offset, std::size_t bytes) {
  bytes = round_up(bytes);
  struct stat info;
  if (offset % kUnit != 0 || fstat(fd_, &info) != 0 ||
      offset > static_cast<std::size_t>(info.st_size) ||
      bytes > static_cast<std::size_t>(info.st_size) - offset || bytes > capacity_ - offset)
    throw std::invalid_argument{"outside the shared file"};
  const std::lock_guard lock{mutex_};
  const std::size_t first = offset / kUnit, end = (offset + bytes) / kUnit;
  if (uses_.size() < end) uses_.resize(end);
  const auto map_run = [this](std::size_t from, std::size_t to) {
    if (mmap(reinterpret_cast<void*>(base_ + from * kUnit), (to - from) * kUnit,
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_,
             static_cast<off_t>(from * kUnit)) == MAP_FAILED)
      throw std::bad_alloc{};
  };
  for_unused(first, end, map_run);  // a partial failure is repaired by the next call
  for (std::size_t unit = first; unit < end; ++unit) ++uses_[unit];
}

void SharedArena::unmap(std::size_t offset, std::size_t bytes) noexcept {
  bytes = round_up(bytes);
  const std::lock_guard lock{mutex_};
  const std::size_t first = offset / kUnit, end = (offset + bytes) / kUnit;
  for (std::size_t unit = first; unit < end; ++unit) --uses_[unit];
  for_unused(first, end, [this](std::size_t from, std::size_t to) {
    AddressSpace::instance().decommit(base_ + from * kUnit, (to - from) * kUnit);
  });
}

}  // namespace cucpu::driver
