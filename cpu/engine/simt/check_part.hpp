// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/check_part.hpp: what the emitters of check mode share.
#pragma once

#include <llvm/IR/Constants.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>

#include <cstddef>
#include <cstdint>

#include "cpu/engine/simt/emit_state.hpp"

namespace cucpu::simt {

/// The call in thread code that stands for the checks of an access.
namespace marker {

enum Argument : unsigned {
  kAddress,
  kBytes,
  kFlags,
  kValue,
  kRoot,
  kSite,
  kRange,
  kVariableOffset,
  kVariableBytes,
  kWritten
};

inline std::uint64_t number(const llvm::CallInst& call, Argument which) {
  return llvm::cast<llvm::ConstantInt>(call.getArgOperand(which))->getZExtValue();
}

}  // namespace marker

/// An access of a lane group for race and init checks.
struct CheckedGroup {
  const llvm::CallInst& call;
  llvm::Value* first;    ///< the lowest address
  std::uint64_t span;    ///< bytes
  bool dense = false;    ///< each lane accesses the bytes after those of the lane before it
  bool uniform = false;  ///< all lanes access the same bytes
  bool sets_initialized = false;  ///< the bits of its bytes are set, not tested
  llvm::Value* range = nullptr;   ///< its CheckRange
  llvm::Value* offset = nullptr;  ///< of `first` in it

  [[nodiscard]] std::uint64_t bytes() const { return marker::number(call, marker::kBytes); }
  [[nodiscard]] std::uint64_t flags() const { return marker::number(call, marker::kFlags); }
  [[nodiscard]] bool is_shared() const { return marker::number(call, marker::kRange) == 0; }
};

/// The base class of the emitters of checks: fields of the context and of ranges.
class CheckPart : public EmitterPart {
 protected:
  explicit CheckPart(EmitterParts& parts) : EmitterPart{parts} {}

  Value* range(std::uint64_t number);  ///< its address
  Value* field_of(Value* range, llvm::Type*, std::size_t offset);
  Value* of_context(llvm::Type*, std::size_t offset);
  void branch(Value* condition, llvm::BasicBlock* likely, llvm::BasicBlock* unlikely);
};

}  // namespace cucpu::simt
