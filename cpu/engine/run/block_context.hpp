// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/block_context.hpp: the state of a block that generated code accesses. Plain memory
// with a fixed layout: generated code loads from it by offsetof. Each resident block has one
// BlockContext, owned by the host thread that runs the block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cucpu {

/// The history of 32 bytes that one lane group accesses as a whole (check/history.hpp).
struct CheckRow {
  std::uint64_t write, read;
  /// A read by a different lane group, not later than `read`; 0: none. Only while `read` is closed.
  std::uint64_t other_read;
  std::uint16_t write_site, read_site, other_read_site;
  /// Of uniform reads: a bit per word that was read, and the number of lanes minus one (from bit
  /// 8).
  std::uint16_t uniform;
};

/// Memory that accesses were found to be inside of (check mode): [low, low + limit - 1). Limit 0:
/// none. Checked vector code compares with it and calls a routine for other addresses. With a
/// limit, the pointers of the kinds that are checked are valid.
struct CheckRange {
  std::uint64_t low, limit;
  /// Race checks: by word from `low` on, the interval (BlockContext::check_interval) in which more
  /// reads of it need no check.
  std::uint32_t* settled;
  CheckRow* rows;             ///< race checks: by 32 bytes from `low` on
  std::uint16_t* read_sites;  ///< race checks: by word from `low` on, the last read
  /// Init checks: a bit per byte from `low` on, set if it is initialized. An index into it is ANDed
  /// with the mask: 0 for memory all of which counts as initialized.
  const std::byte* initialized;
  std::uint64_t initialized_mask;
};

/// Of a host thread. The first one is the shared memory of the block.
inline constexpr std::size_t kCheckRanges = 64;
/// Race checks: generated code updates CheckRows only for accesses with smaller numbers.
inline constexpr std::size_t kCheckedSites = 512;

/// First argument of every generated entry point. Fields above the line are constant while the
/// block runs.
struct BlockContext {
  std::uint32_t grid[3];           ///< nctaid
  std::uint32_t block[3];          ///< ntid
  std::uint32_t index[3];          ///< ctaid
  std::uint32_t cluster[3];        ///< cluster_nctaid: blocks per cluster, 1 without clusters
  std::uint32_t cluster_index[3];  ///< cluster_ctaid: this block inside its cluster
  std::uint32_t cluster_rank;      ///< cluster_ctarank: the same, linear
  const std::byte* params;         ///< packed kernel parameters
  std::byte* shared;  ///< shared offset 0, 1024-byte aligned; `kSharedPadding` bytes on both sides
                      ///< may be accessed
  std::uint32_t shared_bytes;  ///< static + dynamic, with the padding that aligns dynamic memory
  std::uint32_t dynamic_shared_bytes;  ///< %dynamic_smem_size
  std::uint32_t
      reserved_shared_offset;   ///< %reserved_smem_offset_1: 1 KiB after the block's own bytes
  std::uint32_t block_threads;  ///< product of block[]
  const std::uint32_t* cancel;  ///< not 0: leave through cucpu_rt_cancelled(). Loops poll it.
  std::byte* scratch;  ///< CompiledKernel::scratch_bytes long, 64-byte aligned, contents undefined
  void* grid_workspace;              ///< {u32 size, u32 barrier}: %envreg1 (high) : %envreg2 (low)
  std::uint64_t grid_id;             ///< %gridid
  std::byte* const* cluster_shared;  ///< [rank]: shared offset 0 of every block of the cluster
  std::uint32_t smid, nsmid;  ///< the number of the host thread that runs the block; their count
  CheckRange* check_ranges;   ///< kCheckRanges long; of the host thread. Only check mode uses them.
  std::uint32_t check_interval;  ///< between two barriers; numbered by check mode
  std::uint32_t* check_clock;    ///< race checks: the last interval of the grid
  // Race checks: words of the history (check/history.hpp) that order an access.
  std::uint64_t check_empty;         ///< words below it are ordered before the grid
  std::uint64_t check_block;         ///< words from it on are of this block
  std::uint64_t check_now;           ///< words from it on are of this interval
  const std::uint16_t* check_steps;  ///< warp operations of the block, by warp
  /// By number of an access, up to kCheckedSites: whether the routine knows its instruction.
  const std::uint8_t* check_sites;
  // ---------------------------------------------------------------------------------------------------------------
  /// Generated code stores these (volatile) before it runs a thread or lane group, or once if the
  /// group is not needed to find the thread; only fault reports read them.
  std::uint32_t current_thread;  ///< linear thread index of the first lane
  std::uint32_t current_lanes;   ///< number of threads that run together (1 on the scalar path)
  /// The number of blocks, in linear order, that the code runs after this one: it decrements this
  /// and increments `index`. Only for code that iterates over blocks (Code::iterates_blocks), and
  /// without clusters.
  std::uint32_t blocks_left;
  /// The number of blocks from `index` on, in x, that run together; for fault reports.
  std::uint32_t current_blocks;
  /// Threads [0, started) have started; for block code, whether it has. Code that runs several
  /// threads on a fiber increments it, except for the last thread.
  std::uint32_t started;
};

/// Bytes before and after a block's shared memory that generated code may read and write back
/// unchanged (whole-vector accesses).
inline constexpr std::size_t kSharedPadding = 1024;

/// First argument of thread code on the fiber path: one thread of a block.
struct ThreadContext {
  BlockContext* block;
  std::uint32_t tid[3];
  std::uint32_t linear;  ///< tid.x + ntid.x * (tid.y + ntid.y * tid.z); lane = linear % 32, warp =
                         ///< linear / 32
  std::uint32_t more;    ///< how many threads the code has run after the first one
};

using BlockFunction =
    void(BlockContext*);  ///< runs a whole block (vector code, or a loop over its threads)
/// Runs one thread on its own fiber, or that thread and others that have not started.
using ThreadFunction = void(ThreadContext*);

static_assert(offsetof(BlockContext, params) == 64 && offsetof(BlockContext, cancel) == 96,
              "no padding: generated code and its disk cache rely on this layout");

}  // namespace cucpu
