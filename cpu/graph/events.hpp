// cpu/graph/events.hpp: events in graphs. A launch records the events of the graph's record
// nodes, and waits for what the events of its wait nodes stand for at the call: as in a stream,
// what happens to an event afterwards makes no difference.
#pragma once

#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// A plan as one launch runs it: with its own records and waits. The records are over when their
/// steps have run, or when the plan goes.
class LaunchedEvents {
 public:
  LaunchedEvents(const Plan& plan, Context& context);
  [[nodiscard]] const std::shared_ptr<const Plan>& plan() const noexcept { return plan_; }
  /// The launch is queued: from now on the events stand for it.
  void publish() noexcept;

 private:
  void bind(Plan& plan, Context& context);
  std::shared_ptr<const Plan> plan_;
  std::vector<std::pair<Ref<Event>, Ref<Point>>> recorded_;
};

}  // namespace cucpu::driver
