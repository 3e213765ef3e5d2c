// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/lane_access.hpp: what checked vector code passes to the routines of check mode.
// Plain memory with a fixed layout: generated code stores to it by offsetof.
#pragma once

#include <cstdint>

#include "cpu/engine/run/block_context.hpp"

namespace cucpu {

/// One access of the lanes of a group.
struct LaneAccess {
  std::uint64_t lanes;             ///< a bit per lane that accesses
  std::uint64_t address;           ///< of lane 0, if `addresses` is null
  std::int64_t stride;             ///< from lane to lane, if `addresses` is null
  const std::uint64_t* addresses;  ///< by lane; may be null
  const std::uint64_t* values;     ///< that a store writes, by lane; may be null
  std::uint64_t root;              ///< the kernel parameter of the address; 0: unknown
  std::uint32_t bytes;             ///< of one lane
  std::uint32_t flags;             ///< of check::AccessFlag
  std::uint32_t site;              ///< the number of the access in its kernel
  std::uint32_t range;             ///< its CheckRange; kCheckRanges: none
  std::uint32_t first_thread;      ///< the thread of lane 0, in its block
  std::uint32_t block_x;           ///< ctaid.x; BlockContext::index may be that of another block
  std::uint64_t variable_offset;   ///< of the .shared variable of the address, in shared memory
  std::uint64_t variable_bytes;    ///< 0: unknown
  std::uint64_t written;           ///< kReadOnly: check::written_parameters

  [[nodiscard]] std::uint64_t address_of(unsigned lane) const {
    return addresses ? addresses[lane] : address + static_cast<std::uint64_t>(stride) * lane;
  }
};

}  // namespace cucpu

extern "C" {
/// Checks an access before it is executed; does not return after a finding.
void cucpu_rt_check_lanes(cucpu::BlockContext*, cucpu::CheckRange*, const cucpu::LaneAccess*);
void cucpu_rt_check_lanes_fence(cucpu::BlockContext*, std::uint32_t first_thread,
                                std::uint64_t lanes);
/// A warp executes an operation with this mask. `missing`: lanes whose mask does not name them.
void cucpu_rt_check_lanes_warp(cucpu::BlockContext*, std::uint32_t first_thread,
                               std::uint32_t missing, std::uint32_t mask);
}
