// cpu/engine/run/reach.cpp
#include "cpu/engine/run/reach.hpp"

#include "cpu/engine/peer_access.hpp"
#include "cpu/engine/run/worker.hpp"

namespace {

[[noreturn]] void out_of_reach(cucpu::Worker& worker, std::uintptr_t address, void* caller) {
  worker.current_fault().address = address;
  worker.current_fault().has_address = true;
  worker.trap(700, caller);
}

}  // namespace

void cucpu_rt_check_reach(std::uint64_t address, std::uint32_t write) {
  cucpu::Worker& worker = *cucpu::Worker::running();
  const void* const reach = worker.grid().reach();
  if (!reach || cucpu::peer_access_check()(reach, address, write != 0)) return;
  out_of_reach(worker, address, __builtin_return_address(0));
}

void cucpu::require_reach(const void* home, std::uintptr_t address, bool write) {
  Worker& worker = *Worker::running();
  const void* const reach = worker.grid().reach();
  if (!reach) return;
  if (home ? array_access_check()(reach, home) : peer_access_check()(reach, address, write)) return;
  out_of_reach(worker, address, __builtin_return_address(0));
}
