// SPDX-License-Identifier: Apache-2.0
// An engine for tests of the driver layer. Kernels are known by name and have fixed effects, so
// that scheduling, errors and graphs can be tested without a compiler. It implements
// cpu/engine/engine.hpp.
//   noop()                    nothing
//   add(u64 p, u32 n)         adds n to *p, once per block, atomically
//   store(u64 p, u32 v)       *p = v, by block 0
//   append(u64 log, u32 v)    log[1 + log[0]++] = v, by block 0: the order of kernels
//   spin(u64 flag)            waits until *flag is not 0, or the grid is cancelled
//   crowd(u64 c)              c[0]: threads inside, c[1]: their maximum, c[2]: blocks that have run
//   fault(u32 code)           ends with a fault
//   take(u64 n, u64 p)        *p = malloc(n)
//   countdown(u64 p, u64 c)   --*p and sets the graph condition c to *p != 0
//   relaunch(u64 p, u64 e, u64 how)  while --*p is not 0: launches graph e (0: its own);
//                             p[1] is the result
#include <atomic>
#include <cstring>
#include <map>
#include <regex>
#include <thread>

#include "cpu/engine/check/operations.hpp"
#include "cpu/engine/check/routine_access.hpp"
#include "cpu/engine/device_heap.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/engine/explain.hpp"
#include "cpu/engine/graph_launch.hpp"

namespace cucpu {
namespace {

class FakeKernel final : public Kernel {
 public:
  explicit FakeKernel(KernelInfo info) { info_ = std::move(info); }
};

class FakeModule final : public Module {
 public:
  ~FakeModule() override {
    for (const Variable& v : variables_) memory_->free(v.address);
  }
  std::span<const Kernel* const> kernels() const override { return kernels_; }
  std::span<const Variable> variables() const override { return variables_; }

  std::vector<std::unique_ptr<FakeKernel>> owned_;
  std::vector<const Kernel*> kernels_;
  std::vector<Variable> variables_;
  VariableMemory* memory_ = nullptr;
};

class FakeLaunch final : public Launch {
 public:
  FakeLaunch(const Kernel& kernel, const LaunchShape& shape, const std::byte* params)
      : name_{kernel.info().name},
        blocks_{shape.grid.volume()},
        params_(params, params + kernel.info().param_bytes) {}

  bool work(const WorkOptions&) noexcept override {
    for (;;) {
      const std::uint64_t block = next_.fetch_add(1);
      if (block >= blocks_) return false;
      if (!stop_.load()) run(block);
      if (done_.fetch_add(1) + 1 == blocks_) return true;
    }
  }
  void divide(std::uint64_t) noexcept override {}
  std::uint64_t parallelism() const noexcept override { return blocks_; }
  std::uint64_t expected_ns() const noexcept override { return ~std::uint64_t{0}; }
  bool has_unstarted() const noexcept override { return next_.load() < blocks_; }
  void cancel(int code) noexcept override {
    cancel_code_ = code;
    stop_ = true;
  }
  const Fault* fault() const noexcept override {
    if (cancel_code_ && !fault_.code) fault_ = {cancel_code_, "cancelled"};
    return fault_.code ? &fault_ : nullptr;
  }

 private:
  template <class T>
  T param(std::size_t offset) const {
    T value;
    std::memcpy(&value, params_.data() + offset, sizeof value);
    return value;
  }
  void run(std::uint64_t block) noexcept {
    if (name_ == "add") {
      std::atomic_ref<unsigned>{*param<unsigned*>(0)}.fetch_add(param<unsigned>(8));
    } else if (name_ == "store" && block == 0) {
      std::atomic_ref<unsigned>{*param<unsigned*>(0)}.store(param<unsigned>(8));
    } else if (name_ == "append" && block == 0) {
      unsigned* log = param<unsigned*>(0);
      log[1 + std::atomic_ref<unsigned>{log[0]}.fetch_add(1)] = param<unsigned>(8);
    } else if (name_ == "spin") {
      const std::atomic_ref<unsigned> flag{*param<unsigned*>(0)};
      while (flag.load() == 0 && !stop_) std::this_thread::yield();
    } else if (name_ == "crowd") {
      unsigned* counts = param<unsigned*>(0);
      const unsigned here = std::atomic_ref<unsigned>{counts[0]}.fetch_add(1) + 1;
      const std::atomic_ref<unsigned> most{counts[1]};
      for (unsigned known = most.load(); known < here && !most.compare_exchange_weak(known, here);)
        ;
      for (int i = 0; i < 20; ++i) std::this_thread::yield();  // other threads may enter
      std::atomic_ref<unsigned>{counts[2]}.fetch_add(1);
      std::atomic_ref<unsigned>{counts[0]}.fetch_sub(1);
    } else if (name_ == "countdown") {
      unsigned* left = param<unsigned*>(0);
      std::atomic_ref<unsigned>{*param<unsigned*>(8)}.store(--*left != 0);
    } else if (name_ == "relaunch") {
      unsigned* left = param<unsigned*>(0);
      std::uint64_t exec = param<std::uint64_t>(8);
      if (exec == 0) exec = graph_launches().current();
      if (--left[0] != 0)
        left[1] = static_cast<unsigned>(graph_launches().launch(exec, param<std::uint64_t>(16)));
    } else if (name_ == "take") {
      *param<std::uint64_t*>(8) = heap_of_kernel()()->allocate(param<std::uint64_t>(0));
    } else if (name_ == "fault") {
      if (!stop_.exchange(true))
        fault_ = {static_cast<int>(param<unsigned>(0)), "kernel fault: told to fail"};
    }
  }
  std::string name_;
  std::uint64_t blocks_;
  std::vector<std::byte> params_;
  std::atomic<std::uint64_t> next_{0}, done_{0};
  std::atomic<bool> stop_{false};
  std::atomic<int> cancel_code_{0};
  mutable Fault fault_{0, {}};
};

}  // namespace

std::unique_ptr<Module> Module::load(std::span<const std::string_view> texts,
                                     const LoadOptions& options, VariableMemory& memory) {
  auto module = std::make_unique<FakeModule>();
  module->memory_ = &memory;
  for (const std::string_view view : texts) {
    const std::string text{view};
    if (text.find("syntax error") != std::string::npos)
      throw LoadError{218, options.name + ":1:1: error: told to fail"};
    static const std::regex entry{R"(\.entry\s+(\w+)\s*\(([^)]*)\))"},
        param{R"(\.param\s+\.(u32|u64))"};
    for (std::sregex_iterator at{text.begin(), text.end(), entry}, end; at != end; ++at) {
      KernelInfo info;
      info.name = (*at)[1];
      info.ptx_version = 90;
      info.target = 90;
      info.registers = 16;
      const std::string list = (*at)[2];
      for (std::sregex_iterator p{list.begin(), list.end(), param}; p != end; ++p) {
        const std::uint32_t size = (*p)[1] == "u64" ? 8 : 4;
        info.param_bytes = (info.param_bytes + size - 1) / size * size;
        info.params.push_back({info.param_bytes, size, size});
        info.param_bytes += size;
      }
      if (info.name == "bounded") info.max_threads = 64;
      module->owned_.push_back(std::make_unique<FakeKernel>(std::move(info)));
      module->kernels_.push_back(module->owned_.back().get());
    }
    static const std::regex variable{R"(\.global\s+\.u32\s+(\w+)\[(\d+)\])"};
    for (std::sregex_iterator at{text.begin(), text.end(), variable}, end; at != end; ++at) {
      const std::size_t bytes = 4 * std::stoul((*at)[2]);
      module->variables_.reserve(module->variables_.size() +
                                 1);  // may throw, so it comes before the allocation
      module->variables_.push_back(
          {(*at)[1], memory.allocate(bytes, 16, false).address, bytes, false, false});
    }
    static const std::regex reference{R"(\.global\s+\.(tex|surf)ref\s+(\w+))"};
    for (std::sregex_iterator at{text.begin(), text.end(), reference}, end; at != end; ++at) {
      module->variables_.reserve(module->variables_.size() + 1);
      module->variables_.push_back(
          {(*at)[2], memory.allocate(8, 16, false).address, 8, false, false,
           (*at)[1] == "tex" ? ReferenceKind::texture : ReferenceKind::surface});
    }
  }
  if (options.info_log) *options.info_log += "loaded by the fake engine";
  return module;
}

const Kernel* Module::find_kernel(std::string_view name) const {
  for (const Kernel* kernel : kernels())
    if (kernel->info().name == name) return kernel;
  return nullptr;
}

const Variable* Module::find_variable(std::string_view name) const {
  for (const Variable& variable : variables())
    if (variable.name == name) return &variable;
  return nullptr;
}

std::string explain_kernel(std::string_view, const std::string&, const Dim3&) {
  throw LoadError{801, "the engine of these tests compiles nothing"};
}

std::unique_ptr<Launch> Launch::make(const Kernel& kernel, const LaunchShape& shape,
                                     const std::byte* params) {
  return std::make_unique<FakeLaunch>(kernel, shape, params);
}

void set_hooks(Hooks) {}

// Init checks are off.
void check_host_write(std::uintptr_t, std::size_t) noexcept {}
void check_host_clear(std::uintptr_t, std::size_t) noexcept {}
std::size_t check_host_read(std::uintptr_t, std::size_t bytes) noexcept { return bytes; }
std::string report_host_read(std::uintptr_t, const std::string&) noexcept { return {}; }

// Race checks between operations are off.
namespace operations {

void start() noexcept {}
void disable() noexcept {}
void submitted(const StreamView&, std::uint64_t) noexcept {}
void joins(std::uint64_t, std::uint64_t, std::uint64_t) noexcept {}
void joins_all(std::uint64_t) noexcept {}
void recorded(const void*, const StreamView&) noexcept {}
void joins_event(std::uint64_t, const void*) noexcept {}
void host_joins(const StreamView&, std::uint64_t) noexcept {}
void host_joins_context(const void*) noexcept {}
void host_joins_event(const void*) noexcept {}
void host_joins_running() noexcept {}
void runs(const void*, std::uint64_t, std::uint64_t) noexcept {}
void runs_node(const void*, const void*, Node) noexcept {}
void ends(const void*) noexcept {}
void starts_launch(const void*) noexcept {}
void Scope::enter(const void*) noexcept {}
void Scope::leave() noexcept {}
SynchronousScope::SynchronousScope(const StreamView&) noexcept {}
SynchronousScope::~SynchronousScope() = default;
std::string check_access(std::uintptr_t, std::size_t, bool, const std::string&) noexcept {
  return {};
}

}  // namespace operations

}  // namespace cucpu
