// SPDX-License-Identifier: Apache-2.0
// query.cpp: driver calls that return a result code instead of throwing.
#include "core/query.hpp"

#include <new>
#include <utility>

#include "cucore/driver.hpp"
#include "cucore/graph.hpp"

namespace cucore::detail {

CUresult query(StreamRef stream) noexcept { return driver().cuStreamQuery(stream.handle()); }
CUresult query(EventRef event) noexcept { return driver().cuEventQuery(event.handle()); }
CUresult synchronize(StreamRef stream) noexcept {
  return driver().cuStreamSynchronize(stream.handle());
}
CUresult synchronize(EventRef event) noexcept {
  return driver().cuEventSynchronize(event.handle());
}
CUresult synchronize(ContextRef context) noexcept {
  const CUresult code = driver().cuCtxSetCurrent(context.handle());
  return code == CUDA_SUCCESS ? synchronize_current_context() : code;
}
CUresult synchronize_current_context() noexcept { return driver().cuCtxSynchronize(); }
CUresult record(ContextRef context, EventRef event) noexcept {
  return driver().cuCtxRecordEvent(context.handle(), event.handle());
}

bool takes_part_in_capture(StreamRef stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  (void)driver().cuStreamIsCapturing(stream.handle(), &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool release_after(StreamRef stream, std::shared_ptr<void>& owner) noexcept {
  auto* const held = new (std::nothrow) std::shared_ptr<void>{std::move(owner)};
  if (held == nullptr) return false;
  if (driver().cuLaunchHostFunc(stream.handle(), &release_owner, held) == CUDA_SUCCESS) return true;
  owner = std::move(*held);
  delete held;
  return false;
}

std::optional<unsigned> memory_type(CUdeviceptr ptr) noexcept {
  unsigned type = 0;
  if (driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr) != CUDA_SUCCESS)
    return std::nullopt;
  return type;
}

std::optional<bool> managed_memory(CUdeviceptr ptr) noexcept {
  unsigned managed = 0;
  if (driver().cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, ptr) !=
      CUDA_SUCCESS)
    return std::nullopt;
  return managed != 0;
}

void end_discard(BufferRef memory, StreamRef stream) noexcept {
  (void)driver().cuMemsetD8Async(memory.handle(), 0, memory.size(), stream.handle());
}

}  // namespace cucore::detail
