// SPDX-License-Identifier: Apache-2.0
// graph.cpp: graph nodes whose parameters differ between the two APIs: kernel, memcpy, memset and
// conditional nodes.
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "driver/mutex.hpp"
#include "runtime/format.hpp"

namespace cucore::rt {
namespace {

CUresult to_kernel(const DriverTable&, const cudaKernelNodeParams& in,
                   CUDA_KERNEL_NODE_PARAMS* out) {
  if (const CUresult code = function_of(in.func, &out->func); code != CUDA_SUCCESS) return code;
  out->gridDimX = in.gridDim.x;
  out->gridDimY = in.gridDim.y;
  out->gridDimZ = in.gridDim.z;
  out->blockDimX = in.blockDim.x;
  out->blockDimY = in.blockDim.y;
  out->blockDimZ = in.blockDim.z;
  out->sharedMemBytes = in.sharedMemBytes;
  out->kernelParams = in.kernelParams;
  out->extra = in.extra;
  return CUDA_SUCCESS;
}

cudaError_t add_kernel(cudaGraphNode_t* node, cudaGraph_t graph,
                       const cudaGraphNode_t* dependencies, std::size_t count,
                       const cudaKernelNodeParams* params) {
  return converted(to_kernel, params, [=](const DriverTable& d, CUDA_KERNEL_NODE_PARAMS* p) {
    return d.cuGraphAddKernelNode(node, graph, dependencies, count, p);
  });
}

void from_kernel(const CUDA_KERNEL_NODE_PARAMS& p, cudaKernelNodeParams* out) {
  *out = {};
  out->func = p.func != nullptr ? static_cast<void*>(p.func) : static_cast<void*>(p.kern);
  out->gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ};
  out->blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ};
  out->sharedMemBytes = p.sharedMemBytes;
  out->kernelParams = p.kernelParams;
  out->extra = p.extra;
}

cudaError_t get_kernel(cudaGraphNode_t node, cudaKernelNodeParams* out) {
  return call_with_context([=](const DriverTable& d) {
    CUDA_KERNEL_NODE_PARAMS p{};
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = d.cuGraphKernelNodeGetParams(node, &p);
    if (code == CUDA_SUCCESS) from_kernel(p, out);
    return code;
  });
}

cudaError_t set_kernel(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return converted(to_kernel, params, [=](const DriverTable& d, CUDA_KERNEL_NODE_PARAMS* p) {
    return d.cuGraphKernelNodeSetParams(node, p);
  });
}

cudaError_t exec_set_kernel(cudaGraphExec_t exec, cudaGraphNode_t node,
                            const cudaKernelNodeParams* params) {
  return converted(to_kernel, params, [=](const DriverTable& d, CUDA_KERNEL_NODE_PARAMS* p) {
    return d.cuGraphExecKernelNodeSetParams(exec, node, p);
  });
}

// ---- memcpy nodes: the driver also requires the context

CUcontext current_context(const DriverTable& d) {
  CUcontext current = nullptr;
  d.cuCtxGetCurrent(&current);
  return current;
}

cudaError_t add_memcpy(cudaGraphNode_t* node, cudaGraph_t graph,
                       const cudaGraphNode_t* dependencies, std::size_t count,
                       const cudaMemcpy3DParms* params) {
  return converted(to_copy_3d, params, [=](const DriverTable& d, const CUDA_MEMCPY3D* c) {
    return d.cuGraphAddMemcpyNode(node, graph, dependencies, count, c, current_context(d));
  });
}
cudaError_t add_memcpy_1d(cudaGraphNode_t* node, cudaGraph_t graph,
                          const cudaGraphNode_t* dependencies, std::size_t count, void* dst,
                          const void* src, std::size_t bytes, cudaMemcpyKind kind) {
  return call_with_context([=](const DriverTable& d) {
    const CUDA_MEMCPY3D c = flat_copy(dst, src, bytes, kind);
    return d.cuGraphAddMemcpyNode(node, graph, dependencies, count, &c, current_context(d));
  });
}
cudaError_t get_memcpy(cudaGraphNode_t node, cudaMemcpy3DParms* out) {
  return call_with_context([=](const DriverTable& d) {
    CUDA_MEMCPY3D c{};
    const CUresult code = d.cuGraphMemcpyNodeGetParams(node, &c);
    if (code == CUDA_SUCCESS) from_copy_3d(d, c, out);
    return code;
  });
}
cudaError_t set_memcpy(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  return converted(to_copy_3d, params, [=](const DriverTable& d, const CUDA_MEMCPY3D* c) {
    return d.cuGraphMemcpyNodeSetParams(node, c);
  });
}
cudaError_t set_memcpy_1d(cudaGraphNode_t node, void* dst, const void* src, std::size_t bytes,
                          cudaMemcpyKind kind) {
  return call_with_context([=](const DriverTable& d) {
    const CUDA_MEMCPY3D c = flat_copy(dst, src, bytes, kind);
    return d.cuGraphMemcpyNodeSetParams(node, &c);
  });
}
cudaError_t exec_set_memcpy(cudaGraphExec_t exec, cudaGraphNode_t node,
                            const cudaMemcpy3DParms* params) {
  return converted(to_copy_3d, params, [=](const DriverTable& d, const CUDA_MEMCPY3D* c) {
    return d.cuGraphExecMemcpyNodeSetParams(exec, node, c, current_context(d));
  });
}
cudaError_t exec_set_memcpy_1d(cudaGraphExec_t exec, cudaGraphNode_t node, void* dst,
                               const void* src, std::size_t bytes, cudaMemcpyKind kind) {
  return call_with_context([=](const DriverTable& d) {
    const CUDA_MEMCPY3D c = flat_copy(dst, src, bytes, kind);
    return d.cuGraphExecMemcpyNodeSetParams(exec, node, &c, current_context(d));
  });
}

// ---- memset nodes

static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS));
const CUDA_MEMSET_NODE_PARAMS* as_memset(const cudaMemsetParams* p) {
  return reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(p);
}

cudaError_t add_memset(cudaGraphNode_t* node, cudaGraph_t graph,
                       const cudaGraphNode_t* dependencies, std::size_t count,
                       const cudaMemsetParams* params) {
  return call_with_context([=](const DriverTable& d) {
    return d.cuGraphAddMemsetNode(node, graph, dependencies, count, as_memset(params),
                                  current_context(d));
  });
}
cudaError_t exec_set_memset(cudaGraphExec_t exec, cudaGraphNode_t node,
                            const cudaMemsetParams* params) {
  return call_with_context([=](const DriverTable& d) {
    return d.cuGraphExecMemsetNodeSetParams(exec, node, as_memset(params), current_context(d));
  });
}

// ---- nodes of any type, with a tagged union of parameters

/// Converts kernel and memcpy parameters; all other types have the driver's layout.
CUresult to_node(const DriverTable& d, const cudaGraphNodeParams& in, CUgraphNodeParams* out) {
  static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams));
  std::memcpy(static_cast<void*>(out), &in, sizeof *out);
  switch (in.type) {
    case cudaGraphNodeTypeKernel: {
      const cudaKernelNodeParamsV2& k = in.kernel;
      cudaKernelNodeParams plain{};
      plain.func = k.func;
      plain.gridDim = k.gridDim;
      plain.blockDim = k.blockDim;
      plain.sharedMemBytes = k.sharedMemBytes;
      plain.kernelParams = k.kernelParams;
      plain.extra = k.extra;
      CUDA_KERNEL_NODE_PARAMS p{};
      if (const CUresult code = to_kernel(d, plain, &p); code != CUDA_SUCCESS) return code;
      static_assert(sizeof p == sizeof out->kernel);
      std::memcpy(static_cast<void*>(&out->kernel), &p, sizeof p);
      return CUDA_SUCCESS;
    }
    case cudaGraphNodeTypeMemcpy: {
      out->memcpy = {};
      out->memcpy.flags = in.memcpy.flags;
      out->memcpy.copyCtx = current_context(d);
      return to_copy_3d(d, in.memcpy.copyParams, &out->memcpy.copyParams);
    }
    case cudaGraphNodeTypeMemset:
      out->memset.ctx = current_context(d);
      return CUDA_SUCCESS;
    case cudaGraphNodeTypeConditional:
      out->conditional.ctx = current_context(d);
      return CUDA_SUCCESS;
    default:
      return CUDA_SUCCESS;
  }
}

cudaError_t add_node(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* edges, std::size_t count,
                     cudaGraphNodeParams* params) {
  return call_with_context([=](const DriverTable& d) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p{};
    if (const CUresult code = to_node(d, *params, &p); code != CUDA_SUCCESS) return code;
    const CUresult code = d.cuGraphAddNode(
        node, graph, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges), count, &p);
    if (code == CUDA_SUCCESS && params->type == cudaGraphNodeTypeMemAlloc) {
      params->alloc.dptr = reinterpret_cast<void*>(p.alloc.dptr);
    }
    if (code == CUDA_SUCCESS && params->type == cudaGraphNodeTypeConditional) {
      params->conditional.phGraph_out = p.conditional.phGraph_out;
    }
    return code;
  });
}

/// Inverse of to_node(). The driver owns the memory that the converted parameters point to.
void from_node(const DriverTable& d, const CUgraphNodeParams& in, cudaGraphNodeParams* out) {
  std::memcpy(static_cast<void*>(out), &in, sizeof *out);
  if (out->type == cudaGraphNodeTypeKernel) {
    CUDA_KERNEL_NODE_PARAMS p{};
    std::memcpy(static_cast<void*>(&p), &in.kernel, sizeof p);
    cudaKernelNodeParams plain{};
    from_kernel(p, &plain);
    cudaKernelNodeParamsV2& k = out->kernel;
    std::memset(static_cast<void*>(&k), 0, sizeof k);
    k.func = plain.func;
    k.gridDim = plain.gridDim;
    k.blockDim = plain.blockDim;
    k.sharedMemBytes = plain.sharedMemBytes;
    k.kernelParams = plain.kernelParams;
    k.extra = plain.extra;
  } else if (out->type == cudaGraphNodeTypeMemcpy) {
    std::memset(static_cast<void*>(&out->memcpy), 0, sizeof out->memcpy);
    out->memcpy.flags = in.memcpy.flags;
    from_copy_3d(d, in.memcpy.copyParams, &out->memcpy.copyParams);
  }
}

cudaError_t get_node(cudaGraphNode_t node, cudaGraphNodeParams* out) {
  return call_with_context([=](const DriverTable& d) {
    CUgraphNodeParams p{};
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = d.cuGraphNodeGetParams(node, &p);
    if (code == CUDA_SUCCESS) from_node(d, p, out);
    return code;
  });
}

cudaError_t set_node(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return converted(
      to_node, static_cast<const cudaGraphNodeParams*>(params),
      [=](const DriverTable& d, CUgraphNodeParams* p) { return d.cuGraphNodeSetParams(node, p); });
}

cudaError_t exec_set_node(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return converted(to_node, static_cast<const cudaGraphNodeParams*>(params),
                   [=](const DriverTable& d, CUgraphNodeParams* p) {
                     return d.cuGraphExecNodeSetParams(exec, node, p);
                   });
}

// ---- recapture: the callback receives parameters of the runtime API

struct Recaptures {
  cucore::detail::Mutex mutex;  // callback data lives until its capture ends
  std::unordered_map<cudaStream_t, std::unique_ptr<cudaGraphRecaptureCallbackData>> by_stream;
};
Recaptures& recaptures() {
  static Recaptures* const instance = new Recaptures;  // never destroyed: used during process exit
  return *instance;
}

CUresult call_recapture_callback(void* data, CUgraphNode node, const CUgraphNodeParams* before,
                                 const CUgraphNodeParams* after, CUgraphRecaptureStatus status) {
  const auto& program = *static_cast<const cudaGraphRecaptureCallbackData*>(data);
  cudaGraphNodeParams old_params{}, new_params{};
  if (before != nullptr) from_node(driver(), *before, &old_params);
  if (after != nullptr) from_node(driver(), *after, &new_params);
  return static_cast<CUresult>(program.callbackFunc(
      program.userData, node, before != nullptr ? &old_params : nullptr,
      after != nullptr ? &new_params : nullptr, static_cast<cudaGraphRecaptureStatus>(status)));
}

cudaError_t begin_recapture(cudaStream_t stream, cudaStreamCaptureMode mode, cudaGraph_t graph,
                            cudaGraphRecaptureCallbackData* data) {
  return call_with_context([=](const DriverTable& d) {
    const auto native = static_cast<CUstreamCaptureMode>(mode);
    if (data == nullptr || data->callbackFunc == nullptr)
      return d.cuStreamBeginRecaptureToGraph(stream, native, graph, nullptr, nullptr);
    auto kept = std::make_unique<cudaGraphRecaptureCallbackData>(*data);
    const CUresult code =
        d.cuStreamBeginRecaptureToGraph(stream, native, graph, call_recapture_callback, kept.get());
    if (code != CUDA_SUCCESS) return code;
    const std::lock_guard lock{recaptures().mutex};
    recaptures().by_stream[stream] = std::move(kept);
    return code;
  });
}

cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  return call_with_context([=](const DriverTable& d) {
    const CUresult code = d.cuStreamEndCapture(stream, graph);
    if (code == CUDA_SUCCESS) {
      const std::lock_guard lock{recaptures().mutex};
      recaptures().by_stream.erase(stream);  // on failure the stream's next recapture replaces it
    }
    return code;
  });
}

cudaError_t conditional_handle(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                               unsigned value, unsigned flags) {
  return call_with_context([=](const DriverTable& d) {
    return d.cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(handle),
                                            graph, current_context(d), value, flags);
  });
}

}  // namespace

void install_graphs(RuntimeTable& t) {
  t.cudaGraphAddKernelNode = add_kernel;
  t.cudaGraphKernelNodeGetParams = get_kernel;
  t.cudaGraphKernelNodeSetParams = set_kernel;
  t.cudaGraphExecKernelNodeSetParams = exec_set_kernel;
  t.cudaGraphAddMemcpyNode = add_memcpy;
  t.cudaGraphAddMemcpyNode1D = add_memcpy_1d;
  t.cudaGraphMemcpyNodeGetParams = get_memcpy;
  t.cudaGraphMemcpyNodeSetParams = set_memcpy;
  t.cudaGraphMemcpyNodeSetParams1D = set_memcpy_1d;
  t.cudaGraphExecMemcpyNodeSetParams = exec_set_memcpy;
  t.cudaGraphExecMemcpyNodeSetParams1D = exec_set_memcpy_1d;
  t.cudaGraphAddMemsetNode = add_memset;
  t.cudaGraphExecMemsetNodeSetParams = exec_set_memset;
  t.cudaGraphAddNode = add_node;
  t.cudaGraphNodeGetParams = get_node;
  t.cudaGraphNodeSetParams = set_node;
  t.cudaGraphExecNodeSetParams = exec_set_node;
  t.cudaGraphConditionalHandleCreate = conditional_handle;
  t.cudaStreamBeginRecaptureToGraph = begin_recapture;
  t.cudaStreamEndCapture = end_capture;
}

}  // namespace cucore::rt
