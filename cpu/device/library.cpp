// SPDX-License-Identifier: Apache-2.0
// Libraries: code that is loaded into each context that uses it.
#include "cpu/device/module.hpp"

namespace cucpu::driver {

Library::Library(std::vector<std::string> texts, const cucpu::LoadOptions& options)
    : texts_{std::move(texts)},
      options_{options},
      managed_{std::make_shared<ManagedVariables>()},
      overview_{make_object<LoadedModule>(nullptr, texts_, options, managed_)} {
  options_.info_log = nullptr;  // points into the caller's object, which ends with the load
}

Library::~Library() = default;

LoadedModule& Library::module_in(Context& context) {
  const std::lock_guard lock{mutex_};
  return find_or_publish(modules_, context.id, [&] {
    auto module = make_object<LoadedModule>(&context, texts_, options_, managed_);
    module->library = this;
    return module;
  });
}

LibraryKernel& Library::kernel(const cucpu::Kernel& kernel) {
  const std::lock_guard lock{mutex_};
  return find_or_publish(kernels_, &kernel,
                         [&] { return make_object<LibraryKernel>(*this, kernel); });
}

void Library::forget(LoadedModule& module) noexcept {
  const std::lock_guard lock{mutex_};
  std::erase_if(modules_, [&](const auto& entry) { return entry.second.get() == &module; });
}

void Library::unload() noexcept {
  decltype(modules_) modules;
  {
    const std::lock_guard lock{mutex_};
    modules.swap(modules_);
    for (auto& [code, kernel] : kernels_) kernel->retire();
  }
  for (auto& [id, module] : modules) {
    module->context()->synchronize();
    module->library = nullptr;
    module->unload();
  }
}

}  // namespace cucpu::driver
