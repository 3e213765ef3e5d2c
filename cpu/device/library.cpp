// SPDX-License-Identifier: Apache-2.0
// Libraries: code that is loaded into each context that uses it.
#include "cpu/device/module.hpp"

namespace cucpu::driver {

Library::Library(const std::function<std::vector<std::string>(std::uint32_t)>& texts_for,
                 const cucpu::LoadOptions& options)
    : options_{options}, managed_{std::make_shared<ManagedVariables>()} {
  std::map<std::uint32_t, std::shared_ptr<const Code>> by_target;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const std::uint32_t target = target_of(device_of(ordinal));
    std::shared_ptr<const Code>& code = by_target[target];
    if (!code) {
      Code made{.target = target};
      try {
        made.texts = texts_for(target);
        options_.target = target;
        if (!overview_)
          overview_ = make_object<LoadedModule>(nullptr, made.texts, options_, managed_);
      } catch (const LoadError& error) {
        made.error = error;
      }
      code = std::make_shared<const Code>(std::move(made));
    }
    code_.push_back(code);
  }
  if (!overview_) throw LoadError{*code_.front()->error};
  options_.info_log = nullptr;  // points into the caller's object, which ends with the load
}

Library::~Library() = default;

LoadedModule& Library::module_in(Context& context) {
  const std::lock_guard lock{mutex_};
  return find_or_publish(modules_, context.id, [&] {
    const Code& code = *code_[static_cast<std::size_t>(context.device.ordinal)];
    if (code.error) throw LoadError{*code.error};
    cucpu::LoadOptions options = options_;
    options.target = code.target;
    auto module = make_object<LoadedModule>(&context, code.texts, options, managed_);
    module->library = this;
    return module;
  });
}

LibraryKernel& Library::kernel(const cucpu::Kernel& kernel) {
  const std::lock_guard lock{mutex_};
  return find_or_publish(kernels_, &kernel,
                         [&] { return make_object<LibraryKernel>(*this, kernel); });
}

void Library::erase(LoadedModule& module) noexcept {
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
