// SPDX-License-Identifier: Apache-2.0
// Mappings of imported memory.
#include "cpu/device/external_memory.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include "cpu/mem/address_space.hpp"

namespace cucpu::driver {

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
  record->release = [start, pages](Allocation&) { AddressSpace::instance().give(start, pages); };
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
