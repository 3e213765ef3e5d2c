// cpu/engine/launch.cpp: the code a launch needs, and the grid that runs it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/engine/loaded_module.hpp"
#include "cpu/engine/run/recycle.hpp"
#include "cpu/engine/run/time_limit.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {
namespace {

bool is_small(const LaunchShape& shape) {
  const auto fits = [](std::uint32_t a, std::uint32_t b) {
    return std::uint64_t{a} * b < 1ULL << 31;
  };
  return fits(shape.grid.x, shape.block.x) && fits(shape.grid.y, shape.block.y) &&
         fits(shape.grid.z, shape.block.z);
}

}  // namespace

LoadedKernel::~LoadedKernel() {
  const Variant* at = variants_.load(std::memory_order_relaxed);
  while (at != nullptr) delete std::exchange(at, at->next);
}

std::shared_ptr<const Code> LoadedKernel::code(const LaunchShape& shape,
                                               const std::byte* params) const {
  auto code = find(shape, true);
  for (const ParamAlignment& assumed : code->assumed) {
    std::uint64_t value = 0;
    std::memcpy(&value, params + assumed.offset, sizeof value);
    if (value % assumed.align != 0) return find(shape, false);  // accesses look for themselves
  }
  if (const void* const reach = ReachScope::current()) {
    for (const ParamReach& reached : code->reached) {
      std::uint64_t value = 0;
      std::memcpy(&value, params + reached.offset, sizeof value);
      if (!may_reach()(reach, value, reached.write != 0)) return find(shape, false);
    }
  }
  return code;
}

std::shared_ptr<const LoadedCode> LoadedKernel::find(const LaunchShape& shape, bool aligned) const {
  const bool small = is_small(shape);
  const auto known = [&]() -> const Variant* {
    const Variant* at = variants_.load(std::memory_order_acquire);
    while (at && !(at->block == shape.block && at->small_grid == small && at->aligned == aligned))
      at = at->next;
    return at;
  };
  if (const Variant* const found = known()) [[likely]]
    return found->code;
  const std::lock_guard lock{mutex_};
  if (const Variant* const found = known()) return found->code;
  auto code = compile(shape, small, aligned);
  variants_.store(new Variant{shape.block, small, aligned, code, variants_.load()},
                  std::memory_order_release);
  return code;
}

std::shared_ptr<const LoadedCode> LoadedKernel::compile(const LaunchShape& shape, bool small,
                                                        bool aligned, bool vector) const {
  CompileJob job;
  job.aligned = aligned;
  job.bitcode = module_.bitcode();
  job.kernel = info_.name;
  job.small_grid = small;
  job.optimization = module_.optimization();
  std::optional<ObjectCode> object;
  job.check = module_.settings().check->kinds != 0;
  if (vector && module_.settings().width != 1 && job.optimization > 0 && !job.check) {
    job.block = shape.block;
    object = module_.object(job);
  }
  if (!object) {
    if (scalar_[aligned]) return scalar_[aligned];
    job.block.reset();
    job.small_grid = true;
    object = module_.object(job);
  }

  auto code = std::make_shared<LoadedCode>();
  const std::string wanted[] = {kEntry};
  try {
    code->linked = LinkedCode::link(object->object, module_.symbols(), wanted);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw LoadError{218, "kernel " + info_.name + ": " + error.what()};
  }
  code->functions = module_.functions();
  code->object = std::move(object->object);
  code->kernel = info_.name;
  if (job.check) code->check = module_.settings().check;
  code->assumed = std::move(object->assumed);
  code->reached = std::move(object->reached);
  void* const entry = code->linked->address(0);
  (object->fibers ? reinterpret_cast<void*&>(code->thread)
                  : reinterpret_cast<void*&>(code->block)) = entry;
  code->static_shared_bytes = info_.static_shared_bytes;
  code->dynamic_shared_offset = info_.dynamic_shared_offset;
  code->scratch_bytes = object->scratch_bytes;
  code->fills_scratch = module_.settings().strict;
  code->stack_bytes = object->stack_bytes;
  code->recursive = object->recursive;
  code->waits_for_blocks = object->waits_for_blocks;
  code->runs_on = object->runs_on;
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
  if (!job.block) {
    scalar_[aligned] = code;
  } else {  // a module is not unloaded while its grids run
    code->scalar = [this, shape, small, aligned] {
      const std::lock_guard lock{mutex_};
      return std::shared_ptr<const Code>{compile(shape, small, aligned, false)};
    };
  }
  return code;
}

namespace {

class GridLaunch final : public Launch, public Recycled {
 public:
  GridLaunch(std::shared_ptr<const Code> code, const LaunchShape& shape, const std::byte* params,
             std::size_t bytes, double limit)
      : params_(params, params + bytes),
        grid_{std::move(code), shape, params_.data()},
        limit_{limit} {}

  bool work() noexcept override {
    if (limit_ > 0) limit_guard_.start(grid_, limit_);
    const bool last = grid_.work();
    if (last) limit_guard_.stop();
    return last;
  }
  std::uint64_t parallelism() const noexcept override { return grid_.parallelism(); }
  void cancel(int code) noexcept override { grid_.cancel(code); }
  const Fault* fault() const noexcept override { return grid_.fault(); }

 private:
  ParamBlock params_;
  Grid grid_;
  double limit_;
  TimeLimit limit_guard_;
};

}  // namespace

std::unique_ptr<Launch> Launch::make(const Kernel& kernel, const LaunchShape& shape,
                                     const std::byte* params) {
  ensure_fault_handlers();
  const auto& loaded = static_cast<const LoadedKernel&>(kernel);
  return std::make_unique<GridLaunch>(loaded.code(shape, params), shape, params,
                                      kernel.info().param_bytes,
                                      loaded.module().settings().time_limit);
}

}  // namespace cucpu
