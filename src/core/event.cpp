// SPDX-License-Identifier: Apache-2.0
// event.cpp: points in the work of a stream.
#include "cucore/event.hpp"

#include "core/blocking_calls.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {

void detail::DestroyEvent::operator()(CUevent event) const noexcept {
  if (!may_free()) return;
  const Waiting waiting{host_calls_are_pending()};
  driver().cuEventDestroy(event);
}

void EventRef::sync() const { CUCORE_CALL(cuEventSynchronize(raw_)); }

bool EventRef::is_done() const {
  const CUresult code = driver().cuEventQuery(raw_);
  if (code == CUDA_ERROR_NOT_READY) return false;
  check(code, "cuEventQuery");
  return true;
}

Event Event::create(const Context& context, const EventOptions& options) {
  if (options.ipc_enabled && options.timing_enabled) {
    throw std::invalid_argument(
        "an event with ipc_enabled cannot have timing_enabled: ask for one of them");
  }
  unsigned flags = CU_EVENT_DEFAULT;
  if (!options.timing_enabled) flags |= CU_EVENT_DISABLE_TIMING;
  if (options.blocking_sync) flags |= CU_EVENT_BLOCKING_SYNC;
  if (options.ipc_enabled) flags |= CU_EVENT_INTERPROCESS;
  auto box = std::make_shared<detail::EventBox>();
  box->context = context;
  box->options = options;
  const ScopedContext scope{context};
  CUevent raw = nullptr;
  CUCORE_CALL(cuEventCreate(&raw, flags));
  box->event.reset(raw);
  return {raw, std::move(box)};
}

Event Event::from_ipc_handle(const Context& context, const CUipcEventHandle& handle) {
  auto box = std::make_shared<detail::EventBox>();
  box->context = context;
  box->options.ipc_enabled = true;
  box->imported = true;
  const ScopedContext scope{context};
  CUevent raw = nullptr;
  CUCORE_CALL(cuIpcOpenEventHandle(&raw, handle));
  box->event.reset(raw);
  return {raw, std::move(box)};
}

Event Event::view(CUevent raw, const Context& context, const EventOptions& options) {
  auto box = std::make_shared<detail::EventBox>();
  box->context = context;
  box->options = options;
  return {raw, std::move(box)};
}

CUipcEventHandle Event::ipc_handle() const {
  if (!options().ipc_enabled) {
    throw InvalidStateError(
        "the event cannot be shared: create it with EventOptions(ipc_enabled=True)");
  }
  CUipcEventHandle handle{};
  const ScopedContext scope{box_->context};  // the caller may have no current context
  CUCORE_CALL(cuIpcGetEventHandle(&handle, raw_));
  return handle;
}

void Event::close() noexcept {
  box_.reset();
  raw_ = nullptr;
}

float Event::elapsed_ms(const Event& start, const Event& end) {
  float ms = 0;
  const CUresult code = driver().cuEventElapsedTime(&ms, start.handle(), end.handle());
  if (code == CUDA_SUCCESS) return ms;
  if (!start.options().timing_enabled || !end.options().timing_enabled) {
    throw InvalidStateError(
        std::string{!end.options().timing_enabled ? "the left event" : "the right event"} +
        " has no timing data: create both with EventOptions(timing_enabled=True) to subtract them");
  }
  if (code == CUDA_ERROR_NOT_READY) {
    throw InvalidStateError(
        "one or both events have not completed: call sync() on the later one, or check is_done, "
        "before subtracting them");
  }
  if (code == CUDA_ERROR_INVALID_HANDLE) {
    throw InvalidStateError(
        "both events must be recorded, on streams of one device, before they can be subtracted");
  }
  fail(code, "cuEventElapsedTime");
}

}  // namespace cucore
