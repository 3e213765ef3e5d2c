// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/splat.hpp: constants of scalars and of vectors.
#pragma once

#include <llvm/IR/Constants.h>

namespace cucpu {

/// The scalar constant that a value is in every lane; null where it is no constant, or lanes
/// differ.
inline const llvm::Constant* constant_of(const llvm::Value* v) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(v);
  return constant && constant->getType()->isVectorTy() ? constant->getSplatValue() : constant;
}

}  // namespace cucpu
