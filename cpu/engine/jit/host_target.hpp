// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/host_target.hpp: the target of code generation, which is the CPU of the host.
#pragma once

#include <memory>
#include <string>

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

/// Detected once. Registers LLVM's native target.
const HostTarget& host_target();

/// One per compilation: a TargetMachine is not thread-safe. `optimization` is 0..4.
std::unique_ptr<llvm::TargetMachine> make_target_machine(int optimization);

}  // namespace cucpu
