// SPDX-License-Identifier: Apache-2.0
// NUMA nodes, read from files in the kernel's format, and the nodes of workers.
#include "cpu/base/numa.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "../temporary_folder.hpp"

namespace {

using cucpu::driver::node_of_worker;
using cucpu::driver::numa_nodes;
using cucpu::driver::parse_processors;
using Nodes = std::vector<std::vector<unsigned>>;

TEST(Numa, ListsOfProcessorsAreParsed) {
  EXPECT_EQ(parse_processors("0-3,8"), (std::vector<unsigned>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_processors("5"), (std::vector<unsigned>{5}));
  for (const char* wrong : {"", "\n", "x", "3-1", "1-", "0-999999", "1;2"})
    EXPECT_TRUE(parse_processors(wrong).empty()) << wrong;
}

class NumaFolder : public testing::Test {
 protected:
  void node(const std::string& name, const std::string& list) {
    const auto folder = folder_.path() / "sys/devices/system/node" / name;
    std::filesystem::create_directories(folder);
    std::ofstream{folder / "cpulist"} << list << "\n";
  }
  cucore::test::TemporaryFolder folder_;
};

TEST_F(NumaFolder, NodesHoldTheProcessorsThatTheProcessMayUse) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  unsigned usable = 0;
  while (!CPU_ISSET(usable, &set)) ++usable;
  node("node0", "1000-1002");
  node("node2", "");
  node("node10", std::to_string(usable));
  node("nodes", std::to_string(usable));
  EXPECT_EQ(numa_nodes(folder_.path()), (Nodes{{usable}}));
}

TEST_F(NumaFolder, SystemsWithoutNodesHaveNone) { EXPECT_TRUE(numa_nodes(folder_.path()).empty()); }

TEST(Numa, WorkersAreSharedInProportionToProcessors) {
  const Nodes nodes{{0, 1, 2, 3}, {4, 5}, {6, 7}};
  for (const unsigned workers : {8u, 16u, 24u}) {
    std::map<std::size_t, unsigned> count;
    std::size_t last = 0;
    for (unsigned worker = 0; worker < workers; ++worker) {
      const std::size_t at = node_of_worker(nodes, worker, workers);
      EXPECT_GE(at, last);  // neighbours share a node
      last = at;
      ++count[at];
    }
    EXPECT_EQ(count[0], workers / 2);
    EXPECT_EQ(count[1], workers / 4);
    EXPECT_EQ(count[2], workers / 4);
  }
  EXPECT_EQ(node_of_worker(nodes, 0, 1), 0u);
  EXPECT_EQ(node_of_worker(nodes, 9, 8), node_of_worker(nodes, 1, 8));  // an extra worker
  EXPECT_EQ(node_of_worker(nodes, 0, 0), 0u);
}

TEST(Numa, AThreadOnASingleNodeKeepsItsProcessors) {
  std::thread{[] {
    if (numa_nodes().size() > 1) GTEST_SKIP() << "this machine has several nodes";
    cpu_set_t before, after;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    cucpu::driver::stay_on_node(0, 4);
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }}.join();
}

}  // namespace
