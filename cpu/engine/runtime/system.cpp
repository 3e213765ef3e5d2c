// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/system.cpp: assertions, clocks and graph launches of kernels.
#include <time.h>

#include <atomic>
#include <cstdio>

#include "cpu/engine/graph_launch.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"
#include "cpu/engine/runtime/routines.hpp"

using namespace cucpu;

namespace {

std::uint64_t now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace

void cucpu_rt_assertfail(std::uint64_t message, std::uint64_t file, std::uint32_t line,
                         std::uint64_t function, std::uint64_t) {
  Worker& worker = *Worker::running();
  // The worker owns the text: an invalid pointer abandons the fiber without running destructors.
  std::string& text = worker.print_buffer();
  text.clear();
  const auto add = [&](std::uint64_t address) {
    text += address ? reinterpret_cast<const char*>(address) : "?";
  };
  add(file);
  text += ":" + std::to_string(line) + ": ";
  add(function);
  text += ": Assertion `";
  add(message);
  text += "` failed";
  worker.current_fault().text = text;
  cucpu_rt_trap(710);
}

std::uint64_t cucpu_rt_clock64() { return now(CLOCK_MONOTONIC); }

std::uint64_t cucpu_rt_globaltimer() { return now(CLOCK_REALTIME); }

void cucpu_rt_set_conditional(std::uint64_t handle, std::uint32_t value) {
  std::atomic_ref{*reinterpret_cast<std::uint32_t*>(handle)}.store(value,
                                                                   std::memory_order_release);
}

std::uint32_t cucpu_rt_graph_launch(std::uint64_t exec, std::uint64_t stream) {
  Worker& worker = *Worker::running();
  if (worker.grid().is_replay()) return 0;
  worker.in_host_call = true;
  const int code = graph_launches().launch(exec, stream);
  worker.in_host_call = false;
  return static_cast<std::uint32_t>(code);
}

std::uint64_t cucpu_rt_current_graph() { return graph_launches().current(); }
