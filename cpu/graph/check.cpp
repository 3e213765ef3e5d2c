// SPDX-License-Identifier: Apache-2.0
// Checks of graphs at instantiation.
#include "cpu/graph/check.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "cpu/device/memory.hpp"

namespace cucpu::driver {
namespace {

bool is_allowed_in_bodies(CUgraphNodeType type) {
  constexpr CUgraphNodeType kAllowed[] = {
      CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
      CU_GRAPH_NODE_TYPE_EMPTY,  CU_GRAPH_NODE_TYPE_GRAPH,  CU_GRAPH_NODE_TYPE_CONDITIONAL};
  return std::find(std::begin(kAllowed), std::end(kAllowed), type) != std::end(kAllowed);
}

bool has_pageable_end(const CUDA_MEMCPY3D& p) {
  const auto pageable = [](CUmemorytype kind, const void* host, CUdeviceptr device) {
    if (kind == CU_MEMORYTYPE_ARRAY) return false;
    return is_pageable(kind == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device);
  };
  return pageable(p.srcMemoryType, p.srcHost, p.srcDevice) ||
         pageable(p.dstMemoryType, p.dstHost, p.dstDevice);
}

[[noreturn]] void refuse(InstantiateError& refusal, CUgraphInstantiateResult result,
                         CUgraphNode node, const std::string& why) {
  refusal = {result, node};
  fail(CUDA_ERROR_INVALID_VALUE, "cuGraphInstantiate: " + why);
}

void check_in_body(const Plan::Step& step, InstantiateError& refusal) {
  const CUgraphNodeType type = step.op->type();
  if (!is_allowed_in_bodies(type))
    refuse(refusal, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, step.node,
           std::string{"the body of a conditional node holds a "} + type_name(type) +
               " node; kernels, copies, fills, empty nodes, child graphs and conditional nodes are "
               "what it may hold");
  if (type == CU_GRAPH_NODE_TYPE_MEMCPY &&
      has_pageable_end(static_cast<const CopyOp&>(*step.op).params))
    refuse(refusal, CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED, step.node,
           "the body of a conditional node copies from or to pageable host memory; pin it");
}

using Conditions = std::set<const Condition*>;

void check_bodies(const Plan& plan, bool in_body, Conditions& made, Conditions& used,
                  InstantiateError& refusal) {
  for (const auto& condition : plan.conditions) made.insert(condition.get());
  for (const Plan::Step& step : plan.steps) {
    if (in_body) check_in_body(step, refusal);
    const bool decides = step.op->type() == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    if (decides) used.insert(static_cast<const ConditionalOp&>(*step.op).condition.get());
    for (const auto& body : step.bodies)
      check_bodies(*body, in_body || decides, made, used, refusal);
  }
}

}  // namespace

void check_conditions(const Plan& plan, InstantiateError& refusal) {
  Conditions made, used;
  check_bodies(plan, false, made, used, refusal);
  if (!std::includes(used.begin(), used.end(), made.begin(), made.end()))
    refuse(refusal, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED, nullptr,
           "the graph has a conditional handle that no node uses");
}

}  // namespace cucpu::driver
