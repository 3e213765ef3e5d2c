// SPDX-License-Identifier: Apache-2.0
// location.cpp: memory locations of the host, and their names.
#include "cucore/location.hpp"

#include <stdexcept>

namespace cucore {

Location Location::host_of(std::optional<int> numa_id, bool is_numa_current) {
  if (is_numa_current && numa_id)
    throw std::invalid_argument{"Host: give numa_id or is_numa_current, not both"};
  if (is_numa_current) return host_numa_current();
  if (!numa_id) return host();
  if (*numa_id < 0)
    throw std::invalid_argument{"Host: numa_id must be an int of at least 0, not " +
                                std::to_string(*numa_id)};
  return host_numa(*numa_id);
}

std::string Location::text() const {
  if (is_device()) return "Device " + std::to_string(id_);
  if (is_numa_current()) return "Host.numa_current()";
  return numa_id() ? "Host(numa_id=" + std::to_string(id_) + ")" : "Host()";
}

}  // namespace cucore
