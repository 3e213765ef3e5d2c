// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/check_emitter.hpp: the tests of check mode.
#pragma once

#include <llvm/ADT/DenseSet.h>

#include <functional>

#include "cpu/engine/simt/check_part.hpp"

namespace cucpu::simt {

/// Emits the tests of accesses, barriers and warp operations (docs/design/check.md). For memory
/// checks, vector code compares the addresses of a lane group with a CheckRange and calls a routine
/// if they are not inside it. InitCheckEmitter and RaceCheckEmitter emit the tests of the other
/// checks, where they need no routine.
class CheckEmitter : public CheckPart {
 public:
  explicit CheckEmitter(EmitterParts& parts) : CheckPart{parts} {}

  void emit_access(llvm::CallInst&);
  /// For code that one lane executes: `value_of` is a value of thread code in that lane.
  void emit_access_in_lane(llvm::CallInst&, Value* lane,
                           const std::function<Value*(Value*)>& value_of);
  void emit_fence();
  /// All threads of the block have passed a barrier, or the block starts.
  void emit_interval();
  void emit_warp(llvm::CallInst&, llvm::StringRef name);

 private:
  [[nodiscard]] bool is_checked(const llvm::CallInst&) const;
  [[nodiscard]] bool has_state() const;  ///< race and init checks
  Value* lanes_on();
  /// Whether the `span` bytes from `first` on lie in the .shared variable of an access, or in its
  /// range.
  Value* is_inside(const llvm::CallInst&, Value* first, std::uint64_t span);
  Value* is_inside(Value* range, Value* first, std::uint64_t span);
  Value* is_between(Value* first, Value* low, Value* room);
  Value* is_inside(llvm::CallInst&);
  /// Emits `slow` unless race and init checks need no routine for the access. Lanes that are off
  /// need it. False: such an access always needs it, and nothing was emitted.
  bool unless_known(CheckedGroup, const std::function<void()>& slow);
  void emit_slow_path(llvm::BasicBlock* check, llvm::BasicBlock* after,
                      const std::function<void()>& slow);
  /// Emits `slow` where `inside` is false.
  void unless(Value* inside, const std::function<void()>& slow);
  struct Neighbor {
    llvm::CallInst* call;
    std::int64_t distance;
  };
  llvm::SmallVector<Neighbor, 8> neighbors(llvm::CallInst&);
  void emit_together(llvm::CallInst&, llvm::ArrayRef<Neighbor>);
  void call_routine(llvm::CallInst&, Value* first);
  llvm::DenseSet<const llvm::CallInst*> together_;  ///< their checks were part of an earlier one
  Value* field(std::size_t offset);                 ///< of the LaneAccess in the frame
  void call_routine(llvm::CallInst&, Value* lanes, Value* first_thread, Value* root);
  llvm::FunctionCallee routine(llvm::StringRef name, llvm::ArrayRef<llvm::Type*> arguments);
};

}  // namespace cucpu::simt
