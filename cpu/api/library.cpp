// SPDX-License-Identifier: Apache-2.0
// cuLibrary* and cuKernel*.
#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/module.hpp"
#include "cpu/image/image.hpp"
#include "cpu/image/jit_options.hpp"

using namespace cucpu::driver;

namespace {

void load(CUlibrary* out, const void* image, std::size_t size, const char* name, JitOptions options,
          CUlibraryOption* library_options, unsigned library_option_count) {
  require(out && image);
  require(library_option_count == 0 || library_options);
  require_capture_safe();
  for (unsigned i = 0; i < library_option_count; ++i) {
    require(library_options[i] >= 0 && library_options[i] < CU_LIBRARY_NUM_OPTIONS);
    require(library_options[i] != CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE,
            CUDA_ERROR_NOT_SUPPORTED);
  }
  options.load.name = name;
  options.load.info_log = &options.info;
  *out = options
             .logged([&] {
               const auto texts_for = [&](std::uint32_t target) {
                 return options.texts_of(image, size, target);
               };
               return make_object<Library>(texts_for, options.load);
             })
             ->publish();
}

Library& library_of(CUlibrary handle) { return object_of<Library>(handle); }
LibraryKernel& kernel_of(CUkernel handle) { return object_of<LibraryKernel>(handle); }

const cucpu::Variable& variable_of(CUlibrary handle, const char* name) {
  require(name != nullptr);
  const cucpu::Variable* variable =
      library_of(handle).module_in(current_context()).code().find_variable(name);
  require(variable != nullptr, CUDA_ERROR_NOT_FOUND);
  return *variable;
}

}  // namespace

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* jit, void** jit_values,
                           unsigned int jit_count, CUlibraryOption* options, void**,
                           unsigned int count) {
  return guarded([&] { load(out, code, 0, "ptx", {jit_count, jit, jit_values}, options, count); });
}

CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* jit,
                               void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                               void**, unsigned int count) {
  return guarded([&] {
    JitOptions jit_options{jit_count, jit,
                           jit_values};  // invalid options are reported before the file
    require(out != nullptr);
    const std::string bytes = read_image_file(path);
    require(!bytes.empty(), CUDA_ERROR_INVALID_IMAGE);
    load(out, bytes.data(), bytes.size(), path, std::move(jit_options), options, count);
  });
}

CUresult cuLibraryUnload(CUlibrary handle) {
  return guarded([&] {
    Ref<Library> library{&library_of(handle)};
    require_capture_safe();
    require(library->retire(), CUDA_ERROR_INVALID_HANDLE);
    library->unload();
  });
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  return guarded([&] {
    require(out && name);
    Library& library = library_of(handle);
    const cucpu::Kernel* kernel = library.overview().code().find_kernel(name);
    require(kernel != nullptr, CUDA_ERROR_NOT_FOUND);
    *out = library.kernel(*kernel).handle();
  });
}

CUresult cuLibraryGetKernelCount(unsigned int* out, CUlibrary handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = static_cast<unsigned>(library_of(handle).overview().code().kernels().size());
  });
}

CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned int count, CUlibrary handle) {
  return guarded([&] {
    require(out != nullptr);
    Library& library = library_of(handle);
    for (const cucpu::Kernel* kernel : library.overview().code().kernels()) {
      if (count-- == 0) break;
      *out++ = library.kernel(*kernel).handle();
    }
  });
}

CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = library_of(handle).module_in(current_context()).handle();
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                            const char* name) {
  return guarded([&] {
    require(name && (address || bytes));
    Library& library = library_of(handle);
    current_context();
    require(!library.overview().code().find_kernel(name));
    const cucpu::Variable& variable = variable_of(handle, name);
    if (address) *address = reinterpret_cast<CUdeviceptr>(variable.address);
    if (bytes) *bytes = variable.size;
  });
}

CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                             const char* name) {
  return guarded([&] {
    require(name != nullptr);
    const cucpu::Variable* known = library_of(handle).overview().code().find_variable(name);
    require(known && known->managed, CUDA_ERROR_NOT_FOUND);
    if (address) *address = reinterpret_cast<CUdeviceptr>(known->address);  // in all contexts
    if (bytes) *bytes = known->size;
  });
}

CUresult cuLibraryGetUnifiedFunction(void** out, CUlibrary handle, const char* symbol) {
  return guarded([&] {
    require(out && symbol);
    library_of(handle);
    fail(CUDA_ERROR_INVALID_VALUE);  // no unified functions without a host function table
  });
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  return guarded([&] {
    require(out != nullptr);
    kernel_of(handle);
    *out = function_of(reinterpret_cast<CUfunction>(handle)).handle();
  });
}

CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = kernel_of(handle).library.handle();
  });
}

CUresult cuKernelGetName(const char** out, CUkernel handle) {
  return guarded([&] {
    require(out && handle);
    *out = kernel_of(handle).kernel.info().name.c_str();
  });
}

CUresult cuKernelGetAttribute(int* out, CUfunction_attribute attribute, CUkernel handle,
                              CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    LibraryKernel& kernel = kernel_of(handle);
    const Device& device = device_of(dev);
    *out = function_attribute(*device.limits, kernel.kernel.info(), kernel.settings[device.ordinal],
                              attribute);
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                              CUdevice dev) {
  return guarded([&] {
    LibraryKernel& kernel = kernel_of(handle);
    const Device& device = device_of(dev);
    set_function_attribute(*device.limits, kernel.kernel.info(), kernel.settings[device.ordinal],
                           attribute, value);
  });
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice dev) {
  return guarded([&] {
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
    kernel_of(handle).settings[device_of(dev).ordinal].cache_config = config;
  });
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* size) {
  return guarded([&] {
    require(handle != nullptr);
    current_context();
    const auto& params = kernel_of(handle).kernel.info().params;
    require(offset && index < params.size());
    *offset = params[index].offset;
    if (size) *size = params[index].size;
  });
}

CUresult cuKernelGetParamCount(CUkernel handle, size_t* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = kernel_of(handle).kernel.info().params.size();
  });
}

}  // extern "C"
