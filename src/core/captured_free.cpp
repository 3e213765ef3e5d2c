// SPDX-License-Identifier: Apache-2.0
// captured_free.cpp: frees that are deferred until the end of a stream capture.
#include "core/captured_free.hpp"

#include <atomic>
#include <mutex>
#include <vector>

#include "core/relaxed_capture.hpp"
#include "cucore/context.hpp"
#include "cucore/driver.hpp"

namespace cucore::detail {
namespace {

struct Held {
  CUdeviceptr ptr;
  CUstream stream;  // null after the stream is destroyed
  CUcontext context;
};

struct Waiting {
  std::mutex mutex;
  std::vector<Held> list;
  std::atomic<bool> any{false};
};
Waiting& waiting() {
  static Waiting& w = *new Waiting;  // never destroyed: buffers may be freed until the process ends
  return w;
}

/// True also for an invalidated capture that has not been ended yet.
bool is_in_capture(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver().cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// Frees the memory unless its stream is still capturing. Returns whether it was freed.
bool free_now(const Held& held) {
  const ScopedContext scope{ContextRef{held.context}};
  if (held.stream != nullptr)
    return !is_in_capture(held.stream) &&
           driver().cuMemFreeAsync(held.ptr, held.stream) == CUDA_SUCCESS;
  const RelaxedCaptureScope relaxed;  // the stream's last work may still be pending
  return driver().cuCtxSynchronize() == CUDA_SUCCESS &&
         driver().cuMemFree(held.ptr) == CUDA_SUCCESS;
}

}  // namespace

CUresult free_in_order(CUdeviceptr ptr, StreamRef stream) {
  const CUresult code = driver().cuMemFreeAsync(ptr, stream.handle());
  const bool may_be_captured =
      code == CUDA_ERROR_INVALID_VALUE || code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!may_be_captured || !is_in_capture(stream.handle())) return code;
  free_after_captures();
  Held held{ptr, stream.handle(), nullptr};
  if (const CUresult found = driver().cuStreamGetCtx(stream.handle(), &held.context);
      found != CUDA_SUCCESS)
    return found;
  Waiting& w = waiting();
  const std::lock_guard lock{w.mutex};
  w.list.push_back(held);
  w.any = true;
  return CUDA_SUCCESS;
}

void erase_stream(CUstream stream) noexcept {
  Waiting& w = waiting();
  if (!w.any.load()) return;
  const std::lock_guard lock{w.mutex};
  for (Held& held : w.list)
    if (held.stream == stream) held.stream = nullptr;
}

void free_after_captures() noexcept {
  Waiting& w = waiting();
  if (!w.any.load()) return;
  std::vector<Held> list;  // freed outside the lock: the driver may block on other threads
  {
    const std::lock_guard lock{w.mutex};
    list.swap(w.list);
    w.any = false;
  }
  std::erase_if(list, [](const Held& held) {
    try {
      return free_now(held);
    } catch (...) {  // the context is destroyed, and its memory with it
      return true;
    }
  });
  if (list.empty()) return;
  const std::lock_guard lock{w.mutex};
  if (w.list.empty())
    w.list.swap(list);
  else
    w.list.insert(w.list.end(), list.begin(), list.end());
  w.any = true;
}

}  // namespace cucore::detail
