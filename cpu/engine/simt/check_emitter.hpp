// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/check_emitter.hpp: the tests of check mode.
#pragma once

#include <functional>

#include "cpu/engine/simt/emit_state.hpp"

namespace cucpu::simt {

/// Emits the tests of accesses, barriers and warp operations (docs/design/check.md). For memory
/// checks, vector code compares the addresses of a lane group with a CheckRange and calls a routine
/// if they are not inside it; for other kinds it always calls the routine.
class CheckEmitter : public EmitterPart {
 public:
  explicit CheckEmitter(EmitterParts& parts) : EmitterPart{parts} {}

  void emit_access(llvm::CallInst&);
  /// For code that one lane executes: `value_of` is a value of thread code in that lane.
  void emit_access_in_lane(llvm::CallInst&, Value* lane,
                           const std::function<Value*(Value*)>& value_of);
  void emit_fence();
  /// All threads of the block have passed a barrier, or the block starts.
  void emit_interval();
  void emit_warp(llvm::CallInst&, llvm::StringRef name);

 private:
  [[nodiscard]] bool calls_always() const;
  Value* lanes_on();
  Value* range(std::uint64_t number);  ///< its address
  /// Whether the `span` bytes from `first` on lie in the .shared variable of an access, or in its
  /// range.
  Value* is_inside(const llvm::CallInst&, Value* first, std::uint64_t span);
  Value* is_inside(Value* range, Value* first, std::uint64_t span);
  Value* is_between(Value* first, Value* low, Value* room);
  Value* is_inside(llvm::CallInst&);
  /// Emits `slow` unless an access is a read of neighboring words, from `first` on, that race
  /// checks need not see (CheckRange::settled). False: it is not such a read, and nothing was
  /// emitted.
  bool unless_settled(const llvm::CallInst&, Value* first, std::uint64_t words,
                      const std::function<void()>& slow);
  void emit_slow_path(llvm::BasicBlock* check, llvm::BasicBlock* after,
                      const std::function<void()>& slow);
  /// Emits `slow` where `inside` is false.
  void unless(Value* inside, const std::function<void()>& slow);
  Value* field(std::size_t offset);  ///< of the LaneAccess in the frame
  void call_routine(llvm::CallInst&, Value* lanes, Value* first_thread, Value* root);
  llvm::FunctionCallee routine(llvm::StringRef name, llvm::ArrayRef<llvm::Type*> arguments);
};

}  // namespace cucpu::simt
