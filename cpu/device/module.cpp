// SPDX-License-Identifier: Apache-2.0
// Loaded modules and their functions.
#include "cpu/device/module.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cpu/device/memory.hpp"

namespace cucpu::driver {

ManagedVariables::~ManagedVariables() {
  for (void* const address : addresses_)
    MemoryMap::drop(MemoryMap::instance().remove(reinterpret_cast<std::uintptr_t>(address)));
}

cucpu::VariableMemory::Place ManagedVariables::at(std::size_t index, std::size_t size,
                                                  std::size_t align) {
  const std::lock_guard lock{mutex_};
  if (index < addresses_.size()) return {addresses_[index], true};
  addresses_.reserve(addresses_.size() + 1);
  const AllocationRef a = allocate_trimming_pools(size, align, device_of(0).budget);
  a->kind = MemoryKind::managed;
  a->device = 0;
  a->flags = CU_MEM_ATTACH_GLOBAL;
  MemoryMap::instance().insert_new(a);  // no context owns it
  addresses_.push_back(reinterpret_cast<void*>(a->base));
  return {addresses_.back(), false};
}

bool ManagedVariables::contains(const void* address) const {
  const std::lock_guard lock{mutex_};
  return std::find(addresses_.begin(), addresses_.end(), address) != addresses_.end();
}

cucpu::VariableMemory::Place ModuleMemory::allocate(std::size_t size, std::size_t align,
                                                    bool managed) {
  if (managed && managed_) return managed_->at(managed_count_++, size, align);
  if (!context_) {
    const std::size_t unit = std::max<std::size_t>(align, 64);
    void* p = std::aligned_alloc(unit, (std::max<std::size_t>(size, 1) + unit - 1) / unit * unit);
    if (!p) throw std::bad_alloc{};
    std::memset(p, 0, size);
    return {p, false};
  }
  const auto kind = managed ? MemoryKind::managed : MemoryKind::variable;
  return {
      reinterpret_cast<void*>(
          allocate_device(*context_, size, align, kind, managed ? CU_MEM_ATTACH_GLOBAL : 0)->base),
      false};
}

void ModuleMemory::free(void* address) noexcept {
  if (managed_ && managed_->contains(address)) return;  // until the last module of the library ends
  if (!context_) {
    std::free(address);
    return;
  }
  // The context may have freed it already.
  MemoryMap::drop(MemoryMap::instance().remove(reinterpret_cast<std::uintptr_t>(address)));
}

namespace {
/// The CUkernel of a kernel in a library's module, or null.
LibraryKernel* library_kernel(LoadedModule& module, const cucpu::Kernel& kernel) {
  if (!module.library || !module.context()) return nullptr;
  const cucpu::Kernel* twin = module.library->overview().code().find_kernel(kernel.info().name);
  return &module.library->kernel(*twin);
}

/// The settings of the CUkernel of a function in a library's module, or null.
FunctionSettings* kernel_settings(LoadedModule& module, const cucpu::Kernel& kernel) {
  LibraryKernel* const twin = library_kernel(module, kernel);
  return twin ? &twin->settings[module.context()->device.ordinal] : nullptr;
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
                           const cucpu::LoadOptions& options,
                           std::shared_ptr<ManagedVariables> managed)
    : context_{context}, memory_{context, std::move(managed)} {
  const std::vector<std::string_view> views{texts.begin(), texts.end()};
  code_ = cucpu::Module::load(views, options, memory_);
  if (context_) context_->adopt(*this);
}

LoadedModule::~LoadedModule() {
  if (context_) context_->disown(*this);
}

Function& LoadedModule::function(const cucpu::Kernel& kernel) {
  const std::lock_guard lock{mutex_};
  return find_or_publish(functions_, &kernel, [&] { return make_object<Function>(*this, kernel); });
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

void LoadedModule::on_context_destroyed() noexcept {
  const Ref<LoadedModule> self{this};
  if (library) library->erase(*this);
  unload();
}

Function& function_of(CUfunction handle) {
  if (Function* function = find_object<Function>(handle)) [[likely]]
    return *function;
  LibraryKernel& kernel = object_of<LibraryKernel>(handle);
  LoadedModule& module = kernel.library.module_in(current_context());
  return module.function(*module.code().find_kernel(kernel.kernel.info().name));
}

const Limits& limits_of(const Function& function) {
  return *function.module.context()->device.limits;
}

CUkernel kernel_of(Function& function) {
  LibraryKernel* const kernel = library_kernel(function.module, function.kernel);
  return kernel ? kernel->handle() : nullptr;
}

}  // namespace cucpu::driver
