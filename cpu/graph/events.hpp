// SPDX-License-Identifier: Apache-2.0
// cpu/graph/events.hpp: events in graphs. A launch records the events of the graph's record nodes,
// and waits for the records that the events of its wait nodes have at the call. As in a stream,
// later records of these events have no effect.
#pragma once

#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// The plan of one launch, with its own records and waits. The records complete with their steps,
/// or with the destruction of the plan.
class LaunchedEvents {
 public:
  LaunchedEvents(const Plan& plan, Context& context);
  [[nodiscard]] const std::shared_ptr<const Plan>& plan() const noexcept { return plan_; }
  /// Call once the launch is queued: sets the events' records.
  void publish() noexcept;

 private:
  void bind(Plan& plan, Context& context);
  std::shared_ptr<const Plan> plan_;
  std::vector<std::pair<Ref<Event>, Ref<Point>>> recorded_;
};

}  // namespace cucpu::driver
