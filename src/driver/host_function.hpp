// SPDX-License-Identifier: Apache-2.0
// host_function.hpp: records that this thread runs a host function of a stream or a graph.
#pragma once

#include "cucore/export.hpp"

namespace cucore::detail {

/// True inside a HostFunctionScope of this thread. The stream waits for its host function, so a
/// call from there that waits for the device can deadlock (NVIDIA's driver hangs). The table's
/// blocking functions return CUDA_ERROR_NOT_PERMITTED instead.
[[nodiscard]] CUCORE_EXPORT bool in_host_function() noexcept;

/// Marks this thread while a host function runs. A language binding opens one around every callable
/// that the driver calls back.
class CUCORE_EXPORT HostFunctionScope {
 public:
  HostFunctionScope() noexcept;
  ~HostFunctionScope();
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

}  // namespace cucore::detail
