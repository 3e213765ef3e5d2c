// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/vectorize.hpp: scalar thread code becomes block code in which W neighbouring
// threads are one vector. docs/design/simt.md explains how it works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cpu/engine/engine.hpp"

namespace llvm {
class Function;
class TargetMachine;
class raw_ostream;
}  // namespace llvm

namespace cucpu::simt {

struct Options {
  Dim3 block;          ///< the code is specialised on it
  unsigned width = 0;  ///< 4, 8, 16 or 32 lanes; 0: chosen from the kernel and the block shape
  /// The launch guarantees nctaid * ntid < 2^31 in every dimension. Code without this assumption is
  /// slower.
  bool small_grid = true;
  /// f64 sums and products keep the order of their operands (nan/operand_order.hpp).
  bool ordered_doubles = false;
  /// Above this estimated cost of optimization (cost_of() in vectorize.cpp) the result is baseline
  /// code, which compiles fast and runs slower. Not set: optimized code.
  std::optional<unsigned> baseline_beyond;
  bool columns = false;   ///< groups run column by column wherever possible; for tests
  bool unrolled = false;  ///< "unroll-barrier-loops" changed the code
  unsigned check = 0;     ///< check mode: the check::Kinds that block code tests
  llvm::TargetMachine* target = nullptr;  ///< for the cost models of LLVM's passes; may be null
};

/// How a kernel was vectorized, for CUCORE_CPU_REPORT. Counts are static: instructions of the
/// thread code.
struct Report {
  std::string refusal;    ///< why there is no block code; empty if there is
  std::string undefined;  ///< an instruction that block code uses and does not compute: a defect
  unsigned width = 0;
  unsigned groups = 0;        ///< lane groups of a block
  unsigned regions = 0;       ///< 1 without barriers
  bool groups_agree = true;   ///< all groups provably reach the same barriers
  unsigned instructions = 0;  ///< of the prepared thread code
  unsigned uniform = 0, strided = 0, varying = 0;
  unsigned loads_uniform = 0, loads_contiguous = 0, loads_strided = 0, gathers = 0;
  unsigned stores_uniform = 0, stores_contiguous = 0, stores_strided = 0, scatters = 0;
  unsigned atomics = 0, warp_operations = 0, lane_calls = 0;
  unsigned divergent_branches = 0, divergent_loops = 0, masked_blocks = 0;
  unsigned one_lane = 0;     ///< branches that one lane takes, executed as scalar code
  unsigned last_groups = 0;  ///< tests that end the loop over groups early
  unsigned edges = 0;        ///< branches whose groups at an edge run without masks
  unsigned row_tests = 0;    ///< conditions that are tested once for a row of threads
  unsigned tails = 0;        ///< branches at which the last threads of the grid run one by one
  unsigned wrap_guards = 0;  ///< guards that an index does not wrap inside a group
  std::size_t scratch_bytes = 0;
  unsigned pressure = 0;  ///< the largest number of vectors that are live at once
};

struct BlockCode {
  llvm::Function* function =
      nullptr;  ///< void(BlockContext*), in the module of the thread code; null: see report.refusal
  std::size_t scratch_bytes = 0;  ///< what BlockContext::scratch must offer
  bool reduced = false;           ///< a large kernel: only the fast passes of the block stage run
  bool baseline = false;  ///< baseline tier: reduced, and code generation without optimization
  Report report;
};

/// Requires: thread code that find_unsupported() accepted (prepare.hpp).
/// Guarantees: `function` is block code in the module of `thread`, which is changed and of no
/// further use; or `function` is null and `report.refusal` says why.
BlockCode vectorize(llvm::Function& thread, const Options&);

/// Instructions of thread code up to which its loops are unrolled: in this tier, and in optimized
/// code.
struct UnrollLimits {
  unsigned now, optimized;
};
/// `waited_for`: the launch waits for optimized code, which should not take long then.
UnrollLimits unroll_limits(const Options&, bool waited_for);

std::string to_string(const Report&);

}  // namespace cucpu::simt
