// cpu/engine/jit/generator.hpp: LLVM's code generator for this host, set up for one compilation.
#pragma once

#include <llvm/ADT/SmallString.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

namespace cucpu {

class Generator {
 public:
  /// One that nobody has used. `optimization` is 0..4. After announce_passes(optimization).
  static std::unique_ptr<Generator> make(int optimization);
  explicit Generator(int optimization);
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

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
/// work that generates code, outside guard_llvm(). The generator it takes is not lost.
void announce_passes(int optimization);

}  // namespace cucpu
