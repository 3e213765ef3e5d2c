// SPDX-License-Identifier: Apache-2.0
// cpu/graph/run.hpp: steps of plans, for linear plans and for plans with branches.
#pragma once

#include "cpu/device/context.hpp"
#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// Runs one step for `self`, which is driven when the step completes on another thread. `looping`
/// is set while the body of a while node runs: the step then runs again.
Progress run_step(const Plan::Step& step, Task& self, bool& looping);

/// Divides a plan into lanes; `links` stays empty when one lane has all steps.
void make_lanes(Plan& plan);

/// Runs a plan with lanes; the contract of run_plan().
Progress run_branches(std::shared_ptr<const Plan> plan, Task& parent);

}  // namespace cucpu::driver
