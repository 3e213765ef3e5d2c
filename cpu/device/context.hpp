// SPDX-License-Identifier: Apache-2.0
// cpu/device/context.hpp: contexts: the streams and resources of a program on one device; the stack
// of current contexts of each thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpu/base/object.hpp"
#include "cpu/device/context_heap.hpp"
#include "cpu/device/device.hpp"
#include "cpu/exec/execution_context.hpp"
#include "cpu/exec/stream.hpp"

namespace cucpu::driver {

/// An object that is destroyed with its context.
class ContextResource {
 public:
  virtual void on_context_destroyed() noexcept = 0;

 protected:
  ~ContextResource() = default;
};

class Context final : public Handled<Context, CUcontext, Kind::context, ExecutionContext> {
 public:
  Context(Device& device, unsigned flags, bool is_primary);
  ~Context() override;

  Device& device;
  const bool is_primary;
  std::atomic<std::uint64_t> id;  ///< changes when a primary context is reset and activated again
  std::atomic<unsigned> flags;
  std::atomic<bool> is_live{
      true};                     ///< false once destroyed, or while a primary context is inactive
  std::atomic<int> attached{0};  ///< additional uses by cuCtxAttach
  Ref<Object> green;             ///< the GreenContext that it belongs to; null for others
  [[nodiscard]] unsigned multiprocessors() const noexcept {
    return cores ? cores : settings().threads;
  }

  std::uint64_t number() const noexcept override { return id; }
  int ordinal() const noexcept override { return device.ordinal; }

  // -- streams
  Stream& legacy_stream() const noexcept override { return *legacy_; }
  Ref<Stream> per_thread_stream();
  Ref<Stream> create_stream(unsigned stream_flags, int priority);
  void remove_stream(Stream& stream);
  /// Streams created from now on wait for the work that `gate` has queued.
  void wait_in_new_streams(const Ref<Stream>& gate);
  std::vector<Ref<Stream>> streams() const;
  std::vector<Ref<Stream>> blocking_streams_with_work() const override;
  void synchronize();

  // -- resources
  void adopt(ContextResource& resource);
  void disown(ContextResource& resource) noexcept;

  /// Cancels running work and frees all resources. Sets is_live to false.
  void tear_down();
  void activate();  ///< makes a primary context live again

  std::atomic<std::size_t> limits[CU_LIMIT_MAX];
  ContextHeap heap{device.budget, limits[CU_LIMIT_MALLOC_HEAP_SIZE]};
  std::atomic<CUfunc_cache> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::atomic<CUsharedconfig> shared_config{CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE};
  std::mutex peers_mutex;
  std::set<std::uint64_t> peers;  ///< ids of contexts whose memory this context may access

 private:
  void reset_limits();
  Ref<Stream> new_stream(StreamRole role, unsigned stream_flags, int priority);
  mutable std::mutex mutex_;
  Stream* legacy_;  // without a reference count, because the stream holds one to the context;
                    // released by tear_down()
  std::vector<Stream*> streams_;              // all live streams except the legacy stream
  std::atomic<std::size_t> stream_count_{0};  // their number, read without the lock
  std::unordered_map<std::uint64_t, Ref<Stream>> per_thread_;
  std::vector<Ref<Stream>> gates_;  // streams that new streams wait for; removed when drained
  std::set<ContextResource*> resources_;
};

/// The calling thread's current context. Fails with 201 when there is none, with 709 when it is
/// destroyed, and with its sticky error.
Context& current_context();
/// As current_context(), but accepts a context with a sticky error: for queries.
Context& current_context_any_state();
/// The current context or nullptr, without checks.
Context* peek_context() noexcept;
/// A live context by its number, or nullptr.
Context* find_context(std::uint64_t id);
std::vector<Ref<Context>> live_contexts();

/// The context of a handle. Fails with 201.
Context& context_of(CUcontext handle);
/// The context of a stream or of another task.
inline Context& context_of(const Task& task) noexcept {
  return static_cast<Context&>(task.context());
}
inline Context& context_of(const Stream& stream) noexcept {  // not a virtual call
  return static_cast<Context&>(stream.context());
}
Context& usable(Context& context);  ///< fails as current_context() does

void push_context(Context& context);
Ref<Context> pop_context();          ///< fails with 201 when the stack is empty
void set_context(Context* context);  ///< replaces the top; null removes it

/// Makes a context current for a scope.
class ScopedContext {
 public:
  explicit ScopedContext(Context& context);
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
};

/// The stream of a handle: null, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a created stream. Fails
/// when its context is not usable.
Ref<Stream> stream_of(CUstream handle);
Ref<Stream> stream_of_any_state(CUstream handle);
Ref<Stream> default_stream();  ///< the stream of synchronous calls

}  // namespace cucpu::driver
