// SPDX-License-Identifier: Apache-2.0
// library.hpp: finds and opens the driver library.
#pragma once

#include <string>
#include <vector>

#include "cucore/export.hpp"

namespace cucore::detail {

/// An open library. It is never closed: driver libraries own threads and exit handlers.
struct DriverLibrary {
  void* handle = nullptr;
  std::string path;
  explicit operator bool() const noexcept { return handle != nullptr; }
  [[nodiscard]] void* symbol(const char* name) const noexcept;
};

/// Opens NVIDIA's libcuda.so.1 from the linker's search path, never from the working directory.
/// Appends every failed attempt to `tried`.
DriverLibrary open_gpu_library(std::vector<std::string>& tried);

/// Opens libcucore_cpu.so in the folder of libcucore.so, or the absolute path in
/// CUCORE_CPU_LIBRARY. Appends every failed attempt to `tried`.
DriverLibrary open_cpu_library(std::vector<std::string>& tried);

/// Makes the soname libcuda.so.1 resolve to the driver that CUCORE_DEVICE selects while this object
/// exists: the CPU device if it is selected or loaded, otherwise the result of open_gpu_library().
/// Toolkit libraries (NVRTC) load libcuda.so.1 by name on first use and keep it; the linker's own
/// search could find a file in the working directory or load a driver that was not selected.
class CUCORE_EXPORT DriverNameScope {
 public:
  DriverNameScope() noexcept;
  ~DriverNameScope();
  DriverNameScope(const DriverNameScope&) = delete;
  DriverNameScope& operator=(const DriverNameScope&) = delete;

 private:
  void* handle_ = nullptr;
};

}  // namespace cucore::detail
