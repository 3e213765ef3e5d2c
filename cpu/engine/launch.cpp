// SPDX-License-Identifier: Apache-2.0
// cpu/engine/launch.cpp: finds or compiles the code of a launch, and runs its grid.
#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/engine/check/check.hpp"
#include "cpu/engine/check/lane_checker.hpp"
#include "cpu/engine/check/operations.hpp"
#include "cpu/engine/dump.hpp"
#include "cpu/engine/jit_module.hpp"
#include "cpu/engine/run/time_limit.hpp"
#include "cpu/engine/run/worker.hpp"
#include "cpu/mem/free_list.hpp"

namespace cucpu {
namespace {

bool is_small(const LaunchShape& shape) {
  const auto fits = [](std::uint32_t a, std::uint32_t b) {
    return std::uint64_t{a} * b < 1ULL << 31;
  };
  return fits(shape.grid.x, shape.block.x) && fits(shape.grid.y, shape.block.y) &&
         fits(shape.grid.z, shape.block.z);
}

/// Whether a kernel of this module may be expensive to optimize. A small module needs no code
/// generator for the baseline tier.
bool may_start_in_baseline(const ThreadCode& source) {
  constexpr std::size_t kLeast = 2500;
  if (source.settings.tier != Settings::Tier::automatic)
    return source.settings.tier == Settings::Tier::baseline;
  return source.optimization > 1 && source.bitcode.size() > kLeast;
}

}  // namespace

JitKernel::JitKernel(const JitModule& module, KernelInfo info) : module_{module} {
  info_ = std::move(info);
  anchor_->kernel = this;
}

JitKernel::~JitKernel() {
  {
    const std::lock_guard lock{anchor_->mutex};
    anchor_->kernel = nullptr;
  }
  const Variant* at = variants_.load(std::memory_order_relaxed);
  while (at != nullptr) delete std::exchange(at, at->next);
}

const JitKernel::Variant& JitKernel::variant(const LaunchShape& shape,
                                             const std::byte* params) const {
  const Variant& aligned = find(shape, true);
  for (const ParamAlignment& assumed : aligned.code->assumed) {
    std::uint64_t value = 0;
    std::memcpy(&value, params + assumed.offset, sizeof value);
    if (value % assumed.align != 0) return find(shape, false);  // code that checks every access
  }
  if (const void* const reach = PeerAccessScope::current()) {
    for (const ParamPeerAccess& reached : aligned.code->reached) {
      std::uint64_t value = 0;
      std::memcpy(&value, params + reached.offset, sizeof value);
      if (!peer_access_check()(reach, value, reached.write != 0)) return find(shape, false);
    }
  }
  return aligned;
}

const JitKernel::Variant& JitKernel::find(const LaunchShape& shape, bool aligned) const {
  const Kind kind{shape.block, is_small(shape), aligned};
  const auto known = [&]() -> const Variant* {
    const Variant* at = variants_.load(std::memory_order_acquire);
    while (at && !(at->kind == kind)) at = at->next;
    return at;
  };
  if (const Variant* const found = known()) [[likely]]
    return *found;
  const std::lock_guard lock{mutex_};
  if (const Variant* const found = known()) return *found;
  // Blocks that wait for each other run to the end of the grid with the code they start with, so a
  // cooperative grid has no baseline code.
  auto code = compile(kind, !shape.cooperative);
  auto next = code->baseline ? tier_up(kind) : nullptr;
  return add(kind, std::move(code), std::move(next));
}

const JitKernel::Variant& JitKernel::add(const Kind& kind, std::shared_ptr<const JitCode> code,
                                         std::shared_ptr<TierUp> tier_up) const {
  const auto* const made = new Variant{kind, std::move(code), std::move(tier_up), variants_.load()};
  variants_.store(made, std::memory_order_release);
  return *made;
}

CompileJob JitKernel::job_for(const Kind& kind) const {
  const ThreadCode& source = *module_.thread_code();
  CompileJob job;
  job.bitcode = source.bitcode;
  job.kernel = info_.name;
  job.block = kind.block;
  job.small_grid = kind.small_grid;
  job.optimization = source.optimization;
  job.check = source.settings.check->kinds;
  job.schedule = source.settings.schedule.has_value();
  job.debug = source.debug;
  job.aligned = kind.aligned;
  return job;
}

std::shared_ptr<const JitCode> JitKernel::compile(const Kind& kind, bool may_be_baseline) const {
  const ThreadCode& source = *module_.thread_code();
  CompileJob job = job_for(kind);
  if (source.settings.width != 1 && job.optimization > 0 && !job.schedule) {
    job.may_be_baseline = may_be_baseline && !job.check && may_start_in_baseline(source);
    if (auto object = source.object(job)) return vector(kind, std::move(*object));
  }
  return scalar(kind);
}

std::shared_ptr<const JitCode> JitKernel::vector(const Kind& kind, ObjectCode object) const {
  auto code = link(std::move(object));
  code->scalar = [this, kind] {  // a module is not unloaded while its grids run
    const std::lock_guard lock{mutex_};
    return std::shared_ptr<const Code>{scalar(kind)};
  };
  return code;
}

std::shared_ptr<const JitCode> JitKernel::scalar(const Kind& kind) const {
  auto& known = scalar_[kind.aligned];
  if (known) return known;
  CompileJob job = job_for(kind);
  job.block.reset();
  job.small_grid = true;
  return known = link(*module_.thread_code()->object(job));
}

std::shared_ptr<TierUp> JitKernel::tier_up(const Kind& kind) const {
  CompileJob job = job_for(kind);
  job.in_background = true;
  return std::make_shared<TierUp>([kind, job = std::move(job), source = module_.thread_code(),
                                   anchor = anchor_]() -> std::shared_ptr<const Code> {
    try {
      auto object = source->object(job);
      const std::lock_guard lock{anchor->mutex};
      if (!object || !anchor->kernel) return nullptr;
      const JitKernel& kernel = *anchor->kernel;
      auto code = kernel.vector(kind, std::move(*object));
      const std::lock_guard list{kernel.mutex_};
      return kernel.add(kind, std::move(code), nullptr).code;
    } catch (const std::exception& error) {
      report(source->settings,
             "kernel " + job.kernel + ": keeps its baseline code: " + error.what());
      return nullptr;
    }
  });
}

std::shared_ptr<JitCode> JitKernel::link(ObjectCode object) const {
  auto code = std::make_shared<JitCode>();
  const std::string wanted[] = {kEntry};
  try {
    code->linked =
        LinkedCode::link(object.object, module_.symbols(), wanted, module_.thread_code()->debug);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw LoadError{218, "kernel " + info_.name + ": " + error.what()};
  }
  const Settings& settings = module_.thread_code()->settings;
  code->functions = module_.functions();
  code->debug = module_.thread_code()->debug;
  code->object = std::move(object.object);
  code->kernel = info_.name;
  if (settings.check->kinds != 0 && object.fibers) {
    code->make_observer = [options = settings.check] { return std::make_unique<Checker>(options); };
  } else if (settings.check->kinds != 0) {
    code->make_observer = [options = settings.check] {
      return std::make_unique<LaneChecker>(options);
    };
    code->parallel_observer = LaneChecker::is_parallel(*settings.check);
  }
  code->has_schedule_points = settings.schedule.has_value();
  code->assumed = std::move(object.assumed);
  code->reached = std::move(object.reached);
  void* const entry = code->linked->address(0);
  (object.fibers ? reinterpret_cast<void*&>(code->thread) : reinterpret_cast<void*&>(code->block)) =
      entry;
  code->static_shared_bytes = info_.static_shared_bytes;
  code->dynamic_shared_offset = info_.dynamic_shared_offset;
  code->scratch_bytes = object.scratch_bytes;
  code->fills_scratch = settings.strict;
  code->stack_bytes = object.stack_bytes;
  code->recursive = object.recursive;
  code->waits_for_blocks = object.waits_for_blocks;
  code->baseline = object.baseline;
  // Optimized code replaces baseline code between two blocks.
  code->iterates_blocks =
      object.runs_on && !object.baseline && (!code->make_observer || code->parallel_observer);
  code->line_of = [raw = code.get(), start = reinterpret_cast<std::uintptr_t>(entry)](
                      std::uintptr_t pc) -> std::string {
    // Functions of the same object may lie before the entry point.
    const auto near = [&](std::uintptr_t at, const std::string& object) {
      return pc - at + object.size() <= 2 * object.size();
    };
    if (near(start, raw->object)) return line_of(raw->object, kEntry, pc - start);
    if (!raw->functions) return {};
    const auto first = reinterpret_cast<std::uintptr_t>(raw->functions->linked->address(0));
    const FunctionsObject& others = raw->functions->object;
    return near(first, others.object) ? line_of(others.object, others.names[0], pc - first)
                                      : std::string{};
  };
  return code;
}

namespace {

class GridLaunch final : public Launch, public FreeListAllocated {
 public:
  GridLaunch(const JitKernel::Variant& variant, const LaunchShape& shape, const std::byte* params,
             std::size_t bytes, double limit)
      : params_(params, params + bytes),
        tier_up_{variant.tier_up},
        grid_{variant.code, shape, params_.data(), tier_up_},
        limit_{limit} {}

  bool work(const WorkOptions& options) noexcept override {
    if (limit_ > 0) limit_guard_.start(grid_, limit_);
    if (tier_up_) baseline_run_.start(tier_up_);
    const operations::LaunchScope scope{static_cast<const Launch*>(this)};
    const bool last = grid_.work(options);
    if (last) {
      limit_guard_.stop();
      baseline_run_.stop();
    }
    return last;
  }
  void divide(std::uint64_t parts) noexcept override { grid_.divide(parts); }
  std::uint64_t parallelism() const noexcept override { return grid_.parallelism(); }
  std::uint64_t expected_ns() const noexcept override { return grid_.expected_ns(); }
  bool has_unstarted() const noexcept override { return grid_.has_unstarted(); }
  void cancel(int code) noexcept override { grid_.cancel(code); }
  const Fault* fault() const noexcept override { return grid_.fault(); }

 private:
  ParamBlock params_;
  std::shared_ptr<TierUp> tier_up_;
  Grid grid_;
  double limit_;
  TimeLimit limit_guard_;
  BaselineRun baseline_run_;
};

}  // namespace

std::unique_ptr<Launch> Launch::make(const Kernel& kernel, const LaunchShape& shape,
                                     const std::byte* params) {
  ensure_fault_handlers();
  const auto& loaded = static_cast<const JitKernel&>(kernel);
  return std::make_unique<GridLaunch>(loaded.variant(shape, params), shape, params,
                                      kernel.info().param_bytes,
                                      loaded.module().thread_code()->settings.time_limit);
}

}  // namespace cucpu
