// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/heap.cpp: malloc and free inside kernels, from the heap of the launch's
// context.
#include "cpu/engine/check/memory.hpp"
#include "cpu/engine/device_heap.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"
#include "cpu/engine/runtime/routines.hpp"

namespace cucpu {
namespace {

constexpr std::uint64_t kLowest = 4096;  // no allocation is lower

DeviceHeap* heap() { return heap_of_kernel() ? heap_of_kernel()() : nullptr; }

/// Also called by check mode, from kernels.
[[maybe_unused]] const bool g_told = [] {
  g_device_heap_contains = [](std::uintptr_t address) {
    const DeviceHeap* here = heap();
    return here && here->holds(address);
  };
  return true;
}();

}  // namespace
}  // namespace cucpu

using namespace cucpu;

std::uint64_t cucpu_rt_malloc(std::uint64_t size) {
  DeviceHeap* here = heap();
  return here ? here->allocate(size) : 0;
}

void cucpu_rt_free(std::uint64_t address) {
  DeviceHeap* here = heap();
  if (address == 0 || (here && here->free(address))) return;
  Worker& worker = *Worker::running();
  worker.current_fault().text = "free of an address that malloc did not give, or twice";
  worker.current_fault().address = address;
  worker.current_fault().has_address = true;
  // As on an H200, which reads the heap's header before the address and faults if it is unmapped.
  const bool readable = (here && here->reaches(address)) ||
                        (hooks().find_allocation && hooks().find_allocation(address));
  cucpu_rt_trap(address >= kLowest && address % 8 != 0 ? 716 : readable ? 719 : 700);
}
