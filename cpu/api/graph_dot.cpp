// SPDX-License-Identifier: Apache-2.0
// cuGraphDebugDotPrint.
#include <cstdio>
#include <string>
#include <string_view>

#include "cpu/device/guard.hpp"
#include "cpu/graph/graph.hpp"

using namespace cucpu::driver;

extern "C" CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int flags) {
  return guarded([&] {
    require(path != nullptr);
    Graph& graph = graph_of(handle);
    std::FILE* file = std::fopen(path, "w");
    require(file != nullptr, CUDA_ERROR_OPERATING_SYSTEM);
    {
      const std::lock_guard lock{graph_mutex()};
      std::fprintf(file, "digraph dot {\n");
      print_dot(file, graph, flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
      std::fprintf(file, "}\n");
    }
    require(std::fclose(file) == 0, CUDA_ERROR_OPERATING_SYSTEM);
  });
}
