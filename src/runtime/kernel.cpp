// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: kernels of libraries, their attributes, launches and occupancy.
#include <mutex>
#include <unordered_set>
#include <vector>

#include "driver/mutex.hpp"
#include "runtime/registration.hpp"

namespace cucore::rt {
namespace {

struct Kernels {  // cudaKernel_t handles returned by this API
  cucore::detail::Mutex mutex;
  std::unordered_set<const void*> known;
};

Kernels& kernels() {
  static Kernels* const instance = new Kernels;
  return *instance;
}

bool is_kernel(const void* func) {
  Kernels& k = kernels();
  const std::lock_guard lock{k.mutex};
  return k.known.contains(func);
}

/// Calls `body` with the CUfunction of `func`.
template <class Body>
cudaError_t with_function(const void* func, Body&& body) {
  return call_with_context([&](const DriverTable& d) -> CUresult {
    CUfunction function = nullptr;
    if (const CUresult code = function_of(func, &function); code != CUDA_SUCCESS) return code;
    return body(d, function);
  });
}

cudaError_t library_kernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return call_with_context([=](const DriverTable& d) {
    const CUresult code = d.cuLibraryGetKernel(kernel, library, name);
    if (code == CUDA_SUCCESS) register_kernel(*kernel);
    return code;
  });
}

cudaError_t enumerate(cudaKernel_t* out, unsigned count, cudaLibrary_t library) {
  return call_with_context([=](const DriverTable& d) {
    const CUresult code = d.cuLibraryEnumerateKernels(out, count, library);
    for (unsigned i = 0; code == CUDA_SUCCESS && i < count; ++i) register_kernel(out[i]);
    return code;
  });
}

/// Removes the library's kernels: the driver may give their addresses to functions that are made
/// later.
cudaError_t unload_library(cudaLibrary_t library) {
  return call_with_context([=](const DriverTable& d) {
    unsigned count = 0;
    std::vector<CUkernel> own;
    if (d.cuLibraryGetKernelCount(&count, library) == CUDA_SUCCESS) {
      own.resize(count);
      if (d.cuLibraryEnumerateKernels(own.data(), count, library) != CUDA_SUCCESS) own.clear();
    }
    const CUresult code = d.cuLibraryUnload(library);
    if (code == CUDA_SUCCESS) forget_kernels(own);
    return code;
  });
}

/// `entry` is a cudaKernel_t or a host stub made by nvcc.
cudaError_t get_kernel(cudaKernel_t* kernel, const void* entry) {
  if (kernel == nullptr) return set_last_error(cudaErrorInvalidDeviceFunction);
  if (!is_kernel(entry)) {
    cudaKernel_t found = nullptr;
    const cudaError_t code = kernel_of_stub(&found, entry);
    if (code == cudaSuccess) *kernel = found;
    return code;
  }
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(entry));
  return cudaSuccess;
}

cudaError_t get_function(cudaFunction_t* function, const void* symbol) {
  return with_function(
      symbol, [=](const DriverTable&, CUfunction f) { return *function = f, CUDA_SUCCESS; });
}

cudaError_t attributes(cudaFuncAttributes* out, const void* func) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = {};
    const auto get = [&](CUfunction_attribute which) {
      int value = 0;
      return d.cuFuncGetAttribute(&value, which, f) == CUDA_SUCCESS ? value : 0;
    };
    int threads = 0;
    if (const CUresult code =
            d.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
        code != CUDA_SUCCESS) {
      return code;
    }
    out->maxThreadsPerBlock = threads;
    out->sharedSizeBytes = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    out->constSizeBytes = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
    out->localSizeBytes = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
    out->numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
    out->ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
    out->binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    out->cacheModeCA = get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
    out->maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    out->preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    out->clusterDimMustBeSet = get(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
    out->requiredClusterWidth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
    out->requiredClusterHeight = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
    out->requiredClusterDepth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
    out->clusterSchedulingPolicyPreference =
        get(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    out->nonPortableClusterSizeAllowed = get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    return CUDA_SUCCESS;
  });
}

cudaError_t set_attribute(const void* func, cudaFuncAttribute attribute, int value) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    return d.cuFuncSetAttribute(f, static_cast<CUfunction_attribute>(attribute), value);
  });
}

cudaError_t set_kernel_attribute(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                                 int device) {
  return call_with_context([=](const DriverTable& d) {
    return d.cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value, kernel,
                                  device);
  });
}

cudaError_t set_cache(const void* func, cudaFuncCache config) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    return d.cuFuncSetCacheConfig(f, static_cast<CUfunc_cache>(config));
  });
}

cudaError_t set_shared_config(const void* func,
                              cudaSharedMemConfig) {  // deprecated: no effect
  return with_function(func, [](const DriverTable&, CUfunction) { return CUDA_SUCCESS; });
}

cudaError_t name(const char** out, const void* func) {
  return with_function(func,
                       [=](const DriverTable& d, CUfunction f) { return d.cuFuncGetName(out, f); });
}

cudaError_t param_info(const void* func, std::size_t index, std::size_t* offset,
                       std::size_t* size) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    return d.cuFuncGetParamInfo(f, index, offset, size);
  });
}

cudaError_t param_count(const void* func, std::size_t* count) {
  return with_function(
      func, [=](const DriverTable& d, CUfunction f) { return d.cuFuncGetParamCount(f, count); });
}

// ---- launches

/// The driver reports a wrong grid or block as an invalid value, and so does the runtime API for
/// kernels of libraries; for functions that nvcc registered it has a code of its own.
CUresult launch_result(const DriverTable& d, CUresult code, const void* func, dim3 grid,
                       dim3 block) {
  if (code != CUDA_ERROR_INVALID_VALUE) [[likely]]
    return code;
  if (is_kernel(func) && !is_kernel_of_stub(func)) return code;
  CUdevice device = 0;
  if (current_device(&device) != CUDA_SUCCESS) return code;
  const auto exceeds = [&](unsigned value, CUdevice_attribute limit) {
    int most = 0;
    return value == 0 || (d.cuDeviceGetAttribute(&most, limit, device) == CUDA_SUCCESS &&
                          value > static_cast<unsigned>(most));
  };
  const bool wrong =
      exceeds(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
      exceeds(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
      exceeds(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) ||
      exceeds(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
      exceeds(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) ||
      exceeds(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) ||
      exceeds(block.x * block.y * block.z, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  return wrong ? static_cast<CUresult>(cudaErrorInvalidConfiguration) : code;
}

cudaError_t launch(const void* func, dim3 grid, dim3 block, void** args, std::size_t shared,
                   cudaStream_t stream) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    const CUresult code = d.cuLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                           static_cast<unsigned>(shared), stream, args, nullptr);
    return launch_result(d, code, func, grid, block);
  });
}

cudaError_t launch_cooperative(const void* func, dim3 grid, dim3 block, void** args,
                               std::size_t shared, cudaStream_t stream) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    const CUresult code =
        d.cuLaunchCooperativeKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                    static_cast<unsigned>(shared), stream, args);
    return launch_result(d, code, func, grid, block);
  });
}

CUlaunchConfig to_config(const cudaLaunchConfig_t& in) {
  CUlaunchConfig out{};
  out.gridDimX = in.gridDim.x;
  out.gridDimY = in.gridDim.y;
  out.gridDimZ = in.gridDim.z;
  out.blockDimX = in.blockDim.x;
  out.blockDimY = in.blockDim.y;
  out.blockDimZ = in.blockDim.z;
  out.sharedMemBytes = static_cast<unsigned>(in.dynamicSmemBytes);
  out.hStream = in.stream;
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
  out.attrs = reinterpret_cast<CUlaunchAttribute*>(in.attrs);
  out.numAttrs = in.numAttrs;
  return out;
}

cudaError_t launch_ex(const cudaLaunchConfig_t* config, const void* func, void** args) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig c = to_config(*config);
    const CUresult code = d.cuLaunchKernelEx(&c, f, args, nullptr);
    return launch_result(d, code, func, config->gridDim, config->blockDim);
  });
}

// ---- occupancy

cudaError_t active_blocks_flags(int* blocks, const void* func, int size, std::size_t shared,
                                unsigned flags) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    return d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, size, shared, flags);
  });
}

cudaError_t active_blocks(int* blocks, const void* func, int size, std::size_t shared) {
  return active_blocks_flags(blocks, func, size, shared, 0);
}

cudaError_t available_shared(std::size_t* bytes, const void* func, int blocks, int size) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    return d.cuOccupancyAvailableDynamicSMemPerBlock(bytes, f, blocks, size);
  });
}

cudaError_t max_clusters(int* clusters, const void* func, const cudaLaunchConfig_t* config) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig c = to_config(*config);
    return d.cuOccupancyMaxActiveClusters(clusters, f, &c);
  });
}

cudaError_t cluster_size(int* size, const void* func, const cudaLaunchConfig_t* config) {
  return with_function(func, [=](const DriverTable& d, CUfunction f) {
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig c = to_config(*config);
    return d.cuOccupancyMaxPotentialClusterSize(size, f, &c);
  });
}

}  // namespace

void register_kernel(CUkernel kernel) {
  Kernels& k = kernels();
  const std::lock_guard lock{k.mutex};
  k.known.insert(kernel);
}

void forget_kernels(std::span<const CUkernel> gone) {
  Kernels& k = kernels();
  const std::lock_guard lock{k.mutex};
  for (const CUkernel kernel : gone) k.known.erase(kernel);
}

CUresult function_of(const void* func, CUfunction* function) {
  if (func == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (is_kernel(func))
    return driver().cuKernelGetFunction(function, static_cast<CUkernel>(const_cast<void*>(func)));
  CUkernel kernel = nullptr;
  CUresult code = CUDA_SUCCESS;
  if (find_stub(func, &kernel, &code))
    return code != CUDA_SUCCESS ? code : driver().cuKernelGetFunction(function, kernel);
  *function = static_cast<CUfunction>(const_cast<void*>(func));
  return CUDA_SUCCESS;
}

void install_kernels(RuntimeTable& t) {
  t.cudaLibraryUnload = unload_library;
  t.cudaLibraryGetKernel = library_kernel;
  t.cudaLibraryEnumerateKernels = enumerate;
  t.cudaGetKernel = get_kernel;
  t.cudaGetFuncBySymbol = get_function;
  t.cudaFuncGetAttributes = attributes;
  t.cudaFuncSetAttribute = set_attribute;
  t.cudaKernelSetAttributeForDevice = set_kernel_attribute;
  t.cudaFuncSetCacheConfig = set_cache;
  t.cudaFuncSetSharedMemConfig = set_shared_config;
  t.cudaFuncGetName = name;
  t.cudaFuncGetParamInfo = param_info;
  t.cudaFuncGetParamCount = param_count;
  t.cudaLaunchKernel = launch;
  t.cudaLaunchCooperativeKernel = launch_cooperative;
  t.cudaLaunchKernelExC = launch_ex;
  t.cudaOccupancyMaxActiveBlocksPerMultiprocessor = active_blocks;
  t.cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags = active_blocks_flags;
  t.cudaOccupancyAvailableDynamicSMemPerBlock = available_shared;
  t.cudaOccupancyMaxActiveClusters = max_clusters;
  t.cudaOccupancyMaxPotentialClusterSize = cluster_size;
}

}  // namespace cucore::rt
