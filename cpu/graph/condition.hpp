// cpu/graph/condition.hpp: the values that conditional nodes look at and device code sets.
#pragma once

#include <atomic>
#include <memory>

#include "cpu/base/abi.hpp"

namespace cucpu::driver {

/// Its handle is the address of the value.
struct Condition {
  std::atomic<unsigned> value{0};
  unsigned initial = 0;
  bool assign_initial = false;
  bool has_node = false;  ///< that looks at it: there is one at most; with the lock of graphs
};

/// Lives as long as a graph it was made for, a copy of one or a launch of one does. A kernel that
/// sets it later still than that writes into a condition's place, never into other memory: places
/// are used again, for conditions only.
std::shared_ptr<Condition> make_condition(unsigned initial, bool assign_initial);
CUgraphConditionalHandle handle_of(const Condition&) noexcept;

/// Fails with 1 where no condition has that handle.
std::shared_ptr<Condition> condition_of(CUgraphConditionalHandle);

}  // namespace cucpu::driver
