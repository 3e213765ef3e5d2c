// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/routines.hpp: the routines by which generated code synchronizes with other
// threads. All act on the running fiber.
#pragma once

#include <cstdint>

#include "cpu/engine/run/block_context.hpp"

extern "C" {

// Barriers: `threads` = 0 means every thread of the block that has not exited.
void cucpu_rt_barrier_sync(std::uint32_t id, std::uint32_t threads);
void cucpu_rt_barrier_arrive(std::uint32_t id, std::uint32_t threads);
std::uint32_t cucpu_rt_barrier_red_popc(std::uint32_t id, std::uint32_t threads, bool predicate);
bool cucpu_rt_barrier_red_and(std::uint32_t id, std::uint32_t threads, bool predicate);
bool cucpu_rt_barrier_red_or(std::uint32_t id, std::uint32_t threads, bool predicate);
void cucpu_rt_cluster_arrive();
void cucpu_rt_cluster_wait();
void cucpu_rt_block_cluster_arrive(cucpu::BlockContext*);
void cucpu_rt_block_cluster_wait(cucpu::BlockContext*);

/// Any warp operation: `kind` is a cucpu::WarpOp. Returns the value in the low half, and a
/// predicate, if the operation has one, in bit 32.
std::uint64_t cucpu_rt_warp(std::uint32_t kind, std::uint32_t mask, std::uint64_t a,
                            std::uint32_t b, std::uint32_t c);
std::uint32_t cucpu_rt_activemask();

/// A collective routine over a warp: in[lane] points to the operands, out[lane] to the result; both
/// are undefined for lanes not in `lanes`.
using cucpu_warp_routine = void(std::uint32_t lanes, const void* const* in, void* const* out);
void cucpu_rt_warp_call(cucpu_warp_routine*, const void* in, void* out);

/// The same for four neighboring warps, 128 threads; entries of absent threads are null.
using cucpu_warpgroup_routine = void(const void* const* in, void* const* out);
void cucpu_rt_warpgroup_call(cucpu_warpgroup_routine*, const void* in, void* out);

void cucpu_rt_yield();        ///< in a loop that waits for memory
void cucpu_rt_yield_block();  ///< in such a loop that passes a barrier of the block in each
                              ///< iteration
void cucpu_rt_nanosleep(std::uint32_t nanoseconds);
[[noreturn]] void cucpu_rt_exit();
[[noreturn]] void cucpu_rt_trap(std::uint32_t code);
[[noreturn]] void cucpu_rt_cancelled();
void cucpu_rt_poll();  ///< replaces it when tests count safepoints
[[noreturn]] void cucpu_rt_misaligned(std::uint64_t address);
cucpu::ThreadContext* cucpu_rt_thread();

}  // extern "C"

namespace cucpu {

enum class WarpOp : std::uint32_t {
  kSync,
  kShflUp,
  kShflDown,
  kShflBfly,
  kShflIdx,
  kVoteAll,
  kVoteAny,
  kVoteUni,
  kVoteBallot,
  kMatchAny,
  kMatchAll,
  kReduxAdd,
  kReduxUMin,
  kReduxUMax,
  kReduxSMin,
  kReduxSMax,
  kReduxAnd,
  kReduxOr,
  kReduxXor,
  kElect,
  kCall,
};

}  // namespace cucpu
