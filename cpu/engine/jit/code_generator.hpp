// cpu/engine/jit/code_generator.hpp: LLVM's code generator for this host, set up for one
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
  /// One that nobody has used. `optimization` is 0..4. After
  /// initialize_codegen_passes(optimization).
  static std::unique_ptr<CodeGenerator> make(int optimization);
  explicit CodeGenerator(int optimization);
  CodeGenerator(const CodeGenerator&) = delete;
  CodeGenerator& operator=(const CodeGenerator&) = delete;

  [[nodiscard]] llvm::TargetMachine* target() const { return target_.get(); }
  /// An object file. Once only: the module is changed, and the passes are spent.
  std::string object(llvm::Module&);

 private:
  std::unique_ptr<llvm::TargetMachine> target_;
  llvm::SmallString<0> text_;
  llvm::raw_svector_ostream out_{text_};
  std::unique_ptr<llvm::legacy::PassManager> passes_;
};

/// LLVM makes the passes of its code generator known when one is first used. To be called before
/// work that generates code, outside with_crash_recovery(). The generator it takes is not lost.
void initialize_codegen_passes(int optimization);

}  // namespace cucpu
