// SPDX-License-Identifier: Apache-2.0
// cuGraphInstantiate*, cuGraphLaunch, cuGraphExec*.
#include "cpu/device/capture.hpp"
#include "cpu/device/copy.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/check.hpp"
#include "cpu/graph/device_launch.hpp"
#include "cpu/graph/exec.hpp"
#include "cpu/graph/nodes.hpp"

using namespace cucpu::driver;

namespace {

constexpr unsigned long long kFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUgraphExec instantiate(CUgraph handle, unsigned long long flags, InstantiateError& refusal) {
  constexpr unsigned long long kApart =
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  require((flags & ~kFlags) == 0 && (flags & kApart) != kApart);
  Graph& graph = graph_of(handle);
  current_context();
  const auto plan = make_plan(graph);
  check_conditions(*plan, refusal);
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
    require_launchable_by_kernels(*plan, refusal);
  const auto exec = make_object<GraphExec>(plan, Ref<Graph>{&graph}, flags);
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) exec->set_uploaded();
  if (!plan->has_memory) return exec->publish();
  require(!graph.is_instantiated.exchange(true), CUDA_ERROR_NOT_SUPPORTED);
  try {
    return exec->publish();
  } catch (...) {
    graph.is_instantiated = false;
    throw;
  }
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return guarded([&] {
    require(out && !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD));
    InstantiateError unsaid;
    *out = instantiate(graph, flags, unsaid);
  });
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return guarded([&] {
    require(out && params);
    InstantiateError refusal;
    params->hErrNode_out = refusal.node;
    params->result_out = refusal.result;
    if (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) stream_of(params->hUploadStream);
    try {
      *out = instantiate(graph, params->flags, refusal);
    } catch (const Error& e) {
      params->hErrNode_out = refusal.node;
      params->result_out = refusal.result;
      const std::lock_guard lock{graph_mutex()};
      Graph* g = find_object<Graph>(graph);
      if (g && e.code == CUDA_ERROR_INVALID_VALUE && g->in_order().size() != g->nodes.size())
        params->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
      throw;
    }
    params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  });
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = exec_of(exec).flags;
  });
}

CUresult cuGraphExecGetId(CUgraphExec exec, unsigned int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = exec_of(exec).id;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return guarded([&] {
    const Ref<GraphExec> removed{&exec_of(exec)};
    require(removed->retire());
    removed->source().is_instantiated = false;
  });
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return guarded([&] {
    GraphExec& graph = exec_of(exec);
    stream_of(stream);  // an upload copies nothing
    graph.set_uploaded();
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return guarded(Parameters{handle, stream_handle}, [&] {
    GraphExec& exec = exec_of(handle);
    const Ref<Stream> stream = stream_of(stream_handle);
    require_not_capturing(*stream);  // as on an H200: graph launches cannot be captured
    exec.launch(*stream);
    if (has_blocking_launches()) [[unlikely]] {
      stream->wait(stream->submitted());
      usable(context_of(*stream));
    }
  });
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  return guarded([&] {
    const CUgraphExecUpdateResultInfo result = exec_of(exec).update(graph_of(graph));
    if (info) *info = result;
    return result.result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                         : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
  return guarded([&] {
    require(enabled <= 1);
    exec_of(exec).change(node, [&](Plan::Step& step) {
      const CUgraphNodeType type = step.op->type();
      require(type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
              type == CU_GRAPH_NODE_TYPE_MEMSET);
      step.enabled = enabled != 0;
    });
  });
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = exec_of(exec).is_enabled(node);
  });
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    exec_of(exec).change(node, [&](Plan::Step& step) {
      auto* op = dynamic_cast<KernelOp*>(step.op.get());
      require(op != nullptr);
      step.op = make_kernel(*params, op->attributes);
    });
  });
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* params, CUcontext context) {
  return guarded([&] {
    require(params != nullptr);
    set_exec_op(exec, node, make_copy(*params, context));
  });
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return guarded([&] {
    require(params != nullptr);
    set_exec_op(exec, node, make_fill_node(*params, context));
  });
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return guarded([&] {
    require(params && params->fn);
    set_exec_op(exec, node, make_object<HostOp>(params->fn, params->userData));
  });
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return guarded([&] {
    const auto next = make_plan(graph_of(child));
    exec_of(exec).change(node, [&](Plan::Step& step) {
      require(step.op->type() == CU_GRAPH_NODE_TYPE_GRAPH);
      CUgraphNode differs = nullptr;
      require(difference(*step.bodies[0], *next, &differs) == CU_GRAPH_EXEC_UPDATE_SUCCESS,
              CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
      take_over(*step.bodies[0], *next);
    });
  });
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return guarded([&] {
    set_exec_op(exec, node,
                make_object<EventRecordOp>(Ref<Event>{&nonnull_object_of<Event>(event)}));
  });
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return guarded([&] {
    set_exec_op(exec, node, make_object<EventWaitOp>(Ref<Event>{&nonnull_object_of<Event>(event)}));
  });
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = described(*params);
    set_exec_op(exec, node, make_node_op(p));
  });
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return guarded([&] {
    require(exec && node && params);
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
      return cuGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
    require(params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
            params->type != CU_GRAPH_NODE_TYPE_MEM_FREE &&
            params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL);
    exec_of(exec).change(node, [&](Plan::Step& step) {
      require(step.op->type() == params->type);
      step.op = make_changed_op(*params, *step.op);
    });
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
