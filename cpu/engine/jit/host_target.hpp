// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/host_target.hpp: the target of code generation, which is the CPU of the host.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace llvm {
class TargetMachine;
}

namespace cucpu {

struct HostTarget {
  std::string triple, cpu;
  std::string features;  ///< "+a,-b", corrected by what the operating system exposes
};

/// CUCORE_CPU_FEATURES: "-a,-b", features of the host that code does not use. Empty: not set.
/// Throws environment::Invalid unless it is a list of `-NAME` with features of this host.
std::string disabled_features();

/// Whether a processor, as LLVM names it, loads single lanes faster than with a gather: Intel's
/// from Skylake to Tiger Lake. Since microcode of 2023 keeps gathers from leaking data ("gather
/// data sampling"), one of eight numbers takes three times as long as eight loads.
bool has_slow_gathers(std::string_view cpu);

/// Detected once. Registers LLVM's native target.
const HostTarget& host_target();

/// One per compilation: a TargetMachine is not thread-safe. `optimization` is 0..4.
std::unique_ptr<llvm::TargetMachine> make_target_machine(int optimization);

}  // namespace cucpu
