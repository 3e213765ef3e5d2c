// SPDX-License-Identifier: Apache-2.0
// The usage page of this process.
#include "cpu/mem/usage.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace cucpu::driver {

UsagePage& usage_page() {
  static UsagePage& page = []() -> UsagePage& {
    const int fd = memfd_create(kUsageName, MFD_CLOEXEC);
    void* p = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(UsagePage)) == 0)
      p = mmap(nullptr, sizeof(UsagePage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
      if (fd >= 0) close(fd);
      return *new UsagePage{};
    }
    auto* made =
        new (p) UsagePage{};  // the descriptor stays open: other processes find the page through it
    std::memcpy(made->magic, kUsageMagic, sizeof made->magic);
    return *made;
  }();
  return page;
}

}  // namespace cucpu::driver
