// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/routines.hpp: system calls of kernels (printf, malloc, assert, clocks,
// graphs). The table of all routines is in table.hpp.
#pragma once

#include <cstdint>

extern "C" {

/// printf with PTX's packed, naturally aligned arguments. Returns the number of arguments, -1 for a
/// null format.
std::int32_t cucpu_rt_vprintf(std::uint64_t format, std::uint64_t arguments);
std::uint64_t cucpu_rt_malloc(std::uint64_t size);  ///< 0 if the device heap is full
void cucpu_rt_free(std::uint64_t address);  ///< traps on an address that malloc did not return
void cucpu_rt_assertfail(std::uint64_t message, std::uint64_t file, std::uint32_t line,
                         std::uint64_t function, std::uint64_t char_size);
std::uint64_t cucpu_rt_clock64();      ///< a 1 GHz clock
std::uint64_t cucpu_rt_globaltimer();  ///< nanoseconds since 1970
/// cudaGraphSetConditional: the handle is the address of the value.
void cucpu_rt_set_conditional(std::uint64_t handle, std::uint32_t value);
/// cudaGraphLaunch: a cudaError_t. %current_graph_exec: 0 outside graphs that kernels may launch.
std::uint32_t cucpu_rt_graph_launch(std::uint64_t exec, std::uint64_t stream);
std::uint64_t cucpu_rt_current_graph();
/// Whether a generic address lies in the shared memory of a block of the running cluster.
bool cucpu_rt_is_cluster_shared(std::uint64_t address);

}  // extern "C"
