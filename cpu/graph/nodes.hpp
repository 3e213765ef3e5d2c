// SPDX-License-Identifier: Apache-2.0
// cpu/graph/nodes.hpp: operations and parameters of graph nodes.
#pragma once

#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// A copy of zero bytes fails with 1: a graph has no such node.
Ref<NodeOp> make_copy_node(const CUDA_MEMCPY3D& params, CUcontext context);

/// A fill of zero bytes fails with 1.
Ref<NodeOp> make_fill_node(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context);

/// The operation of a node. Fails with 1 when it is of another kind.
template <class Op>
Op& op_of(CUgraphNode node) {
  auto* op = dynamic_cast<Op*>(node_of(node).op.get());
  require(op != nullptr);
  return *op;
}

/// Makes the operation of a changed description: a kernel keeps its attributes.
Ref<NodeOp> make_changed_op(CUgraphNodeParams& params, const NodeOp& now);

/// The general description of a node from the one of its kind.
CUgraphNodeParams described(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);
CUgraphNodeParams described(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& params);
CUgraphNodeParams described(const CUDA_EXT_SEM_WAIT_NODE_PARAMS& params);

/// Replaces the operation of a node with one of the same kind.
void set_op(CUgraphNode handle, Ref<NodeOp> op);

/// The same in an executable graph.
void set_exec_op(CUgraphExec exec, CUgraphNode node, const Ref<NodeOp>& op);

/// The description of a node, as cuGraphNodeGetParams returns it. Its pointers live as long as the
/// operation.
CUgraphNodeParams params_of(NodeOp& op);

/// Whether two operations of the same kind have equal parameters.
bool is_same_op(NodeOp& a, NodeOp& b);

}  // namespace cucpu::driver
