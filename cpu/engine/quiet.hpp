// cpu/engine/quiet.hpp: which values of f32 and f16, or their bits, cannot be a NaN that signals.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instruction.h>

namespace cucpu {

/// Arithmetic gives quiet NaNs; what comes from memory, arguments or integers may signal. Looked at
/// once, for a function as it is then.
class Quiet {
 public:
  explicit Quiet(llvm::Function&);
  bool operator()(const llvm::Value*) const;

 private:
  llvm::SmallPtrSet<const llvm::Instruction*, 32> loud_;  // of those that only pass values on
};

}  // namespace cucpu
