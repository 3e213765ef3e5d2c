// SPDX-License-Identifier: Apache-2.0
// cpu/graph/condition.hpp: the values that conditional nodes read and device code sets.
#pragma once

#include <atomic>
#include <memory>

#include "cpu/base/abi.hpp"

namespace cucpu::driver {

/// The handle is the address of the value.
struct Condition {
  std::atomic<unsigned> value{0};
  unsigned initial = 0;
  bool assign_initial = false;
  bool has_node = false;  ///< at most one node uses it; guarded by the graphs' lock
};

/// Makes a condition. It lives as long as its graph, a copy of it or a launch of it. Memory of
/// conditions is reused for conditions only, so a kernel that sets a condition too late writes to
/// no other memory.
std::shared_ptr<Condition> make_condition(unsigned initial, bool assign_initial);
CUgraphConditionalHandle handle_of(const Condition&) noexcept;

/// The condition of a handle. Fails with 1.
std::shared_ptr<Condition> condition_of(CUgraphConditionalHandle);

}  // namespace cucpu::driver
