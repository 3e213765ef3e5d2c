// SPDX-License-Identifier: Apache-2.0
// stream.cpp: queues of device work.
#include "cucore/stream.hpp"

#include "core/blocking_calls.hpp"
#include "core/captured_free.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {

void detail::DestroyStream::operator()(CUstream stream) const noexcept {
  if (!may_free()) return;
  const Waiting waiting{host_calls_are_pending()};
  erase_stream(stream);
  driver().cuStreamDestroy(stream);
  free_after_captures();
}

void StreamRef::sync() const { CUCORE_CALL(cuStreamSynchronize(raw_)); }

bool StreamRef::is_done() const {
  const CUresult code = driver().cuStreamQuery(raw_);
  if (code == CUDA_ERROR_NOT_READY) return false;
  check(code, "cuStreamQuery");
  return true;
}

void StreamRef::record(EventRef event) const { CUCORE_CALL(cuEventRecord(event.handle(), raw_)); }

void StreamRef::wait(EventRef event) const {
  CUCORE_CALL(cuStreamWaitEvent(raw_, event.handle(), CU_EVENT_WAIT_DEFAULT));
}

void StreamRef::wait(StreamRef other) const {
  const ScopedContext scope{other.context()};
  CUevent event = nullptr;
  CUCORE_CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  const CUresult recorded = driver().cuEventRecord(event, other.raw_);
  const CUresult waited = recorded == CUDA_SUCCESS
                              ? driver().cuStreamWaitEvent(raw_, event, CU_EVENT_WAIT_DEFAULT)
                              : CUDA_SUCCESS;
  driver().cuEventDestroy(event);  // the pending wait does not need the event
  check(recorded, "cuEventRecord");
  check(waited, "cuStreamWaitEvent");
}

bool StreamRef::is_capturing() const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult code = driver().cuStreamIsCapturing(raw_, &status);
  if (code == CUDA_ERROR_NOT_SUPPORTED) return false;  // a driver without graphs captures nothing
  check(code, "cuStreamIsCapturing");
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

cuuint64_t StreamRef::capture_id() const noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const CUresult code =
      driver().cuStreamGetCaptureInfo(raw_, &status, &id, nullptr, nullptr, nullptr, nullptr);
  return code == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
}

void StreamRef::call_host(CUhostFn function, void* data) const {
  CUCORE_CALL(cuLaunchHostFunc(raw_, function, data));
}

Stream Stream::create(const Context& context, const StreamOptions& options) {
  auto box = std::make_shared<detail::StreamBox>();
  box->context = context;
  const unsigned flags = options.nonblocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
  const ScopedContext scope{context};
  int priority = 0;
  if (options.priority) {
    int least = 0;
    int greatest = 0;
    CUCORE_CALL(cuCtxGetStreamPriorityRange(&least, &greatest));
    priority = *options.priority;
    if (priority < greatest || priority > least) {
      throw std::invalid_argument(
          "priority " + std::to_string(priority) + " is out of range: this device takes " +
          std::to_string(greatest) + " (first) to " + std::to_string(least) + " (last)");
    }
  }
  CUstream raw = nullptr;
  if (context.is_green()) {
    CUCORE_CALL(
        cuGreenCtxStreamCreate(&raw, context.green_handle(), CU_STREAM_NON_BLOCKING, priority));
  } else {
    CUCORE_CALL(cuStreamCreateWithPriority(&raw, flags, priority));
    if (driver().cuCtxGetId(nullptr, &box->context_id) != CUDA_SUCCESS) box->context_id = 0;
  }
  box->stream.reset(raw);
  return {raw, std::move(box)};
}

Stream Stream::view(CUstream raw, std::shared_ptr<void> owner) {
  auto box = std::make_shared<detail::StreamBox>();
  box->owner = std::move(owner);
  return {raw, std::move(box)};
}

Stream Stream::legacy_default() { return view(CU_STREAM_LEGACY); }
Stream Stream::per_thread_default() { return view(CU_STREAM_PER_THREAD); }

void Stream::close() noexcept {
  box_.reset();
  raw_ = nullptr;
}

ContextRef StreamRef::context() const {
  CUcontext handle = nullptr;
  CUCORE_CALL(cuStreamGetCtx(raw_, &handle));
  return ContextRef{handle};
}

bool StreamRef::is_nonblocking() const {
  unsigned flags = 0;
  CUCORE_CALL(cuStreamGetFlags(raw_, &flags));
  return (flags & CU_STREAM_NON_BLOCKING) != 0;
}

int StreamRef::priority() const {
  int value = 0;
  CUCORE_CALL(cuStreamGetPriority(raw_, &value));
  return value;
}

Context Stream::context() const {
  if (box_ && box_->context) return box_->context;
  return Context::view(StreamRef::context());
}

int Stream::device() const { return context().device(); }

Event Stream::record(const EventOptions& options) const {
  Event event = Event::create(context(), options);
  StreamRef::record(event);
  return event;
}

}  // namespace cucore
