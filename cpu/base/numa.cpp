// SPDX-License-Identifier: Apache-2.0
// NUMA nodes, as /sys describes them.
#include "cpu/base/numa.hpp"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "cpu/base/cpu_affinity.hpp"

namespace cucpu::driver {

std::vector<unsigned> parse_processors(const std::string& list) {
  std::vector<unsigned> found;
  std::stringstream stream{list};
  for (std::string part; std::getline(stream, part, ',');) {
    unsigned first = 0, last = 0;
    char dash = 0;
    std::stringstream range{part};
    if (!(range >> first)) return {};
    last = first;
    if (range >> dash && (dash != '-' || !(range >> last))) return {};
    if (last < first || last >= CPU_SETSIZE) return {};
    for (unsigned processor = first; processor <= last; ++processor) found.push_back(processor);
  }
  return found;
}

std::vector<std::vector<unsigned>> numa_nodes(const std::filesystem::path& root) {
  const cpu_set_t& usable = process_cpus();
  std::vector<std::pair<unsigned, std::vector<unsigned>>> nodes;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator{root / "sys/devices/system/node", ignored}) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("node") || name.size() == 4 ||
        !std::all_of(name.begin() + 4, name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; }))
      continue;
    std::string list;
    std::getline(std::ifstream{entry.path() / "cpulist"}, list);
    std::vector<unsigned> processors = parse_processors(list);
    std::erase_if(processors, [&](unsigned p) { return !CPU_ISSET(p, &usable); });
    if (!processors.empty())
      nodes.emplace_back(static_cast<unsigned>(std::stoul(name.substr(4))), std::move(processors));
  }
  std::sort(nodes.begin(), nodes.end());
  std::vector<std::vector<unsigned>> found;
  for (auto& [number, processors] : nodes) found.push_back(std::move(processors));
  return found;
}

std::size_t node_of_worker(const std::vector<std::vector<unsigned>>& nodes, unsigned worker,
                           unsigned workers) {
  std::size_t all = 0;
  for (const auto& node : nodes) all += node.size();
  const std::size_t place = workers == 0 ? 0 : worker % workers * all / workers;
  std::size_t end = 0;
  for (std::size_t node = 0; node < nodes.size(); ++node)
    if (place < (end += nodes[node].size())) return node;
  return 0;
}

void stay_on_node(unsigned worker, unsigned workers) noexcept {
  try {
    static const auto& nodes = *new std::vector<std::vector<unsigned>>{numa_nodes()};
    if (nodes.size() < 2) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const unsigned processor : nodes[node_of_worker(nodes, worker, workers)])
      CPU_SET(processor, &set);
    (void)sched_setaffinity(0, sizeof set, &set);  // the system may forbid it
  } catch (...) {                                  // no memory: the thread runs anywhere
  }
}

}  // namespace cucpu::driver
