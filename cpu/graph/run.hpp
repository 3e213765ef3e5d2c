// cpu/graph/run.hpp: what runs of linear plans and of plans with branches share.
#pragma once

#include "cpu/device/context.hpp"
#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// Runs one step for `self`, which is driven when the step ends elsewhere. `looping` is set while
/// the body of a while node runs: the step is then to be run again, not left.
Progress run_step(const Plan::Step& step, Task& self, bool& looping);

/// Divides a plan into lanes; leaves `links` empty when one lane has them all.
void make_lanes(Plan& plan);

/// Runs a plan that has lanes. The same contract as run_plan.
Progress run_branches(std::shared_ptr<const Plan> plan, Task& parent);

}  // namespace cucpu::driver
