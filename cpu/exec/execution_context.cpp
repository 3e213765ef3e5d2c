// SPDX-License-Identifier: Apache-2.0
// Errors and running grids of a context.
#include "cpu/exec/execution_context.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "cpu/exec/error_code.hpp"
#include "cpu/exec/memory_access.hpp"
#include "cpu/exec/thread_pool.hpp"

namespace cucpu::driver {
namespace {

struct Report {
  std::mutex mutex;
  std::string text;
};
Report& report() {
  static Report& r = *new Report;
  return r;
}

}  // namespace

std::string last_fault_report() {
  Report& r = report();
  const std::lock_guard lock{r.mutex};
  return r.text;
}

void ExecutionContext::break_with(CUresult code, std::string text) noexcept {
  Report& r = report();
  const std::lock_guard lock{r.mutex};  // a thread that reads the error then finds its report
  CUresult none = CUDA_SUCCESS;
  if (error_.compare_exchange_strong(none, code, std::memory_order_acq_rel))
    r.text = std::move(text);
}

void ExecutionContext::break_with_current_exception() noexcept {
  const CUresult code = code_of_current_exception();
  try {
    throw;
  } catch (const IllegalAddress& error) {
    try {
      return break_with(code, error.report);
    } catch (const std::bad_alloc&) {  // the error is reported without a text
    }
  } catch (...) {
  }
  break_with(code, {});
}

void ExecutionContext::add_running(GridRun& run) {
  const std::lock_guard lock{running_mutex_};
  running_.push_back(&run);
  if (is_broken()) run.launch().cancel(error());
}

void ExecutionContext::end_running(GridRun& run) noexcept {
  {
    const std::lock_guard lock{running_mutex_};
    if (const auto at = std::find(running_.begin(), running_.end(), &run); at != running_.end()) {
      *at = running_.back();
      running_.pop_back();
    }
  }
  if (const Fault* fault = run.launch().fault())
    break_with(static_cast<CUresult>(fault->code), fault->report);
}

void ExecutionContext::cancel_running(CUresult code) noexcept {
  const std::lock_guard lock{running_mutex_};
  for (GridRun* run : running_) run->launch().cancel(code);
}

}  // namespace cucpu::driver
