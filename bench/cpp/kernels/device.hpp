// bench/cpp/kernels/device.hpp: a driver library and NVRTC, loaded by name: any library that speaks the CUDA driver API.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cucore/abi/driver.h"

namespace device {

void open(const std::string& driver, const std::string& nvrtc);
void compile(const std::string& source);  ///< with NVRTC, and loads the PTX

/// Device memory that lives as long as the program.
CUdeviceptr upload(const void* data, std::size_t bytes);
void download(void* data, CUdeviceptr from, std::size_t bytes);
void clear(CUdeviceptr, std::size_t bytes);

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};
CUfunction kernel(const char* name);
void launch(CUfunction, Dim grid, Dim block, std::vector<void*> arguments);
void wait();

}  // namespace device
