// SPDX-License-Identifier: Apache-2.0
// kernel_registry.hpp: records which kernel handles the driver table returned and whether their
// library is still loaded.
#pragma once

#include "cucore/driver.hpp"

namespace cucore::detail {

enum class KernelHandleState {
  unknown,  ///< not returned by the table: loaded by other code, or not a kernel
  loaded,   ///< a kernel of a library that is loaded
  unloaded  ///< a kernel of a library that has been unloaded
};

/// Call this before a CUkernel from a caller reaches the driver: NVIDIA's driver dereferences an
/// invalid handle and crashes the process. If code outside this library loads a kernel and the
/// driver reuses an unloaded handle for it, the state stays `unloaded` until the table returns that
/// handle.
[[nodiscard]] KernelHandleState kernel_handle_state(CUkernel handle);

/// Wraps the table's functions that return kernels and the one that unloads libraries.
void track_kernels(DriverTable& table);

}  // namespace cucore::detail
