// SPDX-License-Identifier: Apache-2.0
// cpu/engine/coverage/insert_coverage.hpp: kernel coverage (CUCORE_COVERAGE): thread code marks
// what is counted.
#pragma once

namespace llvm {
class Function;
}

namespace cucpu {

struct CoverageMap;

/// Requires: thread code of one function with the debug locations of its source lines; no code has
/// been moved or merged.
/// Guarantees: `cucpu.coverage.block(i32 counter)` stands in every block that has lines and whose
/// count does not follow from a branch, `cucpu.coverage.branch(i32 counter, i1 condition)` before
/// every conditional branch with a line. The map has a row for each block and branch. Functions
/// without lines are left as they are.
void insert_coverage(llvm::Function&, CoverageMap&);

}  // namespace cucpu
