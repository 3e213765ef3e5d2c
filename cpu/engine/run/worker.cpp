// cpu/engine/run/worker.cpp: the scheduler of one host thread.
#include "cpu/engine/run/worker.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "cpu/engine/check/check.hpp"
#include "cpu/engine/run/block_iteration.hpp"
#include "cpu/engine/run/float_environment.hpp"
#include "cpu/mem/per_thread.hpp"

namespace cucpu {
namespace {

// Read by signal handlers on any thread: the initial-exec model needs no allocation when first
// touched.
__attribute__((tls_model("initial-exec"))) thread_local Worker* t_running = nullptr;

constexpr std::size_t kAlign = 1024;
constexpr std::size_t kReserved = 1024;  // %reserved_smem_offset_1
// What the largest GPUs keep resident (148 multiprocessors), and a little more: blocks may wait for
// each other as long as there are no more of them.
constexpr std::uint64_t kMaxThreads = 160 * 2048, kMaxBlocks = 160 * 32;
constexpr std::uint32_t kLongestSleep = 1'000'000;  // of nanosleep, by the manual
constexpr std::uint64_t kLongSleep = 20'000;        // worth a system call, or another block
constexpr std::uint64_t kLongestPause = 200'000;    // before the grid is asked whether it stopped
constexpr std::size_t kFrameFactor = 256, kLargestLimit = std::size_t{1} << 22;

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// The block's own bytes: static memory, and behind it, aligned, dynamic memory.
std::uint32_t shared_bytes(const Code& code, const LaunchShape& shape) {
  if (shape.dynamic_shared_bytes == 0) return code.static_shared_bytes;
  return std::max(code.dynamic_shared_offset, code.static_shared_bytes) +
         shape.dynamic_shared_bytes;
}

std::uint32_t own_shared(const Code& code, const LaunchShape& shape) {
  // Checked code gets a gap, so that what lies right behind the end belongs to nobody.
  constexpr std::size_t kGap = 4096;
  return static_cast<std::uint32_t>(round_up(shared_bytes(code, shape), 128) +
                                    (code.check ? kGap : 0));
}

std::atomic<std::uint32_t> g_workers{0};

std::uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(t.tv_nsec);
}

void pause(std::uint64_t nanoseconds) {
  const timespec time{0, static_cast<long>(nanoseconds)};
  nanosleep(&time, nullptr);
}

}  // namespace

std::uint32_t nsmid() { return g_workers.load(std::memory_order_relaxed); }

Worker::Worker() : smid_{g_workers.fetch_add(1, std::memory_order_relaxed)} {
  stack_t old{};
  if (sigaltstack(nullptr, &old) == 0 && (old.ss_flags & SS_DISABLE)) {
    constexpr std::size_t kBytes = 64 * 1024;
    signal_stack_ = std::make_unique<std::byte[]>(kBytes);
    stack_t mine{};
    mine.ss_sp = signal_stack_.get();
    mine.ss_size = kBytes;
    sigaltstack(&mine, nullptr);
  }
}

Worker::~Worker() {
  destroy_tsan_fibers(host_);
  if (signal_stack_) {
    stack_t old{};
    if (sigaltstack(nullptr, &old) == 0 && old.ss_sp == signal_stack_.get()) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
    }
  }
  for (auto& block : blocks_) std::free(block->scratch);
}

Worker& Worker::of_this_thread() { return PerThread<Worker>::get(); }

Worker* Worker::running() noexcept { return t_running; }

bool Worker::runner_mode() const {
  return code_->block != nullptr && grid_->shape().cluster.volume() == 1;
}

// ---- the scheduler, on the host thread's own stack ----

bool Worker::run(Grid& grid) noexcept {
  const ScopedFloatEnvironment
      float_environment;  // kernels start from the default rounding and denormal modes
  grid_ = &grid;
  use(grid.latest_code());
  claimed_ = {};
  all_claimed_ = false;
  slot_ = grid.unclaimed_.join();
  done_ = yields_ = turns_ = fibers_ = 0;
  turned_ = starts_first_ = false;
  idle_rounds_ = 0;
  burst_ = 1;
  changed_ns_ = 0;
  wakes_.clear();
  out_of_memory_ = false;
  try {
    for (;;) {
      if (grid.stopped()) {
        drop_residents();
        done_ += claimed_.last - claimed_.first + grid.unclaimed_.drain();
        break;
      }
      if (turned_ || yields_ > 2 * ready_.size() + 8) handle_idle();
      Fiber* next = pick();
      if (!next) {
        if (force_activemasks()) continue;
        if (residents_.empty()) {
          if (&grid.latest_code() != code_) {
            release_stacks();
            use(grid.latest_code());
          }
          if (start()) continue;
          break;
        }
        if (out_of_memory_) {
          grid.fail(2,
                    "kernel " + code_->kernel + ": no memory for the stacks of a block's threads");
        } else {
          report_deadlock();
        }
        continue;
      }
      enter(next);
      if (fault_.code != 0 || fault_.cancelled) report_fault();
      if (ended_) recycle(std::exchange(ended_, nullptr));
    }
  } catch (const std::bad_alloc&) {
    grid.fail(2, "out of memory while starting a block of kernel " + code_->kernel);
    drop_residents();
    done_ += claimed_.last - claimed_.first + grid.unclaimed_.drain();
  }
  release_stacks();
  grid_ = nullptr;
  return grid.finish(done_);
}

void Worker::use(const Code& code) {
  code_ = &code;
  stacks_ = code.block ? &block_stacks_ : &thread_stacks_;
  std::size_t stack = code.stack_bytes;
  if (code.recursive)  // frames of a host are larger than those of a GPU
    stack += std::min<std::size_t>(grid_->shape().stack_limit, kLargestLimit) * kFrameFactor;
  stacks_->configure(code.block ? std::max<std::size_t>(stack, 256 * 1024) : stack,
                     code.block || code.recursive);
}

void Worker::release_stacks() {
  if (exited_stack_) stacks_->release(std::exchange(exited_stack_, {}));
  stacks_->trim();
}

void Worker::enter(Fiber* next) {
  current_ = next;
  next->wait = Wait::kRunning;
  t_running = this;
  enter_fiber(host_, next->sp, next->stack);
  t_running = nullptr;
}

Fiber* Worker::pick() {
  // Those that others may wait for; else the fewer stacks are in use the better.
  if (starts_first_) {
    if (Fiber* next = spawn()) return next;
    starts_first_ = false;
  }
  if (Fiber* next = ready_.pop()) return next;
  return spawn();
}

bool Worker::has_deadlock() const {
  const auto stands = [&](const Block* block) {
    const std::uint32_t count = code_->block ? 1 : block->context.block_threads;
    return std::all_of(block->fibers.begin(), block->fibers.begin() + count,
                       [](const Fiber& fiber) {
                         return fiber.wait == Wait::kDone || fiber.wait == Wait::kBarrier ||
                                fiber.wait == Wait::kWarp || fiber.wait == Wait::kWarpgroup ||
                                fiber.wait == Wait::kCluster;
                       });
  };
  return std::any_of(residents_.begin(), residents_.end(), [&](const Cluster* cluster) {
    return cluster != ended_ && std::all_of(cluster->blocks.begin(), cluster->blocks.end(), stands);
  });
}

bool Worker::has_room() const {
  const std::uint64_t blocks = grid_->shape().cluster.volume();
  const std::uint64_t after = (residents_.size() + 1) * blocks;
  return after <= kMaxBlocks && after * grid_->shape().block.volume() <= kMaxThreads;
}

bool Worker::start_some() {
  std::uint32_t started = 0;
  while (started < burst_ && has_room() && start()) ++started;
  starts_first_ = started != 0;
  if (burst_ < kMaxBlocks) burst_ *= 2;  // what the last ones waited for was not among them
  return started != 0;
}

void Worker::handle_idle() {
  // Time in which fibers did more than look again: they get on, and need no more than their turn.
  constexpr std::uint64_t kLook = 1'000, kSoon = 20'000;  // ns
  const std::uint64_t looks = std::max(yields_, turns_), now = now_ns();
  const bool works = now - idle_since_ns_ > looks * kLook;
  const bool by_turns = std::exchange(turned_, false);
  yields_ = turns_ = 0;
  idle_since_ns_ = now;
  if (changed_ns_ == 0) changed_ns_ = now;
  if (!by_turns && force_activemasks()) return;
  // Most waits are short, and so are loops that only look like one.
  if (!grid_->shape().cooperative && now - changed_ns_ < kSoon) return;
  // Blocks of a cooperative grid wait for each other by design. Otherwise the block waited for is
  // more likely running on another host thread: give it some time before taking on others.
  constexpr std::uint32_t kPatience = 16;
  const bool take = grid_->shape().cooperative || idle_rounds_ >= kPatience;
  const std::uint64_t rest = shortest_sleep();
  const bool asleep = rest >= kLongSleep && wakes_.size() >= ready_.size();
  if ((take || asleep) && start_some()) return;
  // Another host thread has to do something first, or time has to pass.
  ++idle_rounds_;
  if (!asleep && idle_rounds_ >= 32 && std::has_single_bit(idle_rounds_) && has_deadlock())
    return report_deadlock();
  if (asleep) {
    pause(std::min(rest, kLongestPause));
    idle_since_ns_ = now_ns();
  } else if (idle_rounds_ < (rest < kLongSleep ? 1024 : 64) || works) {
    sched_yield();
  } else {
    pause(idle_rounds_ < 1024 ? kLongSleep : kLongestPause);
    idle_since_ns_ = now_ns();
  }
}

std::uint64_t Worker::shortest_sleep() const {
  if (wakes_.empty()) return ~std::uint64_t{0};
  const std::uint64_t now = now_ns();
  return *wakes_.begin() > now ? *wakes_.begin() - now : 0;
}

bool Worker::next_cluster(std::uint64_t& index) {
  if (claimed_.first == claimed_.last) {
    if (all_claimed_) return false;
    if (!grid_->unclaimed_.claim(slot_, claimed_)) {
      claimed_ = {};
      all_claimed_ = true;
      return false;
    }
  }
  index = claimed_.first++;
  return true;
}

bool Worker::start() {
  const Code& code = *code_;
  const LaunchShape& shape = grid_->shape();
  std::uint64_t index = 0;
  if (!next_cluster(index)) return false;
  try {
    const auto count = static_cast<std::uint32_t>(shape.cluster.volume());
    Cluster* cluster = take_cluster(count);
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      Block& block = *cluster->blocks[rank];
      place(block, index, rank);
      const std::uint32_t threads = block.context.block_threads;
      block.started = 0;
      block.live = code.block ? 1 : threads;
      block.turned = ~0U;
      fibers_ += block.live;
      block.pending_barriers = 0;
      for (Barrier& barrier : block.barriers) barrier = Barrier{};
      if (block.fibers.size() < block.live) block.fibers = std::vector<Fiber>(block.live);
      for (std::uint32_t i = 0; i < block.live; ++i) block.fibers[i].wait = Wait::kUnstarted;
      if (code.thread) {
        const std::uint32_t warps = (threads + 31) / 32;
        if (block.warps.size() < warps) block.warps.resize(warps);
        block.warpgroups.clear();
        for (std::uint32_t w = 0; w < warps; ++w) {
          Warp& warp = block.warps[w];
          const std::uint32_t lanes = std::min(threads - w * 32, 32U);
          warp.live = lanes == 32 ? ~0U : (1U << lanes) - 1;
          warp.polling = warp.used = 0;
        }
      }
      if (grid_->checker()) grid_->checker()->begin(*this, block);
      unstarted_.push_back(&block);
    }
    cluster->blocks_left = count;
    cluster->live = std::uint64_t{count} * shape.block.volume();
    cluster->arrived = 0;
    cluster->phase = 0;
    cluster->waiters.clear();
    residents_.push_back(cluster);
  } catch (...) {
    --claimed_.first;  // not started: whoever drops the rest counts it
    throw;
  }
  idle_rounds_ = 0;
  changed_ns_ = 0;
  return true;
}

Cluster* Worker::take_cluster(std::uint32_t count) {
  const Code& code = *code_;
  if (free_clusters_.empty()) {
    clusters_.push_back(std::make_unique<Cluster>());
    free_clusters_.push_back(clusters_.back().get());
  }
  Cluster* cluster = free_clusters_.back();
  while (cluster->blocks.size() > count) {
    free_blocks_.push_back(cluster->blocks.back());
    cluster->blocks.pop_back();
  }
  while (cluster->blocks.size() < count) {
    if (free_blocks_.empty()) {
      blocks_.push_back(std::make_unique<Block>());
      free_blocks_.push_back(blocks_.back().get());
    }
    cluster->blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
  // Shared memory ends close to a guard page, so that running far off its end is a fault. The
  // reserved bytes are padding too.
  static_assert(kReserved >= kSharedPadding);
  const std::size_t stride =
      round_up(own_shared(code, grid_->shape()) + kReserved + kSharedPadding, kAlign);
  const std::size_t bytes = stride * count;
  if (cluster->room < bytes) map_shared(*cluster, bytes);
  std::byte* const base = cluster->end - bytes;
  if (cluster->shared.size() != count) cluster->shared.resize(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    Block& block = *cluster->blocks[rank];
    block.cluster = cluster;
    cluster->shared[rank] = base + rank * stride + kSharedPadding;
    if (block.scratch_bytes < code.scratch_bytes) {
      std::free(block.scratch);
      block.scratch_bytes = 0;
      block.scratch =
          static_cast<std::byte*>(std::aligned_alloc(64, round_up(code.scratch_bytes, 64)));
      if (!block.scratch) throw std::bad_alloc{};
      block.scratch_bytes = code.scratch_bytes;
    }
  }
  free_clusters_.pop_back();
  return cluster;
}

void Worker::map_shared(Cluster& cluster, std::size_t bytes) {
  const std::size_t guard = std::max<std::size_t>(page_size(), 65536);
  const std::size_t room = round_up(bytes, page_size());
  if (cluster.arena) shared_arena_.release(cluster.arena, cluster.arena_bytes);
  cluster.arena = nullptr;
  cluster.arena_bytes = cluster.room = 0;
  cluster.arena = shared_arena_.allocate(room + 2 * guard);
  cluster.arena_bytes = room + 2 * guard;
  if (mprotect(cluster.arena + guard, room, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc{};
  cluster.room = room;
  cluster.end = cluster.arena + guard + room;
}

void Worker::place(Block& block, std::uint64_t index, std::uint32_t rank) {
  const LaunchShape& shape = grid_->shape();
  const Code& code = *code_;
  BlockContext& context = block.context;
  if (code.fills_scratch && code.scratch_bytes > 0)
    std::memset(block.scratch, 0x5a, code.scratch_bytes);
  const Dim3 c = shape.cluster;
  const Dim3 in{rank % c.x, rank / c.x % c.y, rank / (c.x * c.y)};
  const std::uint64_t gx = shape.grid.x / c.x, gy = shape.grid.y / c.y;
  context = {
      .grid = {shape.grid.x, shape.grid.y, shape.grid.z},
      .block = {shape.block.x, shape.block.y, shape.block.z},
      .index = {static_cast<std::uint32_t>(index % gx) * c.x + in.x,
                static_cast<std::uint32_t>(index / gx % gy) * c.y + in.y,
                static_cast<std::uint32_t>(index / gx / gy) * c.z + in.z},
      .cluster = {c.x, c.y, c.z},
      .cluster_index = {in.x, in.y, in.z},
      .cluster_rank = rank,
      .params = grid_->params_,
      .shared = block.cluster->shared[rank],
      .shared_bytes = shared_bytes(code, shape),
      .dynamic_shared_bytes = shape.dynamic_shared_bytes,
      .reserved_shared_offset = own_shared(code, shape),
      .block_threads = static_cast<std::uint32_t>(shape.block.volume()),
      .cancel = reinterpret_cast<const std::uint32_t*>(&grid_->cancel_),
      .scratch = block.scratch,
      .grid_workspace = grid_->workspace_,
      .grid_id = grid_->id_,
      .cluster_shared = block.cluster->shared.data(),
      .smid = smid_,
      .nsmid = nsmid(),
      .current_thread = 0,
      .current_lanes = 1,
      .blocks_left = 0,
      .current_blocks = 1,
  };
  block.linear = index;
}

void Worker::step(Block& block, std::uint64_t index) {
  if (index == block.linear) return;
  if (index != block.linear + 1) return place(block, index, 0);
  block.linear = index;
  increment_index(block.context);
}

void Worker::recycle(Cluster* cluster) {
  std::erase(residents_, cluster);
  free_clusters_.push_back(cluster);
  idle_rounds_ = 0;
  burst_ = 1;
  changed_ns_ = 0;
}

void Worker::drop_residents() {
  ready_.clear();
  unstarted_.clear();
  ended_ = nullptr;
  for (Cluster* cluster : residents_) {
    for (Block* block : cluster->blocks) {
      done_ += std::exchange(block->run, 0);
      for (std::uint32_t i = 0; i < block->started; ++i) {
        if (block->fibers[i].stack) stacks_->release(std::exchange(block->fibers[i].stack, {}));
      }
    }
    free_clusters_.push_back(cluster);
    ++done_;
  }
  residents_.clear();
  destroy_tsan_fibers(host_);
}

// ---- fibers ----

Fiber* Worker::spawn() {
  if (unstarted_.empty()) return nullptr;
  try {
    const Stack stack = stacks_->acquire();
    Fiber* fiber = next_thread(stack);
    fiber->sp =
        prepare_fiber(stack, code_->block ? block_main : thread_main, this, fiber->thread.linear);
    return fiber;
  } catch (const std::bad_alloc&) {
    out_of_memory_ = true;  // others may end and give theirs back
    return nullptr;
  }
}

Fiber* Worker::next_thread(Stack stack) {
  Block& block = *unstarted_.front();
  const std::uint32_t linear = block.started++;
  const bool is_block = code_->block != nullptr;
  if (is_block || block.started == block.context.block_threads)
    unstarted_.erase(unstarted_.begin());
  Fiber& fiber = block.fibers[linear];
  fiber.block = &block;
  fiber.stack = stack;
  const Dim3 d = grid_->shape().block;
  fiber.thread = {&block.context, {linear % d.x, linear / d.x % d.y, linear / (d.x * d.y)}, linear};
  yields_ = 0;
  return &fiber;
}

CUCPU_NO_SANITIZE_THREAD void Worker::switch_to(Fiber* from, Fiber* to) {
  if (from == to) {  // what it waited for has happened already
    from->wait = Wait::kRunning;
    return;
  }
  current_ = to;
  to->wait = Wait::kRunning;
  switch_fiber(&from->sp, to->sp, to->stack);
}

CUCPU_NO_SANITIZE_THREAD void Worker::to_scheduler(Fiber* from) { leave_fiber(&from->sp, host_); }

void Worker::wait(Wait why) {
  Fiber* self = current_;
  self->wait = why;
  if (code_->thread) {
    const std::uint32_t w = self->thread.linear / 32;
    if (self->block->warps[w].polling) try_activemask(*self->block, self->block->warps[w], w);
  }
  if (Fiber* next = pick()) {
    switch_to(self, next);
  } else {
    to_scheduler(self);
  }
}

void Worker::yield() {
  Fiber* self = current_;
  if (grid_->stopped()) {
    fault_.cancelled = true;
    abandon();
  }
  ++yields_;
  Fiber* next = nullptr;
  if (yields_ <= 2 * ready_.size() + 8) {
    const std::uint64_t yields = yields_;
    next = spawn();  // a thread that has not started may be the one it waits for
    if (next) yields_ = yields;
    if (!next) next = ready_.pop();
    if (!next) return;
  }
  self->wait = Wait::kReady;
  ready_.push(self);
  if (next) {
    switch_to(self, next);
  } else {
    to_scheduler(self);
  }
}

void Worker::turn() {
  Fiber* self = current_;
  if (code_->block) {
    // Lane groups come here one after the other: once for all of them is enough.
    const std::uint32_t thread = self->block->context.current_thread;
    const bool goes_round = thread <= std::exchange(self->block->turned, thread);
    if (goes_round) yield();
    return;
  }
  // At the barrier the others have their turn, of this block and of every other resident.
  if (grid_->stopped()) {
    fault_.cancelled = true;
    abandon();
  }
  if (++turns_ <= fibers_) return;
  turned_ = true;
  self->wait = Wait::kReady;
  ready_.push(self);
  to_scheduler(self);
}

void Worker::sleep(std::uint32_t nanoseconds) {
  if (nanoseconds == 0) return yield();
  const std::uint64_t end = now_ns() + std::min(nanoseconds, kLongestSleep);
  const auto entry = wakes_.insert(end);
  do yield();
  while (now_ns() < end);
  wakes_.erase(entry);
}

CUCPU_NO_SANITIZE_THREAD void Worker::exit_thread() {
  Fiber* self = current_;
  retire(*self);
  self->wait = Wait::kDone;
  if (exited_stack_) stacks_->release(exited_stack_);
  exited_stack_ = std::exchange(self->stack, {});
  Fiber* next = ended_ ? nullptr : pick();
  if (next) {
    switch_to(self, next);
  } else {
    to_scheduler(self);
  }
  __builtin_unreachable();
}

CUCPU_NO_SANITIZE_THREAD void Worker::abandon() {
  to_scheduler(current_);
  __builtin_unreachable();
}

CUCPU_NO_SANITIZE_THREAD void Worker::thread_main(void* argument) {
  auto& self = *static_cast<Worker*>(argument);
  finish_first_switch(self.host_);
  ThreadFunction* code = self.code_->thread;
  for (;;) {
    code(&self.current_->thread);
    // A thread that has not started yet goes on on this stack, unless another one is waiting its
    // turn.
    Fiber* done = self.current_;
    if (!self.ready_.empty() || self.unstarted_.empty()) self.exit_thread();
    self.retire(*done);
    done->wait = Wait::kDone;
    const Stack stack = std::exchange(done->stack, {});
    if (self.ended_ || !self.ready_.empty() || self.unstarted_.empty()) {
      if (self.exited_stack_) self.stacks_->release(self.exited_stack_);
      self.exited_stack_ = stack;
      if (Fiber* next = self.ended_ ? nullptr : self.ready_.pop()) {
        self.switch_to(done, next);
      } else {
        self.to_scheduler(done);
      }
      __builtin_unreachable();
    }
    Fiber* next = self.next_thread(stack);
    next->wait = Wait::kRunning;
    self.current_ = next;
  }
}

CUCPU_NO_SANITIZE_THREAD void Worker::block_main(void* argument) {
  auto& self = *static_cast<Worker*>(argument);
  finish_first_switch(self.host_);
  Block& block = *self.current_->block;
  self.run_block(block);
  if (self.runner_mode()) {  // the fast path: block after block on this fiber
    std::uint64_t index = 0;
    while (!self.grid_->stopped() && self.code_ == &self.grid_->latest_code() &&
           self.next_cluster(index)) {
      ++self.done_;
      self.step(block, index);
      self.run_block(block);
    }
  }
  self.exit_thread();
}

/// Runs a block, and what else is claimed where the code can go on by itself.
void Worker::run_block(Block& block) {
  const Code& code = *code_;
  if (code.iterates_blocks && runner_mode() && claimed_.first < claimed_.last) {
    block.run = static_cast<std::uint32_t>(claimed_.last - claimed_.first);
    block.context.blocks_left = block.run;
    claimed_.first = claimed_.last;
  }
  code.block(&block.context);
  done_ += block.run;
  block.linear += block.run;
  block.run = 0;
}

void Worker::retire(Fiber& fiber) {
  Block& block = *fiber.block;
  --block.live;
  --fibers_;
  if (code_->thread) {
    leave_barriers(block);
    leave_warp(fiber);
    leave_cluster(*block.cluster, 1);
  } else {
    leave_cluster(*block.cluster, block.context.block_threads);
  }
  if (block.live == 0 && --block.cluster->blocks_left == 0) {
    ended_ = block.cluster;
    ++done_;
  }
}

}  // namespace cucpu
