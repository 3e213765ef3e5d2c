// SPDX-License-Identifier: Apache-2.0
// Green contexts: shares of the host's cores. As many host threads run the kernels of a green
// context as its share allows (exec/thread_pool.cpp). Work queues are stored without effect: every
// stream is a queue of its own.
#include "cpu/device/green_context.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/device/event.hpp"
#include "cpu/device/guard.hpp"

using namespace cucpu::driver;

namespace {

constexpr unsigned kQueues = 8;  // default number of work queues of a device

CUdevResource all_cores() {
  CUdevResource r{};
  r.type = CU_DEV_RESOURCE_TYPE_SM;
  r.sm.smCount = settings().threads;
  r.sm.minSmPartitionSize = 1;
  r.sm.smCoscheduledAlignment = 1;
  return r;
}

CUdevResource queue_config(const Device& device) {
  CUdevResource r{};
  r.type = CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG;
  r.wqConfig.device = device.ordinal;
  r.wqConfig.wqConcurrencyLimit = kQueues;
  r.wqConfig.sharingScope = CU_WORKQUEUE_SCOPE_DEVICE_CTX;
  return r;
}

/// The work queues of a context, identified by its number.
CUdevResource queues_of(const Context& context) {
  CUdevResource r{};
  r.type = CU_DEV_RESOURCE_TYPE_WORKQUEUE;
  std::memcpy(r.wq.reserved, &context.id, sizeof context.id);
  return r;
}

void check_queues(const CUdevResource& r) {
  require(is_device(r.wqConfig.device) && r.wqConfig.wqConcurrencyLimit > 0 &&
              r.wqConfig.sharingScope >= CU_WORKQUEUE_SCOPE_DEVICE_CTX &&
              r.wqConfig.sharingScope <= CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED,
          CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}

const CUdevResource* find(const std::vector<CUdevResource>& list, CUdevResourceType type) {
  const auto at = std::find_if(list.begin(), list.end(),
                               [&](const CUdevResource& r) { return r.type == type; });
  return at == list.end() ? nullptr : &*at;
}

void give(CUdevResource* out, CUdevResourceType type, const std::vector<CUdevResource>& list) {
  require(out != nullptr);
  const CUdevResource* r = find(list, type);
  require(r != nullptr, CUDA_ERROR_INVALID_RESOURCE_TYPE);
  *out = *r;
}

/// The resources of a context: those of its green context, or all of the device.
std::vector<CUdevResource> resources_of(const Context& context) {
  std::vector<CUdevResource> list;
  if (context.green)
    list = static_cast<GreenContext&>(*context.green).resources;
  else
    list = {all_cores(), queue_config(context.device)};
  list.push_back(queues_of(context));
  return list;
}

GreenContext& green_of(CUgreenCtx handle) {
  return object_of<GreenContext>(handle, CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace

extern "C" {

CUresult cuDeviceGetDevResource(CUdevice dev, CUdevResource* out, CUdevResourceType type) {
  return guarded([&] { give(out, type, {all_cores(), queue_config(device_of(dev))}); });
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource* out, CUdevResourceType type) {
  return guarded([&] {
    Context& context = context_of(handle);
    give(out, type, resources_of(context));
  });
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* out, CUdevResourceType type) {
  return guarded([&] {
    require(out != nullptr);
    require(type == CU_DEV_RESOURCE_TYPE_SM || type == CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG ||
                type == CU_DEV_RESOURCE_TYPE_WORKQUEUE,
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
    give(out, type, resources_of(*green_of(handle).context));
  });
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* groups,
                                     const CUdevResource* input, CUdevResource* remainder,
                                     unsigned int flags, unsigned int min_count) {
  return guarded([&] {
    require(groups && input);
    require(input->type == CU_DEV_RESOURCE_TYPE_SM,
            result ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_RESOURCE_TYPE);
    require(flags <= (CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                      CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE));
    const unsigned each = std::max(1u, min_count);
    require(each <= input->sm.smCount, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    const unsigned possible = input->sm.smCount / each;
    if (!result) {
      *groups = possible;
      return;
    }
    *groups = std::min(*groups, possible);
    for (unsigned i = 0; i < *groups; ++i) {
      result[i] = *input;
      result[i].sm.smCount = each;
    }
    if (remainder) {
      *remainder = *input;
      remainder->sm.smCount = input->sm.smCount - *groups * each;
      if (remainder->sm.smCount == 0) remainder->type = CU_DEV_RESOURCE_TYPE_INVALID;
    }
  });
}

CUresult cuDevSmResourceSplit(CUdevResource* result, unsigned int groups,
                              const CUdevResource* input, CUdevResource* remainder,
                              unsigned int flags, CU_DEV_SM_RESOURCE_GROUP_PARAMS* params) {
  return guarded([&] {
    require(groups > 0 && input && params && flags == 0 && input->type == CU_DEV_RESOURCE_TYPE_SM);
    unsigned left = input->sm.smCount;
    for (unsigned i = 0; i < groups; ++i) {
      CU_DEV_SM_RESOURCE_GROUP_PARAMS& wanted = params[i];
      require((wanted.flags & ~unsigned{CU_DEV_SM_RESOURCE_GROUP_BACKFILL}) == 0);
      const bool backfill = (wanted.flags & CU_DEV_SM_RESOURCE_GROUP_BACKFILL) != 0;
      // Cores are scheduled together in groups of this size; all groups of cores are alike here.
      unsigned together = std::max(1u, wanted.coscheduledSmCount);
      if (wanted.smCount == 0) {  // as many as there are; without `result` that may be none
        wanted.smCount = backfill ? left : left / together * together;
        require(wanted.smCount > 0 || !result, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
      }
      require(wanted.smCount <= left && (backfill || wanted.smCount % together == 0),
              CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
      if (const unsigned preferred = wanted.preferredCoscheduledSmCount) {
        require(preferred % together == 0, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
        if (wanted.smCount % preferred == 0) together = preferred;
      }
      left -= wanted.smCount;
      if (!result) continue;
      result[i] = *input;
      result[i].sm.smCount = wanted.smCount;
      result[i].sm.smCoscheduledAlignment = together;
      result[i].sm.flags = wanted.flags;
    }
    if (remainder) {
      *remainder = *input;
      remainder->sm.smCount = left;
      if (left == 0) remainder->type = CU_DEV_RESOURCE_TYPE_INVALID;
    }
  });
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* out, CUdevResource* resources,
                                   unsigned int count) {
  return guarded([&] {
    require(out && resources && count > 0);
    auto desc = make_object<ResourceDesc>();
    CUdevResource cores = all_cores();
    unsigned given_cores = 0;
    for (unsigned i = 0; i < count; ++i) {
      const CUdevResource& r = resources[i];
      switch (r.type) {
        case CU_DEV_RESOURCE_TYPE_SM:
          cores = r;
          given_cores += r.sm.smCount;
          cores.sm.smCount = given_cores;
          break;
        case CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG:
          check_queues(r);
          [[fallthrough]];
        case CU_DEV_RESOURCE_TYPE_WORKQUEUE:  // a configuration of queues, or queues
          require(desc->resources.empty(), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
          desc->resources.push_back(r);
          break;
        default:
          fail(CUDA_ERROR_INVALID_RESOURCE_TYPE);
      }
    }
    require(cores.sm.smCount > 0 && cores.sm.smCount <= settings().threads,
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    desc->resources.insert(desc->resources.begin(), cores);
    *out = desc->publish();  // never destroyed: the API has no call for it
  });
}

CUresult cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags) {
  return guarded([&] {
    require(out && (flags & ~CU_GREEN_CTX_DEFAULT_STREAM) == 0);
    Device& device = device_of(dev);
    auto green = make_object<GreenContext>();
    for (const CUdevResource& r : nonnull_object_of<ResourceDesc>(desc).resources)
      if (r.type != CU_DEV_RESOURCE_TYPE_WORKQUEUE) green->resources.push_back(r);
    if (const auto* queues = find(green->resources, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG))
      require(queues->wqConfig.device == dev, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    else
      green->resources.push_back(queue_config(device));
    green->context = make_object<Context>(device, 0u, false);
    green->context->cores = green->resources[0].sm.smCount;
    green->context->publish();
    green->context->green = green;
    *out = green->publish();
  });
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  return guarded([&] {
    Ref<GreenContext> green{&green_of(handle)};
    require(green->retire(), CUDA_ERROR_INVALID_HANDLE);
    const Ref<Context> context = green->context;
    context->retire();
    context->tear_down();
    context->green = nullptr;
    green->context = nullptr;
  });
}

CUresult cuCtxFromGreenCtx(CUcontext* out, CUgreenCtx handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = green_of(handle).context->handle();
  });
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = green_of(handle).context->id;
  });
}

CUresult cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx handle, unsigned int flags,
                                int priority) {
  return guarded([&] {
    require(out != nullptr);
    GreenContext& green = green_of(handle);
    require(flags == CU_STREAM_NON_BLOCKING);
    const Ref<Stream> stream =
        usable(*green.context).create_stream(flags, std::clamp(priority, -5, 0));
    stream->green_context = Ref<Object>{&green};
    *out = stream->handle();
  });
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event_handle) {
  return guarded([&] {
    Context& context = usable(*green_of(handle).context);
    Event& event = object_of<Event>(event_handle);
    // Green contexts belong to the device's primary context, so any of them may have created the
    // event.
    const Context& maker = event.context();
    require(&maker.device == &context.device && (maker.is_primary || maker.green),
            CUDA_ERROR_INVALID_HANDLE);
    event.record_all(context);
  });
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event) {
  return guarded([&] { return cuCtxWaitEvent(green_of(handle).context->handle(), event); });
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* out) {
  return guarded([&] {
    require(out != nullptr);
    const Ref<Stream> stream = stream_of(handle);
    const Ref<Object> green =
        stream->green_context ? stream->green_context : context_of(*stream).green;
    *out = green ? static_cast<GreenContext&>(*green).handle() : nullptr;
  });
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green_out) {
  return guarded([&] {
    const Ref<Stream> stream = stream_of_any_state(handle);
    const Ref<Object> green = context_of(*stream).green;
    if (context) *context = green ? nullptr : context_of(*stream).handle();
    if (green_out) *green_out = green ? static_cast<GreenContext&>(*green).handle() : nullptr;
  });
}

CUresult cuStreamGetDevResource(CUstream handle, CUdevResource* out, CUdevResourceType type) {
  return guarded([&] {
    const Ref<Stream> stream = stream_of(handle);
    give(out, type, resources_of(context_of(*stream)));
  });
}

}  // extern "C"
