// SPDX-License-Identifier: Apache-2.0
// cpu/engine/peer_access.hpp: peer access of kernels. With several devices a kernel may access only
// memory of its own device and of devices whose peer access is enabled. The driver layer knows
// which; kernels compiled after it has set these functions check their accesses.
#pragma once

#include <cstdint>
#include <functional>

namespace cucpu {

/// Whether kernels launched with `accessor` (what the driver layer gave to PeerAccessScope) may
/// read, or write, at the address. True for every address outside device memory.
using PeerAccessCheck =
    std::function<bool(const void* accessor, std::uintptr_t address, bool write)>;

/// Empty while there is one device. Set once, before the first module is loaded.
inline PeerAccessCheck& peer_access_check() {
  static PeerAccessCheck* const function = new PeerAccessCheck;  // kernels may run at exit
  return *function;
}

/// Whether such kernels may access arrays of `owner`, a name that the driver layer gives.
using ArrayAccessCheck = std::function<bool(const void* accessor, const void* owner)>;
inline ArrayAccessCheck& array_access_check() {
  static ArrayAccessCheck* const function = new ArrayAccessCheck;
  return *function;
}

/// While it exists, launches by this thread have this accessor. Without one they may access all
/// memory.
class PeerAccessScope {
 public:
  explicit PeerAccessScope(const void* accessor) noexcept { current() = accessor; }
  ~PeerAccessScope() { current() = nullptr; }
  PeerAccessScope(const PeerAccessScope&) = delete;
  PeerAccessScope& operator=(const PeerAccessScope&) = delete;
  static const void*& current() noexcept {
    __attribute__((tls_model("initial-exec"))) static thread_local const void* accessor = nullptr;
    return accessor;
  }
};

}  // namespace cucpu
