// execution.cpp: execution contexts: the primary context of a device, or a green context with part
// of its multiprocessors.
#include <map>
#include <memory>
#include <mutex>

#include "driver/mutex.hpp"
#include "runtime/state.hpp"

namespace cucore::rt {

struct Execution {
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;  // null: the primary context, which nobody destroys
  CUdevice device = 0;
};

namespace {

struct Executions {  // what this API handed out: any other address is refused, not followed
  cucore::detail::Mutex mutex;
  std::map<const void*, std::unique_ptr<Execution>> known;
  std::map<CUdevice, cudaExecutionContext_t> primary;
};

Executions& executions() {
  static Executions* const instance = new Executions;
  return *instance;
}

cudaExecutionContext_t hand_out(Executions& all, std::unique_ptr<Execution> made) {
  auto* handle = reinterpret_cast<cudaExecutionContext_t>(made.get());
  all.known.emplace(handle, std::move(made));
  return handle;
}

/// Runs `body` with the context behind a handle.
template <class Body>
cudaError_t with_execution(cudaExecutionContext_t handle, Body&& body) {
  return query([&](const DriverTable& d) {
    Execution found;
    {
      Executions& all = executions();
      const std::lock_guard lock{all.mutex};
      const auto at = all.known.find(handle);
      if (at == all.known.end()) return CUDA_ERROR_INVALID_HANDLE;
      found = *at->second;
    }
    return body(d, found);
  });
}

cudaError_t of_device(cudaExecutionContext_t* out, int device) {
  return query([=](const DriverTable&) {
    CUcontext context = nullptr;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult code = primary_context(device, &context); code != CUDA_SUCCESS) return code;
    Executions& all = executions();
    const std::lock_guard lock{all.mutex};
    cudaExecutionContext_t& known = all.primary[device];
    if (known == nullptr)
      known = hand_out(all, std::make_unique<Execution>(Execution{context, nullptr, device}));
    *out = known;
    return CUDA_SUCCESS;
  });
}

cudaError_t create(cudaExecutionContext_t* out, cudaDevResourceDesc_t desc, int device,
                   unsigned flags) {
  return query([=](const DriverTable& d) {
    CUcontext context = nullptr;
    CUgreenCtx green = nullptr;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // The runtime's contexts always have a default stream; the driver wants to be asked for it.
    if (const CUresult code =
            d.cuGreenCtxCreate(&green, desc, device, flags | CU_GREEN_CTX_DEFAULT_STREAM);
        code != CUDA_SUCCESS) {
      return code;
    }
    if (const CUresult code = d.cuCtxFromGreenCtx(&context, green); code != CUDA_SUCCESS) {
      d.cuGreenCtxDestroy(green);
      return code;
    }
    Executions& all = executions();
    const std::lock_guard lock{all.mutex};
    *out = hand_out(all, std::make_unique<Execution>(Execution{context, green, device}));
    return CUDA_SUCCESS;
  });
}

cudaError_t destroy(cudaExecutionContext_t handle) {
  return with_execution(handle, [=](const DriverTable& d, const Execution& e) {
    if (e.green == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = d.cuGreenCtxDestroy(e.green);
    if (code == CUDA_SUCCESS) {
      Executions& all = executions();
      const std::lock_guard lock{all.mutex};
      all.known.erase(handle);
    }
    return code;
  });
}

cudaError_t get_device(int* device, cudaExecutionContext_t handle) {
  return with_execution(handle, [=](const DriverTable&, const Execution& e) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = e.device;
    return CUDA_SUCCESS;
  });
}

cudaError_t get_id(cudaExecutionContext_t handle, unsigned long long* id) {
  return with_execution(handle, [=](const DriverTable& d, const Execution& e) {
    return d.cuCtxGetId(e.context, id);
  });
}

cudaError_t get_resource(cudaExecutionContext_t handle, cudaDevResource* resource,
                         cudaDevResourceType type) {
  static_assert(sizeof(cudaDevResource) == sizeof(CUdevResource));
  return with_execution(handle, [=](const DriverTable& d, const Execution& e) {
    return d.cuCtxGetDevResource(e.context, reinterpret_cast<CUdevResource*>(resource),
                                 static_cast<CUdevResourceType>(type));
  });
}

cudaError_t record(cudaExecutionContext_t handle, cudaEvent_t event) {
  return with_execution(handle, [=](const DriverTable& d, const Execution& e) {
    return d.cuCtxRecordEvent(e.context, event);
  });
}

cudaError_t wait(cudaExecutionContext_t handle, cudaEvent_t event) {
  return with_execution(handle, [=](const DriverTable& d, const Execution& e) {
    return d.cuCtxWaitEvent(e.context, event);
  });
}

cudaError_t synchronize(cudaExecutionContext_t handle) {
  return with_execution(handle, [](const DriverTable& d, const Execution& e) {
    return d.cuCtxSynchronize_v2(e.context);
  });
}

cudaError_t create_stream(cudaStream_t* stream, cudaExecutionContext_t handle, unsigned flags,
                          int priority) {
  return with_execution(handle, [=](const DriverTable& d, const Execution& e) {
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
  return with_execution(handle, [=](const DriverTable& d, const Execution& e) {
    return d.cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(out), graph,
                                            e.context, value, flags);
  });
}

}  // namespace

void install_executions(RuntimeTable& t) {
  t.cudaDeviceGetExecutionCtx = of_device;
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
