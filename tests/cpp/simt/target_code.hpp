// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/target_code.hpp: block code for machines that this one may not be, as assembly.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "cpu/engine/simt/vectorize.hpp"

struct Made {
  cucpu::simt::Report report;
  std::string assembly;
};

/// Null if this LLVM makes no code for the triple. `features`: as host_target() adds them.
std::unique_ptr<llvm::TargetMachine> machine(const char* cpu,
                                             const std::string& triple = "x86_64-unknown-linux-gnu",
                                             const char* features = "");

/// `check`: of check::Kinds.
Made compile(const std::string& ptx, const std::string& kernel, cucpu::Dim3 block,
             llvm::TargetMachine& target, unsigned check = 0);

/// How often a regular expression matches.
std::size_t matches(const std::string& text, const std::string& pattern);
