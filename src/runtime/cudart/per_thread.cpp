// SPDX-License-Identifier: Apache-2.0
// per_thread.cpp: functions without a stream parameter, for code compiled with --default-stream
// per-thread. Copies synchronize with the per-thread default stream, as copies in the legacy
// default stream synchronize with that one.
#include "runtime/cudart/export.hpp"

using cucore::runtime;
using cucore::cudart::per_thread;

namespace {

cudaError_t wait(cudaError_t code) {
  return code != cudaSuccess ? code : runtime().cudaStreamSynchronize(cudaStreamPerThread);
}

}  // namespace

extern "C" {

cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams* params) {
  if (params == nullptr || params->uploadStream != nullptr ||
      (params->flags & cudaGraphInstantiateFlagUpload) == 0)
    return runtime().cudaGraphInstantiateWithParams(exec, graph, params);
  params->uploadStream = cudaStreamPerThread;
  const cudaError_t code = runtime().cudaGraphInstantiateWithParams(exec, graph, params);
  params->uploadStream = nullptr;
  return code;
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* func,
                                     void** args) {
  if (config == nullptr) return runtime().cudaLaunchKernelExC(config, func, args);
  cudaLaunchConfig_t own = *config;
  own.stream = per_thread(own.stream);
  return runtime().cudaLaunchKernelExC(&own, func, args);
}

cudaError_t cudaMemcpy_ptds(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return wait(runtime().cudaMemcpyAsync(dst, src, count, kind, cudaStreamPerThread));
}
cudaError_t cudaMemcpy2D_ptds(void* dst, size_t dpitch, const void* src, size_t spitch,
                              size_t width, size_t height, cudaMemcpyKind kind) {
  return wait(runtime().cudaMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind,
                                          cudaStreamPerThread));
}
cudaError_t cudaMemcpy2DToArray_ptds(cudaArray_t dst, size_t x, size_t y, const void* src,
                                     size_t spitch, size_t width, size_t height,
                                     cudaMemcpyKind kind) {
  return wait(runtime().cudaMemcpy2DToArrayAsync(dst, x, y, src, spitch, width, height, kind,
                                                 cudaStreamPerThread));
}
cudaError_t cudaMemcpy2DFromArray_ptds(void* dst, size_t dpitch, cudaArray_const_t src, size_t x,
                                       size_t y, size_t width, size_t height, cudaMemcpyKind kind) {
  return wait(runtime().cudaMemcpy2DFromArrayAsync(dst, dpitch, src, x, y, width, height, kind,
                                                   cudaStreamPerThread));
}
cudaError_t cudaMemcpyToArray_ptds(cudaArray_t dst, size_t x, size_t y, const void* src,
                                   size_t count, cudaMemcpyKind kind) {
  return wait(runtime().cudaMemcpyToArrayAsync(dst, x, y, src, count, kind, cudaStreamPerThread));
}
cudaError_t cudaMemcpyFromArray_ptds(void* dst, cudaArray_const_t src, size_t x, size_t y,
                                     size_t count, cudaMemcpyKind kind) {
  return wait(runtime().cudaMemcpyFromArrayAsync(dst, src, x, y, count, kind, cudaStreamPerThread));
}
cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* src, size_t count,
                                    size_t offset, cudaMemcpyKind kind) {
  return wait(
      runtime().cudaMemcpyToSymbolAsync(symbol, src, count, offset, kind, cudaStreamPerThread));
}
cudaError_t cudaMemcpyFromSymbol_ptds(void* dst, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind) {
  return wait(
      runtime().cudaMemcpyFromSymbolAsync(dst, symbol, count, offset, kind, cudaStreamPerThread));
}
cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* params) {
  return wait(runtime().cudaMemcpy3DAsync(params, cudaStreamPerThread));
}
cudaError_t cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms* params) {
  return wait(runtime().cudaMemcpy3DPeerAsync(params, cudaStreamPerThread));
}

// Copies between arrays have no asynchronous form: synchronize with the stream's earlier work
// first.
cudaError_t cudaMemcpy2DArrayToArray_ptds(cudaArray_t dst, size_t dx, size_t dy,
                                          cudaArray_const_t src, size_t sx, size_t sy, size_t width,
                                          size_t height, cudaMemcpyKind kind) {
  const cudaError_t code = wait(cudaSuccess);
  if (code != cudaSuccess) return code;
  return runtime().cudaMemcpy2DArrayToArray(dst, dx, dy, src, sx, sy, width, height, kind);
}
cudaError_t cudaMemcpyArrayToArray_ptds(cudaArray_t dst, size_t dx, size_t dy,
                                        cudaArray_const_t src, size_t sx, size_t sy, size_t count,
                                        cudaMemcpyKind kind) {
  const cudaError_t code = wait(cudaSuccess);
  if (code != cudaSuccess) return code;
  return runtime().cudaMemcpyArrayToArray(dst, dx, dy, src, sx, sy, count, kind);
}

// A memset of device memory is always asynchronous.
cudaError_t cudaMemset_ptds(void* pointer, int value, size_t count) {
  return runtime().cudaMemsetAsync(pointer, value, count, cudaStreamPerThread);
}
cudaError_t cudaMemset2D_ptds(void* pointer, size_t pitch, int value, size_t width, size_t height) {
  return runtime().cudaMemset2DAsync(pointer, pitch, value, width, height, cudaStreamPerThread);
}
cudaError_t cudaMemset3D_ptds(cudaPitchedPtr pointer, int value, cudaExtent extent) {
  return runtime().cudaMemset3DAsync(pointer, value, extent, cudaStreamPerThread);
}

}  // extern "C"
