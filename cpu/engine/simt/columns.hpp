// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/columns.hpp: kernels that write columns of a matrix.
#pragma once

#include "cpu/engine/simt/shape.hpp"

namespace cucpu::simt {

/// Whether groups may run column by column: the same group of all rows of threads, then the next
/// one. Not with barriers or shared memory, where the order of groups may matter, nor where a group
/// is not in one row.
bool can_run_by_columns(const Flow&, const Lanes&);

/// Whether lanes of a group store to different cache lines, and the next row of threads to the next
/// elements of these lines (the transposition of a matrix). Where groups run column by column, the
/// lines stay in the cache until they are complete.
bool writes_columns(const Flow&, const Shapes& full);

}  // namespace cucpu::simt
