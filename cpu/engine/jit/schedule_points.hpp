// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/schedule_points.hpp: points at which a random schedule may run another thread
// (CUCORE_CPU_SCHEDULE).
#pragma once

namespace llvm {
class Module;
}

namespace cucpu {

/// Requires: local variables promoted to registers.
/// Guarantees: a call of a routine of run/schedule_points.hpp precedes every access to global and
/// shared memory, every fence and every call that may access memory, and takes the place of every
/// plain store. A load that is no acquire takes the value that the routine gives, if it gives one.
/// Another routine follows every call that may have waited for other threads.
void insert_schedule_points(llvm::Module&);

}  // namespace cucpu
