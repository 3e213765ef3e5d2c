// SPDX-License-Identifier: Apache-2.0
// Contexts, and the stack of current contexts of each thread.
#include "cpu/device/context.hpp"

#include "cpu/device/capture.hpp"
#include "cpu/device/deferred.hpp"
#include "cpu/device/texture.hpp"
#include "cpu/engine/check/operations.hpp"
#include "cpu/mem/per_thread.hpp"
#include "cpu/mem/usage.hpp"
#include "cucpu/exports.hpp"
#include "protection.hpp"

namespace cucpu::driver {
namespace {

std::atomic<std::uint64_t> g_next_context_id{1};
std::atomic<std::uint64_t> g_next_thread_id{1};

struct ThreadState {
  std::vector<Ref<Context>> stack;
  const std::uint64_t id = g_next_thread_id.fetch_add(1, std::memory_order_relaxed);
  std::vector<Ref<Stream>> streams;  // per-thread default streams, destroyed with the thread
  ~ThreadState() {
    for (auto& stream : streams) context_of(*stream).remove_stream(*stream);
  }
};

ThreadState& thread_state() { return PerThread<ThreadState>::get(); }

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Context*> by_id;
};
Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}
}  // namespace

Context* find_context(std::uint64_t id) {
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  const auto at = r.by_id.find(id);
  return at == r.by_id.end() ? nullptr : at->second;
}

std::vector<Ref<Context>> live_contexts() {
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  std::vector<Ref<Context>> all;
  for (const auto& [id, context] : r.by_id)
    if (context->is_live) all.emplace_back(context);
  return all;
}

Context::Context(Device& device, unsigned flags, bool is_primary)
    : device{device}, is_primary{is_primary}, id{g_next_context_id.fetch_add(1)}, flags{flags} {
  reset_limits();
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  r.by_id.emplace(id, this);
  // A stream holds a reference: its destruction after an exception must not destroy this object.
  if (CUCORE_PROTECTION("context-survives-failed-stream")) retain();
  try {
    legacy_ = new Stream{*this, StreamRole::legacy, CU_STREAM_DEFAULT, 0};
  } catch (...) {
    r.by_id.erase(id);
    throw;
  }
  legacy_->retain();
  release();  // the stream holds a reference now
  if (static_cast<unsigned>(device.physical) < kUsageDevices)
    usage_page().devices[device.physical].contexts.fetch_add(1);
}

Context::~Context() {
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  r.by_id.erase(id);
}

void Context::reset_limits() {
  for (auto& limit : limits) limit = 0;
  limits[CU_LIMIT_STACK_SIZE] = 1024;
  limits[CU_LIMIT_PRINTF_FIFO_SIZE] = std::size_t{7} << 20;
  limits[CU_LIMIT_MALLOC_HEAP_SIZE] = std::size_t{8} << 20;
  limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

Ref<Stream> Context::new_stream(StreamRole role, unsigned stream_flags, int priority) {
  auto stream = make_object<Stream>(*this, role, stream_flags, priority);
  std::vector<Ref<Stream>> gates;
  {
    const std::lock_guard lock{mutex_};
    std::erase_if(gates_, [](const Ref<Stream>& gate) { return gate->drained(); });
    gates = gates_;
  }
  for (const Ref<Stream>& gate : gates) stream->submit_wait(gate, gate->submitted());
  return stream;
}

void Context::wait_in_new_streams(const Ref<Stream>& gate) {
  const std::lock_guard lock{mutex_};
  std::erase_if(gates_, [](const Ref<Stream>& known) { return known->drained(); });
  if (!gate->drained()) gates_.push_back(gate);
}

Ref<Stream> Context::create_stream(unsigned stream_flags, int priority) {
  const Ref<Stream> stream = new_stream(StreamRole::created, stream_flags, priority);
  const std::lock_guard lock{mutex_};
  streams_.push_back(stream.get());
  try {
    stream->publish();
  } catch (...) {
    streams_.pop_back();
    throw;
  }
  stream_count_ = streams_.size();
  return stream;
}

Ref<Stream> Context::per_thread_stream() {
  ThreadState& thread = thread_state();
  {
    const std::lock_guard lock{mutex_};
    if (const auto at = per_thread_.find(thread.id); at != per_thread_.end()) return at->second;
  }
  const Ref<Stream> stream = new_stream(StreamRole::per_thread, CU_STREAM_DEFAULT, 0);
  const std::lock_guard lock{mutex_};
  streams_.reserve(streams_.size() + 1);
  thread.streams.reserve(thread.streams.size() + 1);
  per_thread_.emplace(thread.id, stream);  // the last statement that may throw
  streams_.push_back(stream.get());
  stream_count_ = streams_.size();
  thread.streams.push_back(stream);
  return stream;
}

void Context::remove_stream(Stream& stream) {
  Ref<Stream> last{&stream};  // the map may hold the last reference, and a stream holds a reference
                              // to this context
  const std::lock_guard lock{mutex_};
  std::erase(streams_, &stream);
  stream_count_ = streams_.size();
  std::erase_if(per_thread_, [&](const auto& entry) { return entry.second.get() == &stream; });
}

std::vector<Ref<Stream>> Context::streams() const {
  const std::lock_guard lock{mutex_};
  std::vector<Ref<Stream>> all;
  all.reserve(streams_.size() + 1);
  all.emplace_back(legacy_);
  for (Stream* stream : streams_) all.emplace_back(stream);
  return all;
}

std::vector<Ref<Stream>> Context::blocking_streams_with_work() const {
  if (stream_count_ == 0) return {};
  const std::lock_guard lock{mutex_};
  std::vector<Ref<Stream>> found;
  for (Stream* stream : streams_)
    if (stream->is_blocking() && !stream->drained()) found.emplace_back(stream);
  return found;
}

void Context::synchronize() {
  operations::host_joins_context(static_cast<const ExecutionContext*>(this));
  for (auto& stream : streams()) stream->wait(stream->submitted());
}

void Context::adopt(ContextResource& resource) {
  const std::lock_guard lock{mutex_};
  resources_.insert(&resource);
}

void Context::disown(ContextResource& resource) noexcept {
  const std::lock_guard lock{mutex_};
  resources_.erase(&resource);
}

void Context::tear_down() {
  std::vector<Ref<Stream>> removed =
      streams();  // the only statement here that may throw; nothing has changed yet
  is_live = false;
  break_with(CUDA_ERROR_CONTEXT_IS_DESTROYED, {});
  cancel_running(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  for (auto& stream : removed) {
    abandon_capture(*stream);  // the capture could never be ended, and would make other calls fail
    stream->wait(stream->submitted());
  }
  removed.erase(removed.begin());  // the legacy stream is destroyed with the context
  {
    const std::lock_guard lock{mutex_};
    streams_.clear();
    stream_count_ = 0;
    per_thread_.clear();
    gates_.clear();
  }
  for (auto& stream : removed) stream->retire();
  release_deferred();
  destroy_textures_of(id);
  for (;;) {  // one at a time: a resource may destroy others, which remove themselves from the list
    ContextResource* resource = nullptr;
    {
      const std::lock_guard lock{mutex_};
      if (resources_.empty()) break;
      resource = resources_.extract(resources_.begin()).value();
    }
    resource->on_context_destroyed();
  }
  MemoryMap::instance().release_context(id);
  {
    const std::lock_guard lock{peers_mutex};
    peers.clear();
    MemoryMap::instance().mark_changed();
  }
  heap.clear();
  reset_limits();
  if (!is_primary) legacy_->release();
}

void Context::activate() {
  {  // a new number: users of the old number refer to the context before its reset
    Registry& r = registry();
    const std::lock_guard lock{r.mutex};
    auto row = r.by_id.extract(id.load());
    row.key() = g_next_context_id.fetch_add(1);
    id = row.key();
    r.by_id.insert(std::move(row));
  }
  clear_error();
  is_live = true;
}

Context* peek_context() noexcept {
  const ThreadState* const thread = PerThread<ThreadState>::peek();
  return thread == nullptr || thread->stack.empty() ? nullptr : thread->stack.back().get();
}

Context& current_context_any_state() {
  Context* context = peek_context();
  if (!context) [[unlikely]]
    fail(CUDA_ERROR_INVALID_CONTEXT);
  if (!context->is_live.load(std::memory_order_acquire)) [[unlikely]]
    fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return *context;
}

Context& usable(Context& context) {
  if (!context.is_live.load(std::memory_order_acquire)) [[unlikely]]
    fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  if (context.is_broken()) [[unlikely]]
    fail(context.error());
  return context;
}

Context& current_context() {
  Context& context = current_context_any_state();
  if (context.is_broken()) [[unlikely]]
    fail(context.error());
  return context;
}

Context& context_of(CUcontext handle) {
  return object_of<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
}

void push_context(Context& context) { thread_state().stack.emplace_back(&context); }

Ref<Context> pop_context() {
  auto& stack = thread_state().stack;
  if (stack.empty()) fail(CUDA_ERROR_INVALID_CONTEXT);
  Ref<Context> top = std::move(stack.back());
  stack.pop_back();
  return top;
}

void set_context(Context* context) {
  auto& stack = thread_state().stack;
  if (!stack.empty()) stack.pop_back();
  if (context) stack.emplace_back(context);
}

ScopedContext::ScopedContext(Context& context) { push_context(context); }
ScopedContext::~ScopedContext() { thread_state().stack.pop_back(); }

Ref<Stream> default_stream() {
  Context& context = current_context();
  if (null_stream_is_per_thread()) return context.per_thread_stream();
  return Ref<Stream>{&context.legacy_stream()};
}

Ref<Stream> stream_of_any_state(CUstream handle) {
  if (handle == nullptr)
    handle = null_stream_is_per_thread() ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY) return Ref<Stream>{&current_context_any_state().legacy_stream()};
  if (handle == CU_STREAM_PER_THREAD) return current_context_any_state().per_thread_stream();
  return Ref<Stream>{&object_of<Stream>(handle)};
}

Ref<Stream> stream_of(CUstream handle) {
  Ref<Stream> stream = stream_of_any_state(handle);
  usable(context_of(*stream));
  return stream;
}

}  // namespace cucpu::driver
