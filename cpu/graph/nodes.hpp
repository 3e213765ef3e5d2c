// cpu/graph/nodes.hpp: what entry points about graph nodes share.
#pragma once

#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// Makes a node of a description and adds it; a CUresult, for entry points that only fill the
/// description.
CUresult add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                  const CUgraphEdgeData* data, std::size_t count, CUgraphNodeParams& params);

/// A fill of nothing at all is none that a graph takes.
Ref<NodeOp> make_fill_node(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context);

/// A node's operation, which must be of one kind.
template <class Op>
Op& op_of(CUgraphNode node) {
  auto* op = dynamic_cast<Op*>(node_of(node).op.get());
  require(op != nullptr);
  return *op;
}

/// The operation of a description that a node is given anew: a kernel keeps its attributes.
Ref<NodeOp> make_changed_op(CUgraphNodeParams& params, const NodeOp& now);

/// The general description of a batch of memory operations.
CUgraphNodeParams described(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);

/// Gives a node another operation of the same kind.
void set_op(CUgraphNode handle, Ref<NodeOp> op);

/// The same in an executable graph.
void set_exec_op(CUgraphExec exec, CUgraphNode node, const Ref<NodeOp>& op);

/// What a node does, as cuGraphNodeGetParams tells it. Pointers in it live as long as the
/// operation.
CUgraphNodeParams params_of(NodeOp& op);

/// Whether two operations of one kind do the same with the same things.
bool is_same_op(NodeOp& a, NodeOp& b);

}  // namespace cucpu::driver
