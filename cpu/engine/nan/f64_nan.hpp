// cpu/engine/nan/f64_nan.hpp: what values of f64 do to a NaN's bits, and arithmetic that gives
// a GPU's NaN.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace cucpu::nans {

inline bool is_double(const llvm::Value* v) { return v->getType()->getScalarType()->isDoubleTy(); }

/// How an instruction treats an f64 NaN among its operands.
enum class Use {
  makes,    ///< arithmetic: passes it on, and makes NaNs of numbers
  moves,    ///< its bits go into the result, which may be a double again or on its way back to one
  ignores,  ///< a NaN is a NaN, whatever its bits
  sees,     ///< its bits come to light: memory, integers, other functions
};
Use use_of(const llvm::Instruction&);

/// After the arithmetic instruction: its result with the NaN a GPU gives. That is the NaN of one of
/// its operands, quieted, or 0xfff8000000000000. All uses of the instruction see it, which may be
/// gone then.
void settle(llvm::Instruction&);

/// Whether one of these doubles and vectors of doubles is a NaN.
llvm::Value* any_nan(llvm::IRBuilderBase&, llvm::ArrayRef<llvm::Value*>);

}  // namespace cucpu::nans
