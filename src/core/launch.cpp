// SPDX-License-Identifier: Apache-2.0
// launch.cpp: launches kernels.
#include "cucore/launch.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/library.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {

CUlaunchConfig to_driver(const LaunchConfig& config, CUstream stream,
                         std::array<CUlaunchAttribute, 4>& attributes) {
  CUlaunchConfig out{};
  out.gridDimX = config.grid.x;
  out.gridDimY = config.grid.y;
  out.gridDimZ = config.grid.z;
  out.blockDimX = config.block.x;
  out.blockDimY = config.block.y;
  out.blockDimZ = config.block.z;
  out.sharedMemBytes = config.shmem_size;
  out.hStream = stream;
  unsigned count = 0;
  if (config.cluster) {
    out.gridDimX *= config.cluster->x;
    out.gridDimY *= config.cluster->y;
    out.gridDimZ *= config.cluster->z;
    CUlaunchAttribute& attribute = attributes[count++];
    attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = config.cluster->x;
    attribute.value.clusterDim.y = config.cluster->y;
    attribute.value.clusterDim.z = config.cluster->z;
  }
  if (config.is_cooperative) {
    CUlaunchAttribute& attribute = attributes[count++];
    attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
  }
  if (config.programmatic_stream_serialization) {
    CUlaunchAttribute& attribute = attributes[count++];
    attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  out.attrs = count != 0 ? attributes.data() : nullptr;
  out.numAttrs = count;
  return out;
}

namespace {

int attribute_of(CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  return driver().cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

int attribute_of(CUfunction_attribute attribute, const Kernel& kernel, CUdevice device) {
  int value = 0;
  return driver().cuKernelGetAttribute(&value, attribute, kernel.handle(), device) == CUDA_SUCCESS
             ? value
             : 0;
}

/// Returns the limit of the device or kernel that a launch exceeds, with a remedy, or an empty
/// string if it exceeds none. Called only after a failed launch, so successful launches have no
/// overhead.
std::string exceeded_limit(const LaunchConfig& config, const Kernel& kernel, CUdevice device) {
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  const auto axis = [&](const char* what, unsigned asked, CUdevice_attribute attribute,
                        char name) -> std::string {
    const int most = attribute_of(attribute, device);
    if (most <= 0 || asked <= static_cast<unsigned>(most)) return {};
    return std::string{what} + "." + name + " is " + number(asked) + ", and this device allows " +
           number(static_cast<unsigned>(most)) + " at most";
  };
  const Dim3& block = config.block;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const int device_threads = attribute_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  if (device_threads > 0 && threads > static_cast<unsigned>(device_threads))
    return "the block has " + number(threads) + " threads, and this device allows " +
           number(static_cast<unsigned>(device_threads)) +
           " per block: use a smaller block and a larger grid";
  const int kernel_threads = attribute_of(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device);
  if (kernel_threads > 0 && threads > static_cast<unsigned>(kernel_threads))
    return "the block has " + number(threads) + " threads, and this kernel allows " +
           number(static_cast<unsigned>(kernel_threads)) +
           " per block (its registers or its __launch_bounds__ set that)";
  const struct {
    const char* what;
    unsigned asked;
    CUdevice_attribute attribute;
    char name;
  } axes[] = {{"block", block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 'x'},
              {"block", block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 'y'},
              {"block", block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 'z'},
              {"grid", config.grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 'x'},
              {"grid", config.grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 'y'},
              {"grid", config.grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 'z'}};
  for (const auto& row : axes)
    if (std::string text = axis(row.what, row.asked, row.attribute, row.name); !text.empty())
      return text;
  if (config.shmem_size != 0) {
    const auto fixed =
        static_cast<unsigned>(attribute_of(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel, device));
    const auto most = static_cast<unsigned>(
        attribute_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
    const auto allowed = static_cast<unsigned>(
        attribute_of(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, device));
    if (most != 0 && config.shmem_size + std::uint64_t{fixed} > most)
      return number(config.shmem_size) + " bytes of dynamic shared memory" +
             (fixed != 0 ? " and " + number(fixed) + " of static" : "") +
             " are more than this device has for a block, " + number(most);
    if (allowed != 0 && config.shmem_size > allowed)
      return number(config.shmem_size) +
             " bytes of dynamic shared memory are more than this kernel may use, " +
             number(allowed) + ": set kernel.attributes.max_dynamic_shared_size_bytes first (" +
             number(most - fixed) + " at most)";
  }
  if (config.cluster) {
    const std::uint64_t size =
        std::uint64_t{config.cluster->x} * config.cluster->y * config.cluster->z;
    if (size > 8)
      return "the cluster has " + number(size) +
             " blocks: 8 are portable, and more (up to 16) need a kernel with the attribute "
             "NON_PORTABLE_CLUSTER_SIZE_ALLOWED";
  }
  return {};
}

/// Returns the maximum number of co-resident blocks of this shape, or an empty string if unknown.
std::string most_cooperative(const LaunchConfig& config, const Kernel& kernel) {
  int per_processor = 0;
  CUdevice device = 0;
  const Dim3& block = config.block;
  if (driver().cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
          &per_processor, reinterpret_cast<CUfunction>(kernel.handle()),
          static_cast<int>(block.x * block.y * block.z), config.shmem_size) != CUDA_SUCCESS)
    return {};
  const int processors = attribute_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  return "\n  this device runs " + std::to_string(std::int64_t{per_processor} * processors) +
         " blocks of this kernel at once";
}

}  // namespace

/// Throws the error of a failed launch with the configuration and the cause.
[[noreturn]] static void explain(CUresult code, const LaunchConfig& config, const Kernel& kernel,
                                 const char* call) {
  try {
    fail(code, call);
  } catch (const CUDAError& error) {
    const auto dims = [](const Dim3& d) {
      return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) +
             ")";
    };
    std::string text = std::string{error.what()} + "\n  kernel " +
                       (kernel.name().empty() ? "?" : kernel.name()) + ", grid " +
                       dims(config.grid) + ", block " + dims(config.block);
    if (config.cluster) text += ", cluster " + dims(*config.cluster);
    if (config.shmem_size != 0)
      text += ", " + std::to_string(config.shmem_size) + " bytes of dynamic shared memory";
    if (config.is_cooperative) text += ", cooperative";
    if (code == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE) {
      // A wrong argument: all blocks of a cooperative grid must fit on the device at once.
      throw std::invalid_argument{text + most_cooperative(config, kernel)};
    }
    CUdevice device = 0;
    const bool by_limits = code == CUDA_ERROR_INVALID_VALUE ||
                           code == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES ||
                           code == CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (by_limits && driver().cuCtxGetDevice(&device) == CUDA_SUCCESS)
      if (const std::string limit = exceeded_limit(config, kernel, device); !limit.empty())
        text += "\n  " + limit;
    throw CUDAError{error, text, kernel.name().empty() ? "" : "kernel " + kernel.name()};
  }
}

static CUresult try_launch(CUstream stream, const LaunchConfig& config, CUfunction function,
                           void** arguments) {
  const DriverTable& table = driver();
  if (!config.cluster && !config.is_cooperative && !config.programmatic_stream_serialization) {
    return table.cuLaunchKernel(function, config.grid.x, config.grid.y, config.grid.z,
                                config.block.x, config.block.y, config.block.z, config.shmem_size,
                                stream, arguments, nullptr);
  }
  std::array<CUlaunchAttribute, 4> attributes;
  const CUlaunchConfig native = to_driver(config, stream, attributes);
  return table.cuLaunchKernelEx(&native, function, arguments, nullptr);
}

/// Retries after the launch of the current context's function failed. A launch belongs to the
/// stream's device, whichever context is current: try the CUkernel, which is independent of
/// contexts, then the stream's context.
static void launch_elsewhere(CUresult code, StreamRef stream, const LaunchConfig& config,
                             const Kernel& kernel, void** arguments) {
  if (code == CUDA_ERROR_INVALID_CONTEXT || code == CUDA_ERROR_INVALID_HANDLE) {
    const auto function = reinterpret_cast<CUfunction>(kernel.handle());
    CUresult again = try_launch(stream.handle(), config, function, arguments);
    if (again == CUDA_SUCCESS) return;
    CUcontext home = nullptr;
    if (driver().cuStreamGetCtx(stream.handle(), &home) == CUDA_SUCCESS) {
      const ScopedContext scope{ContextRef{home}};
      again = try_launch(stream.handle(), config, function, arguments);
      if (again == CUDA_SUCCESS) return;
    }
    code = again;
  }
  explain(code, config, kernel, "cuLaunchKernel");
}

void launch_raw(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
                void** arguments) {
  detail::launch_function(stream, config, kernel, kernel.state()->launchable(), arguments);
}

void detail::launch_function(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
                             CUfunction function, void** arguments) {
  const CUresult code = try_launch(stream.handle(), config, function, arguments);
  if (code != CUDA_SUCCESS) [[unlikely]]
    launch_elsewhere(code, stream, config, kernel, arguments);
}

void detail::launch_kernel(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
                           void** arguments) {
  launch_function(stream, config, kernel, reinterpret_cast<CUfunction>(kernel.handle()), arguments);
}

std::string detail::wrong_kind_text(const Kernel& kernel, std::size_t index, std::string_view got) {
  const std::string number = std::to_string(index);
  const std::string name = kernel.param_name(index);
  return "argument " + number + " of kernel " + (kernel.name().empty() ? "?" : kernel.name()) +
         ": parameter " + number + (name.empty() ? "" : " '" + name + "'") + " is " +
         describe_param(kernel.params()[index]) + ", got " + std::string{got};
}

void detail::check_arguments(const Kernel& kernel, const ArgumentType* types, std::size_t count) {
  const auto params = kernel.params();
  if (params.size() != count) {
    throw std::invalid_argument("kernel " + kernel.name() + " takes " +
                                std::to_string(params.size()) + " arguments, but " +
                                std::to_string(count) + " were given");
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_compatible(types[i].kind, params[i].kind)) {
      throw std::invalid_argument{
          wrong_kind_text(kernel, i, describe_param({0, types[i].size, types[i].kind}))};
    }
    if (params[i].size != types[i].size) {
      throw std::invalid_argument("argument " + std::to_string(i) + " of kernel " + kernel.name() +
                                  " has " + std::to_string(types[i].size) +
                                  " bytes, but the kernel's parameter has " +
                                  std::to_string(params[i].size));
    }
  }
}

}  // namespace cucore
