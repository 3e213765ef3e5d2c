// SPDX-License-Identifier: Apache-2.0
// cpu/device/external_memory.hpp: memory imported as a file descriptor: an export of
// cuMemExportToShareableHandle, a memfd or a dma-buf.
#pragma once

#include <unistd.h>

#include "cpu/base/object.hpp"
#include "cpu/mem/allocation.hpp"

namespace cucpu::driver {

class ExternalMemory final
    : public Handled<ExternalMemory, CUexternalMemory, Kind::external_memory> {
 public:
  ExternalMemory(int fd, std::size_t size) : fd{fd}, size{size} {}
  ~ExternalMemory() override { close(fd); }
  const int fd;
  const std::size_t size;
};

/// Maps a part of the file into the device's address space. The mapping outlives the imported
/// object.
AllocationRef map_part(const ExternalMemory& memory, std::size_t offset, std::size_t size);

/// Init checks: whether a mapped part holds data there. Nobody has touched a page that the file
/// does not have; every other page counts as written.
bool holds_data_of_others(std::uintptr_t address, std::size_t bytes);

/// Size of a regular file or of a dma-buf. Fails with 1 for other files.
std::size_t file_bytes(int fd);

}  // namespace cucpu::driver
