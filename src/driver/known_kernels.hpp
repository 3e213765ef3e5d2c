// known_kernels.hpp: which kernel handles came through the driver table, and are still good.
#pragma once

#include "cucore/driver.hpp"

namespace cucore::detail {

enum class KernelHandle {
  unknown,  ///< did not come through the table: another library's, or no kernel at all
  loaded,   ///< a kernel of a library that is loaded
  unloaded  ///< a kernel of a library that has been unloaded
};

/// NVIDIA's driver follows whatever it is given as a CUkernel, and ends the process where that is
/// none: what is known is asked first. Another library may load a kernel that gets the handle of
/// one that was unloaded; it counts as unloaded until it has come through the table.
[[nodiscard]] KernelHandle what_is_known_of(CUkernel handle);

/// Puts itself before the functions that hand kernels out and that unload them.
void watch_kernels(DriverTable& table);

}  // namespace cucore::detail
