// SPDX-License-Identifier: Apache-2.0
// cpu/base/numa.hpp: the processors of each NUMA node, and where worker threads belong. Memory is
// near the node of the thread that first writes it, so workers stay on the node they start on.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace cucpu::driver {

/// The processors in a list of the kernel's, such as "0-3,8"; empty for a text that is none.
std::vector<unsigned> parse_processors(const std::string& list);

/// The processors of each node that this process may use, without nodes that have none. `root` is
/// where the system's folders are.
std::vector<std::vector<unsigned>> numa_nodes(const std::filesystem::path& root = "/");

/// The node of a worker: nodes get workers in proportion to their processors, one node after the
/// other.
std::size_t node_of_worker(const std::vector<std::vector<unsigned>>& nodes, unsigned worker,
                           unsigned workers);

/// Keeps the calling thread on the node of this worker. Does nothing on a single node.
void stay_on_node(unsigned worker, unsigned workers) noexcept;

}  // namespace cucpu::driver
