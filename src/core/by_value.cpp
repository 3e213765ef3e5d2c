// SPDX-License-Identifier: Apache-2.0
// by_value.cpp: the contents of a buffer on their way to and from another process.
#include "core/by_value.hpp"

#include <stdexcept>
#include <string>

#include "core/relaxed.hpp"
#include "cucore/context.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore::detail {
namespace {

/// The current context, else the primary one of the first device.
Context any_context() {
  Context current = Context::current();
  return current ? current : Context::primary(0);
}

/// The context to copy in: the current one where it is of the buffer's device, else that device's
/// primary one. Host memory is of any.
Context home_of(const Buffer& buffer) {
  const int device = memory_traits(buffer.handle()).device_id;  // a resource may be a binding's
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
  const Relaxed relaxed;
  CUCORE_CALL(cuStreamSynchronize(buffer.deallocation_stream().handle()));
}

void fetch(const Buffer& from, std::span<std::byte> into) {
  check_size(from, into.size());
  if (into.empty()) return;
  const ScopedContext scope{home_of(from)};
  const Relaxed relaxed;
  CUCORE_CALL(cuStreamSynchronize(from.deallocation_stream().handle()));
  CUCORE_CALL(cuMemcpy(reinterpret_cast<CUdeviceptr>(into.data()), from.handle(), into.size()));
}

void store(const Buffer& into, std::span<const std::byte> from) {
  check_size(into, from.size());
  if (from.empty()) return;
  const ScopedContext scope{home_of(into)};
  const Relaxed relaxed;
  CUCORE_CALL(cuStreamSynchronize(into.deallocation_stream().handle()));
  CUCORE_CALL(cuMemcpy(into.handle(), reinterpret_cast<CUdeviceptr>(from.data()), from.size()));
  CUCORE_CALL(cuStreamSynchronize(CU_STREAM_LEGACY));  // a copy from pageable memory may still run
}

void register_host(std::span<std::byte> memory, bool readonly) {
  const ScopedContext scope{any_context()};
  const Relaxed relaxed;
  const unsigned flags =
      CU_MEMHOSTREGISTER_PORTABLE | (readonly ? CU_MEMHOSTREGISTER_READ_ONLY : 0U);
  CUCORE_CALL(cuMemHostRegister(memory.data(), memory.size(), flags));
}

void unregister_host(std::byte* memory) noexcept {
  try {
    const ScopedContext scope{any_context()};
    const Relaxed relaxed;
    (void)driver().cuMemHostUnregister(memory);
  } catch (const CUDAError&) {  // the context is gone, and the registration with it
  }
}

}  // namespace cucore::detail
