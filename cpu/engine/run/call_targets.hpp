// cpu/engine/run/call_targets.hpp: the functions kernels may call through pointers. A pointer to
// anything else is a bad program counter (718), found before control goes there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cucpu {

/// Makes functions callable while it lives. Thread-safe.
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
/// `address`, if it is a function of a loaded module; else the thread ends with 718.
std::uint64_t cucpu_rt_call_target(std::uint64_t address);
}
