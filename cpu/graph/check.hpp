// cpu/graph/check.hpp: what a graph must be to become executable, apart from its structure.
#pragma once

#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// Why a graph could not become executable, as cuGraphInstantiateWithParams tells it.
struct InstantiateError {
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_ERROR;
  CUgraphNode node = nullptr;
};

/// As on an H200: bodies of conditions take any node when they are built, and the graph is refused
/// here with 1 when they, or what is inside of them, hold one that cannot run there; so it is when
/// a condition was made that no node has.
void check_conditions(const Plan& plan, InstantiateError& refusal);

}  // namespace cucpu::driver
