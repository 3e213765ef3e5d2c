// host_function.hpp: whether this thread runs a host function of a stream or a graph.
#pragma once

#include "cucore/export.hpp"

namespace cucore::detail {

/// True inside a HostFunctionScope of this thread. The stream waits for the host function, so a
/// call that waits for the device there may never return (NVIDIA's driver hangs): such calls of the
/// table answer CUDA_ERROR_NOT_PERMITTED instead.
[[nodiscard]] CUCORE_EXPORT bool in_host_function() noexcept;

/// Marks this thread for the time a host function runs. Whoever hands a callable of a language
/// binding to the driver opens one around the callable.
class CUCORE_EXPORT HostFunctionScope {
 public:
  HostFunctionScope() noexcept;
  ~HostFunctionScope();
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

}  // namespace cucore::detail
