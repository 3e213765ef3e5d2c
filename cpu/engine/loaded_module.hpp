// cpu/engine/loaded_module.hpp: a Module with its thread code, and the compiled code of its
// kernels.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/engine/engine.hpp"
#include "cpu/engine/jit/compile.hpp"
#include "cpu/engine/jit/disk_cache.hpp"
#include "cpu/engine/jit/link.hpp"
#include "cpu/engine/run/call_targets.hpp"
#include "cpu/engine/run/grid.hpp"
#include "cpu/engine/settings.hpp"

namespace cucpu {

class LoadedModule;

/// The functions of a module that are called through pointers.
struct PointedAt {
  FunctionsObject object;
  std::unique_ptr<LinkedCode> linked;
  std::unique_ptr<CallTargets> callable;
};

/// Code that holds on to its machine code; grids hold on to the code, so a module may go while its
/// last grid ends.
struct LoadedCode : Code {
  std::shared_ptr<const PointedAt> functions;
  std::unique_ptr<LinkedCode> linked;
  std::string object;                   ///< for line numbers in reports
  std::vector<ParamAlignment> assumed;  ///< of the parameters of a launch
  std::vector<ParamReach> reached;
};

class LoadedKernel final : public Kernel {
 public:
  LoadedKernel(LoadedModule& module, KernelInfo info) : module_{module} { info_ = std::move(info); }
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
  ~LoadedKernel() override;

  /// The code for a launch of this shape; compiles it when it is the first. Throws LoadError.
  std::shared_ptr<const Code> code(const LaunchShape&, const std::byte* params) const;
  [[nodiscard]] const LoadedModule& module() const { return module_; }

 private:
  std::shared_ptr<const LoadedCode> find(const LaunchShape&, bool aligned) const;
  std::shared_ptr<const LoadedCode> compile(const LaunchShape&, bool small_grid, bool aligned,
                                            bool vector = true) const;

  struct Variant {
    Dim3 block;
    bool small_grid, aligned;
    std::shared_ptr<const LoadedCode> code;
    const Variant* next;
  };
  LoadedModule& module_;
  mutable std::mutex mutex_;
  /// Vector code, and shapes that take the scalar code: a list that only grows, at its head, and is
  /// read without the lock.
  mutable std::atomic<const Variant*> variants_{nullptr};
  mutable std::shared_ptr<const LoadedCode>
      scalar_[2];  ///< for every shape; [1]: aligned parameters
};

class LoadedModule final : public Module {
 public:
  LoadedModule(std::span<const std::string_view> ptx, const LoadOptions&, VariableMemory&);
  ~LoadedModule() override;
  [[nodiscard]] std::span<const Kernel* const> kernels() const override { return kernel_pointers_; }
  [[nodiscard]] std::span<const Variable> variables() const override { return variables_; }

  /// From the disk cache or the compiler. nullopt: cannot be vectorized.
  std::optional<ObjectCode> object(const CompileJob&) const;
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] int optimization() const { return optimization_; }
  [[nodiscard]] std::string_view bitcode() const { return bitcode_; }
  [[nodiscard]] std::span<const SymbolAddress> symbols() const { return symbols_; }
  /// Null when no function is called through a pointer.
  std::shared_ptr<const PointedAt> functions() const { return functions_; }

 private:
  /// The functions that are called through pointers and those `wanted`, from the disk cache or the
  /// compiler.
  [[nodiscard]] FunctionsObject pointed_at(const std::vector<std::string>& wanted) const;

  Settings settings_;
  int optimization_;
  VariableMemory& memory_;
  std::string source_digest_;
  std::string bitcode_;
  std::vector<Variable> variables_;
  std::vector<void*> allocations_;
  std::vector<SymbolAddress> symbols_;  ///< variables, and functions called through pointers
  std::shared_ptr<const PointedAt> functions_;
  std::vector<std::unique_ptr<LoadedKernel>> kernels_;
  std::vector<const Kernel*> kernel_pointers_;
  mutable DiskCache cache_;
};

}  // namespace cucpu
