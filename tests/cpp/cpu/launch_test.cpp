// SPDX-License-Identifier: Apache-2.0
// Modules, libraries, launches: checks and their error codes.
#include <cstring>
#include <string>

#include "cpu/device/kernel_op.hpp"
#include "support.hpp"

extern "C" const char* cucoreGetLastFaultReport(void);

namespace {

class Launches : public DriverTest {};

// promise: A launch outside the device's limits is refused before it is queued, with kernel and
// shape named
TEST_F(Launches, InvalidShapesReturnExactCodes) {
  const CUfunction f = kernel("noop");
  const auto shape = [&](unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                         unsigned bz, unsigned shared = 0) {
    return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, nullptr, nullptr, nullptr);
  };
  EXPECT_OK(shape(1, 1, 1, 1024, 1, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(0, 1, 1, 1, 1, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(1, 65536, 1, 1, 1, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(1, 1, 1, 1025, 1, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(1, 1, 1, 1, 1, 65));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(1, 1, 1, 32, 64, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(1, 1, 1, 1, 1, 1, 49 << 10));
  EXPECT_OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10));
  EXPECT_OK(shape(1, 1, 1, 1, 1, 1, 49 << 10));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 << 10));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(kernel("bounded"), 1, 1, 1, 65, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
            cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_EQ(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
            cuLaunchCooperativeKernel(f, 1u << 20, 1, 1, 1024, 1, 1, 0, nullptr, nullptr));
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(Launches, InvalidClustersFail) {
  const CUfunction f = kernel("noop");
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  CUlaunchConfig config{};
  config.gridDimX = 12;
  config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const auto cluster = [&](unsigned x) {
    attribute.value.clusterDim.x = x;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    return cuLaunchKernelEx(&config, f, nullptr, nullptr);
  };
  EXPECT_OK(cluster(4));
  EXPECT_NE(CUDA_SUCCESS, cluster(5));
  EXPECT_EQ(CUDA_ERROR_INVALID_CLUSTER_SIZE, cluster(12));
  EXPECT_OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  EXPECT_OK(cluster(12));
}

TEST_F(Launches, ArgumentsAsPointersAndAsBufferSucceed) {
  unsigned* sum = words(1);
  struct {
    unsigned* p;
    unsigned n;
  } packed{sum, 5};
  std::size_t bytes = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  const CUfunction f = kernel("add");
  ASSERT_OK(cuLaunchKernel(f, 2, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(10u, *sum);
  bytes = 8;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(f, 2, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(f, 2, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

TEST_F(Launches, FaultIsStickyAndKeepsItsReport) {
  const CUfunction add = kernel("add");
  unsigned* flag = words(1);
  ASSERT_OK(launch(kernel("fault"), 4, nullptr, 700u));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  CUdeviceptr p = 0;
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&p, 4));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, launch(add, 1, nullptr, flag, 1u));
  EXPECT_STREQ("kernel fault: told to fail", cucoreGetLastFaultReport());
  CUcontext fresh = nullptr;
  ASSERT_OK(cuCtxCreate(&fresh, nullptr, 0, 0));  // another context is not affected
  EXPECT_OK(cuMemAlloc(&p, 4));
  EXPECT_OK(cuCtxDestroy(fresh));
}

TEST_F(Launches, ResetClearsTheErrorOfThePrimaryContext) {
  CUcontext primary = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, 0));
  ASSERT_OK(cuCtxPushCurrent(primary));
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kKernels));
  ASSERT_OK(cuModuleGetFunction(&f, module, "fault"));
  ASSERT_OK(launch(f, 1, nullptr, 719u));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
  ASSERT_OK(cuDevicePrimaryCtxReset(0));
  EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
            cuModuleUnload(module) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
  CUcontext again = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(primary, again);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
  ASSERT_OK(cuCtxPopCurrent(nullptr));
  ASSERT_OK(cuDevicePrimaryCtxRelease(0));
  ASSERT_OK(cuDevicePrimaryCtxRelease(0));
}

TEST_F(Launches, DestroyedContextStopsAnEndlessKernel) {
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, 0));
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kKernels));
  ASSERT_OK(cuModuleGetFunction(&f, module, "spin"));
  CUdeviceptr flag = 0;
  ASSERT_OK(cuMemAlloc(&flag, 4));
  ASSERT_OK(launch(f, 1, nullptr, flag));
  ASSERT_OK(cuCtxDestroy(other));
}

TEST_F(Launches, ModulesReturnFunctionsAndVariables) {
  kernel("noop");
  unsigned count = 0;
  ASSERT_OK(cuModuleGetFunctionCount(&count, module_));
  EXPECT_EQ(10u, count);
  CUfunction missing = nullptr;
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&missing, module_, "nothing"));
  CUdeviceptr table = 0;
  std::size_t bytes = 0;
  ASSERT_OK(cuModuleGetGlobal(&table, &bytes, module_, "table"));
  EXPECT_EQ(64u, bytes);
  EXPECT_OK(cuMemsetD32(table, 5, 16));
  std::size_t offset = 0, size = 0;
  ASSERT_OK(cuFuncGetParamInfo(kernel("add"), 1, &offset, &size));
  EXPECT_EQ(8u, offset);
  EXPECT_EQ(4u, size);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(kernel("add"), 2, &offset, &size));
  const char* name = nullptr;
  ASSERT_OK(cuFuncGetName(&name, kernel("add")));
  EXPECT_STREQ("add", name);
  const CUfunction f = kernel("noop");
  ASSERT_OK(cuModuleUnload(module_));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
            cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  module_ = nullptr;
}

TEST_F(Launches, CompileErrorsAreWrittenToTheLog) {
  char log[200] = {}, info[200] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log), info,
                    reinterpret_cast<void*>(sizeof info)};
  CUmodule module = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_PTX,
            cuModuleLoadDataEx(&module, "syntax error", 4, options, values));
  EXPECT_STREQ("ptx:1:1: error: told to fail", log);
  EXPECT_EQ(std::strlen(log), reinterpret_cast<std::size_t>(values[1]));
  values[1] = values[3] = reinterpret_cast<void*>(sizeof log);
  EXPECT_OK(cuModuleLoadDataEx(&module, kKernels, 4, options, values));
  EXPECT_STREQ("loaded by the fake engine", info);
}

TEST_F(Launches, LibrariesLoadIntoEveryContext) {
  CUlibrary library = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryGetKernel(&kernel, library, "add"));
  CUkernel missing = nullptr;
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&missing, library, "nothing"));
  unsigned* sum = words(1);
  ASSERT_OK(launch(reinterpret_cast<CUfunction>(kernel), 3, nullptr, sum, 2u));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(6u, *sum);
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, 0));
  ASSERT_OK(launch(reinterpret_cast<CUfunction>(kernel), 3, nullptr, sum, 2u));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(12u, *sum);
  CUfunction here = nullptr;
  ASSERT_OK(cuKernelGetFunction(&here, kernel));
  ASSERT_OK(cuCtxDestroy(other));
  CUfunction there = nullptr;
  ASSERT_OK(cuKernelGetFunction(&there, kernel));
  EXPECT_NE(here, there);
  ASSERT_OK(
      cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10, kernel, 0));
  int value = 0;
  ASSERT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, there));
  EXPECT_EQ(64 << 10, value);
  ASSERT_OK(cuLibraryUnload(library));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, launch(there, 1, nullptr, sum, 2u));
}

TEST_F(Launches, LinkedPtxBecomesOneContainer) {
  CUlinkState link = nullptr;
  ASSERT_OK(cuLinkCreate(0, nullptr, nullptr, &link));
  std::string first = ".entry noop()", second = ".entry add(.param .u64 p, .param .u32 n)";
  ASSERT_OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, first.data(), first.size() + 1, "a", 0, nullptr,
                          nullptr));
  ASSERT_OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, second.data(), second.size() + 1, "b", 0, nullptr,
                          nullptr));
  void* image = nullptr;
  std::size_t size = 0;
  ASSERT_OK(cuLinkComplete(link, &image, &size));
  EXPECT_EQ(0, std::memcmp(image, "\177ELF", 4));
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, image));
  ASSERT_OK(cuLinkDestroy(link));
  unsigned count = 0;
  ASSERT_OK(cuModuleGetFunctionCount(&count, module));
  EXPECT_EQ(2u, count);
}

TEST_F(Launches, InvalidImagesExplainWhatToDo) {
  CUmodule module = nullptr;
  std::string elf(64, '\0');
  std::memcpy(elf.data(), "\177ELF\2\1\1", 7);
  constexpr std::size_t kMachineAt = 18;
  elf[kMachineAt] = static_cast<char>(190);  // EM_CUDA
  char log[1000] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  EXPECT_EQ(CUDA_ERROR_NO_BINARY_FOR_GPU,
            cuModuleLoadDataEx(&module, elf.data(), 2, options, values));
  EXPECT_NE(std::string::npos, std::string{log}.find("compile to PTX"));
  elf[kMachineAt] = 62;  // EM_X86_64
  values[1] = reinterpret_cast<void*>(sizeof log);
  EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadDataEx(&module, elf.data(), 2, options, values));
  EXPECT_NE(std::string::npos, std::string{log}.find("another machine"));
  EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "\1\2\3"));
  EXPECT_EQ(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/no/such/file.ptx"));
}

TEST_F(Launches, OccupancyFollowsTheLimits) {
  int blocks = 0, grid = 0, size = 0;
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel("noop"), 1024, 0));
  EXPECT_EQ(2, blocks);
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel("noop"), 32, 0));
  EXPECT_EQ(32, blocks);
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel("noop"), 32, 100 << 10));
  EXPECT_EQ(2, blocks);
  ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&grid, &size, kernel("noop"), nullptr, 0, 0));
  EXPECT_EQ(1024, size);
  ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&grid, &size, kernel("noop"), nullptr, 0, 100));
  EXPECT_EQ(64, size);
}

// The groups of multiprocessors of the H200 recorded in tests/python/driver/h200: 132 in total,
// eight of them in pairs.
TEST_F(Launches, ClustersStayWithinAGroupOfMultiprocessors) {
  const unsigned groups[] = {16, 16, 16, 16, 16, 18, 18, 8, 2, 2, 2, 2};
  const unsigned answers[][6] = {// blocks, and clusters of 1, 2, 3, 8 and 16
                                 {1, 132, 66, 39, 15, 7},      {2, 264, 132, 79, 30, 14},
                                 {3, 396, 198, 124, 45, 21},   {4, 528, 264, 163, 62, 28},
                                 {6, 792, 396, 248, 92, 42},   {8, 1056, 528, 327, 124, 58},
                                 {9, 1056, 528, 327, 124, 58}, {32, 1056, 528, 327, 124, 58}};
  const unsigned sizes[] = {1, 2, 3, 8, 16};
  for (const auto& [blocks, a, b, c, d, e] : answers) {
    const unsigned wanted[] = {a, b, c, d, e};
    for (int k = 0; k < 5; ++k)
      EXPECT_EQ(wanted[k], cucpu::driver::active_clusters(groups, blocks, sizes[k]))
          << blocks << " " << sizes[k];
  }
}

TEST_F(Launches, LaunchableClusterHasOccupancyOfAtLeastOne) {
  CUlaunchConfig config{};
  config.gridDimX = 64, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 1024, config.blockDimY = config.blockDimZ = 1;
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = 8;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const CUfunction f = kernel("noop");
  int count = 0;
  ASSERT_OK(cuOccupancyMaxActiveClusters(&count, f, &config));
  EXPECT_GE(count, 1);
  attribute.value.clusterDim.x = 16;
  EXPECT_EQ(
      CUDA_ERROR_INVALID_CLUSTER_SIZE,  // more than eight blocks need the non-portable attribute
      cuOccupancyMaxActiveClusters(&count, f, &config));
  ASSERT_OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  ASSERT_OK(cuOccupancyMaxActiveClusters(&count, f, &config));
  EXPECT_GE(count, 1);
  int size = 0;
  ASSERT_OK(cuOccupancyMaxPotentialClusterSize(&size, f, &config));
  EXPECT_EQ(16, size);
}

}  // namespace
