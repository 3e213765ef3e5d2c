// SPDX-License-Identifier: Apache-2.0
// cuEvent*.
#include "cpu/device/event.hpp"

#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/ipc.hpp"
#include "cpu/device/memory_pool.hpp"
#include "cpu/engine/check/operations.hpp"
#include "cpu/graph/capture.hpp"

using namespace cucpu::driver;

namespace {

[[gnu::always_inline]] inline void record(CUevent event_handle, CUstream stream_handle,
                                          unsigned flags) {
  Event& event = object_of<Event>(event_handle);
  const Ref<Stream> stream = stream_of(stream_handle);
  require(flags <= CU_EVENT_RECORD_EXTERNAL);
  if (capture_record(*stream, event, flags & CU_EVENT_RECORD_EXTERNAL)) return;
  require(!(flags & CU_EVENT_RECORD_EXTERNAL));
  require(&event.context() == &context_of(*stream), CUDA_ERROR_INVALID_HANDLE);
  event.record(*stream);
}

CUresult query(CUevent handle) {
  Event& event = object_of<Event>(handle);
  require(!event.is_captured(), CUDA_ERROR_CAPTURED_EVENT);
  usable(event.context());
  if (event.flags & CU_EVENT_INTERPROCESS)
    return ipc_event_is_over(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  const Ref<Point> point = event.point();
  if (point && !point->is_over()) return CUDA_ERROR_NOT_READY;
  if (cucpu::operations::are_checked()) [[unlikely]]
    cucpu::operations::host_joins_event(&event);
  usable(event.context());
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  return guarded([&] {
    Context& context = current_context();
    constexpr unsigned kKnown =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    require(out && (flags & ~kKnown) == 0);
    require(!(flags & CU_EVENT_INTERPROCESS) || (flags & CU_EVENT_DISABLE_TIMING));
    *out = make_object<Event>(context, flags)->publish();
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return guarded([&] {
    // A graph may still record it: the shared page is released with the last reference.
    require(object_of<Event>(handle).retire(), CUDA_ERROR_INVALID_HANDLE);
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return guarded(Parameters{event, stream},
                 [&] { record(event, stream, CU_EVENT_RECORD_DEFAULT); });
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return guarded([&] { record(event, stream, flags); });
}

CUresult cuEventQuery(CUevent event) {
  return guarded([&] {
    require_capture_safe();
    return query(event);
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return guarded(Parameters{handle}, [&] {
    Event& event = object_of<Event>(handle);
    require_capture_safe();
    require(!event.is_captured(), CUDA_ERROR_CAPTURED_EVENT);
    usable(event.context());
    if (event.flags & CU_EVENT_INTERPROCESS) wait_for_ipc_event(event);
    if (const Ref<Point> point = event.point(); point && point->stream)
      point->stream->wait(point->number);
    if (cucpu::operations::are_checked()) [[unlikely]]
      cucpu::operations::host_joins_event(&event);
    trim_pools_after_wait();
    usable(event.context());
  });
}

CUresult cuEventElapsedTime(float* out, CUevent start_handle, CUevent end_handle) {
  return guarded([&] {
    Event& start = object_of<Event>(start_handle);
    Event& end = object_of<Event>(end_handle);
    require(start.has_timing() && end.has_timing(), CUDA_ERROR_INVALID_HANDLE);
    require(&start.context() == &end.context(), CUDA_ERROR_INVALID_HANDLE);
    const Ref<Point> from = start.point(), to = end.point();
    require(from && to, CUDA_ERROR_INVALID_HANDLE);
    require(out != nullptr);
    if (!from->is_over() || !to->is_over()) return CUDA_ERROR_NOT_READY;
    usable(start.context());
    *out = static_cast<float>(
        static_cast<double>(to->nanoseconds.load() - from->nanoseconds.load()) * 1e-6);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxRecordEvent(CUcontext context_handle, CUevent event_handle) {
  return guarded([&] {
    Context& context = usable(context_of(context_handle));
    Event& event = object_of<Event>(event_handle);
    require(&event.context() == &context, CUDA_ERROR_INVALID_HANDLE);
    event.record_all(context);
  });
}

CUresult cuCtxWaitEvent(CUcontext context_handle, CUevent event_handle) {
  return guarded([&] {
    Context& context = usable(context_of(context_handle));
    Event& event = object_of<Event>(event_handle);
    require_not_capturing(context);
    for (auto& stream : context.streams()) event.wait_in(*stream);
    // Streams created later wait, too: for a stream that waits like the others.
    const auto gate =
        make_object<Stream>(context, StreamRole::created, unsigned{CU_STREAM_NON_BLOCKING}, 0);
    event.wait_in(*gate);
    context.wait_in_new_streams(gate);
  });
}

}  // extern "C"
