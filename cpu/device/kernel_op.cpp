// SPDX-License-Identifier: Apache-2.0
// Kernel launches: checks of shape and parameters, and execution.
#include "cpu/device/kernel_op.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "cpu/engine/check/operations.hpp"
#include "cpu/engine/peer_access.hpp"
#include "cpu/exec/thread_pool.hpp"
#include "protection.hpp"

namespace cucpu::driver {
namespace {

[[noreturn, gnu::cold, gnu::noinline]] void fail_for_missing_bytes(const cucpu::KernelInfo& info,
                                                                   std::size_t needed,
                                                                   std::size_t given) {
  fail(CUDA_ERROR_INVALID_VALUE,
       "kernel " + info.name + " takes " + std::to_string(info.params.size()) + " parameters of " +
           std::to_string(needed) + " bytes; the launch gives " + std::to_string(given) + " bytes");
}

/// Copies the caller's arguments into one packed block.
cucpu::ParamBlock pack(const cucpu::KernelInfo& info, void** kernel_params, void** extra) {
  cucpu::ParamBlock block(info.param_bytes);
  if (kernel_params) {
    require(!extra);
    for (std::size_t i = 0; i < info.params.size(); ++i) {
      const cucpu::Param& param = info.params[i];
      require(kernel_params[i] != nullptr);
      std::memcpy(block.data() + param.offset, kernel_params[i], param.size);
    }
    return block;
  }
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      require(extra[1] != nullptr);
      bytes = *static_cast<const std::size_t*>(extra[1]);
    } else {
      fail(CUDA_ERROR_INVALID_VALUE);
    }
  }
  if (info.params.empty()) return block;
  const std::size_t needed = info.params.back().offset + info.params.back().size;
  if (!buffer || bytes < needed) fail_for_missing_bytes(info, needed, buffer ? bytes : 0);
  std::memcpy(block.data(), buffer, std::min<std::size_t>(bytes, block.size()));
  return block;
}

void check_shape(const Function& function, const cucpu::LaunchShape& shape) {
  const cucpu::KernelInfo& info = function.kernel.info();
  const auto [gx, gy, gz] = shape.grid;
  const auto [bx, by, bz] = shape.block;
  require(!CUCORE_PROTECTION("launch-shape-check") ||
          (gx > 0 && gy > 0 && gz > 0 && gx <= INT_MAX && gy <= 65535 && gz <= 65535));
  require(bx > 0 && by > 0 && bz > 0 && bx <= 1024 && by <= 1024 && bz <= 64 &&
          shape.block.volume() <= 1024);
  if (info.required_block) require(*info.required_block == shape.block);
  require(shape.block.volume() <= info.max_threads);
  require(shape.dynamic_shared_bytes <=
          dynamic_shared_limit(limits_of(function), info, function.settings));
}

void check_cluster(const Function& function, cucpu::LaunchShape& shape, bool given) {
  const cucpu::KernelInfo& info = function.kernel.info();
  const auto& set = function.settings;
  if (info.required_cluster) {
    if (given) require(shape.cluster == *info.required_cluster, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    shape.cluster = *info.required_cluster;
  } else if (!given && set.cluster_x > 0) {
    const auto axis = [](int value) { return static_cast<std::uint32_t>(std::max(value, 1)); };
    shape.cluster = {axis(set.cluster_x), axis(set.cluster_y), axis(set.cluster_z)};
  } else if (info.explicit_cluster) {
    require(given, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  }
  if (shape.cluster == cucpu::Dim3{}) return;  // no cluster: nothing limits it
  const auto [x, y, z] = shape.cluster;
  require(x > 0 && y > 0 && z > 0, CUDA_ERROR_INVALID_VALUE);
  require(limits_of(function).major >= 9 || shape.cluster.volume() == 1,
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
  require(shape.cluster.volume() <= (set.non_portable_cluster ? kMaxCluster : kMaxClusterPortable),
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
  require(shape.grid.x % x == 0 && shape.grid.y % y == 0 && shape.grid.z % z == 0,
          CUDA_ERROR_INVALID_VALUE);
}

std::string dimensions(const cucpu::Dim3& d) {
  return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
}

void set(std::uint32_t (&to)[3], const cucpu::Dim3& d) { to[0] = d.x, to[1] = d.y, to[2] = d.z; }

}  // namespace

trace::Label KernelOp::label() const {
  const std::string& symbol = function->kernel.info().name;
  int status = 0;
  char* const readable = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  trace::Label label{"kernel", status == 0 ? readable : symbol};
  std::free(readable);
  label.arguments.add("grid", dimensions(shape.grid))
      .add("block", dimensions(shape.block))
      .add("blocks", shape.grid.volume())
      .add("threads", shape.grid.volume() * shape.block.volume())
      .add("dynamic shared bytes", shape.dynamic_shared_bytes);
  const cucpu::KernelInfo& info = function->kernel.info();
  trace::Work& work = label.work;
  work.kind = trace::Work::Kind::kernel;
  work.name = symbol.c_str();
  set(work.grid, shape.grid);
  set(work.block, shape.block);
  set(work.cluster, shape.cluster);
  work.static_shared = info.static_shared_bytes;
  work.dynamic_shared = shape.dynamic_shared_bytes;
  work.registers = info.registers;
  work.local_bytes = info.local_bytes;
  return label;
}

Progress KernelOp::run(Task& task) {
  // A node of a graph may belong to another device than the stream that the graph runs in.
  Context* const home = module->context();
  const bool runs_once = ready != nullptr;
  const auto run = make_object<GridRun>(
      runs_once ? std::move(ready) : make_launch(home ? *home : context_of(task)), task);
  run->keep(runs_once ? std::move(module) : module);
  if (operations::are_checked()) [[unlikely]]
    operations::starts_launch(&run->launch());
  context_of(task).add_running(*run);
  return ThreadPool::instance().run_grid(run);
}

std::unique_ptr<cucpu::Launch> KernelOp::make_launch(Context& context) const {
  if (device_count() == 1) [[likely]]
    return cucpu::Launch::make(function->kernel, shape, params.data());
  const cucpu::PeerAccessScope scope{&context};
  return cucpu::Launch::make(function->kernel, shape, params.data());
}

CUDA_KERNEL_NODE_PARAMS KernelOp::node_params() {
  CUDA_KERNEL_NODE_PARAMS p{};
  const Handles handles = given ? *given : Handles{function->handle(), kernel_of(*function)};
  p.func = handles.function;
  p.kern = handles.kernel;
  const cucpu::KernelInfo& info = function->kernel.info();
  const cucpu::Dim3 unit = info.blocks_are_clusters ? *info.required_cluster : cucpu::Dim3{};
  p.gridDimX = shape.grid.x / unit.x, p.gridDimY = shape.grid.y / unit.y;
  p.gridDimZ = shape.grid.z / unit.z;
  p.blockDimX = shape.block.x, p.blockDimY = shape.block.y, p.blockDimZ = shape.block.z;
  p.sharedMemBytes = shape.dynamic_shared_bytes;
  if (pointers_.empty())
    for (const cucpu::Param& param : function->kernel.info().params)
      pointers_.push_back(params.data() + param.offset);
  p.kernelParams = pointers_.empty() ? nullptr : pointers_.data();
  p.ctx = module->context() ? module->context()->handle() : nullptr;
  return p;
}

Ref<KernelOp> make_kernel(const CUDA_KERNEL_NODE_PARAMS& p,
                          std::vector<CUlaunchAttribute> attributes) {
  CUlaunchConfig config{};
  config.gridDimX = p.gridDimX, config.gridDimY = p.gridDimY, config.gridDimZ = p.gridDimZ;
  config.blockDimX = p.blockDimX, config.blockDimY = p.blockDimY, config.blockDimZ = p.blockDimZ;
  config.sharedMemBytes = p.sharedMemBytes;
  config.attrs = attributes.empty() ? nullptr : attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  if (p.kern) object_of<LibraryKernel>(p.kern);  // `func` decides when both are set
  const CUfunction handle = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
  Ref<KernelOp> op;
  if (p.ctx) {
    const ScopedContext scope{usable(context_of(p.ctx))};
    op = make_kernel(handle, config, p.kernelParams, p.extra, false);
  } else {
    op = make_kernel(handle, config, p.kernelParams, p.extra, false);
  }
  op->given = KernelOp::Handles{p.func, p.kern};
  return op;
}

std::uint64_t cooperative_limit(const Function& function, const cucpu::LaunchShape& shape) {
  return std::uint64_t{blocks_per_sm(limits_of(function), function.kernel.info(),
                                     static_cast<unsigned>(shape.block.volume()),
                                     shape.dynamic_shared_bytes)} *
         function.module.context()->multiprocessors();
}

Ref<KernelOp> make_kernel(CUfunction handle, const CUlaunchConfig& config, void** kernel_params,
                          void** extra, bool cooperative) {
  Function& function = function_of(handle);
  auto op = make_object<KernelOp>();
  op->module = Ref<LoadedModule>{&function.module};
  op->function = &function;
  op->shape.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  op->shape.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  if (const cucpu::KernelInfo& info = function.kernel.info(); info.blocks_are_clusters) {
    const cucpu::Dim3 &cluster = *info.required_cluster, &given = op->shape.grid;
    const auto blocks = [](std::uint32_t clusters, std::uint32_t each) {
      const std::uint64_t product = std::uint64_t{clusters} * each;
      require(product <= INT_MAX);
      return static_cast<std::uint32_t>(product);
    };
    op->shape.grid = {blocks(given.x, cluster.x), blocks(given.y, cluster.y),
                      blocks(given.z, cluster.z)};
  }
  if (function.kernel.info().tile) op->shape.block = *function.kernel.info().required_block;
  op->shape.dynamic_shared_bytes = config.sharedMemBytes;
  op->shape.cooperative = cooperative;
  if (cooperative) {  // stored like an attribute of the caller, so that a graph node keeps it
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    op->attributes.push_back(attribute);
  }
  if (Context* const context = peek_context())
    op->shape.stack_limit = context->limits[CU_LIMIT_STACK_SIZE];
  require(config.numAttrs == 0 || config.attrs);
  bool cluster_given = false;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        op->shape.cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y,
                             attribute.value.clusterDim.z};
        cluster_given = true;
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        op->shape.cooperative = attribute.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
        continue;
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        require(attribute.value.deviceUpdatableKernelNode.deviceUpdatable == 0,
                CUDA_ERROR_NOT_SUPPORTED);
        continue;
      // Hints about caches, ordering and placement. Ignoring them is correct, because a launch here
      // waits for all earlier work.
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      case CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE:
      case CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE:
        break;
      default:
        fail(CUDA_ERROR_INVALID_VALUE);
    }
    op->attributes.push_back(attribute);
  }
  check_shape(function, op->shape);
  check_cluster(function, op->shape, cluster_given);
  if (op->shape.cooperative)
    require(op->shape.grid.volume() <= cooperative_limit(function, op->shape),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  op->params = pack(function.kernel.info(), kernel_params, extra);
  return op;
}

}  // namespace cucpu::driver
