// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/code_generator.hpp: LLVM's code generator for the host, set up for one
// compilation.
#pragma once

#include <llvm/ADT/SmallString.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

namespace cucpu {

class CodeGenerator {
 public:
  /// A new code generator. `optimization` is 0..4. Requires
  /// initialize_codegen_passes(optimization).
  static std::unique_ptr<CodeGenerator> make(int optimization);
  explicit CodeGenerator(int optimization);
  CodeGenerator(const CodeGenerator&) = delete;
  CodeGenerator& operator=(const CodeGenerator&) = delete;

  [[nodiscard]] llvm::TargetMachine* target() const { return target_.get(); }
  /// The object file of a module, which is changed. Can be called once.
  std::string object(llvm::Module&);

 private:
  std::unique_ptr<llvm::TargetMachine> target_;
  llvm::SmallString<0> text_;
  llvm::raw_svector_ostream out_{text_};
  std::unique_ptr<llvm::legacy::PassManager> passes_;
};

/// The assembly of a copy of the module.
std::string emit_assembly(llvm::Module&, llvm::TargetMachine*);

/// Registers the passes of LLVM's code generator, which LLVM does when the first code generator is
/// set up. Call it before work that generates code, outside with_crash_recovery(). make() reuses
/// the code generator that it sets up.
void initialize_codegen_passes(int optimization);

}  // namespace cucpu
