// SPDX-License-Identifier: Apache-2.0
// cuStream*: creation, queries, waits, callbacks, attributes.
#include <algorithm>

#include "cpu/device/capture.hpp"
#include "cpu/device/context.hpp"
#include "cpu/device/event.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory_ops.hpp"
#include "cpu/device/memory_pool.hpp"
#include "cpu/device/submit.hpp"
#include "cpu/exec/ops.hpp"
#include "cpu/exec/stream_order.hpp"
#include "cpu/graph/capture.hpp"

using namespace cucpu::driver;

namespace {

CUresult query(CUstream handle) {
  const Ref<Stream> stream = stream_of(handle);
  require_not_capturing(*stream);
  const bool drained =
      stream->drained() && (stream->role() != StreamRole::legacy ||
                            context_of(*stream).blocking_streams_with_work().empty());
  usable(context_of(*stream));
  if (drained && cucpu::operations::are_checked()) [[unlikely]]
    cucpu::operations::host_joins(view_of(*stream), stream->submitted());
  return drained ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

void synchronize(CUstream handle) {
  const Ref<Stream> stream = stream_of(handle);
  require_not_capturing(*stream);
  if (stream->role() == StreamRole::legacy)
    for (auto& other : context_of(*stream).blocking_streams_with_work())
      other->wait(other->submitted());
  stream->wait(stream->submitted());
  trim_pools_after_wait();
  usable(context_of(*stream));
}

void wait_event(CUstream stream_handle, CUevent event_handle, unsigned flags) {
  const Ref<Stream> stream = stream_of(stream_handle);
  Event& event = object_of<Event>(event_handle);
  require(flags <= CU_EVENT_WAIT_EXTERNAL);
  if (capture_wait(*stream, event, flags & CU_EVENT_WAIT_EXTERNAL)) return;
  event.wait_in(*stream);
}

void launch_host_function(CUstream handle, CUhostFn fn, void* data) {
  const Ref<Stream> stream = stream_of(handle);
  require(fn != nullptr);
  submit(*stream, make_object<HostOp>(fn, data));
}

CUresult memory_ops(CUstream handle, const CUstreamBatchMemOpParams* list, unsigned count,
                    unsigned flags, const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        const Ref<Stream> stream = stream_of(handle);
        require(count == 0 || list);
        require(count <= kMostMemoryOps && flags == 0);
        if (count > 0) submit(*stream, make_memory_ops(list, count));
      },
      function);
}

CUstreamBatchMemOpParams one_op(CUstreamBatchMemOpType type, CUdeviceptr address, cuuint64_t value,
                                unsigned flags) {
  CUstreamBatchMemOpParams op{};
  op.waitValue.operation = type;  // waitValue and writeValue have the same layout
  op.waitValue.address = address;
  op.waitValue.value64 = value;
  op.waitValue.flags = flags;
  return op;
}

bool is_stream_attribute(CUstreamAttrID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return true;
    default:
      return false;
  }
}

void create(CUstream* out, unsigned int flags, int priority) {
  Context& context = current_context();
  require(out && flags <= CU_STREAM_NON_BLOCKING);
  *out = context.create_stream(flags, std::clamp(priority, -5, 0))->handle();
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  return guarded(Parameters{out, flags, priority}, [&] { create(out, flags, priority); });
}

CUresult cuStreamCreate(CUstream* out, unsigned int flags) {
  return guarded(Parameters{out, flags}, [&] { create(out, flags, 0); });
}

CUresult cuStreamDestroy(CUstream handle) {
  return guarded([&] {
    Ref<Stream> stream{&object_of<Stream>(handle)};  // default streams cannot be destroyed
    abandon_capture(*stream);
    Context& context = context_of(*stream);
    const bool drained = stream->drained();
    // Queued work continues, and the context still waits for it; the last operation removes the
    // stream. That operation is queued before the handle is retired: without memory for it, nothing
    // has changed.
    if (!drained)
      stream->submit(make_object<CallOp>(
          [raw = stream.get()] { context_of(*raw).remove_stream(*raw); }, true));
    require(stream->retire(), CUDA_ERROR_INVALID_HANDLE);
    if (drained) context.remove_stream(*stream);
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return guarded([&] { return query(handle); });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return guarded(Parameters{handle}, [&] { synchronize(handle); });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return guarded(Parameters{stream, event, flags}, [&] { wait_event(stream, event, flags); });
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data,
                             unsigned int flags) {
  return guarded([&] {
    const Ref<Stream> stream = stream_of(handle);
    require(callback && flags == 0);
    require_not_capturing(*stream);
    stream->submit(make_object<CallbackOp>(callback, handle, data));
  });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void* data) {
  return guarded([&] { launch_host_function(stream, fn, data); });
}

CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn fn, void* data, unsigned int mode) {
  return guarded([&] {
    require(mode <= CU_HOST_TASK_SPINWAIT);
    launch_host_function(stream, fn, data);
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = stream_of(handle)->priority();
  });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = context_of(*stream_of_any_state(handle)).device.ordinal;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = stream_of(handle)->flags();
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = stream_of_any_state(handle)->id();
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = context_of(*stream_of_any_state(handle)).handle();
  });
}

CUresult cuStreamCopyAttributes(CUstream to_handle, CUstream from_handle) {
  return guarded([&] {
    const Ref<Stream> to = stream_of(to_handle), from = stream_of(from_handle);
    if (to == from) return;
    to->sync_policy = from->sync_policy.load();
    const std::scoped_lock lock{to->attributes_mutex, from->attributes_mutex};
    to->attributes = from->attributes;
  });
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue* out) {
  return guarded([&] {
    require(out && is_stream_attribute(id));
    const Ref<Stream> stream = stream_of(handle);
    *out = {};
    switch (id) {
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        out->priority = stream->priority();
        return;
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        out->syncPolicy = stream->sync_policy;
        return;
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        out->memSyncDomainMap = {0, 1};
        break;
      default:
        break;
    }
    const std::lock_guard lock{stream->attributes_mutex};
    for (const auto& [key, value] : stream->attributes)
      if (key == id) *out = value;
  });
}

CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue* value) {
  return guarded([&] {
    require(value && is_stream_attribute(id));
    const Ref<Stream> stream = stream_of(handle);
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
      require(value->priority == stream->priority(),
              CUDA_ERROR_NOT_SUPPORTED);  // fixed at creation
      return;
    }
    if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) {
      require(value->syncPolicy >= CU_SYNC_POLICY_AUTO &&
              value->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC);
      stream->sync_policy = value->syncPolicy;
      return;
    }
    const std::lock_guard lock{stream->attributes_mutex};
    for (auto& [key, kept] : stream->attributes)
      if (key == id) {
        kept = *value;
        return;
      }
    stream->attributes.emplace_back(id, *value);
  });
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags) {
  const auto op = one_op(CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
  return memory_ops(stream, &op, 1, 0);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned int flags) {
  const auto op = one_op(CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
  return memory_ops(stream, &op, 1, 0);
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags) {
  const auto op = one_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
  return memory_ops(stream, &op, 1, 0);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned int flags) {
  const auto op = one_op(CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
  return memory_ops(stream, &op, 1, 0);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* list,
                            unsigned int flags) {
  return memory_ops(stream, list, count, flags);
}

}  // extern "C"
