// SPDX-License-Identifier: Apache-2.0
// cpu/device/module.hpp: loaded modules, libraries, and the functions in them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cpu/device/context.hpp"
#include "cpu/engine/engine.hpp"

namespace cucpu::driver {

class LoadedModule;
class Library;

/// Attributes of a function that a program can set: one set per context (CUfunction) or per device
/// (CUkernel).
struct FunctionSettings {
  std::atomic<int> max_dynamic_shared{-1};  ///< bytes; -1: the default limit
  std::atomic<int> carveout{-1};
  std::atomic<int> non_portable_cluster{0};
  std::atomic<int> cluster_policy{0};
  std::atomic<int> cluster_x{0}, cluster_y{0}, cluster_z{0};
  std::atomic<int> cache_config{0};
};

/// A kernel in a loaded module: CUfunction.
class Function final : public Handled<Function, CUfunction, Kind::function> {
 public:
  Function(LoadedModule& module, const cucpu::Kernel& kernel);
  LoadedModule& module;  ///< outlives it: functions are destroyed with their module
  const cucpu::Kernel& kernel;
  FunctionSettings& settings;  ///< functions of a library share those of their CUkernel
  std::atomic<bool> is_loaded{false};

  /// State of cuFuncSetBlockShape and cuParamSet* for cuLaunch.
  struct LegacyLaunch {
    std::mutex mutex;
    unsigned block[3] = {1, 1, 1};
    unsigned shared = 0;
    std::vector<std::byte> params;
  };
  LegacyLaunch legacy_launch;

 private:
  std::unique_ptr<FunctionSettings> own_settings_;
};

/// A texture or surface reference of a module; ends with the module.
class ModuleReference {
 public:
  virtual void end() noexcept = 0;

 protected:
  ~ModuleReference() = default;
};

/// The managed variables of a library: one set for all contexts, which exists before the first of
/// them. Its modules and metadata share it.
class ManagedVariables {
 public:
  ManagedVariables() = default;
  ~ManagedVariables();
  ManagedVariables(const ManagedVariables&) = delete;
  ManagedVariables& operator=(const ManagedVariables&) = delete;
  /// The variable `index`, in the order of the code.
  cucpu::VariableMemory::Place at(std::size_t index, std::size_t size, std::size_t align);
  bool contains(const void* address) const;

 private:
  mutable std::mutex mutex_;
  std::vector<void*> addresses_;
};

/// The memory of a module's variables.
class ModuleMemory final : public cucpu::VariableMemory {
 public:
  /// `context` is null for a library's metadata, `managed` for a module that is not in a library.
  ModuleMemory(Context* context, std::shared_ptr<ManagedVariables> managed)
      : context_{context}, managed_{std::move(managed)} {}
  Place allocate(std::size_t size, std::size_t align, bool managed) override;
  void free(void* address) noexcept override;

 private:
  Context* context_;
  std::shared_ptr<ManagedVariables> managed_;
  std::size_t managed_count_ = 0;
};

class LoadedModule final : public Handled<LoadedModule, CUmodule, Kind::module>,
                           public ContextResource {
 public:
  /// Throws LoadError. `context` is null for a library's metadata.
  LoadedModule(Context* context, const std::vector<std::string>& texts,
               const cucpu::LoadOptions& options,
               std::shared_ptr<ManagedVariables> managed = nullptr);
  ~LoadedModule() override;
  void on_context_destroyed() noexcept override;

  cucpu::Module& code() const noexcept { return *code_; }
  Function& function(const cucpu::Kernel& kernel);  ///< made at first use
  Context* context() const noexcept { return context_.get(); }
  void unload() noexcept;  ///< retires all its handles
  Library* library = nullptr;

  struct Reference {
    Ref<Object> object;
    ModuleReference* end = nullptr;
  };
  /// The reference of a variable, made by `make` at first use.
  Object& reference(const cucpu::Variable& variable, const std::function<Reference()>& make);

 private:
  Ref<Context> context_;
  ModuleMemory memory_;
  std::unique_ptr<cucpu::Module> code_;
  std::mutex mutex_;
  std::map<const cucpu::Kernel*, Ref<Function>> functions_;
  std::map<const cucpu::Variable*, Reference> references_;
};

/// CUkernel: a kernel of a library, independent of the context.
class LibraryKernel final : public Handled<LibraryKernel, CUkernel, Kind::kernel> {
 public:
  LibraryKernel(Library& library, const cucpu::Kernel& kernel) : library{library}, kernel{kernel} {}
  Library& library;
  const cucpu::Kernel& kernel;    ///< in the library's metadata
  FunctionSettings settings[64];  ///< per device
};

/// CUlibrary: code that is loaded into each context that uses it.
class Library final : public Handled<Library, CUlibrary, Kind::library> {
 public:
  /// `texts_for` extracts the PTX for the target of a device. The library is loaded when the code
  /// of one device can be; the error of another device is reported when its context uses the
  /// library.
  Library(const std::function<std::vector<std::string>(std::uint32_t)>& texts_for,
          const cucpu::LoadOptions& options);
  ~Library() override;
  LoadedModule& module_in(Context& context);  ///< loads at first use
  LoadedModule& overview() const noexcept { return *overview_; }
  LibraryKernel& kernel(const cucpu::Kernel& kernel);
  void unload() noexcept;
  void erase(LoadedModule& module) noexcept;

 private:
  struct Code {
    std::uint32_t target;
    std::vector<std::string> texts;
    std::optional<LoadError> error;
  };
  std::vector<std::shared_ptr<const Code>> code_;  // of each device
  cucpu::LoadOptions options_;
  std::shared_ptr<ManagedVariables> managed_;
  Ref<LoadedModule> overview_;
  std::mutex mutex_;
  std::map<std::uint64_t, Ref<LoadedModule>> modules_;  // by context
  std::map<const cucpu::Kernel*, Ref<LibraryKernel>> kernels_;
};

/// The function of a handle; a CUkernel means its function in the current context.
Function& function_of(CUfunction handle);

/// The limits of the device that a function is loaded on.
const Limits& limits_of(const Function& function);

/// The CUkernel of a function in a library's module, or null.
CUkernel kernel_of(Function& function);

int function_attribute(const Limits& limits, const cucpu::KernelInfo& info,
                       const FunctionSettings& settings, CUfunction_attribute attribute);
void set_function_attribute(const Limits& limits, const cucpu::KernelInfo& info,
                            FunctionSettings& settings, CUfunction_attribute attribute, int value);

/// The limit of a launch's dynamic shared memory.
std::size_t dynamic_shared_limit(const Limits& limits, const cucpu::KernelInfo& info,
                                 const FunctionSettings& settings);

}  // namespace cucpu::driver
