// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/peer_access.cpp
#include "cpu/engine/run/peer_access.hpp"

#include "cpu/engine/peer_access.hpp"
#include "cpu/engine/run/worker.hpp"

namespace {

[[noreturn]] void trap_illegal_access(cucpu::Worker& worker, std::uintptr_t address, void* caller) {
  worker.current_fault().address = address;
  worker.current_fault().has_address = true;
  worker.trap(700, caller);
}

}  // namespace

void cucpu_rt_check_peer_access(std::uint64_t address, std::uint32_t write) {
  cucpu::Worker& worker = *cucpu::Worker::running();
  const void* const context = worker.grid().accessing_context();
  if (!context || cucpu::peer_access_check()(context, address, write != 0)) return;
  trap_illegal_access(worker, address, __builtin_return_address(0));
}

void cucpu::require_peer_access(const void* home, std::uintptr_t address, bool write) {
  Worker& worker = *Worker::running();
  const void* const context = worker.grid().accessing_context();
  if (!context) return;
  if (home ? array_access_check()(context, home) : peer_access_check()(context, address, write))
    return;
  trap_illegal_access(worker, address, __builtin_return_address(0));
}
