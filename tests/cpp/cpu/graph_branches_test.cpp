// SPDX-License-Identifier: Apache-2.0
// Branches of graphs: independent branches run concurrently, and all dependencies are respected.
#include <atomic>
#include <random>
#include <thread>

#include "graph_support.hpp"

namespace {

class GraphBranches : public GraphTest {
 protected:
  CUgraphNode host_node(std::vector<CUgraphNode> after, CUhostFn function, void* data) {
    const CUDA_HOST_NODE_PARAMS p{function, data};
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddHostNode(&node, graph_, after.data(), after.size(), &p));
    return node;
  }
};

TEST_F(GraphBranches, BranchesThatWaitForEachOtherComplete) {
  unsigned* flags = words(3);
  const CUgraphNode root = kernel_node(graph_, {}, "noop");
  const CUgraphNode a =
      kernel_node(graph_, {kernel_node(graph_, {root}, "store", &flags[0], 1u)}, "spin", &flags[1]);
  const CUgraphNode b =
      kernel_node(graph_, {kernel_node(graph_, {root}, "spin", &flags[0])}, "store", &flags[1], 1u);
  kernel_node(graph_, {a, b}, "store", &flags[2], 1u);
  const CUgraphExec exec = instantiate();
  for (int i = 0; i < 50; ++i) {
    flags[0] = flags[1] = flags[2] = 0;
    run(exec);
    ASSERT_EQ(1u, flags[2]);
  }
}

TEST_F(GraphBranches, BranchesWithoutCommonRootWaitInBothOrders) {
  unsigned* flags = words(2);
  kernel_node(graph_, {}, "spin",
              &flags[1]);  // hangs if the branches run one after the other
  kernel_node(graph_, {}, "store", &flags[0], 1u);
  kernel_node(graph_, {kernel_node(graph_, {}, "spin", &flags[0])}, "store", &flags[1], 1u);
  const CUgraphExec exec = instantiate();
  for (int i = 0; i < 50; ++i) {
    flags[0] = flags[1] = 0;
    run(exec);
  }
}

TEST_F(GraphBranches, ChildGraphBranchesWaitForParentBranches) {
  unsigned* flags = words(2);
  CUgraph child = nullptr;
  ASSERT_OK(cuGraphCreate(&child, 0));
  kernel_node(child, {kernel_node(child, {}, "store", &flags[0], 1u)}, "spin", &flags[1]);
  kernel_node(child, {}, "noop");
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&node, graph_, nullptr, 0, child));
  kernel_node(graph_, {kernel_node(graph_, {}, "spin", &flags[0])}, "store", &flags[1], 1u);
  const CUgraphExec exec = instantiate();
  for (int i = 0; i < 20; ++i) {
    flags[0] = flags[1] = 0;
    run(exec);
  }
}

TEST_F(GraphBranches, WhileNodesInBranchesLoopConcurrently) {
  unsigned* counts = words(3);
  std::vector<CUgraphNode> ends;
  for (unsigned i = 0; i < 2; ++i) {
    const auto [handle, node, body] = add_condition(graph_, CU_GRAPH_COND_TYPE_WHILE, 1);
    kernel_node(body, {kernel_node(body, {}, "add", &counts[2], 1u)}, "countdown", &counts[i],
                handle);
    ends.push_back(node);
  }
  kernel_node(graph_, ends, "add", &counts[2], 1000u);
  const CUgraphExec exec = instantiate();
  for (int i = 0; i < 20; ++i) {
    counts[0] = 30, counts[1] = 50, counts[2] = 0;
    run(exec);
    ASSERT_EQ(1080u, counts[2]);
  }
}

struct Ticket {
  std::atomic<unsigned>* clock;
  unsigned at = 0;
};
void stamp(void* data) {
  auto* ticket = static_cast<Ticket*>(data);
  ticket->at = ticket->clock->fetch_add(1);
}

TEST_F(GraphBranches, RandomGraphsRespectAllDependencies) {
  std::mt19937 random{5};
  for (int round = 0; round < 30; ++round) {
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    const unsigned count = 2 + random() % 24;
    std::atomic<unsigned> clock{1};
    std::vector<Ticket> tickets(count);
    std::vector<CUgraphNode> nodes;
    std::vector<std::vector<unsigned>> after(count);
    for (unsigned i = 0; i < count; ++i) {
      tickets[i].clock = &clock;
      std::vector<CUgraphNode> dependencies;
      for (unsigned d = 0; d < i; ++d) {
        if (random() % 4 != 0) continue;
        after[i].push_back(d);
        dependencies.push_back(nodes[d]);
      }
      nodes.push_back(host_node(dependencies, stamp, &tickets[i]));
    }
    const CUgraphExec exec = instantiate();
    for (int launch = 0; launch < 5; ++launch) {
      for (Ticket& ticket : tickets) ticket.at = 0;
      run(exec);
      for (unsigned i = 0; i < count; ++i) {
        ASSERT_NE(0u, tickets[i].at);
        for (const unsigned d : after[i])
          ASSERT_LT(tickets[d].at, tickets[i].at) << d << " before " << i;
      }
    }
    ASSERT_OK(cuGraphExecDestroy(exec));
    ASSERT_OK(cuGraphDestroy(graph_));
  }
}

TEST_F(GraphBranches, FaultStopsAllBranches) {
  unsigned* flags = words(2);
  const CUgraphNode bad = kernel_node(graph_, {}, "fault", 719u);
  kernel_node(graph_, {bad}, "store", &flags[0], 1u);
  kernel_node(graph_, {bad, kernel_node(graph_, {}, "noop")}, "store", &flags[1], 1u);
  const CUgraphExec exec = instantiate();
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(stream_));
  EXPECT_EQ(0u, flags[0]);
  EXPECT_EQ(0u, flags[1]);
}

struct Alone {
  std::atomic<int> inside{0}, most{0}, runs{0};
};
void enter(void* data) {
  auto* alone = static_cast<Alone*>(data);
  const int now = alone->inside.fetch_add(1) + 1;
  if (now > alone->most) alone->most = now;
  std::this_thread::yield();
  alone->inside.fetch_sub(1);
  alone->runs.fetch_add(1);
}

TEST_F(GraphBranches, RunsOfOneExecutableGraphNeverOverlap) {
  Alone alone;
  host_node({}, enter, &alone);
  const CUgraphExec exec = instantiate();
  CUstream streams[4];
  for (CUstream& s : streams) ASSERT_OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 200; ++i) ASSERT_OK(cuGraphLaunch(exec, streams[i % 4]));
  for (const CUstream s : streams) ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ(200, alone.runs);
  EXPECT_EQ(1, alone.most);
}

}  // namespace
