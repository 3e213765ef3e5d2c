// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/schedule_points.cpp: the routines that code with schedule points calls
// (jit/schedule_points.hpp).
#include "cpu/engine/run/schedule_points.hpp"

#include <cstring>

#include "cpu/engine/run/worker.hpp"

namespace {

using namespace cucpu;
using namespace cucpu::schedule;

struct Current {
  Worker& worker = *Worker::running();
  RandomSchedule* schedule = worker.grid().schedule();
  [[nodiscard]] ThreadId thread() const { return thread_id(worker.current()); }
};

std::uintptr_t address_of_call(const void* return_address) {
  return reinterpret_cast<std::uintptr_t>(return_address) - 1;
}

/// Lets another thread run if the schedule says so.
void point(const Current& current, const void* return_address) {
  if (current.schedule->preempts(current.thread(), address_of_call(return_address)))
    current.worker.scheduler().preempt();
}

}  // namespace

extern "C" {

bool cucpu_rt_schedule_load(const std::byte* address, std::byte* value, std::uint32_t bytes) {
  const Current current;
  if (!current.schedule) return false;
  point(current, __builtin_return_address(0));
  return current.schedule->load(current.thread(), address, value, bytes,
                                address_of_call(__builtin_return_address(0)));
}

void cucpu_rt_schedule_acquire_load(const std::byte* address, std::uint32_t bytes) {
  const Current current;
  if (!current.schedule) return;
  point(current, __builtin_return_address(0));
  current.schedule->before_access(current.thread(), address, bytes);
  current.schedule->see_memory(current.thread());
}

void cucpu_rt_schedule_atomic(const std::byte* address, std::uint32_t bytes, bool releases,
                              bool acquires) {
  const Current current;
  if (!current.schedule) return;
  point(current, __builtin_return_address(0));
  if (releases) current.schedule->make_stores_visible(current.thread());
  current.schedule->before_atomic(current.thread(), address, bytes);
  if (acquires) current.schedule->see_memory(current.thread());
}

void cucpu_rt_schedule_store(std::byte* address, const std::byte* value, std::uint32_t bytes) {
  const Current current;
  if (!current.schedule) {
    std::memcpy(address, value, bytes);
    return;
  }
  point(current, __builtin_return_address(0));
  current.schedule->store(current.thread(), address, value, bytes,
                          address_of_call(__builtin_return_address(0)));
}

void cucpu_rt_schedule_release() {
  const Current current;
  if (!current.schedule) return;
  current.schedule->make_stores_visible(current.thread());
  point(current, __builtin_return_address(0));
}

void cucpu_rt_schedule_acquire() {
  const Current current;
  if (current.schedule) current.schedule->see_memory(current.thread());
}

}  // extern "C"
