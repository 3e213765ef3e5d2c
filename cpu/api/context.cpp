// SPDX-License-Identifier: Apache-2.0
// cuCtx* and cuDevicePrimaryCtx*.
#include "cpu/device/context.hpp"

#include <algorithm>

#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory_pool.hpp"
#include "cpu/mem/per_thread.hpp"

using namespace cucpu::driver;

namespace {

constexpr unsigned kKnownFlags = CU_CTX_FLAGS_MASK;

void check_flags(unsigned flags) {
  const unsigned sched = flags & CU_CTX_SCHED_MASK;
  require((flags & ~kKnownFlags) == 0 && (sched == 0 || (sched & (sched - 1)) == 0));
}

/// The device's primary context, created at first use. Call with primary_mutex held.
Context& primary_of(Device& device) {
  if (!device.primary) {
    auto context = make_object<Context>(device, device.primary_flags, true);
    context->is_live = false;
    context->publish();  // the handle's reference is never released
    device.primary = context.get();
  }
  return *device.primary;
}

/// Resets the primary context; the next retain activates it again. Call with primary_mutex held.
void end_primary(Device& device) {
  if (device.primary && device.primary->is_live) device.primary->tear_down();
}

CUcontext handle_or_null(Context* context) { return context ? context->handle() : nullptr; }

}  // namespace

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    Device& device = device_of(dev);
    const std::lock_guard lock{device.primary_mutex};
    Context& context = primary_of(device);
    if (!context.is_live) {
      context.flags = device.primary_flags;
      context.activate();
    }
    ++device.primary_uses;
    *out = context.handle();
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  return guarded([&] {
    Device& device = device_of(dev);
    const std::lock_guard lock{device.primary_mutex};
    require(device.primary_uses > 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--device.primary_uses == 0) end_primary(device);
  });
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  return guarded([&] {
    Device& device = device_of(dev);
    const std::lock_guard lock{device.primary_mutex};
    end_primary(device);
  });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return guarded([&] {
    Device& device = device_of(dev);
    check_flags(flags);
    const std::lock_guard lock{device.primary_mutex};
    device.primary_flags = flags;
    if (device.primary) device.primary->flags = flags;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  return guarded([&] {
    require(flags && active);
    Device& device = device_of(dev);
    const std::lock_guard lock{device.primary_mutex};
    *flags = device.primary_flags;
    *active = device.primary && device.primary->is_live;
  });
}

CUresult cuCtxCreate(CUcontext* out, CUctxCreateParams* params, unsigned int flags, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    Device& device = device_of(dev);
    check_flags(flags);
    if (params) {
      require(!params->cigParams, CUDA_ERROR_NOT_SUPPORTED);
      require(params->numExecAffinityParams == 0 || params->execAffinityParams);
      require(params->numExecAffinityParams == 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    }
    auto context = make_object<Context>(device, flags, false);
    context->publish();
    push_context(*context);
    *out = context->handle();
  });
}

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice dev) {
  return cuCtxCreate(out, nullptr, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinity, int count,
                        unsigned int flags, CUdevice dev) {
  CUctxCreateParams params{};
  params.execAffinityParams = affinity;
  params.numExecAffinityParams = count;
  return cuCtxCreate(out, &params, flags, dev);
}

CUresult cuCtxDestroy(CUcontext handle) {
  return guarded([&] {
    require(handle != nullptr);
    Ref<Context> context{&context_of(handle)};
    require(!context->is_primary && !context->green, CUDA_ERROR_INVALID_CONTEXT);
    require(context->retire(), CUDA_ERROR_INVALID_CONTEXT);
    if (peek_context() == context.get()) pop_context();
    context->tear_down();
  });
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  return guarded([&] {
    require(handle != nullptr);
    push_context(context_of(handle));
  });
}

CUresult cuCtxPopCurrent(CUcontext* out) {
  return guarded([&] {
    Ref<Context> top = pop_context();
    if (out) *out = top->handle();
  });
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  return guarded([&] { set_context(handle ? &context_of(handle) : nullptr); });
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = handle_or_null(peek_context());
  });
}

CUresult cuCtxGetDevice(CUdevice* out) {
  return guarded([&] {
    Context& context = current_context_any_state();
    require(out != nullptr);
    *out = context.device.ordinal;
  });
}

CUresult cuCtxGetDevice_v2(CUdevice* out, CUcontext handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = (handle ? context_of(handle) : current_context_any_state()).device.ordinal;
  });
}

CUresult cuCtxGetFlags(unsigned int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = current_context_any_state().flags | CU_CTX_MAP_HOST;
  });
}

CUresult cuCtxSetFlags(unsigned int flags) {
  return guarded([&] {
    check_flags(flags);
    Context& context = current_context();
    context.flags = flags;
    if (context.is_primary) context.device.primary_flags = flags;
  });
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = (handle ? context_of(handle) : current_context_any_state()).id;
  });
}

CUresult cuCtxSynchronize(void) { return cuCtxSynchronize_v2(nullptr); }

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  return guarded([&] {
    Context& context = handle ? usable(context_of(handle)) : current_context();
    require_not_capturing(context);
    context.synchronize();
    trim_pools_after_wait();
    usable(context);
  });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return guarded([&] {
    Context& context = current_context();
    switch (limit) {
      case CU_LIMIT_STACK_SIZE:
      case CU_LIMIT_PRINTF_FIFO_SIZE:
      case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
        break;
      case CU_LIMIT_MALLOC_HEAP_SIZE:
        require(!context.heap.is_in_use());
        break;
      case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
        require(value <= 128);
        break;
      case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
        value = std::min<std::size_t>(
            value, static_cast<std::size_t>(device_attribute(
                       context.device, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE)));
        break;
      case CU_LIMIT_SHMEM_SIZE:
      case CU_LIMIT_CIG_ENABLED:
      case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED:
        fail(CUDA_ERROR_UNSUPPORTED_LIMIT);
      default:
        require(limit >= 0 && limit < CU_LIMIT_MAX);
        fail(CUDA_ERROR_UNSUPPORTED_LIMIT);
    }
    context.limits[limit] = value;
  });
}

CUresult cuCtxGetLimit(size_t* out, CUlimit limit) {
  return guarded([&] {
    require(out && limit >= 0 && limit < CU_LIMIT_MAX);
    *out = current_context().limits[limit];
  });
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = current_context().cache_config;
  });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  return guarded([&] {
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
    current_context().cache_config = config;
  });
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = current_context().shared_config;
  });
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return guarded([&] {
    require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
            config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
    current_context();  // the bank size is fixed, as on recent GPUs
  });
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* out) {
  return guarded([&] {
    require(out != nullptr);
    const Context& context = handle ? context_of(handle) : current_context_any_state();
    require(context.is_live, CUDA_ERROR_INVALID_CONTEXT);  // false after a reset
    *out = 3020;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return guarded([&] {
    current_context_any_state();
    if (least) *least = 0;
    if (greatest) *greatest = -5;
  });
}

CUresult cuCtxResetPersistingL2Cache(void) {
  return guarded([&] { current_context(); });
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* out, CUexecAffinityType type) {
  return guarded([&] {
    require(out != nullptr);
    Context& context = current_context();
    require(type == CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    out->type = type;
    out->param.smCount.val = static_cast<unsigned>(
        device_attribute(context.device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  });
}

CUresult cuCtxAttach(CUcontext* out, unsigned int flags) {
  return guarded([&] {
    require(out && flags == 0);
    Context& context = current_context();
    context.attached.fetch_add(1);
    *out = context.handle();
  });
}

CUresult cuCtxDetach(CUcontext handle) {
  return guarded([&]() -> CUresult {
    Context& context = context_of(handle);
    require(!context.is_primary && !context.green, CUDA_ERROR_INVALID_CONTEXT);
    if (context.attached.fetch_sub(1) > 0) return CUDA_SUCCESS;
    context.attached = 0;
    return cuCtxDestroy(handle);  // the use of its creator was the last one
  });
}

CUresult cuDeviceCanAccessPeer(int* out, CUdevice dev, CUdevice peer) {
  return guarded([&] {
    require(out != nullptr);
    *out = &device_of(dev) != &device_of(peer);
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer_handle, unsigned int flags) {
  return guarded([&] {
    Context& context = current_context();
    require(flags == 0);
    Context& peer = context_of(peer_handle);
    require(&peer.device != &context.device, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    const std::lock_guard lock{context.peers_mutex};
    require(context.peers.insert(peer.id).second, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    MemoryMap::instance().mark_changed();
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext peer_handle) {
  return guarded([&] {
    Context& context = current_context();
    Context& peer = context_of(peer_handle);
    const std::lock_guard lock{context.peers_mutex};
    require(context.peers.erase(peer.id) == 1, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    MemoryMap::instance().mark_changed();
  });
}

}  // extern "C"

extern "C" __attribute__((visibility("default"))) const char* cucoreGetLastFaultReport(void) {
  struct Copy {
    std::string text;  // valid until the next call of the same thread
  };
  try {
    auto& copy = cucpu::PerThread<Copy>::get();
    copy.text = cucpu::driver::last_fault_report();
    return copy.text.c_str();
  } catch (const std::bad_alloc&) {
    return "";
  }
}
