// SPDX-License-Identifier: Apache-2.0
// cpu/engine/graph_launch.hpp: graph launches from kernels (cudaGraphLaunch,
// cudaGetCurrentGraphExec in device code). The driver layer implements them; kernels call them on
// the thread that runs them.
#pragma once

#include <cstdint>

namespace cucpu {

struct GraphLaunches {
  /// `how` is the stream constant of device code that selects the kind of launch. Returns a
  /// cudaError_t.
  int (*launch)(std::uint64_t exec, std::uint64_t how) noexcept = nullptr;
  /// The graph that the running kernel belongs to; 0 if kernels may not launch it.
  std::uint64_t (*current)() noexcept = nullptr;
};

/// Set once, before the first launch.
inline GraphLaunches& graph_launches() {
  static GraphLaunches functions;
  return functions;
}

}  // namespace cucpu
