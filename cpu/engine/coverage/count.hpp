// SPDX-License-Identifier: Apache-2.0
// cpu/engine/coverage/count.hpp: code that counts, for the vectorizer and for the scalar path.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>

namespace cucpu {

/// The symbol of a module's CoverageCounters.
inline constexpr const char* kCoverageSymbol = "cucpu_coverage";

/// Whether a marker (without "cucpu.") counts for kernel coverage. It accesses no memory of the
/// program.
inline bool is_coverage_marker(llvm::StringRef name) { return name.starts_with("coverage."); }

/// Emits a call that returns the counters of the running host thread; once per function.
/// `exclusive`: no function that this function calls counts in the same counters.
llvm::Value* emit_counters(llvm::IRBuilderBase&, llvm::Module&, bool exclusive);

/// Emits counters[index] += amount. `index` is an i32, `amount` an i64.
void emit_count(llvm::IRBuilderBase&, llvm::Value* counters, llvm::Value* index,
                llvm::Value* amount);

}  // namespace cucpu
