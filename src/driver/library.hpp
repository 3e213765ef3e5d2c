// library.hpp: finds and opens the driver library; the table is filled from it.
#pragma once

#include <string>
#include <vector>

namespace cucore::detail {

/// An opened library. Never closed: driver libraries have threads and exit handlers of their own.
struct Library {
  void* handle = nullptr;
  std::string path;
  explicit operator bool() const noexcept { return handle != nullptr; }
  [[nodiscard]] void* symbol(const char* name) const noexcept;
};

/// Opens NVIDIA's libcuda.so.1 through the system's search, never from the working directory.
/// Appends what it tried.
Library open_gpu_library(std::vector<std::string>& tried);

/// Opens libcucore_cpu.so beside libcucore.so (or at CUCORE_CPU_LIBRARY, an absolute path). Appends
/// what it tried.
Library open_cpu_library(std::vector<std::string>& tried);

}  // namespace cucore::detail
