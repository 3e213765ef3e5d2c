// SPDX-License-Identifier: Apache-2.0
// Plans with branches. Each lane is a task: independent branches run concurrently, and a branch
// whose kernel waits for memory of another branch does not block that branch.
#include <algorithm>
#include <atomic>
#include <memory>

#include "cpu/engine/check/operations.hpp"
#include "cpu/exec/op_trace.hpp"
#include "cpu/exec/thread_pool.hpp"
#include "cpu/graph/run.hpp"

namespace cucpu::driver {
namespace {

class BranchedRun final : public Object {
 public:
  BranchedRun(std::shared_ptr<const Plan> plan, Task& parent)
      : plan_{std::move(plan)},
        parent_{&parent},
        missing_{std::make_unique<std::atomic<unsigned>[]>(plan_->steps.size())},
        lanes_{std::make_unique<Lane[]>(plan_->lanes)},
        lanes_left_{plan_->lanes} {
    for (std::size_t i = 0; i < plan_->steps.size(); ++i)
      missing_[i].store(plan_->links[i].arrivals, std::memory_order_relaxed);
    for (unsigned i = 0; i < plan_->lanes; ++i) lanes_[i].begin(*this, parent, i);
  }

  /// Posts all lanes that can start except one, and runs that one and those that no worker has
  /// taken. True when the plan is complete.
  bool start() {
    Lane* mine = nullptr;
    for (unsigned i = 0; i < plan_->steps.size(); ++i) {
      const Plan::Link& link = plan_->links[i];
      if (link.arrivals != 0) continue;
      Lane& lane = lanes_[link.lane];
      lane.at = i;
      if (mine == nullptr)
        mine = &lane;
      else
        ThreadPool::instance().post(lane);
    }
    if (advance(*mine)) return true;
    for (unsigned i = 0; i < plan_->lanes; ++i)
      if (ThreadPool::instance().reclaim(lanes_[i]) && advance(lanes_[i])) return true;
    return false;
  }

  ~BranchedRun() override {
    for (unsigned i = 0; i < plan_->lanes; ++i)
      operations::ends(static_cast<const Task*>(&lanes_[i]));
  }

 private:
  struct Lane final : Task {
    void begin(BranchedRun& r, const Task& parent, unsigned number) {
      run = &r;
      priority_ = parent.priority();
      // Branches run at the same time, so the timeline shows each on a track of its own.
      track_ = number == 0 ? parent.track() : parent.track() + number;
    }
    void drive() noexcept override { run->drive(*this); }
    ExecutionContext& context() const noexcept override { return context_of(*run->parent_); }
    GraphRun* graph_run() noexcept override { return run->parent_->graph_run(); }
    trace::Track track() const noexcept override { return track_; }

    // Accessed only by the owner of the task.
    BranchedRun* run = nullptr;
    unsigned at = 0;
    bool in_step = false, looping = false;
    OpTrace traced;

   private:
    trace::Track track_ = trace::kThisThread;
  };

  /// True when the plan is complete. After false, neither the lane nor this object may be accessed
  /// without a reference.
  bool advance(Lane& lane) {
    for (;;) {
      if (!lane.in_step) {
        lane.in_step = true;
        lane.traced.begin(*plan_->steps[lane.at].op, lane);
        if (operations::are_checked()) [[unlikely]]
          operations::runs_node(static_cast<const Task*>(&lane), parent_,
                                {{plan_, &plan_->shape}, lane.at, run_});
        if (run_step(plan_->steps[lane.at], lane, lane.looping) == Progress::pending) return false;
      }
      lane.in_step = false;
      lane.traced.end();
      const Plan::Link& link = plan_->links[lane.at];
      for (unsigned i = link.first_signal; i < link.last_signal; ++i) {
        const unsigned to = plan_->signals[i];
        if (!is_last_arrival(to)) continue;
        Lane& other = lanes_[plan_->links[to].lane];
        other.at = to;
        ThreadPool::instance().post(other);
      }
      if (link.next == Plan::kNone) return lanes_left_.fetch_sub(1, std::memory_order_acq_rel) == 1;
      if (plan_->links[link.next].arrivals > 1 && !is_last_arrival(link.next))
        return false;  // another lane continues with it
      lane.at = link.next;
    }
  }

  bool is_last_arrival(unsigned step) {
    return missing_[step].fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  void drive(Lane& lane) noexcept {
    if (lane.looping) lane.in_step = lane.looping = false;
    if (!advance(lane)) return;
    Task& parent = *parent_;
    release();
    parent.drive();
  }

  std::shared_ptr<const Plan> plan_;
  Task* parent_;
  std::unique_ptr<std::atomic<unsigned>[]> missing_;  // per step: missing arrivals
  std::unique_ptr<Lane[]> lanes_;
  std::atomic<unsigned> lanes_left_;
  const std::uint64_t run_ = operations::next_run();
};

}  // namespace

Progress run_branches(std::shared_ptr<const Plan> plan, Task& parent) {
  const Ref<BranchedRun> run = make_object<BranchedRun>(std::move(plan), parent);
  run->retain();  // the run's own reference; released by the thread that completes it
  if (!run->start()) return Progress::pending;
  run->release();
  return Progress::done;
}

void make_lanes(Plan& plan) {
  const std::size_t count = plan.steps.size();
  plan.lanes = 1;
  bool linear = true;
  for (unsigned i = 1; i < count && linear; ++i)
    linear = std::find(plan.shape[i].begin(), plan.shape[i].end(), i - 1) != plan.shape[i].end();
  if (linear) return;
  plan.lanes = 0;
  plan.links.resize(count);
  std::vector<std::vector<unsigned>> signals(count);
  for (unsigned i = 0; i < count; ++i) {
    Plan::Link& link = plan.links[i];
    unsigned before = Plan::kNone;  // the last dependency that no other step continues
    for (const unsigned d : plan.shape[i])
      if (plan.links[d].next == Plan::kNone && (before == Plan::kNone || d > before)) before = d;
    if (before == Plan::kNone) {
      link.lane = plan.lanes++;
    } else {
      link.lane = plan.links[before].lane;
      link.arrivals = 1;
      plan.links[before].next = i;
    }
    for (const unsigned d : plan.shape[i]) {
      if (plan.links[d].lane == link.lane)
        continue;  // an earlier step of the same lane is complete by then
      if (!signals[d].empty() && signals[d].back() == i) continue;  // duplicate edge
      signals[d].push_back(i);
      ++link.arrivals;
    }
  }
  for (unsigned i = 0; i < count; ++i) {
    plan.links[i].first_signal = static_cast<unsigned>(plan.signals.size());
    plan.signals.insert(plan.signals.end(), signals[i].begin(), signals[i].end());
    plan.links[i].last_signal = static_cast<unsigned>(plan.signals.size());
  }
}

}  // namespace cucpu::driver
