// SPDX-License-Identifier: Apache-2.0
// Queries of libraries, kernels, functions and streams.
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "support.hpp"

namespace {

class Libraries : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuLibraryLoadData(&library_, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
    ASSERT_OK(cuLibraryGetKernel(&kernel_, library_, "add"));
  }
  std::string file() {
    const std::string path = testing::TempDir() + "library_test.ptx";
    std::ofstream{path} << kKernels;
    return path;
  }
  CUlibrary library_ = nullptr;
  CUkernel kernel_ = nullptr;
};

TEST_F(Libraries, KernelsAreListed) {
  unsigned count = 0;
  ASSERT_OK(cuLibraryGetKernelCount(&count, library_));
  EXPECT_GE(count, 8u);
  std::vector<CUkernel> kernels(count);
  ASSERT_OK(cuLibraryEnumerateKernels(kernels.data(), count, library_));
  bool found = false;
  for (CUkernel k : kernels) {
    const char* name = nullptr;
    ASSERT_OK(cuKernelGetName(&name, k));
    found |= std::strcmp(name, "add") == 0;
  }
  EXPECT_TRUE(found);
  CUlibrary owner = nullptr;
  ASSERT_OK(cuKernelGetLibrary(&owner, kernel_));
  EXPECT_EQ(library_, owner);
  CUmodule module = nullptr;
  ASSERT_OK(cuLibraryGetModule(&module, library_));
  unsigned functions = 0;
  ASSERT_OK(cuModuleGetFunctionCount(&functions, module));
  EXPECT_EQ(count, functions);
  std::vector<CUfunction> list(functions);
  ASSERT_OK(cuModuleEnumerateFunctions(list.data(), functions, module));
  CUmodule home = nullptr;
  ASSERT_OK(cuFuncGetModule(&home, list[0]));
  EXPECT_EQ(module, home);
}

TEST_F(Libraries, KernelsReportParametersAndAttributes) {
  std::size_t count = 0, offset = 0, size = 0;
  ASSERT_OK(cuKernelGetParamCount(kernel_, &count));
  EXPECT_EQ(2u, count);
  ASSERT_OK(cuKernelGetParamInfo(kernel_, 1, &offset, &size));
  EXPECT_EQ(8u, offset);
  EXPECT_EQ(4u, size);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo(kernel_, 2, &offset, &size));
  int threads = 0;
  ASSERT_OK(cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel_, 0));
  EXPECT_EQ(1024, threads);
  EXPECT_OK(cuKernelSetCacheConfig(kernel_, CU_FUNC_CACHE_PREFER_SHARED, 0));
  CUfunction function = nullptr;
  ASSERT_OK(cuKernelGetFunction(&function, kernel_));
  ASSERT_OK(cuFuncGetParamCount(function, &count));
  EXPECT_EQ(2u, count);
  EXPECT_OK(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_L1));
  EXPECT_OK(cuFuncSetSharedMemConfig(function, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
}

TEST_F(Libraries, FunctionsAreLoadedLazily) {
  CUmoduleLoadingMode mode{};
  ASSERT_OK(cuModuleGetLoadingMode(&mode));
  EXPECT_EQ(CU_MODULE_LAZY_LOADING, mode);
  CUfunctionLoadingState state{};
  const CUfunction function = kernel("store");
  ASSERT_OK(cuFuncIsLoaded(&state, function));
  EXPECT_EQ(CU_FUNCTION_LOADING_STATE_UNLOADED, state);
  ASSERT_OK(cuFuncLoad(function));
  ASSERT_OK(cuFuncIsLoaded(&state, function));
  EXPECT_EQ(CU_FUNCTION_LOADING_STATE_LOADED, state);
}

TEST_F(Libraries, VariablesAreFound) {
  CUdeviceptr at = 0;
  std::size_t bytes = 0;
  ASSERT_OK(cuLibraryGetGlobal(&at, &bytes, library_, "table"));
  EXPECT_EQ(64u, bytes);
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuLibraryGetGlobal(&at, &bytes, library_, "chair"));
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&at, &bytes, library_, "table"));
  void* function = nullptr;
  EXPECT_NE(CUDA_SUCCESS, cuLibraryGetUnifiedFunction(&function, library_, "add"));
}

TEST_F(Libraries, FilesLoad) {
  const std::string path = file();
  CUlibrary library = nullptr;
  ASSERT_OK(
      cuLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryUnload(library));
  EXPECT_EQ(CUDA_ERROR_FILE_NOT_FOUND,
            cuLibraryLoadFromFile(&library, "/nowhere", nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUlinkState link = nullptr;
  ASSERT_OK(cuLinkCreate(0, nullptr, nullptr, &link));
  ASSERT_OK(cuLinkAddFile(link, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr));
  EXPECT_EQ(CUDA_ERROR_FILE_NOT_FOUND,
            cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nowhere", 0, nullptr, nullptr));
  void* image = nullptr;
  std::size_t size = 0;
  ASSERT_OK(cuLinkComplete(link, &image, &size));
  CUmodule module = nullptr;
  EXPECT_OK(cuModuleLoadData(&module, image));
  ASSERT_OK(cuLinkDestroy(link));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuModuleLoadFatBinary(&module, nullptr));
  std::remove(path.c_str());
}

TEST_F(Libraries, OccupancyFollowsTheLimits) {
  const CUfunction function = kernel("add");
  int blocks = 0;
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 1024, 0,
                                                                 CU_OCCUPANCY_DEFAULT));
  EXPECT_EQ(2, blocks);
  std::size_t shared = 0;
  ASSERT_OK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, function, 2, 128));
  EXPECT_GT(shared, 0u);
  int grid = 0, block = 0;
  ASSERT_OK(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function, nullptr, 0, 256,
                                                      CU_OCCUPANCY_DEFAULT));
  EXPECT_LE(block, 256);
  EXPECT_GT(grid, 0);
  CUlaunchConfig config{};
  config.gridDimX = 16, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 128, config.blockDimY = config.blockDimZ = 1;
  int size = 0, clusters = 0;
  ASSERT_OK(cuOccupancyMaxPotentialClusterSize(&size, function, &config));
  EXPECT_GE(size, 1);
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {2, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  EXPECT_OK(cuOccupancyMaxActiveClusters(&clusters, function, &config));
}

TEST_F(Libraries, StreamsReportPropertiesAndAttributes) {
  CUstream stream = nullptr, other = nullptr;
  ASSERT_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -2));
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  int priority = 0;
  unsigned flags = 0;
  CUdevice device = -1;
  ASSERT_OK(cuStreamGetPriority(stream, &priority));
  EXPECT_EQ(-2, priority);
  ASSERT_OK(cuStreamGetFlags(stream, &flags));
  EXPECT_EQ(CU_STREAM_NON_BLOCKING, flags);
  ASSERT_OK(cuStreamGetDevice(stream, &device));
  EXPECT_EQ(0, device);
  CUstreamAttrValue value{}, read{};
  value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
  ASSERT_OK(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  ASSERT_OK(cuStreamCopyAttributes(other, stream));
  ASSERT_OK(cuStreamGetAttribute(other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &read));
  EXPECT_EQ(CU_SYNC_POLICY_BLOCKING_SYNC, read.syncPolicy);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuStreamGetAttribute(other, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &read));
}

void count_call(void* data) { ++*static_cast<int*>(data); }

TEST_F(Libraries, StreamsWriteAndWaitFor64Bits) {
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  unsigned* memory = words(4);
  auto* wide = reinterpret_cast<cuuint64_t*>(memory);
  ASSERT_OK(cuStreamWriteValue64(stream, address(wide), 1ull << 40, 0));
  ASSERT_OK(cuStreamWaitValue64(stream, address(wide), 1ull << 40, CU_STREAM_WAIT_VALUE_EQ));
  CUstreamBatchMemOpParams ops[2] = {};
  ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[0].writeValue.address = address(memory + 2);
  ops[0].writeValue.value = 6;
  ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[1].waitValue.address = address(memory + 2);
  ops[1].waitValue.value = 6;
  ASSERT_OK(cuStreamBatchMemOp(stream, 2, ops, 0));
  int calls = 0;
  ASSERT_OK(cuLaunchHostFunc_v2(stream, count_call, &calls, 0));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(1ull << 40, *wide);
  EXPECT_EQ(6u, memory[2]);
  EXPECT_EQ(1, calls);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 2, nullptr, 0));
}

TEST_F(Libraries, DescriptionsOfTexturesSurfacesAndTensorMapsRoundTrip) {
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  desc.Width = desc.Height = 8;
  desc.Format = CU_AD_FORMAT_FLOAT, desc.NumChannels = 1;
  desc.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  CUarray array = nullptr;
  ASSERT_OK(cuArray3DCreate(&array, &desc));
  CUDA_RESOURCE_DESC resource{}, read{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUsurfObject surface = 0;
  ASSERT_OK(cuSurfObjectCreate(&surface, &resource));
  ASSERT_OK(cuSurfObjectGetResourceDesc(&read, surface));
  EXPECT_EQ(array, read.res.array.hArray);
  ASSERT_OK(cuSurfObjectDestroy(surface));
  CUDA_TEXTURE_DESC sampling{}, read_sampling{};
  sampling.filterMode = CU_TR_FILTER_MODE_LINEAR;
  CUDA_RESOURCE_VIEW_DESC view{}, read_view{};
  view.width = view.height = 8;
  CUtexObject texture = 0;
  ASSERT_OK(cuTexObjectCreate(&texture, &resource, &sampling, &view));
  ASSERT_OK(cuTexObjectGetTextureDesc(&read_sampling, texture));
  EXPECT_EQ(CU_TR_FILTER_MODE_LINEAR, read_sampling.filterMode);
  ASSERT_OK(cuTexObjectGetResourceViewDesc(&read_view, texture));
  EXPECT_EQ(8u, read_view.width);
  ASSERT_OK(cuTexObjectDestroy(texture));
}

TEST_F(Libraries, LogIsWrittenToAFile) {
  CUfunction none = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuFuncLoad(none));
  const std::string path = testing::TempDir() + "library_test.log";
  EXPECT_OK(cuLogsDumpToFile(nullptr, path.c_str(), 0));
  EXPECT_TRUE(std::ifstream{path}.good());
  std::remove(path.c_str());
  EXPECT_NE(CUDA_SUCCESS, cuLogsDumpToFile(nullptr, "/nowhere/at/all", 0));
}

// promise: A damaged cubin, fatbin, container or link-time module is an error, never a crash
TEST_F(Libraries, OversizedCompressedEntryAllocatesNothing) {
  const auto resident = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  for (const std::uint64_t compressed : {0x2000, 0x8000}) {  // LZ4, zstd
    struct {
      std::uint32_t magic = 0xba55ed50;
      std::uint16_t version = 1, header_bytes = 16;
      std::uint64_t bytes = 64 + 64;
      std::uint16_t kind = 1, entry_version = 0x101;
      std::uint32_t entry_header_bytes = 64;
      std::uint64_t entry_bytes = 64;
      std::uint32_t compressed_bytes = 64, unused = 0;
      std::uint16_t minor = 0, major = 8;
      std::uint32_t arch = 80, name_offset = 0, name_bytes = 0;
      std::uint64_t flags = 0, reserved = 0, plain_bytes = std::uint64_t{1} << 30;
      char payload[64] = {};
    } image;
    static_assert(sizeof image == 16 + 64 + 64);
    image.flags = compressed;
    const long before = resident();
    CUlibrary library = nullptr;
    EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE,
              cuLibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0));
    EXPECT_LT(resident() - before, 256 << 10);
  }
}

}  // namespace
