// SPDX-License-Identifier: Apache-2.0
// cpu/mem/shared_file.hpp: memfds that other processes map.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cucpu::driver {

/// A new memfd that can grow but not shrink, so no process that shares it can unmap pages of
/// another one. -1 on failure.
inline int make_shared_file(const char* name) noexcept {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace cucpu::driver
