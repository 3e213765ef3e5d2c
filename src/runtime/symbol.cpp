// SPDX-License-Identifier: Apache-2.0
// symbol.cpp: functions that take the host shadow of a device variable, as registered by code that
// nvcc compiled. For any other pointer they return cudaErrorInvalidSymbol. Programs that load code
// themselves use cudaLibraryGetGlobal.
#include "runtime/registration.hpp"

namespace cucore::rt {
namespace {

/// Calls `body` with the address of `count` bytes at `offset` of the variable. Returns the result
/// of `body`, which sets the thread's last error itself.
template <class Body>
cudaError_t with_symbol(const void* symbol, std::size_t count, std::size_t offset, Body&& body) {
  CUdeviceptr address = 0;
  const cudaError_t found = call_with_context([&](const DriverTable&) -> cudaError_t {
    std::size_t size = 0;
    if (const cudaError_t code = find_variable(symbol, &address, &size); code != cudaSuccess)
      return code;
    return offset > size || count > size - offset ? cudaErrorInvalidValue : cudaSuccess;
  });
  return found != cudaSuccess ? found : body(reinterpret_cast<void*>(address + offset));
}

bool to_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}
bool from_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}
cudaError_t wrong_direction() { return set_last_error(cudaErrorInvalidMemcpyDirection); }

cudaError_t get_address(void** out, const void* symbol) {
  if (out == nullptr) return set_last_error(cudaErrorInvalidValue);
  return with_symbol(symbol, 0, 0, [=](void* p) { return *out = p, cudaSuccess; });
}

cudaError_t get_size(std::size_t* out, const void* symbol) {
  return call_with_context([=](const DriverTable&) -> cudaError_t {
    CUdeviceptr address = 0;
    return out == nullptr ? cudaErrorInvalidValue : find_variable(symbol, &address, out);
  });
}

cudaError_t copy_to(const void* symbol, const void* src, std::size_t count, std::size_t offset,
                    cudaMemcpyKind kind) {
  if (!to_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset,
                     [=](void* p) { return runtime().cudaMemcpy(p, src, count, kind); });
}
cudaError_t copy_to_async(const void* symbol, const void* src, std::size_t count,
                          std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!to_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset, [=](void* p) {
    return runtime().cudaMemcpyAsync(p, src, count, kind, stream);
  });
}
cudaError_t copy_from(void* dst, const void* symbol, std::size_t count, std::size_t offset,
                      cudaMemcpyKind kind) {
  if (!from_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset,
                     [=](void* p) { return runtime().cudaMemcpy(dst, p, count, kind); });
}
cudaError_t copy_from_async(void* dst, const void* symbol, std::size_t count, std::size_t offset,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  if (!from_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset, [=](void* p) {
    return runtime().cudaMemcpyAsync(dst, p, count, kind, stream);
  });
}

// ---- memcpy nodes of graphs

cudaError_t add_node_to(cudaGraphNode_t* node, cudaGraph_t graph,
                        const cudaGraphNode_t* dependencies, std::size_t dependency_count,
                        const void* symbol, const void* src, std::size_t count, std::size_t offset,
                        cudaMemcpyKind kind) {
  if (!to_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset, [=](void* p) {
    return runtime().cudaGraphAddMemcpyNode1D(node, graph, dependencies, dependency_count, p, src,
                                              count, kind);
  });
}
cudaError_t add_node_from(cudaGraphNode_t* node, cudaGraph_t graph,
                          const cudaGraphNode_t* dependencies, std::size_t dependency_count,
                          void* dst, const void* symbol, std::size_t count, std::size_t offset,
                          cudaMemcpyKind kind) {
  if (!from_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset, [=](void* p) {
    return runtime().cudaGraphAddMemcpyNode1D(node, graph, dependencies, dependency_count, dst, p,
                                              count, kind);
  });
}
cudaError_t set_node_to(cudaGraphNode_t node, const void* symbol, const void* src,
                        std::size_t count, std::size_t offset, cudaMemcpyKind kind) {
  if (!to_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset, [=](void* p) {
    return runtime().cudaGraphMemcpyNodeSetParams1D(node, p, src, count, kind);
  });
}
cudaError_t set_node_from(cudaGraphNode_t node, void* dst, const void* symbol, std::size_t count,
                          std::size_t offset, cudaMemcpyKind kind) {
  if (!from_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset, [=](void* p) {
    return runtime().cudaGraphMemcpyNodeSetParams1D(node, dst, p, count, kind);
  });
}
cudaError_t exec_set_node_to(cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol,
                             const void* src, std::size_t count, std::size_t offset,
                             cudaMemcpyKind kind) {
  if (!to_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset, [=](void* p) {
    return runtime().cudaGraphExecMemcpyNodeSetParams1D(exec, node, p, src, count, kind);
  });
}
cudaError_t exec_set_node_from(cudaGraphExec_t exec, cudaGraphNode_t node, void* dst,
                               const void* symbol, std::size_t count, std::size_t offset,
                               cudaMemcpyKind kind) {
  if (!from_device(kind)) return wrong_direction();
  return with_symbol(symbol, count, offset, [=](void* p) {
    return runtime().cudaGraphExecMemcpyNodeSetParams1D(exec, node, dst, p, count, kind);
  });
}

}  // namespace

void install_symbols(RuntimeTable& t) {
  t.cudaGetSymbolAddress = get_address;
  t.cudaGetSymbolSize = get_size;
  t.cudaMemcpyToSymbol = copy_to;
  t.cudaMemcpyToSymbolAsync = copy_to_async;
  t.cudaMemcpyFromSymbol = copy_from;
  t.cudaMemcpyFromSymbolAsync = copy_from_async;
  t.cudaGraphAddMemcpyNodeToSymbol = add_node_to;
  t.cudaGraphAddMemcpyNodeFromSymbol = add_node_from;
  t.cudaGraphMemcpyNodeSetParamsToSymbol = set_node_to;
  t.cudaGraphMemcpyNodeSetParamsFromSymbol = set_node_from;
  t.cudaGraphExecMemcpyNodeSetParamsToSymbol = exec_set_node_to;
  t.cudaGraphExecMemcpyNodeSetParamsFromSymbol = exec_set_node_from;
}

}  // namespace cucore::rt
