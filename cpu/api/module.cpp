// SPDX-License-Identifier: Apache-2.0
// cuModule*.
#include "cpu/device/module.hpp"

#include <cstring>

#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/image/image.hpp"
#include "cpu/image/jit_options.hpp"

using namespace cucpu::driver;

namespace {

void load(CUmodule* out, const void* image, std::size_t size, const char* name,
          JitOptions options) {
  require(out && image);
  Context& context = current_context();
  require_capture_safe();
  options.load.name = name;
  options.load.info_log = &options.info;
  options.load.target = target_of(context.device);
  *out = options
             .logged([&] {
               return make_object<LoadedModule>(
                   &context, options.texts_of(image, size, options.load.target), options.load);
             })
             ->publish();
}

LoadedModule& module_of(CUmodule handle) { return object_of<LoadedModule>(handle); }

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return guarded([&] { load(out, image, 0, "ptx", {0, nullptr, nullptr}); });
}

CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  return guarded([&] {
    require(out && image);
    current_context();
    load(out, image, 0, "ptx", {count, options, values});
  });
}

CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadData(out, image);
}

CUresult cuModuleLoad(CUmodule* out, const char* path) {
  return guarded([&] {
    require(out && path);
    current_context();
    const std::string bytes = read_image_file(path);
    require(!bytes.empty(), CUDA_ERROR_INVALID_IMAGE);
    load(out, bytes.data(), bytes.size(), path, {0, nullptr, nullptr});
  });
}

CUresult cuModuleUnload(CUmodule handle) {
  return guarded([&] {
    current_context();
    LoadedModule& module = module_of(handle);
    require(!module.library,
            CUDA_ERROR_INVALID_HANDLE);  // a library's module is unloaded with the library
    require_capture_safe();
    const Ref<LoadedModule> keep{&module};
    module.context()->synchronize();  // the module's context, perhaps not the current one
    module.unload();
  });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = CU_MODULE_LAZY_LOADING;
  });
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  return guarded([&] {
    require(out && name);
    LoadedModule& module = module_of(handle);
    const cucpu::Kernel* kernel = module.code().find_kernel(name);
    require(kernel != nullptr, CUDA_ERROR_NOT_FOUND);
    *out = module.function(*kernel).handle();
  });
}

CUresult cuModuleGetFunctionCount(unsigned int* out, CUmodule handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = static_cast<unsigned>(module_of(handle).code().kernels().size());
  });
}

CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned int count, CUmodule handle) {
  return guarded([&] {
    require(out != nullptr);
    LoadedModule& module = module_of(handle);
    for (const cucpu::Kernel* kernel : module.code().kernels()) {
      if (count-- == 0) break;
      *out++ = module.function(*kernel).handle();
    }
  });
}

CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule handle, const char* name) {
  return guarded([&] {
    require(name && (address || bytes));
    const cucpu::Module& code = module_of(handle).code();
    const cucpu::Variable* variable = code.find_variable(name);
    require(variable != nullptr,
            code.find_kernel(name) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND);
    if (address) *address = reinterpret_cast<CUdeviceptr>(variable->address);
    if (bytes) *bytes = variable->size;
  });
}

}  // extern "C"
