// SPDX-License-Identifier: Apache-2.0
// execution.cpp: execution contexts: the primary context of a device, or a green context with some
// of its multiprocessors.
#include <map>
#include <memory>
#include <mutex>

#include "driver/mutex.hpp"
#include "runtime/state.hpp"

namespace cucore::rt {

struct ExecutionContext {
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;  // null for the primary context, which is never destroyed
  CUdevice device = 0;
};

namespace {

struct ExecutionContexts {  // handles returned by this API; any other handle is an error
  cucore::detail::Mutex mutex;
  std::map<const void*, std::unique_ptr<ExecutionContext>> known;
  std::map<CUdevice, cudaExecutionContext_t> primary;
};

ExecutionContexts& execution_contexts() {
  static ExecutionContexts* const instance = new ExecutionContexts;
  return *instance;
}

cudaExecutionContext_t register_context(ExecutionContexts& all,
                                        std::unique_ptr<ExecutionContext> made) {
  auto* handle = reinterpret_cast<cudaExecutionContext_t>(made.get());
  all.known.emplace(handle, std::move(made));
  return handle;
}

/// Calls `body` with the execution context of a handle.
template <class Body>
cudaError_t with_execution_context(cudaExecutionContext_t handle, Body&& body) {
  return call_driver([&](const DriverTable& d) {
    ExecutionContext found;
    {
      ExecutionContexts& all = execution_contexts();
      const std::lock_guard lock{all.mutex};
      const auto at = all.known.find(handle);
      if (at == all.known.end()) return CUDA_ERROR_INVALID_HANDLE;
      found = *at->second;
    }
    return body(d, found);
  });
}

cudaError_t get_primary_context(cudaExecutionContext_t* out, int device) {
  return call_driver([=](const DriverTable&) {
    CUcontext context = nullptr;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult code = primary_context(device, &context); code != CUDA_SUCCESS) return code;
    ExecutionContexts& all = execution_contexts();
    const std::lock_guard lock{all.mutex};
    cudaExecutionContext_t& known = all.primary[device];
    if (known == nullptr)
      known = register_context(
          all, std::make_unique<ExecutionContext>(ExecutionContext{context, nullptr, device}));
    *out = known;
    return CUDA_SUCCESS;
  });
}

cudaError_t create(cudaExecutionContext_t* out, cudaDevResourceDesc_t desc, int device,
                   unsigned flags) {
  return call_driver([=](const DriverTable& d) {
    CUcontext context = nullptr;
    CUgreenCtx green = nullptr;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // A runtime context always has a default stream; the driver creates one only with this flag.
    if (const CUresult code =
            d.cuGreenCtxCreate(&green, desc, device, flags | CU_GREEN_CTX_DEFAULT_STREAM);
        code != CUDA_SUCCESS) {
      return code;
    }
    if (const CUresult code = d.cuCtxFromGreenCtx(&context, green); code != CUDA_SUCCESS) {
      d.cuGreenCtxDestroy(green);
      return code;
    }
    ExecutionContexts& all = execution_contexts();
    const std::lock_guard lock{all.mutex};
    *out = register_context(
        all, std::make_unique<ExecutionContext>(ExecutionContext{context, green, device}));
    return CUDA_SUCCESS;
  });
}

cudaError_t destroy(cudaExecutionContext_t handle) {
  return with_execution_context(handle, [=](const DriverTable& d, const ExecutionContext& e) {
    if (e.green == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = d.cuGreenCtxDestroy(e.green);
    if (code == CUDA_SUCCESS) {
      ExecutionContexts& all = execution_contexts();
      const std::lock_guard lock{all.mutex};
      all.known.erase(handle);
    }
    return code;
  });
}

cudaError_t get_device(int* device, cudaExecutionContext_t handle) {
  return with_execution_context(handle, [=](const DriverTable&, const ExecutionContext& e) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = e.device;
    return CUDA_SUCCESS;
  });
}

cudaError_t get_id(cudaExecutionContext_t handle, unsigned long long* id) {
  return with_execution_context(handle, [=](const DriverTable& d, const ExecutionContext& e) {
    return d.cuCtxGetId(e.context, id);
  });
}

cudaError_t get_resource(cudaExecutionContext_t handle, cudaDevResource* resource,
                         cudaDevResourceType type) {
  static_assert(sizeof(cudaDevResource) == sizeof(CUdevResource));
  return with_execution_context(handle, [=](const DriverTable& d, const ExecutionContext& e) {
    return d.cuCtxGetDevResource(e.context, reinterpret_cast<CUdevResource*>(resource),
                                 static_cast<CUdevResourceType>(type));
  });
}

cudaError_t record(cudaExecutionContext_t handle, cudaEvent_t event) {
  return with_execution_context(handle, [=](const DriverTable& d, const ExecutionContext& e) {
    return d.cuCtxRecordEvent(e.context, event);
  });
}

cudaError_t wait(cudaExecutionContext_t handle, cudaEvent_t event) {
  return with_execution_context(handle, [=](const DriverTable& d, const ExecutionContext& e) {
    return d.cuCtxWaitEvent(e.context, event);
  });
}

cudaError_t synchronize(cudaExecutionContext_t handle) {
  return with_execution_context(handle, [](const DriverTable& d, const ExecutionContext& e) {
    return d.cuCtxSynchronize_v2(e.context);
  });
}

cudaError_t create_stream(cudaStream_t* stream, cudaExecutionContext_t handle, unsigned flags,
                          int priority) {
  return with_execution_context(handle, [=](const DriverTable& d, const ExecutionContext& e) {
    if (e.green != nullptr)
      return d.cuGreenCtxStreamCreate(stream, e.green, flags | CU_STREAM_NON_BLOCKING, priority);
    if (const CUresult code = d.cuCtxPushCurrent(e.context); code != CUDA_SUCCESS) return code;
    const CUresult code = d.cuStreamCreateWithPriority(stream, flags, priority);
    CUcontext popped = nullptr;
    d.cuCtxPopCurrent(&popped);
    return code;
  });
}

cudaError_t conditional_handle(cudaGraphConditionalHandle* out, cudaGraph_t graph,
                               cudaExecutionContext_t handle, unsigned value, unsigned flags) {
  return with_execution_context(handle, [=](const DriverTable& d, const ExecutionContext& e) {
    return d.cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(out), graph,
                                            e.context, value, flags);
  });
}

}  // namespace

void install_executions(RuntimeTable& t) {
  t.cudaDeviceGetExecutionCtx = get_primary_context;
  t.cudaGreenCtxCreate = create;
  t.cudaExecutionCtxDestroy = destroy;
  t.cudaExecutionCtxGetDevice = get_device;
  t.cudaExecutionCtxGetId = get_id;
  t.cudaExecutionCtxGetDevResource = get_resource;
  t.cudaExecutionCtxRecordEvent = record;
  t.cudaExecutionCtxWaitEvent = wait;
  t.cudaExecutionCtxSynchronize = synchronize;
  t.cudaExecutionCtxStreamCreate = create_stream;
  t.cudaGraphConditionalHandleCreate_v2 = conditional_handle;
}

}  // namespace cucore::rt
