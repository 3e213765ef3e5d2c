// cpu/engine/graph_launch.hpp: graphs that kernels launch (cudaGraphLaunch, cudaGetCurrentGraphExec
// in device code). The driver layer does it; kernels call it on the thread that runs them.
#pragma once

#include <cstdint>

namespace cucpu {

struct GraphLaunches {
  /// `how` is one of the streams that device code names for it. Returns a cudaError_t.
  int (*launch)(std::uint64_t exec, std::uint64_t how) noexcept = nullptr;
  /// The graph that the running kernel belongs to, 0 for none that kernels may launch.
  std::uint64_t (*current)() noexcept = nullptr;
};

/// Set once, before the first launch.
inline GraphLaunches& graph_launches() {
  static GraphLaunches functions;
  return functions;
}

}  // namespace cucpu
