// Modules: cuModule*.
#include "cpu/device/module.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory.hpp"
#include "cpu/image/image.hpp"
#include "cpu/image/jit_options.hpp"

namespace cucpu::driver {

void* ModuleMemory::allocate(std::size_t size, std::size_t align, bool managed) {
  if (!context_) {
    void* p = std::aligned_alloc(std::max<std::size_t>(align, 64),
                                 (size + 63) / 64 * 64 + (size == 0 ? 64 : 0));
    if (!p) throw std::bad_alloc{};
    std::memset(p, 0, size);
    return p;
  }
  const auto kind = managed ? MemoryKind::managed : MemoryKind::variable;
  return reinterpret_cast<void*>(
      allocate_device(*context_, size, align, kind, managed ? CU_MEM_ATTACH_GLOBAL : 0)->base);
}

void ModuleMemory::free(void* address) noexcept {
  if (!context_) {
    std::free(address);
    return;
  }
  // The context may have freed it already.
  MemoryMap::drop(MemoryMap::instance().take_out(reinterpret_cast<std::uintptr_t>(address)));
}

namespace {
/// The settings of the CUkernel behind a function of a library's module, or null.
FunctionSettings* kernel_settings(LoadedModule& module, const cucpu::Kernel& kernel) {
  if (!module.library || !module.context()) return nullptr;
  const cucpu::Kernel* twin = module.library->overview().code().find_kernel(kernel.info().name);
  return &module.library->kernel(*twin).settings[module.context()->device.ordinal];
}
}  // namespace

Function::Function(LoadedModule& module, const cucpu::Kernel& kernel)
    : module{module},
      kernel{kernel},
      settings{kernel_settings(module, kernel) ? *kernel_settings(module, kernel)
                                               : *new FunctionSettings} {
  if (!kernel_settings(module, kernel)) own_settings_.reset(&settings);
}

LoadedModule::LoadedModule(Context* context, const std::vector<std::string>& texts,
                           const cucpu::LoadOptions& options)
    : context_{context}, memory_{context} {
  const std::vector<std::string_view> views{texts.begin(), texts.end()};
  code_ = cucpu::Module::load(views, options, memory_);
  if (context_) context_->adopt(*this);
}

LoadedModule::~LoadedModule() {
  if (context_) context_->disown(*this);
}

Function& LoadedModule::function(const cucpu::Kernel& kernel) {
  const std::lock_guard lock{mutex_};
  return published_in(functions_, &kernel, [&] { return make_object<Function>(*this, kernel); });
}

Object& LoadedModule::reference(const cucpu::Variable& variable,
                                const std::function<Reference()>& make) {
  const std::lock_guard lock{mutex_};
  const auto at = references_.find(&variable);
  if (at != references_.end()) return *at->second.object;
  Reference made = make();
  return *references_.emplace(&variable, std::move(made)).first->second.object;
}

void LoadedModule::unload() noexcept {
  {
    const std::lock_guard lock{mutex_};
    for (auto& [kernel, function] : functions_) function->retire();
    for (auto& [variable, reference] : references_) reference.end->end();
  }
  retire();
}

void LoadedModule::context_gone() noexcept {
  const Ref<LoadedModule> self{this};
  if (library) library->forget(*this);
  unload();
}

Function& function_of(CUfunction handle) {
  if (Function* function = find_object<Function>(handle)) [[likely]]
    return *function;
  LibraryKernel& kernel = object_of<LibraryKernel>(handle);
  LoadedModule& module = kernel.library.module_in(current_context());
  return module.function(*module.code().find_kernel(kernel.kernel.info().name));
}

}  // namespace cucpu::driver

using namespace cucpu::driver;

namespace {

void load(CUmodule* out, const void* image, std::size_t size, const char* name,
          JitOptions options) {
  require(out && image);
  Context& context = current_context();
  require_capture_safe();
  options.load.name = name;
  options.load.info_log = &options.info;
  *out =
      options
          .logged([&] {
            return make_object<LoadedModule>(&context, options.texts_of(image, size), options.load);
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
            CUDA_ERROR_INVALID_HANDLE);  // a library's module goes with the library
    require_capture_safe();
    const Ref<LoadedModule> keep{&module};
    module.context()->synchronize();  // which need not be the current one
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
