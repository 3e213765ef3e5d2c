// cpu/engine/peer_access.hpp: where there are several devices, a kernel may touch only memory of
// its own device and what it was given access to. The driver layer says who may touch what; kernels
// compiled after that ask.
#pragma once

#include <cstdint>
#include <functional>

namespace cucpu {

/// Whether kernels launched with that `reach` may read, or write, at the address. True for whatever
/// is no device memory.
using PeerAccessCheck = std::function<bool(const void* reach, std::uintptr_t address, bool write)>;

/// Empty while there is one device. Set once, before the first module is loaded.
inline PeerAccessCheck& peer_access_check() {
  static PeerAccessCheck* const function =
      new PeerAccessCheck;  // never destroyed: kernels may run at exit
  return *function;
}

/// Whether such kernels may use arrays whose owner the driver layer calls `home`.
using ArrayAccessCheck = std::function<bool(const void* reach, const void* home)>;
inline ArrayAccessCheck& array_access_check() {
  static ArrayAccessCheck* const function = new ArrayAccessCheck;
  return *function;
}

/// Launches made meanwhile by this thread are launched with `reach`; without one they may touch all
/// memory.
class PeerAccessScope {
 public:
  explicit PeerAccessScope(const void* reach) noexcept { current() = reach; }
  ~PeerAccessScope() { current() = nullptr; }
  PeerAccessScope(const PeerAccessScope&) = delete;
  PeerAccessScope& operator=(const PeerAccessScope&) = delete;
  static const void*& current() noexcept {
    static thread_local const void* reach = nullptr;
    return reach;
  }
};

}  // namespace cucpu
