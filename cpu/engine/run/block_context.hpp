// cpu/engine/run/block_context.hpp: what machine code knows of the block it runs. Plain memory with
// a fixed layout: generated code loads from it by offsetof. One BlockContext per resident block,
// owned by the host thread that runs the block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cucpu {

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
  std::byte* shared;  ///< shared offset 0, 1024-byte aligned; `kSharedPadding` bytes may be touched
                      ///< on both sides
  std::uint32_t shared_bytes;  ///< static + dynamic, and what aligns dynamic memory between them
  std::uint32_t dynamic_shared_bytes;  ///< %dynamic_smem_size
  std::uint32_t
      reserved_shared_offset;   ///< %reserved_smem_offset_1: 1 KiB behind the block's own bytes
  std::uint32_t block_threads;  ///< product of block[]
  const std::uint32_t* cancel;  ///< not 0: leave through cucpu_rt_cancelled(); loops poll it
  std::byte* scratch;  ///< CompiledKernel::scratch_bytes long, 64-byte aligned, contents undefined
  void* grid_workspace;              ///< {u32 size, u32 barrier}: %envreg1 (high) : %envreg2 (low)
  std::uint64_t grid_id;             ///< %gridid
  std::byte* const* cluster_shared;  ///< [rank]: shared offset 0 of every block of the cluster
  std::uint32_t smid, nsmid;         ///< the host thread that runs the block; how many there are
  // ---------------------------------------------------------------------------------------------------------------
  /// Volatile stores by generated code before it runs a thread or lane group (or once, when the
  /// group does not matter); only fault reports read them.
  std::uint32_t current_thread;  ///< linear thread index of the first lane
  std::uint32_t current_lanes;  ///< how many threads from there run together (1 on the scalar path)
  /// How many blocks, in linear order, the code goes on with when this one is done: it counts down,
  /// and steps `index`. Only for code that says so (ObjectCode::runs_on), and without clusters.
  std::uint32_t blocks_left;
  /// How many blocks from `index` on, in x, run together: for fault reports, as current_lanes.
  std::uint32_t current_blocks;
};

/// Bytes before and behind a block's shared memory that generated code may read and rewrite
/// (whole-vector accesses).
inline constexpr std::size_t kSharedPadding = 1024;

/// First argument of thread code on the fiber path: one thread of a block.
struct ThreadContext {
  BlockContext* block;
  std::uint32_t tid[3];
  std::uint32_t linear;  ///< tid.x + ntid.x * (tid.y + ntid.y * tid.z); lane = linear % 32, warp =
                         ///< linear / 32
};

using BlockFunction =
    void(BlockContext*);  ///< runs a whole block (vector code, or a loop over its threads)
using ThreadFunction = void(ThreadContext*);  ///< runs one thread on its own fiber

static_assert(offsetof(BlockContext, params) == 64 && offsetof(BlockContext, cancel) == 96,
              "no holes: generated code and its disk cache rely on this layout");

}  // namespace cucpu
