// SPDX-License-Identifier: Apache-2.0
// Streams, events, host functions, graphs (captured and built), stream-ordered memory, cooperative
// launches.
#include <cooperative_groups.h>

#include "check.h"

__global__ void add(int* p, int value) { atomicAdd(p, value); }
__global__ void times(int* p, int value) { *p *= value; }

__global__ void ring(int* cells, int rounds) {
  const auto grid = cooperative_groups::this_grid();
  for (int r = 0; r < rounds; ++r) {
    const int next = cells[(blockIdx.x + 1) % gridDim.x];
    grid.sync();
    if (threadIdx.x == 0) cells[blockIdx.x] = next;
    grid.sync();
  }
}

void host_function(void* data) { ++*static_cast<int*>(data); }

int main() {
  cudaStream_t a, b;
  CHECK(cudaStreamCreate(&a));
  CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  cudaEvent_t start, end;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  int *p, value = 0, calls = 0;
  CHECK(cudaMallocAsync(&p, sizeof(int), a));
  CHECK(cudaMemsetAsync(p, 0, sizeof(int), a));
  CHECK(cudaEventRecord(start, a));
  add<<<2, 32, 0, a>>>(p, 1);
  CHECK(cudaEventRecord(end, a));
  CHECK(cudaStreamWaitEvent(b, end, 0));
  times<<<1, 1, 0, b>>>(p, 2);
  CHECK(cudaLaunchHostFunc(b, host_function, &calls));
  CHECK(cudaMemcpyAsync(&value, p, sizeof value, cudaMemcpyDeviceToHost, b));
  CHECK(cudaStreamSynchronize(b));
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end));
  std::printf("streams %d %d %d\n", value, calls, milliseconds >= 0);

  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  add<<<1, 1, 0, a>>>(p, 10);
  times<<<1, 1, 0, a>>>(p, 2);
  CHECK(cudaStreamEndCapture(a, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, a));
  CHECK(cudaGraphLaunch(exec, a));
  CHECK(cudaMemcpyAsync(&value, p, sizeof value, cudaMemcpyDeviceToHost, a));
  CHECK(cudaStreamSynchronize(a));
  std::printf("captured %d\n", value);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));

  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t first, second;
  int one = 1, three = 3;
  void* add_args[] = {&p, &one};
  void* times_args[] = {&p, &three};
  cudaKernelNodeParams params = {};
  params.gridDim = params.blockDim = dim3(1);
  params.func = reinterpret_cast<void*>(add);
  params.kernelParams = add_args;
  CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &params));
  params.func = reinterpret_cast<void*>(times);
  params.kernelParams = times_args;
  CHECK(cudaGraphAddKernelNode(&second, graph, &first, 1, &params));
  cudaKernelNodeParams read = {};
  CHECK(cudaGraphKernelNodeGetParams(second, &read));
  CHECK(cudaGraphKernelNodeSetParams(second, &read));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaMemset(p, 0, sizeof(int)));
  CHECK(cudaGraphLaunch(exec, a));
  CHECK(cudaMemcpyAsync(&value, p, sizeof value, cudaMemcpyDeviceToHost, a));
  CHECK(cudaStreamSynchronize(a));
  std::printf("built %d\n", value);

  const int blocks = 4;
  int cells[blocks] = {1, 2, 3, 4}, rounds = 3, *device_cells;
  CHECK(cudaMalloc(&device_cells, sizeof cells));
  CHECK(cudaMemcpy(device_cells, cells, sizeof cells, cudaMemcpyHostToDevice));
  void* args[] = {&device_cells, &rounds};
  CHECK(cudaLaunchCooperativeKernel(ring, dim3(blocks), dim3(32), args, 0, a));
  CHECK(cudaStreamSynchronize(a));
  CHECK(cudaMemcpy(cells, device_cells, sizeof cells, cudaMemcpyDeviceToHost));
  std::printf("ring %d %d %d %d\n", cells[0], cells[1], cells[2], cells[3]);
  CHECK(cudaFreeAsync(p, a));
  CHECK(cudaStreamDestroy(a));
  CHECK(cudaStreamDestroy(b));
  CHECK(cudaDeviceReset());
  add<<<1, 1>>>(nullptr, 0);  // a fresh context: the launch itself works, the address does not
  std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  return 0;
}
