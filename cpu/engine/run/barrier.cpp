// cpu/engine/run/barrier.cpp: block and cluster barriers for fibers.
#include "cpu/engine/check/check.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

void Worker::complete(Block& block, Barrier& barrier) {
  --block.pending_barriers;
  if (Checker* checker = grid_->checker()) {
    std::vector<Fiber*> together = barrier.waiters.all();
    if (current_ && current_->block == &block && current_->wait == Wait::kRunning &&
        current_->arriving)
      together.push_back(current_);  // the last to come has not been put to wait
    checker->barrier_done(*this, block, together, barrier.expected == 0);
  }
  const std::uint64_t result = barrier.set | std::uint64_t{barrier.arrived} << 32;
  barrier.arrived = barrier.set = barrier.expected = 0;
  while (Fiber* fiber = barrier.waiters.pop()) {
    fiber->result = result;
    make_ready(fiber);
  }
}

void Worker::leave_barriers(Block& block) {
  if (block.pending_barriers == 0) return;
  for (Barrier& barrier : block.barriers) {
    if (barrier.arrived != 0 && barrier.expected == 0 && barrier.arrived >= block.live)
      complete(block, barrier);
  }
}

bool Worker::complete_cluster(Cluster& cluster) {
  if (cluster.arrived == 0 || cluster.arrived < cluster.live) return false;
  cluster.arrived = 0;
  ++cluster.phase;
  if (grid_->checker()) grid_->checker()->cluster_done(cluster);
  while (Fiber* fiber = cluster.waiters.pop()) make_ready(fiber);
  return true;
}

void Worker::leave_cluster(Cluster& cluster, std::uint32_t threads) {
  cluster.live -= threads;
  complete_cluster(cluster);
}

namespace {

/// Arrives at a barrier; the running fiber waits unless it is the last. The popcount of the
/// predicates, and the number of participants in the upper half.
std::uint64_t arrive(std::uint32_t id, std::uint32_t threads, bool predicate, bool waits,
                     const void* pc) {
  Worker& worker = *Worker::running();
  Fiber& self = worker.current();
  Block& block = *self.block;
  id %= 16;  // as the H200 does: barrier 17 is barrier 1
  if (threads % 32 != 0)
    worker.trap(
        715, nullptr,
        "a barrier of " + std::to_string(threads) + " threads: not a multiple of the warp size");
  Barrier& barrier = block.barriers[id];
  if (Checker* checker = worker.grid().checker()) checker->barrier_arrived(worker, pc);
  if (barrier.arrived == 0) ++block.pending_barriers;
  if (threads != 0) barrier.expected = threads;
  ++barrier.arrived;
  barrier.set += predicate ? 1 : 0;
  const std::uint32_t expected = barrier.expected ? barrier.expected : block.live;
  if (barrier.arrived >= expected) {
    const std::uint64_t result = barrier.set | std::uint64_t{barrier.arrived} << 32;
    self.arriving = waits;
    worker.complete(block, barrier);
    self.arriving = false;
    if (worker.current_fault().code != 0) worker.abandon();
    return result;
  }
  if (!waits) return 0;
  self.barrier = static_cast<std::uint8_t>(id);
  barrier.waiters.push(&self);
  worker.wait(Wait::kBarrier);
  return self.result;
}

}  // namespace
}  // namespace cucpu

using namespace cucpu;

extern "C" {

void cucpu_rt_barrier_sync(std::uint32_t id, std::uint32_t threads) {
  arrive(id, threads, false, true, __builtin_return_address(0));
}

void cucpu_rt_barrier_arrive(std::uint32_t id, std::uint32_t threads) {
  arrive(id, threads, false, false, __builtin_return_address(0));
}

std::uint32_t cucpu_rt_barrier_red_popc(std::uint32_t id, std::uint32_t threads, bool predicate) {
  return static_cast<std::uint32_t>(
      arrive(id, threads, predicate, true, __builtin_return_address(0)));
}

bool cucpu_rt_barrier_red_and(std::uint32_t id, std::uint32_t threads, bool predicate) {
  const std::uint64_t result = arrive(id, threads, predicate, true, __builtin_return_address(0));
  return static_cast<std::uint32_t>(result) == result >> 32;
}

bool cucpu_rt_barrier_red_or(std::uint32_t id, std::uint32_t threads, bool predicate) {
  return static_cast<std::uint32_t>(
             arrive(id, threads, predicate, true, __builtin_return_address(0))) != 0;
}

static void cluster_arrive(std::uint32_t threads) {
  Worker& worker = *Worker::running();
  Fiber& self = worker.current();
  Cluster& cluster = *self.block->cluster;
  self.cluster_phase = cluster.phase + 1;
  cluster.arrived += threads;
  worker.complete_cluster(cluster);
}

static void cluster_wait() {
  Worker& worker = *Worker::running();
  Fiber& self = worker.current();
  Cluster& cluster = *self.block->cluster;
  while (static_cast<std::int32_t>(cluster.phase - self.cluster_phase) < 0) {
    cluster.waiters.push(&self);
    worker.wait(Wait::kCluster);
  }
}

void cucpu_rt_cluster_arrive() { cluster_arrive(1); }
void cucpu_rt_cluster_wait() { cluster_wait(); }
void cucpu_rt_block_cluster_arrive(BlockContext* context) {
  cluster_arrive(context->block_threads);
}
void cucpu_rt_block_cluster_wait(BlockContext*) { cluster_wait(); }

void cucpu_rt_yield() { Worker::running()->yield(); }
void cucpu_rt_nanosleep(std::uint32_t nanoseconds) { Worker::running()->sleep(nanoseconds); }

void cucpu_rt_turn() { Worker::running()->turn(); }

void cucpu_rt_exit() { Worker::running()->exit_thread(); }

void cucpu_rt_trap(std::uint32_t code) {
  Worker::running()->trap(static_cast<int>(code), __builtin_return_address(0));
}

void cucpu_rt_misaligned(std::uint64_t address) {
  Worker& worker = *Worker::running();
  worker.current_fault().address = address;
  worker.current_fault().has_address = true;
  worker.trap(716, __builtin_return_address(0));
}

void cucpu_rt_cancelled() {
  Worker& worker = *Worker::running();
  worker.current_fault().cancelled = true;
  worker.abandon();
}

void cucpu_rt_poll() {
  if (Worker::running()->grid().stopped()) cucpu_rt_cancelled();
}

ThreadContext* cucpu_rt_thread() { return &Worker::running()->current().thread; }

}  // extern "C"
