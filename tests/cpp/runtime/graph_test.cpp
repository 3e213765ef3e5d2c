// SPDX-License-Identifier: Apache-2.0
// graph_test.cpp: graph nodes and recapture with parameters of the runtime API.
#include <gtest/gtest.h>

#include "cucore/runtime.hpp"

namespace {

const cucore::RuntimeTable& rt = cucore::runtime();

TEST(RuntimeGraph, RecaptureCallsBackWithOldAndNewParameters) {
  int version = 0;
  ASSERT_EQ(rt.cudaDriverGetVersion(&version), cudaSuccess);
  if (version < 13030) GTEST_SKIP() << "new in CUDA 13.3";
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr, same = nullptr;
  ASSERT_EQ(rt.cudaMalloc(&memory, 64), cudaSuccess);
  ASSERT_EQ(rt.cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(rt.cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(rt.cudaMemsetAsync(memory, 3, 4, stream), cudaSuccess);
  ASSERT_EQ(rt.cudaStreamEndCapture(stream, &graph), cudaSuccess);
  unsigned seen[2] = {};
  cudaGraphRecaptureCallbackData callback{};
  callback.userData = seen;
  callback.callbackFunc = [](void* data, cudaGraphNode_t, const cudaGraphNodeParams* before,
                             const cudaGraphNodeParams* after, cudaGraphRecaptureStatus) {
    static_cast<unsigned*>(data)[0] = before->memset.value;
    static_cast<unsigned*>(data)[1] = after->memset.value;
    return cudaSuccess;
  };
  ASSERT_EQ(
      rt.cudaStreamBeginRecaptureToGraph(stream, cudaStreamCaptureModeRelaxed, graph, &callback),
      cudaSuccess);
  callback = {};  // the API has copied it
  ASSERT_EQ(rt.cudaMemsetAsync(memory, 8, 4, stream), cudaSuccess);
  ASSERT_EQ(rt.cudaStreamEndCapture(stream, &same), cudaSuccess);
  EXPECT_EQ(same, graph);
  EXPECT_EQ(seen[0], 3u);
  EXPECT_EQ(seen[1], 8u);
  EXPECT_EQ(rt.cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(rt.cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(rt.cudaFree(memory), cudaSuccess);
}

TEST(RuntimeGraph, NodeParametersAreReturnedAsSet) {
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(rt.cudaGraphCreate(&graph, 0), cudaSuccess);
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(rt.cudaMalloc(&a, 64), cudaSuccess);
  ASSERT_EQ(rt.cudaMalloc(&b, 64), cudaSuccess);
  cudaGraphNode_t copy = nullptr, set = nullptr;
  ASSERT_EQ(
      rt.cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, b, a, 64, cudaMemcpyDeviceToDevice),
      cudaSuccess);
  cudaMemsetParams fill{};
  fill.dst = a;
  fill.value = 7;
  fill.elementSize = 1;
  fill.width = 64;
  fill.height = 1;
  ASSERT_EQ(rt.cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &fill), cudaSuccess);
  cudaGraphNodeParams read{};
  const cudaError_t code = rt.cudaGraphNodeGetParams(copy, &read);
  if (code == cudaErrorNotSupported || code == cudaErrorSymbolNotFound) {
    GTEST_SKIP() << "the driver is older than CUDA 13.2";
  }
  ASSERT_EQ(code, cudaSuccess);
  EXPECT_EQ(read.type, cudaGraphNodeTypeMemcpy);
  EXPECT_EQ(read.memcpy.copyParams.dstPtr.ptr, b);
  EXPECT_EQ(read.memcpy.copyParams.srcPtr.ptr, a);
  EXPECT_EQ(read.memcpy.copyParams.extent.width, 64u);
  ASSERT_EQ(rt.cudaGraphNodeGetParams(set, &read), cudaSuccess);
  EXPECT_EQ(read.type, cudaGraphNodeTypeMemset);
  EXPECT_EQ(read.memset.dst, a);
  EXPECT_EQ(read.memset.value, 7u);
  EXPECT_EQ(rt.cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(rt.cudaFree(a), cudaSuccess);
  EXPECT_EQ(rt.cudaFree(b), cudaSuccess);
}

}  // namespace
