// SPDX-License-Identifier: Apache-2.0
#include "cpu/base/cpu_affinity.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "cpu/base/control_group.hpp"

namespace cucpu {
namespace {

/// The CPUs of one thread (0: of the calling thread); empty if they cannot be read.
cpu_set_t thread_cpus(pid_t thread) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(thread, sizeof cpus, &cpus) != 0) CPU_ZERO(&cpus);
  return cpus;
}

const cpu_set_t g_cpus_at_load = thread_cpus(0);

cpu_set_t find_process_cpus() {
  cpu_set_t all = g_cpus_at_load;
  std::error_code error;
  for (std::filesystem::directory_iterator at{"/proc/self/task", error}, end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    pid_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec != std::errc{}) continue;
    const cpu_set_t cpus = thread_cpus(thread);
    CPU_OR(&all, &all, &cpus);
  }
  return all;
}

}  // namespace

const cpu_set_t& process_cpus() {
  static const cpu_set_t cpus = find_process_cpus();
  return cpus;
}

unsigned usable_cores() {
  const int count = CPU_COUNT(&process_cpus());
  const unsigned cores =
      count > 0 ? static_cast<unsigned>(count) : std::thread::hardware_concurrency();
  return std::max(1u, std::min(cores, driver::control_group_cpus().value_or(cores)));
}

void use_process_cpus() noexcept {
  try {
    // A failure leaves the inherited CPUs: fewer than possible, but allowed.
    if (const cpu_set_t& cpus = process_cpus(); CPU_COUNT(&cpus) > 0)
      sched_setaffinity(0, sizeof cpus, &cpus);
  } catch (...) {  // no memory to read the threads' CPUs: as above
  }
}

void move_beside(int cpu, unsigned number) noexcept {
  if (cpu < 0) return;
  const cpu_set_t all = thread_cpus(0);
  const int others = CPU_COUNT(&all) - (CPU_ISSET(cpu, &all) ? 1 : 0);
  if (others <= 0) return;
  int to = cpu;
  for (unsigned left = number % static_cast<unsigned>(others) + 1; left != 0;) {
    to = (to + 1) % CPU_SETSIZE;
    if (to != cpu && CPU_ISSET(to, &all)) --left;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(to, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof all, &all);
}

}  // namespace cucpu
