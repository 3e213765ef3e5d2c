// library.hpp: finds and opens the driver library; the table is filled from it.
#pragma once

#include <string>
#include <vector>

#include "cucore/export.hpp"

namespace cucore::detail {

/// An opened library. Never closed: driver libraries have threads and exit handlers of their own.
struct Library {
  void* handle = nullptr;
  std::string path;
  explicit operator bool() const noexcept { return handle != nullptr; }
  [[nodiscard]] void* symbol(const char* name) const noexcept;
};

/// Opens NVIDIA's libcuda.so.1 where the linker would find it, never in the working directory.
/// Appends what it tried.
Library open_gpu_library(std::vector<std::string>& tried);

/// Opens libcucore_cpu.so beside libcucore.so (or at CUCORE_CPU_LIBRARY, an absolute path). Appends
/// what it tried.
Library open_cpu_library(std::vector<std::string>& tried);

/// Libraries of the toolkit (NVRTC) load libcuda.so.1 by its name when they are first used, and
/// keep it. While this object lives, that name stands for the driver that CUCORE_DEVICE selects:
/// the CPU device where it is chosen or in use, otherwise what open_gpu_library() finds. The
/// linker's own search might find a file in the working directory, or run code of a driver nobody
/// asked for.
class CUCORE_EXPORT DriverName {
 public:
  DriverName() noexcept;
  ~DriverName();
  DriverName(const DriverName&) = delete;
  DriverName& operator=(const DriverName&) = delete;

 private:
  void* handle_ = nullptr;
};

}  // namespace cucore::detail
