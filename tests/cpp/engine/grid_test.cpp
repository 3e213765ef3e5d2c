// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/grid_test.cpp: blocks, barriers, warps and clusters on fibers.
#include <algorithm>
#include <numeric>

#include "grid_fixture.hpp"

namespace cucpu::test {
namespace {

struct Data {
  std::vector<std::atomic<std::uint32_t>> out;
  std::atomic<std::uint32_t> flag{0};
  explicit Data(std::size_t n) : out(n) {}
};

LaunchShape shape(Dim3 grid, Dim3 block) {
  LaunchShape s;
  s.grid = grid;
  s.block = block;
  return s;
}

Outcome run_with(const Code& code, const LaunchShape& s, Data& data, int threads = 1) {
  Data* const pointer = &data;
  return run(code, s, &pointer, threads);
}

TEST(Grid, BlockCodeRunsOncePerBlock) {
  Data data{7 * 5 * 3};
  const auto outcome =
      run_with(block_code([](BlockContext* c) {
                 ++param<Data>(*c).out[c->index[0] + 7 * (c->index[1] + 5 * c->index[2])];
               }),
               shape({7, 5, 3}, {64}), data, 3);
  EXPECT_EQ(outcome.finishers, 1);
  EXPECT_EQ(outcome.code, 0);
  for (auto& n : data.out) EXPECT_EQ(n, 1);
}

TEST(Grid, ThreadCodeRunsOncePerThread) {
  Data data{3 * 4 * 2 * 6};
  const auto outcome = run_with(thread_code([](ThreadContext* t) {
                                  const auto* b = t->block;
                                  ASSERT_EQ(t->linear, t->tid[0] + 4 * (t->tid[1] + 2 * t->tid[2]));
                                  ++param<Data>(*b).out[b->index[0] * 16 + t->linear];
                                }),
                                shape({9}, {4, 2, 2}), data, 2);
  EXPECT_EQ(outcome.finishers, 1);
  for (auto& n : data.out) EXPECT_EQ(n, 1);
}

TEST(Grid, ABarrierSeparatesWritesFromReads) {
  Data data{256 * 20};
  LaunchShape s = shape({20}, {256});
  s.dynamic_shared_bytes = 1024;
  const auto outcome =
      run_with(thread_code([](ThreadContext* t) {
                 auto* shared = reinterpret_cast<std::uint32_t*>(t->block->shared);
                 for (std::uint32_t round = 0; round < 5; ++round) {
                   shared[t->linear] = t->linear * (round + 1);
                   cucpu_rt_barrier_sync(0, 0);
                   const std::uint32_t seen = shared[255 - t->linear];
                   if (seen == (255 - t->linear) * (round + 1))
                     ++param<Data>(*t->block).out[t->block->index[0] * 256 + t->linear];
                   cucpu_rt_barrier_sync(0, 0);
                 }
               }),
               s, data, 2);
  EXPECT_EQ(outcome.code, 0) << outcome.report;
  for (auto& n : data.out) EXPECT_EQ(n, 5);
}

TEST(Grid, BarriersCountAndReducePredicates) {
  Data data{3};
  run_with(thread_code([](ThreadContext* t) {
             auto& out = param<Data>(*t->block).out;
             const std::uint32_t popc = cucpu_rt_barrier_red_popc(1, 0, t->linear % 3 == 0);
             const bool all = cucpu_rt_barrier_red_and(1, 0, true);
             const bool any = cucpu_rt_barrier_red_or(1, 0, false);
             if (t->linear == 5) out[0] = popc, out[1] = all, out[2] = any;
           }),
           shape({1}, {96}), data);
  EXPECT_EQ(data.out[0], 32);
  EXPECT_EQ(data.out[1], 1);
  EXPECT_EQ(data.out[2], 0);
}

TEST(Grid, ProducersArriveAndConsumersWait) {
  Data data{64};
  LaunchShape s = shape({1}, {64});
  s.dynamic_shared_bytes = 64;
  const auto outcome = run_with(thread_code([](ThreadContext* t) {
                                  auto* shared = reinterpret_cast<std::uint32_t*>(t->block->shared);
                                  if (t->linear >= 32) {
                                    if (t->linear == 32) *shared = 77;
                                    cucpu_rt_barrier_arrive(3, 64);
                                  } else {
                                    cucpu_rt_barrier_sync(3, 64);
                                    param<Data>(*t->block).out[t->linear] = *shared;
                                  }
                                }),
                                s, data);
  EXPECT_EQ(outcome.code, 0) << outcome.report;
  for (int i = 0; i < 32; ++i) EXPECT_EQ(data.out[i], 77);
}

TEST(Grid, ThreadsThatExitedAreNotWaitedFor) {
  Data data{64};
  const auto outcome =
      run_with(thread_code([](ThreadContext* t) {
                 if (t->linear % 4 == 0) return;
                 cucpu_rt_barrier_sync(0, 0);
                 const auto kBallot = static_cast<std::uint32_t>(WarpOp::kVoteBallot);
                 param<Data>(*t->block).out[t->linear] =
                     static_cast<std::uint32_t>(cucpu_rt_warp(kBallot, ~0U, 1, 0, 0));
               }),
               shape({1}, {64}), data);
  EXPECT_EQ(outcome.code, 0) << outcome.report;
  for (int i = 0; i < 64; ++i) EXPECT_EQ(data.out[i], i % 4 ? 0xeeeeeeeeU : 0U);
}

TEST(Grid, ShufflesFollowTheManual) {
  Data data{32 * 4};
  run_with(thread_code([](ThreadContext* t) {
             auto& out = param<Data>(*t->block).out;
             const auto op = [&](WarpOp kind, std::uint32_t b, std::uint32_t c) {
               return static_cast<std::uint32_t>(
                   cucpu_rt_warp(static_cast<std::uint32_t>(kind), ~0U, t->linear + 100, b, c));
             };
             out[t->linear] = op(WarpOp::kShflUp, 1, 0);
             out[32 + t->linear] = op(WarpOp::kShflDown, 2, 0x1f);
             out[64 + t->linear] = op(WarpOp::kShflBfly, 16, 0x1f);
             out[96 + t->linear] = op(WarpOp::kShflIdx, 3, (24 << 8) | 0x1f);  // segments of 8
           }),
           shape({1}, {32}), data);
  for (std::uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(data.out[i], 100 + (i ? i - 1 : 0));
    EXPECT_EQ(data.out[32 + i], 100 + (i < 30 ? i + 2 : i));
    EXPECT_EQ(data.out[64 + i], 100 + (i ^ 16));
    EXPECT_EQ(data.out[96 + i], 100 + (i & ~7U) + 3);
  }
}

TEST(Grid, WarpOperationsOfDisjointMasksDoNotMix) {
  Data data{32};
  run_with(thread_code([](ThreadContext* t) {
             const std::uint32_t mask = t->linear % 2 ? 0xaaaaaaaaU : 0x55555555U;
             std::uint32_t sum = 0;
             for (std::uint32_t i = 0; i <= t->linear % 2; ++i)
               sum += static_cast<std::uint32_t>(cucpu_rt_warp(
                   static_cast<std::uint32_t>(WarpOp::kReduxAdd), mask, t->linear, 0, 0));
             param<Data>(*t->block).out[t->linear] = sum;
           }),
           shape({1}, {32}), data);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(data.out[i], i % 2 ? 512U : 240U);
}

TEST(Grid, ActivemaskGroupsTheLanesThatTakeOnePath) {
  Data data{32};
  run_with(thread_code([](ThreadContext* t) {
             auto& out = param<Data>(*t->block).out[t->linear];
             if (t->linear < 10) {
               out = cucpu_rt_activemask();
             } else {
               out = cucpu_rt_activemask() + 1;
             }
           }),
           shape({1}, {32}), data);
  EXPECT_EQ(data.out[3], 0x3ffU);
  EXPECT_EQ(data.out[20], 0xfffffc01U);
}

TEST(Grid, ALaneMaySpinOnALaterLane) {
  Data data{1};
  const auto outcome = run_with(thread_code([](ThreadContext* t) {
                                  auto& d = param<Data>(*t->block);
                                  if (t->linear == 63) {
                                    d.flag = 1;
                                  } else {
                                    while (d.flag == 0) cucpu_rt_yield();
                                  }
                                  ++d.out[0];
                                }),
                                shape({1}, {64}), data);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(data.out[0], 64);
}

// promise: Blocks that wait for each other make progress, even with one host thread
TEST(Grid, ABlockMaySpinOnALaterBlockEvenWithOneHostThread) {
  Data data{1};
  LaunchShape s = shape({16}, {32});
  s.cooperative = true;
  const auto outcome = run_with(thread_code([](ThreadContext* t) {
                                  auto& d = param<Data>(*t->block);
                                  ++d.flag;
                                  while (d.flag != 16 * 32) cucpu_rt_yield();
                                  ++d.out[0];
                                }),
                                s, data);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(data.out[0], 16 * 32);
}

// Every block repeats a loop with a barrier until the next block has started.
TEST(Grid, ThreadCodeThatSpinsAcrossABarrierLetsLaterBlocksStart) {
  Data data{32};
  const auto outcome = run_with(thread_code([](ThreadContext* t) {
                                  auto& d = param<Data>(*t->block);
                                  const std::uint32_t block = t->block->index[0];
                                  for (bool done = false; !done;) {
                                    done = block == 31 || d.out[block + 1] != 0;
                                    cucpu_rt_barrier_sync(0, 0);
                                    if (!done) cucpu_rt_yield_block();
                                  }
                                  d.out[block] = 1;
                                }),
                                shape({32}, {64}), data);
  EXPECT_EQ(outcome.code, 0);
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(data.out[i], 1);
}

TEST(Grid, BlockCodeThatSpinsAcrossABarrierLetsLaterBlocksStart) {
  Data data{32};
  const auto outcome =
      run_with(block_code([](BlockContext* b) {
                 auto& d = param<Data>(*b);
                 const std::uint32_t block = b->index[0];
                 while (block != 31 && d.out[block + 1] == 0)
                   for (b->current_thread = 0; b->current_thread < 64; b->current_thread += 16)
                     cucpu_rt_yield_block();
                 d.out[block] = 1;
               }),
               shape({32}, {64}), data);
  EXPECT_EQ(outcome.code, 0);
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(data.out[i], 1);
}

// With 1,024 threads in a block: more threads than any one multiprocessor keeps.
TEST(Grid, AsManyBlocksAsAGpuKeepsResidentMayWaitForEachOther) {
  Data data{1};
  const auto outcome = run_with(thread_code([](ThreadContext* t) {
                                  auto& d = param<Data>(*t->block);
                                  ++d.flag;
                                  while (d.flag != 132 * 1024) cucpu_rt_yield();
                                }),
                                shape({132}, {1024}), data);
  EXPECT_EQ(outcome.code, 0);
}

TEST(Grid, ADeadlockIsReportedWhileAnotherBlockWaitsForMemory) {
  Data data{1};
  const auto outcome = run_with(thread_code([](ThreadContext* t) {
                                  auto& d = param<Data>(*t->block);
                                  if (t->block->index[0] == 0)
                                    cucpu_rt_barrier_sync(1 + t->linear / 32, 64);
                                  else
                                    while (d.flag == 0) cucpu_rt_yield();
                                }),
                                shape({2}, {64}), data);
  EXPECT_EQ(outcome.code, 719);
  EXPECT_NE(outcome.report.find("barrier deadlock; block (0, 0, 0)"), std::string::npos)
      << outcome.report;
}

TEST(Grid, BlocksOfAClusterSynchronizeAndAccessEachOthersSharedMemory) {
  Data data{4 * 6};
  LaunchShape s = shape({6, 4}, {32});
  s.cluster = {3, 2, 1};
  s.dynamic_shared_bytes = 16;
  const auto outcome = run_with(thread_code([](ThreadContext* t) {
                                  const BlockContext& b = *t->block;
                                  if (t->linear == 0)
                                    *reinterpret_cast<std::uint32_t*>(b.shared) =
                                        b.cluster_rank + 1;
                                  cucpu_rt_cluster_arrive();
                                  cucpu_rt_cluster_wait();
                                  std::uint32_t sum = 0;
                                  for (int r = 0; r < 6; ++r)
                                    sum += *reinterpret_cast<std::uint32_t*>(b.cluster_shared[r]);
                                  cucpu_rt_cluster_arrive();
                                  cucpu_rt_cluster_wait();
                                  if (t->linear == 31)
                                    param<Data>(b).out[b.index[0] + 6 * b.index[1]] = sum;
                                }),
                                s, data, 2);
  EXPECT_EQ(outcome.code, 0) << outcome.report;
  for (auto& n : data.out) EXPECT_EQ(n, 21);
}

// promise: A barrier that not every thread reaches is an error that names the barrier
TEST(Grid, ABarrierThatNotAllThreadsReachIsReportedAsDeadlock) {
  Data data{1};
  const auto outcome = run_with(thread_code([](ThreadContext* t) {
                                  if (t->linear < 32) {
                                    cucpu_rt_barrier_sync(2, 0);
                                  } else {
                                    cucpu_rt_barrier_sync(5, 0);
                                  }
                                }),
                                shape({2}, {64}), data);
  EXPECT_EQ(outcome.finishers, 1);
  EXPECT_EQ(outcome.code, 719);
  EXPECT_NE(outcome.report.find("barrier deadlock"), std::string::npos);
  EXPECT_NE(outcome.report.find("threads 0 to 31 at barrier 2 (32 of 64 arrived)"),
            std::string::npos)
      << outcome.report;
  EXPECT_NE(outcome.report.find("barrier 5"), std::string::npos);
}

TEST(Grid, ManyHostThreadsFinishAGridExactlyOnce) {
  for (int round = 0; round < 50; ++round) {
    Data data{1};
    const auto outcome = run_with(block_code([](BlockContext* c) { ++param<Data>(*c).out[0]; }),
                                  shape({1000}, {32}), data, 4);
    EXPECT_EQ(outcome.finishers, 1);
    EXPECT_EQ(data.out[0], 1000);
  }
}

/// Counts the events of a grid.
struct EventCounts final : GridObserver {
  explicit EventCounts(std::vector<std::uint32_t>& n) : counts{n} { counts.assign(8, 0); }
  void block_starts(Worker&, Block&) override { ++counts[0]; }
  void barrier_arrives(Worker&, const void* pc) override { counts[1] += pc ? 1 : 0; }
  void barrier_completes(Worker&, Block&, const std::vector<Fiber*>& waiters,
                         bool whole_block) override {
    ++counts[2];
    counts[3] += static_cast<std::uint32_t>(waiters.size());
    counts[4] += whole_block ? 1 : 0;
  }
  void warp_arrives(Worker& worker, std::uint32_t mask, const void*) override {
    ++counts[5];
    if (mask == 0) worker.current_fault().code = 719;
  }
  void warp_completes(Block&, std::uint32_t, std::uint32_t lanes) override {
    counts[6] += lanes == ~0U ? 1 : 0;
  }
  void cluster_barrier_completes(Cluster&) override { ++counts[7]; }
  std::vector<std::uint32_t>& counts;
};

TEST(Grid, AnObserverSeesEveryEventOfItsGridOnOneHostThread) {
  Data data{1};
  std::vector<std::uint32_t> counts;
  Code code = thread_code([](ThreadContext* t) {
    cucpu_rt_barrier_sync(0, 0);
    cucpu_rt_barrier_sync(1, 64);
    cucpu_rt_warp(static_cast<std::uint32_t>(WarpOp::kSync), ~0U, 0, 0, 0);
    cucpu_rt_cluster_arrive();
    cucpu_rt_cluster_wait();
    ++param<Data>(*t->block).out[0];
  });
  code.make_observer = [&counts] { return std::make_unique<EventCounts>(counts); };
  LaunchShape s = shape({6}, {64});
  s.cluster = {2};
  const auto outcome = run_with(code, s, data, 3);
  EXPECT_EQ(outcome.code, 0) << outcome.report;
  EXPECT_EQ(outcome.finishers, 1);
  EXPECT_EQ(data.out[0], 6 * 64);
  // blocks; barriers: arrivals, completions, threads, whole-block ones; warps; cluster barriers
  EXPECT_EQ(counts, (std::vector<std::uint32_t>{6, 768, 12, 768, 6, 384, 12, 3}));
}

TEST(Grid, AFaultThatAnObserverSetsEndsTheGrid) {
  Data data{1};
  std::vector<std::uint32_t> counts;
  Code code = thread_code([](ThreadContext* t) {
    cucpu_rt_warp(static_cast<std::uint32_t>(WarpOp::kSync), 0, 0, 0, 0);
    ++param<Data>(*t->block).out[0];
  });
  code.make_observer = [&counts] { return std::make_unique<EventCounts>(counts); };
  EXPECT_EQ(run_with(code, shape({1}, {32}), data).code, 719);
  EXPECT_EQ(counts[5], 1);
  EXPECT_EQ(data.out[0], 0);
}

}  // namespace
}  // namespace cucpu::test
