// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/call_targets.hpp: the functions that kernels may call through pointers. A call of
// any other address is an error (718, 715 or 700) that is detected before the jump.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cucpu {

/// Makes functions callable during its lifetime. Thread-safe.
class CallTargets {
 public:
  explicit CallTargets(std::vector<std::uintptr_t> addresses);
  ~CallTargets();
  CallTargets(const CallTargets&) = delete;
  CallTargets& operator=(const CallTargets&) = delete;

 private:
  std::vector<std::uintptr_t> addresses_;
};

}  // namespace cucpu

extern "C" {
/// Returns `address` if it is a function of a loaded module; otherwise the thread ends with an
/// error.
std::uint64_t cucpu_rt_call_target(std::uint64_t address);
}
