// bench/cpp/kernels/device.cpp
#include "device.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace device {
namespace {

void* driver_library = nullptr;
void* nvrtc_library = nullptr;
CUmodule module_ = nullptr;

template <typename F>
F* symbol(void* library, const char* name) {
  if (void* found = dlsym(library, name)) return reinterpret_cast<F*>(found);
  throw std::runtime_error{std::string{"no "} + name};
}

void check(int code, const char* call) {
  if (code != 0) throw std::runtime_error{std::string{call} + " answers " + std::to_string(code)};
}

#define DRIVER(name, type) symbol<type>(driver_library, name)

}  // namespace

void open(const std::string& driver, const std::string& nvrtc) {
  driver_library = dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!driver_library) throw std::runtime_error{dlerror()};
  nvrtc_library = dlopen(nvrtc.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!nvrtc_library) throw std::runtime_error{dlerror()};
  check(DRIVER("cuInit", CUresult(unsigned))(0), "cuInit");
  CUcontext context = nullptr;
  check(DRIVER("cuDevicePrimaryCtxRetain", CUresult(CUcontext*, CUdevice))(&context, 0), "cuDevicePrimaryCtxRetain");
  check(DRIVER("cuCtxSetCurrent", CUresult(CUcontext))(context), "cuCtxSetCurrent");
}

void compile(const std::string& source) {
  using Program = void*;
  Program program = nullptr;
  check(symbol<int(Program*, const char*, const char*, int, const char* const*, const char* const*)>(nvrtc_library, "nvrtcCreateProgram")(
            &program, source.c_str(), "source.cu", 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  const char* options[] = {"--gpu-architecture=compute_90"};
  int code = symbol<int(Program, int, const char* const*)>(nvrtc_library, "nvrtcCompileProgram")(program, 1, options);
  std::size_t size = 0;
  if (code != 0) {
    symbol<int(Program, std::size_t*)>(nvrtc_library, "nvrtcGetProgramLogSize")(program, &size);
    std::string log(size, '\0');
    symbol<int(Program, char*)>(nvrtc_library, "nvrtcGetProgramLog")(program, log.data());
    throw std::runtime_error{log};
  }
  check(symbol<int(Program, std::size_t*)>(nvrtc_library, "nvrtcGetPTXSize")(program, &size), "nvrtcGetPTXSize");
  std::string ptx(size, '\0');
  check(symbol<int(Program, char*)>(nvrtc_library, "nvrtcGetPTX")(program, ptx.data()), "nvrtcGetPTX");
  if (const char* file = std::getenv("KERNELS_PTX")) {
    if (std::FILE* out = std::fopen(file, "w")) {
      std::fputs(ptx.c_str(), out);
      std::fclose(out);
    }
  }
  check(DRIVER("cuModuleLoadData", CUresult(CUmodule*, const void*))(&module_, ptx.c_str()), "cuModuleLoadData");
}

CUdeviceptr upload(const void* data, std::size_t bytes) {
  CUdeviceptr memory = 0;
  check(DRIVER("cuMemAlloc_v2", CUresult(CUdeviceptr*, std::size_t))(&memory, bytes), "cuMemAlloc");
  check(DRIVER("cuMemcpyHtoD_v2", CUresult(CUdeviceptr, const void*, std::size_t))(memory, data, bytes), "cuMemcpyHtoD");
  return memory;
}

void download(void* data, CUdeviceptr from, std::size_t bytes) {
  check(DRIVER("cuMemcpyDtoH_v2", CUresult(void*, CUdeviceptr, std::size_t))(data, from, bytes), "cuMemcpyDtoH");
}

void clear(CUdeviceptr memory, std::size_t bytes) {
  check(DRIVER("cuMemsetD8_v2", CUresult(CUdeviceptr, unsigned char, std::size_t))(memory, 0, bytes), "cuMemsetD8");
  wait();
}

CUfunction kernel(const char* name) {
  CUfunction function = nullptr;
  check(DRIVER("cuModuleGetFunction", CUresult(CUfunction*, CUmodule, const char*))(&function, module_, name), name);
  return function;
}

void launch(CUfunction function, Dim grid, Dim block, std::vector<void*> arguments) {
  using Launch = CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**);
  static auto* call = DRIVER("cuLaunchKernel", Launch);
  check(call(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, nullptr, arguments.data(), nullptr), "cuLaunchKernel");
}

void wait() {
  static auto* call = DRIVER("cuCtxSynchronize", CUresult());
  check(call(), "cuCtxSynchronize");
}

}  // namespace device
