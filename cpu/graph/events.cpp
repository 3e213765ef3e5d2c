// SPDX-License-Identifier: Apache-2.0
// Events of one graph launch.
#include "cpu/graph/events.hpp"

#include <functional>

#include "cpu/device/context.hpp"
#include "cpu/device/ipc.hpp"

namespace cucpu::driver {
namespace {

class LaunchedRecord final : public NodeOp {
 public:
  LaunchedRecord(Event& event, Context& context) : point{make_object<Point>()} {
    point->stream =
        make_object<Stream>(context, StreamRole::created, unsigned{CU_STREAM_NON_BLOCKING}, 0);
    if (event.flags & CU_EVENT_INTERPROCESS) tell_others_ = begin_ipc_record(event);
    point->number = point->stream->begin_external();
  }
  ~LaunchedRecord() override { end(); }
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
  bool runs_after_error() const noexcept override { return true; }
  Progress run(Task&) override {
    end();
    return Progress::done;
  }
  const Ref<Point> point;

 private:
  void end() noexcept {
    if (ended_.exchange(true)) return;
    point->nanoseconds = now_ns();
    point->stream->end_external();
    if (tell_others_) tell_others_();
  }
  std::function<void()> tell_others_;
  std::atomic<bool> ended_{false};
};

/// Waits for a record of this process.
class LaunchedWait final : public NodeOp {
 public:
  explicit LaunchedWait(Ref<Point> point) : point_{std::move(point)} {}
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  Progress run(Task& task) override {
    if (!point_ || point_->is_over()) return Progress::done;
    return point_->stream->wake_when(point_->number, task) ? Progress::pending : Progress::done;
  }

 private:
  Ref<Point> point_;
};

/// Waits for a record that may belong to another process.
class LaunchedIpcWait final : public NodeOp {
 public:
  explicit LaunchedIpcWait(Event& event) : wait_{ipc_wait(event)} {}
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  Progress run(Task& task) override { return wait_->run(task); }

 private:
  Ref<Op> wait_;
};

Ref<NodeOp> bound_wait(Event& event) {
  if (event.flags & CU_EVENT_INTERPROCESS) return make_object<LaunchedIpcWait>(event);
  return make_object<LaunchedWait>(event.point());
}

}  // namespace

LaunchedEvents::LaunchedEvents(const Plan& plan, Context& context) {
  const std::shared_ptr<Plan> own = copy_plan(plan);
  bind(*own, context);
  plan_ = own;
}

void LaunchedEvents::bind(Plan& plan, Context& context) {
  for (Plan::Step& step : plan.steps) {
    for (const auto& body : step.bodies) bind(*body, context);
    switch (step.op->type()) {
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        step.op = bound_wait(*static_cast<const EventWaitOp&>(*step.op).event);
        break;
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
        const Ref<Event> event = static_cast<const EventRecordOp&>(*step.op).event;
        const auto record = make_object<LaunchedRecord>(*event, context);
        recorded_.emplace_back(event, record->point);
        step.op = record;
        break;
      }
      default:
        break;
    }
  }
}

void LaunchedEvents::publish() noexcept {
  for (auto& [event, point] : recorded_) event->set_point(point);
}

}  // namespace cucpu::driver
