// cpu/engine/run/reach.cpp: what generated code asks before it touches memory that may be another
// device's.
#include "cpu/engine/reach.hpp"

#include "cpu/engine/run/worker.hpp"

extern "C" void cucpu_rt_check_reach(std::uint64_t address, std::uint32_t write);

void cucpu_rt_check_reach(std::uint64_t address, std::uint32_t write) {
  cucpu::Worker& worker = *cucpu::Worker::running();
  const void* const reach = worker.grid().reach();
  if (!reach || cucpu::may_reach()(reach, address, write != 0)) return;
  worker.current_fault().address = address;
  worker.current_fault().has_address = true;
  worker.trap(700, __builtin_return_address(0));
}
