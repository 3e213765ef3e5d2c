// SPDX-License-Identifier: Apache-2.0
// Graphs in the DOT language.
#include <cstdio>
#include <string>
#include <string_view>

#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

const char* type_name(CUgraphNodeType type) noexcept {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "CHILD_GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      return "EXT_SEMAS_SIGNAL";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "EXT_SEMAS_WAIT";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "BATCH_MEM_OP";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "CONDITIONAL";
    default:
      return "NODE";
  }
}

namespace {

/// Text in the label of a record node, where these characters have a meaning of their own.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view{"{}|<>\"\\"}.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string details(GraphNode& node) {
  char text[256] = "";
  if (const auto* k = dynamic_cast<const KernelOp*>(node.op.get())) {
    const auto &g = k->shape.grid, &b = k->shape.block;
    std::snprintf(text, sizeof text, "<<<{%u,%u,%u},{%u,%u,%u},%u>>>", g.x, g.y, g.z, b.x, b.y, b.z,
                  k->shape.dynamic_shared_bytes);
    return "|{" + escaped(k->function->kernel.info().name) + "|" + escaped(text) + "}";
  }
  if (const auto* c = dynamic_cast<const CopyOp*>(node.op.get())) {
    std::snprintf(text, sizeof text, "\\n%zu x %zu x %zu bytes", c->box.width, c->box.height,
                  c->box.depth);
  } else if (const auto* f = dynamic_cast<const FillOp*>(node.op.get())) {
    std::snprintf(text, sizeof text, "\\nvalue %u, %zu x %zu of %u bytes", f->params.value,
                  f->params.width, f->params.height, f->params.elementSize);
  }
  return text;
}

}  // namespace

void print_dot(std::FILE* file, Graph& graph, bool verbose) {
  std::fprintf(file, "subgraph cluster_%u {\nlabel=\"graph_%u\"\n", graph.id, graph.id);
  for (const auto& node : graph.nodes) {
    std::fprintf(
        file, "\"graph_%u_node_%u\" [shape=\"record\" label=\"%u\\n%s%s\"]\n", graph.id,
        node->local_id, node->local_id, type_name(node->op->type()),
        verbose || node->op->type() == CU_GRAPH_NODE_TYPE_KERNEL ? details(*node).c_str() : "");
    if (const auto* child = dynamic_cast<const ChildGraphOp*>(node->op.get()))
      print_dot(file, *child->graph, verbose);
    if (const auto* conditional = dynamic_cast<const ConditionalOp*>(node->op.get()))
      for (const auto& body : conditional->bodies) print_dot(file, *body, verbose);
  }
  for (const auto& node : graph.nodes)
    for (const Edge& edge : node->dependencies)
      std::fprintf(file, "\"graph_%u_node_%u\" -> \"graph_%u_node_%u\"\n", graph.id,
                   edge.from->local_id, graph.id, node->local_id);
  std::fprintf(file, "}\n");
}

}  // namespace cucpu::driver
