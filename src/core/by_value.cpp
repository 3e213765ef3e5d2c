// SPDX-License-Identifier: Apache-2.0
// by_value.cpp: transfers the contents of a buffer between processes.
#include "core/by_value.hpp"

#include <stdexcept>
#include <string>

#include "core/relaxed_capture.hpp"
#include "cucore/context.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore::detail {
namespace {

/// Returns the current context, or the primary context of device 0 if there is none.
Context any_context() {
  Context current = Context::current();
  return current ? current : Context::primary(0);
}

/// Returns the context to copy in: the current context if it belongs to the buffer's device, else
/// that device's primary context. For host memory any context works.
Context home_of(const Buffer& buffer) {
  // The resource may be implemented by a binding.
  const int device = memory_traits(buffer.handle()).device_id;
  Context current = any_context();
  return device < 0 || current.device() == device ? current : Context::primary(device);
}

void check_size(const Buffer& buffer, std::size_t bytes) {
  if (bytes != buffer.size())
    throw std::invalid_argument("the buffer has " + std::to_string(buffer.size()) +
                                " bytes, the host memory " + std::to_string(bytes));
}

}  // namespace

void wait_for(const Buffer& buffer) {
  const ScopedContext scope{home_of(buffer)};
  const RelaxedCaptureScope relaxed;
  CUCORE_CALL(cuStreamSynchronize(buffer.deallocation_stream().handle()));
}

void fetch(const Buffer& from, std::span<std::byte> into) {
  check_size(from, into.size());
  if (into.empty()) return;
  const ScopedContext scope{home_of(from)};
  const RelaxedCaptureScope relaxed;
  CUCORE_CALL(cuStreamSynchronize(from.deallocation_stream().handle()));
  CUCORE_CALL(cuMemcpy(reinterpret_cast<CUdeviceptr>(into.data()), from.handle(), into.size()));
}

void store(const Buffer& into, std::span<const std::byte> from) {
  check_size(into, from.size());
  if (from.empty()) return;
  const ScopedContext scope{home_of(into)};
  const RelaxedCaptureScope relaxed;
  CUCORE_CALL(cuStreamSynchronize(into.deallocation_stream().handle()));
  CUCORE_CALL(cuMemcpy(into.handle(), reinterpret_cast<CUdeviceptr>(from.data()), from.size()));
  // A copy from pageable memory may still be pending.
  CUCORE_CALL(cuStreamSynchronize(CU_STREAM_LEGACY));
}

void register_host(std::span<std::byte> memory, bool readonly) {
  const ScopedContext scope{any_context()};
  const RelaxedCaptureScope relaxed;
  const unsigned flags =
      CU_MEMHOSTREGISTER_PORTABLE | (readonly ? CU_MEMHOSTREGISTER_READ_ONLY : 0U);
  CUCORE_CALL(cuMemHostRegister(memory.data(), memory.size(), flags));
}

void unregister_host(std::byte* memory) noexcept {
  try {
    const ScopedContext scope{any_context()};
    const RelaxedCaptureScope relaxed;
    (void)driver().cuMemHostUnregister(memory);
  } catch (const CUDAError&) {  // the context is destroyed, and with it the registration
  }
}

}  // namespace cucore::detail
