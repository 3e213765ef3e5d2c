// SPDX-License-Identifier: Apache-2.0
// cpu/graph/check.hpp: checks of a graph at instantiation, apart from its structure.
#pragma once

#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// The reason of a failed instantiation, for cuGraphInstantiateWithParams.
struct InstantiateError {
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_ERROR;
  CUgraphNode node = nullptr;
};

/// Fails with 1 when a body of a conditional node contains, at any depth, a node that cannot run
/// there, or when a condition has no node. As on an H200, bodies accept any node while they are
/// built.
void check_conditions(const Plan& plan, InstantiateError& refusal);

}  // namespace cucpu::driver
