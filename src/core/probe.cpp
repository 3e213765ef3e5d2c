// SPDX-License-Identifier: Apache-2.0
// probe.cpp: tests access to addresses without faulting.
#include "core/probe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>

namespace cucore::detail {

bool is_readable(const void* address, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  if (first + bytes < first) return false;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return true;
  // The kernel reads the bytes and returns EFAULT where an access would raise a signal.
  constexpr std::size_t kStep = 512;  // a pipe holds at least this many bytes
  bool readable = true;
  for (std::size_t done = 0; readable && done < bytes;) {
    const std::size_t step = bytes - done < kStep ? bytes - done : kStep;
    const ssize_t n = ::write(ends[1], static_cast<const char*>(address) + done, step);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      readable = errno != EFAULT;
      break;
    }
    done += static_cast<std::size_t>(n);
    char sink[kStep];
    if (::read(ends[0], sink, sizeof sink) < 0) break;
  }
  ::close(ends[0]);
  ::close(ends[1]);
  return readable;
}

bool is_executable(const void* address) noexcept {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps{std::fopen("/proc/self/maps", "re"),
                                                             &std::fclose};
  if (maps == nullptr) return true;
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  char line[512];
  bool begins = true;  // at the start of a line: lines may be longer than the buffer
  while (std::fgets(line, sizeof line, maps.get()) != nullptr) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    char rights[5] = {};
    if (begins && std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, rights) == 3 &&
        wanted >= from && wanted < to)
      return rights[2] == 'x';
    begins = false;
    for (const char* at = line; *at != '\0'; ++at) begins = *at == '\n';
  }
  return false;
}

}  // namespace cucore::detail
