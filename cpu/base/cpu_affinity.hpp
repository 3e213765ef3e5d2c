// SPDX-License-Identifier: Apache-2.0
// cpu/base/cpu_affinity.hpp: the CPUs that the threads of this library may use.
#pragma once

#include <sched.h>

namespace cucpu {

/// The CPUs of the process: those that the thread had which loaded this library, and those of all
/// threads at the first call. A single thread is a poor measure: OpenMP binds each of its threads,
/// the main thread among them, to one CPU (OMP_PROC_BIND). Empty when the system does not tell.
const cpu_set_t& process_cpus();

/// The number of threads that can run at the same time: the CPUs of the process, or fewer where its
/// control group has a quota of CPU time. At least 1.
unsigned usable_cores();

/// Gives the calling thread all CPUs of the process in place of those it inherited from the thread
/// that created it.
void use_process_cpus() noexcept;

/// Moves the calling thread to one of its CPUs other than `cpu`, if it has another: threads with
/// successive numbers to successive ones. It may go elsewhere later. Nothing if `cpu` is negative.
void move_beside(int cpu, unsigned number) noexcept;

}  // namespace cucpu
