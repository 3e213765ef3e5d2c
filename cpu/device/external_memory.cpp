// SPDX-License-Identifier: Apache-2.0
// Mappings of imported memory.
#include "cpu/device/external_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/mem/address_space.hpp"
#include "cpu/mem/immortal.hpp"

namespace cucpu::driver {

namespace {

/// Init checks: the mapped parts of files, by their first page.
struct MappedFiles {
  struct Part {
    std::size_t bytes;
    int fd;  ///< with an own position, which SEEK_DATA changes
    std::uint64_t offset;
  };
  std::mutex mutex;
  std::map<std::uintptr_t, Part> by_start;

  static MappedFiles& get() { return Immortal<MappedFiles>::get(); }

  void add(std::uintptr_t start, std::size_t bytes, int fd, std::uint64_t offset) {
    if ((check::kinds_in_environment() & check::kInit) == 0) return;
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    const int own = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const std::lock_guard lock{mutex};
    by_start[start] = {bytes, own, offset};
  }
  void remove(std::uintptr_t start) {
    const std::lock_guard lock{mutex};
    const auto found = by_start.find(start);
    if (found == by_start.end()) return;
    if (found->second.fd >= 0) close(found->second.fd);
    by_start.erase(found);
  }
};

}  // namespace

bool holds_data_of_others(std::uintptr_t address, std::size_t bytes) {
  MappedFiles& files = MappedFiles::get();
  const std::lock_guard lock{files.mutex};
  const auto after = files.by_start.upper_bound(address);
  if (after == files.by_start.begin()) return false;
  const auto& [start, part] = *std::prev(after);
  if (address - start >= part.bytes) return false;
  const auto from = static_cast<off_t>(part.offset + (address - start));
  const off_t data = part.fd < 0 ? from : lseek(part.fd, from, SEEK_DATA);
  if (data < 0) return errno != ENXIO;  // ENXIO: no data up to the end of the file
  return data < from + static_cast<off_t>(bytes);
}

AllocationRef map_part(const ExternalMemory& memory, std::size_t offset, std::size_t size) {
  require(size > 0 && offset <= memory.size && size <= memory.size - offset);
  AddressSpace& space = AddressSpace::instance();
  const std::size_t lead = offset % space.page();
  const std::size_t pages = space.round_to_pages(lead + size);
  const std::uintptr_t start = space.take(pages, space.page());
  if (mmap(reinterpret_cast<void*>(start), pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           memory.fd, static_cast<off_t>(offset - lead)) == MAP_FAILED) {
    space.give(start, pages);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  auto record = std::make_shared<Allocation>();
  record->base = start + lead;
  record->size = size;
  MappedFiles::get().add(start, pages, memory.fd, offset - lead);
  record->release = [start, pages](Allocation&) {
    MappedFiles::get().remove(start);
    AddressSpace::instance().give(start, pages);
  };
  return record;
}

std::size_t file_bytes(int fd) {
  struct stat info;
  require(fstat(fd, &info) == 0);
  if (S_ISREG(info.st_mode)) return static_cast<std::size_t>(info.st_size);
  const off_t end = lseek(fd, 0, SEEK_END);  // supported by dma-bufs
  require(end > 0);
  return static_cast<std::size_t>(end);
}

}  // namespace cucpu::driver
