// cpu/engine/nan/splat.hpp: constants, whether of one thread or of many.
#pragma once

#include <llvm/IR/Constants.h>

namespace cucpu {

/// The constant that a value is in every lane; null where it is none, or not the same in all.
inline const llvm::Constant* constant_of(const llvm::Value* v) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(v);
  return constant && constant->getType()->isVectorTy() ? constant->getSplatValue() : constant;
}

}  // namespace cucpu
