// cpu/engine/jit_module.hpp: a Module with its thread code, and the compiled code of its
// kernels.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/engine/engine.hpp"
#include "cpu/engine/jit/link.hpp"
#include "cpu/engine/run/call_targets.hpp"
#include "cpu/engine/run/grid.hpp"
#include "cpu/engine/run/tier_up.hpp"
#include "cpu/engine/runtime/spaces.hpp"
#include "cpu/engine/thread_code.hpp"

namespace cucpu {

class JitModule;

/// The functions of a module that are called through pointers.
struct AddressTakenFunctions {
  FunctionsObject object;
  std::unique_ptr<LinkedCode> linked;
  std::unique_ptr<CallTargets> callable;
};

/// Code that holds on to its machine code; grids hold on to the code, so a module may go while its
/// last grid ends.
struct JitCode : Code {
  std::shared_ptr<const AddressTakenFunctions> functions;
  std::unique_ptr<LinkedCode> linked;
  std::string object;                   ///< for line numbers in reports
  std::vector<ParamAlignment> assumed;  ///< of the parameters of a launch
  std::vector<ParamPeerAccess> reached;
};

class JitKernel final : public Kernel {
 public:
  JitKernel(const JitModule&, KernelInfo);
  JitKernel(const JitKernel&) = delete;
  JitKernel& operator=(const JitKernel&) = delete;
  ~JitKernel() override;

  /// What code depends on besides the kernel.
  struct Kind {
    Dim3 block;
    bool small_grid, aligned;
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  struct Variant {
    Kind kind;
    std::shared_ptr<const JitCode> code;
    std::shared_ptr<TierUp> tier_up;  ///< of code that was quick to make
    const Variant* next;
  };
  /// The code for a launch of this shape; compiles it when it is the first. Throws LoadError. Lives
  /// as long as the kernel.
  const Variant& variant(const LaunchShape&, const std::byte* params) const;
  [[nodiscard]] const JitModule& module() const { return module_; }

 private:
  /// What is made in the background finds its kernel here, unless that is gone.
  struct Anchor {
    std::mutex mutex;
    const JitKernel* kernel = nullptr;
  };

  const Variant& find(const LaunchShape&, bool aligned) const;
  const Variant& add(const Kind&, std::shared_ptr<const JitCode>, std::shared_ptr<TierUp>) const;
  [[nodiscard]] CompileJob job_for(const Kind&) const;
  [[nodiscard]] std::shared_ptr<const JitCode> compile(const Kind&, bool may_be_quick) const;
  [[nodiscard]] std::shared_ptr<const JitCode> vector(const Kind&, ObjectCode) const;
  [[nodiscard]] std::shared_ptr<const JitCode> scalar(const Kind&) const;
  [[nodiscard]] std::shared_ptr<JitCode> link(ObjectCode) const;
  [[nodiscard]] std::shared_ptr<TierUp> tier_up(const Kind&) const;

  const JitModule& module_;
  std::shared_ptr<Anchor> anchor_ = std::make_shared<Anchor>();
  mutable std::mutex mutex_;
  /// Vector code, and shapes that take the scalar code: a list that only grows, at its head, and is
  /// read without the lock. The best of a kind is nearest to the head.
  mutable std::atomic<const Variant*> variants_{nullptr};
  mutable std::shared_ptr<const JitCode> scalar_[2];  ///< for every shape; [1]: aligned parameters
};

class JitModule final : public Module {
 public:
  JitModule(std::span<const std::string_view> ptx, const LoadOptions&, VariableMemory&);
  ~JitModule() override;
  [[nodiscard]] std::span<const Kernel* const> kernels() const override { return kernel_pointers_; }
  [[nodiscard]] std::span<const Variable> variables() const override { return variables_; }

  [[nodiscard]] const std::shared_ptr<const ThreadCode>& thread_code() const {
    return thread_code_;
  }
  [[nodiscard]] std::span<const SymbolAddress> symbols() const { return symbols_; }
  /// Null when no function is called through a pointer.
  std::shared_ptr<const AddressTakenFunctions> functions() const { return functions_; }

 private:
  VariableMemory& memory_;
  std::shared_ptr<const ThreadCode> thread_code_;
  std::vector<Variable> variables_;
  std::vector<void*> allocations_;
  std::vector<ConstantVariable> constants_;
  std::vector<SymbolAddress> symbols_;  ///< variables, and functions called through pointers
  std::shared_ptr<const AddressTakenFunctions> functions_;
  std::vector<std::unique_ptr<JitKernel>> kernels_;
  std::vector<const Kernel*> kernel_pointers_;
};

}  // namespace cucpu
