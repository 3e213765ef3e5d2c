// runtime_test.cpp: the runtime API as C++ programs see it: contexts on demand, errors per thread,
// memory, copies, arrays.
#include "cucore/runtime.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "cucore/driver.hpp"

namespace {

const cucore::RuntimeTable& rt = cucore::runtime();

TEST(Runtime, HasAnEntryForEveryFunction) {
#define CUCORE_RT(name) EXPECT_NE(rt.name, nullptr) << #name;
#include "runtime_table.inc"
#undef CUCORE_RT
}

TEST(Runtime, AFunctionThatIsNotThereSaysNotSupported) {
  rt.cudaGetLastError();
  EXPECT_EQ(rt.cudaGLSetGLDevice(0), cudaErrorNotSupported);
  EXPECT_EQ(rt.cudaGetLastError(), cudaErrorNotSupported);
}

TEST(Runtime, TellsOfChangesWhenAGraphIsCapturedAgain) {
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
  cudaGraphRecaptureCallbackData told{};
  told.userData = seen;
  told.callbackFunc = [](void* data, cudaGraphNode_t, const cudaGraphNodeParams* before,
                         const cudaGraphNodeParams* after, cudaGraphRecaptureStatus) {
    static_cast<unsigned*>(data)[0] = before->memset.value;
    static_cast<unsigned*>(data)[1] = after->memset.value;
    return cudaSuccess;
  };
  ASSERT_EQ(rt.cudaStreamBeginRecaptureToGraph(stream, cudaStreamCaptureModeRelaxed, graph, &told),
            cudaSuccess);
  told = {};  // what it said was copied
  ASSERT_EQ(rt.cudaMemsetAsync(memory, 8, 4, stream), cudaSuccess);
  ASSERT_EQ(rt.cudaStreamEndCapture(stream, &same), cudaSuccess);
  EXPECT_EQ(same, graph);
  EXPECT_EQ(seen[0], 3u);
  EXPECT_EQ(seen[1], 8u);
  EXPECT_EQ(rt.cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(rt.cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(rt.cudaFree(memory), cudaSuccess);
}

TEST(Runtime, NamesErrorsWithoutADriver) {
  EXPECT_STREQ(rt.cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
  EXPECT_STREQ(rt.cudaGetErrorName(static_cast<cudaError_t>(98765)), "unrecognized error code");
}

TEST(Runtime, MakesThePrimaryContextCurrentOnDemand) {
  std::thread([] {
    CUcontext before = nullptr, after = nullptr;
    ASSERT_EQ(cucore::driver().cuCtxGetCurrent(&before), CUDA_SUCCESS);
    EXPECT_EQ(before, nullptr);
    ASSERT_EQ(rt.cudaFree(nullptr), cudaSuccess);
    ASSERT_EQ(cucore::driver().cuCtxGetCurrent(&after), CUDA_SUCCESS);
    EXPECT_NE(after, nullptr);
  }).join();
}

TEST(Runtime, KeepsTheLastErrorPerThreadUntilItIsRead) {
  rt.cudaGetLastError();
  EXPECT_EQ(rt.cudaSetDevice(-1), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(rt.cudaPeekAtLastError(), cudaSuccess); }).join();
  EXPECT_EQ(rt.cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(rt.cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(rt.cudaGetLastError(), cudaSuccess);
}

TEST(Runtime, KnowsNoSymbolsOfTheHostProgram) {
  rt.cudaGetLastError();
  static int shadow = 0;
  void* address = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(rt.cudaGetSymbolAddress(&address, &shadow), cudaErrorInvalidSymbol);
  EXPECT_EQ(rt.cudaGetSymbolSize(&size, &shadow), cudaErrorInvalidSymbol);
  EXPECT_EQ(rt.cudaMemcpyToSymbol(&shadow, &size, 4, 0, cudaMemcpyHostToDevice),
            cudaErrorInvalidSymbol);
  EXPECT_EQ(rt.cudaGetLastError(), cudaErrorInvalidSymbol);
}

TEST(Runtime, PutsAThreadOnTheFirstValidDevice) {
  std::thread([] {
    int list[] = {0}, wrong[] = {4711}, device = -1;
    EXPECT_EQ(rt.cudaSetValidDevices(wrong, 1), cudaErrorInvalidDevice);
    EXPECT_EQ(rt.cudaSetValidDevices(list, 1), cudaSuccess);
    EXPECT_EQ(rt.cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
  }).join();
}

TEST(Runtime, ReadsTheParametersOfNodesBack) {
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

TEST(Runtime, CopiesThereAndBackInEveryDirection) {
  std::array<unsigned char, 64> there{}, back{};
  std::iota(there.begin(), there.end(), static_cast<unsigned char>(1));
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(rt.cudaMalloc(&a, 64), cudaSuccess);
  ASSERT_EQ(rt.cudaMalloc(&b, 64), cudaSuccess);
  EXPECT_EQ(rt.cudaMemcpy(a, there.data(), 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(rt.cudaMemcpy(b, a, 64, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(rt.cudaMemcpy(back.data(), b, 64, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(there, back);
  EXPECT_EQ(rt.cudaMemcpy(a, b, 64, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(rt.cudaFree(a), cudaSuccess);
  EXPECT_EQ(rt.cudaFree(b), cudaSuccess);
  rt.cudaGetLastError();
}

TEST(Runtime, ARowNarrowerThanTheRectangleIsABadPitch) {
  std::array<char, 64> host{};
  EXPECT_EQ(rt.cudaMemcpy2D(host.data(), 4, host.data() + 32, 4, 8, 2, cudaMemcpyHostToHost),
            cudaErrorInvalidPitchValue);
  rt.cudaGetLastError();
}

TEST(Runtime, AChannelDescriptionThatNoArrayCanHaveIsRefused) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc three{8, 8, 8, 0, cudaChannelFormatKindUnsigned};
  EXPECT_EQ(rt.cudaMallocArray(&array, &three, 4, 4, 0), cudaErrorInvalidValue);
  const cudaChannelFormatDesc mixed{8, 16, 0, 0, cudaChannelFormatKindUnsigned};
  EXPECT_EQ(rt.cudaMallocArray(&array, &mixed, 4, 4, 0), cudaErrorInvalidValue);
  rt.cudaGetLastError();
}

TEST(Runtime, ArraysRememberTheirShape) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc desc =
      rt.cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindFloat);
  ASSERT_EQ(rt.cudaMalloc3DArray(&array, &desc, {4, 3, 2}, 0), cudaSuccess);
  cudaChannelFormatDesc got{};
  cudaExtent extent{};
  unsigned flags = 1;
  ASSERT_EQ(rt.cudaArrayGetInfo(&got, &extent, &flags, array), cudaSuccess);
  EXPECT_EQ(std::memcmp(&got, &desc, sizeof got), 0);
  EXPECT_EQ(extent.width * 100 + extent.height * 10 + extent.depth, 432u);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(rt.cudaFreeArray(array), cudaSuccess);
}

TEST(Runtime, TheExecutionContextOfADeviceIsOneAndMakesStreams) {
  cudaExecutionContext_t first = nullptr, second = nullptr;
  ASSERT_EQ(rt.cudaDeviceGetExecutionCtx(&first, 0), cudaSuccess);
  ASSERT_EQ(rt.cudaDeviceGetExecutionCtx(&second, 0), cudaSuccess);
  EXPECT_EQ(first, second);
  int device = -1;
  EXPECT_EQ(rt.cudaExecutionCtxGetDevice(&device, first), cudaSuccess);
  EXPECT_EQ(device, 0);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(rt.cudaExecutionCtxStreamCreate(&stream, first, 0, 0), cudaSuccess);
  EXPECT_EQ(rt.cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(rt.cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(rt.cudaExecutionCtxDestroy(first), cudaErrorInvalidValue);
  int not_a_context = 0;
  EXPECT_EQ(rt.cudaExecutionCtxGetDevice(&device,
                                         reinterpret_cast<cudaExecutionContext_t>(&not_a_context)),
            cudaErrorInvalidResourceHandle);
  rt.cudaGetLastError();
}

TEST(Runtime, PropertiesAreTheAttributes) {
  cudaDeviceProp prop{};
  ASSERT_EQ(rt.cudaGetDeviceProperties(&prop, 0), cudaSuccess);
  int warp = 0;
  ASSERT_EQ(rt.cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0), cudaSuccess);
  EXPECT_EQ(prop.warpSize, warp);
  EXPECT_GT(std::strlen(prop.name), 0u);
  EXPECT_GE(prop.maxGridSize[0], 65535);
}

}  // namespace
