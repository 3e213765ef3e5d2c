// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/check_emitter.hpp: the tests of check mode.
#pragma once

#include <functional>

#include "cpu/engine/simt/emit_state.hpp"

namespace cucpu::simt {

/// Emits the tests of accesses, barriers and warp operations (docs/design/check.md). For memory
/// checks, vector code compares the addresses of a lane group with a CheckRange and calls a routine
/// if they are not inside it. For init checks it tests the bits of the bytes, for race checks the
/// rows of the history that a group accesses as a whole, and settled words.
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
  [[nodiscard]] bool has_state() const;  ///< race and init checks
  Value* lanes_on();
  Value* range(std::uint64_t number);  ///< its address
  /// Whether the `span` bytes from `first` on lie in the .shared variable of an access, or in its
  /// range.
  Value* is_inside(const llvm::CallInst&, Value* first, std::uint64_t span);
  Value* is_inside(Value* range, Value* first, std::uint64_t span);
  Value* is_between(Value* first, Value* low, Value* room);
  Value* is_inside(llvm::CallInst&);
  /// Emits `slow` unless the `span` bytes from `first` on need no routine for race and init checks.
  /// `dense`: each lane accesses the bytes after those of the lane before it; `uniform`: the same
  /// bytes. All lanes are on then.
  /// False: such an access always needs the routine, and nothing was emitted.
  bool unless_known(const llvm::CallInst&, Value* first, std::uint64_t span, bool dense,
                    bool uniform, const std::function<void()>& slow);
  void branch_to_settled(Value* range, Value* offset, std::uint64_t span, BasicBlock* yes,
                         BasicBlock* no);
  Value* field_of(Value* range, llvm::Type*, std::size_t offset);
  Value* of_context(llvm::Type*, std::size_t offset);
  Value* is_initialized(Value* range, Value* offset, std::uint64_t span, bool shared);
  /// Whether no access of another thread to `count` rows is unordered. `own`: the word of the
  /// access to the first row; `next`: what is added for the next one.
  Value* are_rows_quiet(const llvm::CallInst&, Value* rows, Value* own, std::uint64_t count,
                        std::uint64_t next);
  void emit_slow_path(llvm::BasicBlock* check, llvm::BasicBlock* after,
                      const std::function<void()>& slow);
  /// Emits `slow` where `inside` is false.
  void unless(Value* inside, const std::function<void()>& slow);
  Value* field(std::size_t offset);  ///< of the LaneAccess in the frame
  void call_routine(llvm::CallInst&, Value* lanes, Value* first_thread, Value* root);
  llvm::FunctionCallee routine(llvm::StringRef name, llvm::ArrayRef<llvm::Type*> arguments);
};

}  // namespace cucpu::simt
