// cpu/engine/jit/host_target.hpp: the machine code is generated for.
#pragma once

#include <memory>
#include <string>

namespace llvm {
class TargetMachine;
}

namespace cucpu {

struct HostTarget {
  std::string triple, cpu,
      features;  ///< features: "+a,-b", corrected by what the system really exposes
};

/// The host, found once. Registers LLVM's native target.
const HostTarget& host_target();

/// Not thread-safe itself: one per compilation. `optimization` is 0..4.
std::unique_ptr<llvm::TargetMachine> make_target_machine(int optimization);

}  // namespace cucpu
