// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit_module.hpp: the implementation of Module and Kernel: thread code, variables, and
// the compiled code of kernels.
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

/// The compiled address-taken functions of a module.
struct AddressTakenFunctions {
  FunctionsObject object;
  std::unique_ptr<LinkedCode> linked;
  std::unique_ptr<CallTargets> callable;
};

/// Code that owns its machine code. Grids share ownership, so a module may be unloaded before its
/// last grid has ended.
struct JitCode : Code {
  std::shared_ptr<const AddressTakenFunctions> functions;
  std::unique_ptr<LinkedCode> linked;
  std::string object;                   ///< for line numbers in reports
  std::vector<ParamAlignment> assumed;  ///< alignments of parameters that the code relies on
  std::vector<ParamPeerAccess> reached;
};

class JitKernel final : public Kernel {
 public:
  JitKernel(const JitModule&, KernelInfo);
  JitKernel(const JitKernel&) = delete;
  JitKernel& operator=(const JitKernel&) = delete;
  ~JitKernel() override;

  /// What a variant of the code depends on.
  struct Kind {
    Dim3 block;
    bool small_grid, aligned;
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  struct Variant {
    Kind kind;
    std::shared_ptr<const JitCode> code;
    std::shared_ptr<TierUp>
        tier_up;  ///< compiles optimized code; null unless `code` is baseline code
    const Variant* next;
  };
  /// The code for a launch of this shape, which the first launch compiles. Throws LoadError. Lives
  /// as long as the kernel.
  const Variant& variant(const LaunchShape&, const std::byte* params) const;
  [[nodiscard]] const JitModule& module() const { return module_; }

 private:
  /// Background compilation finds its kernel here; null once the kernel is destroyed.
  struct Anchor {
    std::mutex mutex;
    const JitKernel* kernel = nullptr;
  };

  const Variant& find(const LaunchShape&, bool aligned) const;
  const Variant& add(const Kind&, std::shared_ptr<const JitCode>, std::shared_ptr<TierUp>) const;
  [[nodiscard]] CompileJob job_for(const Kind&) const;
  [[nodiscard]] std::shared_ptr<const JitCode> compile(const Kind&, bool may_be_baseline) const;
  [[nodiscard]] std::shared_ptr<const JitCode> vector(const Kind&, ObjectCode) const;
  [[nodiscard]] std::shared_ptr<const JitCode> scalar(const Kind&) const;
  [[nodiscard]] std::shared_ptr<JitCode> link(ObjectCode) const;
  [[nodiscard]] std::shared_ptr<TierUp> tier_up(const Kind&) const;

  const JitModule& module_;
  std::shared_ptr<Anchor> anchor_ = std::make_shared<Anchor>();
  mutable std::mutex mutex_;
  /// Code of all kinds that were launched: a list that only grows, at its head, and is read without
  /// the lock. Optimized code of a kind comes before its baseline code.
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
  /// Null when no function of the module is address-taken.
  std::shared_ptr<const AddressTakenFunctions> functions() const { return functions_; }

 private:
  VariableMemory& memory_;
  std::shared_ptr<const ThreadCode> thread_code_;
  std::vector<Variable> variables_;
  std::vector<void*> allocations_;
  std::vector<ConstantVariable> constants_;
  std::vector<SymbolAddress> symbols_;  ///< variables and address-taken functions
  std::shared_ptr<const AddressTakenFunctions> functions_;
  std::vector<std::unique_ptr<JitKernel>> kernels_;
  std::vector<const Kernel*> kernel_pointers_;
};

}  // namespace cucpu
