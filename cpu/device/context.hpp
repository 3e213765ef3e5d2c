// cpu/device/context.hpp: a context: what a program has on one device, and the thread's stack of
// current contexts.
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
#include "cpu/exec/stream.hpp"

namespace cucpu::driver {

class GridRun;

/// Whatever a context takes with it when it ends.
class ContextResource {
 public:
  virtual void context_gone() noexcept = 0;

 protected:
  ~ContextResource() = default;
};

class Context final : public Handled<Context, CUcontext, Kind::context> {
 public:
  Context(Device& device, unsigned flags, bool is_primary);
  ~Context() override;

  Device& device;
  const bool is_primary;
  std::atomic<std::uint64_t> id;  ///< another one in each life of a primary context
  std::atomic<unsigned> flags;
  std::atomic<bool> is_live{
      true};                     ///< false once destroyed, or while a primary context is inactive
  std::atomic<int> attached{0};  ///< uses by cuCtxAttach, beyond its maker's
  Ref<Object> green;             ///< keeps a green context's resources; null for others
  unsigned cores = 0;            ///< a green context's share of the host threads; 0: all of them
  [[nodiscard]] unsigned multiprocessors() const noexcept {
    return cores ? cores : settings().threads;
  }
  std::atomic<unsigned> workers{0};  ///< host threads in its grids now; counted where cores limits

  // -- errors
  // -----------------------------------------------------------------------------------------------------------
  [[nodiscard]] bool is_broken() const noexcept {
    return error_.load(std::memory_order_acquire) != CUDA_SUCCESS;
  }
  [[nodiscard]] CUresult error() const noexcept { return error_.load(std::memory_order_acquire); }
  /// The first error of a kernel stays until the context ends.
  void break_with(CUresult code, std::string report) noexcept;
  /// The same with the exception in flight, and its report if it has one. In a catch block only.
  void break_with_current_exception() noexcept;
  void add_running(GridRun& run);
  void settle(GridRun& run) noexcept;  ///< a grid has ended: keeps its fault, forgets the run

  // -- streams
  // ----------------------------------------------------------------------------------------------------------
  Stream& legacy_stream() const noexcept { return *legacy_; }
  Ref<Stream> per_thread_stream();
  Ref<Stream> create_stream(unsigned stream_flags, int priority);
  void forget_stream(Stream& stream);
  /// Streams made from now on begin behind what `gate` has queued.
  void wait_in_new_streams(const Ref<Stream>& gate);
  std::vector<Ref<Stream>> streams() const;
  std::vector<Ref<Stream>> blocking_streams_with_work() const;
  void synchronize();

  // -- everything else it owns
  // --------------------------------------------------------------------------------------------
  void adopt(ContextResource& resource);
  void disown(ContextResource& resource) noexcept;

  /// Stops running work, frees everything. Afterwards is_live is false.
  void tear_down();
  void activate();  ///< a primary context comes (back) to life

  std::atomic<std::size_t> limits[CU_LIMIT_MAX];
  ContextHeap heap{device.budget, limits[CU_LIMIT_MALLOC_HEAP_SIZE]};
  std::atomic<CUfunc_cache> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::atomic<CUsharedconfig> shared_config{CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE};
  std::mutex peers_mutex;
  std::set<std::uint64_t> peers;  ///< ids of contexts whose memory this one may reach

 private:
  void reset_limits();
  Ref<Stream> new_stream(StreamRole role, unsigned stream_flags, int priority);
  std::atomic<CUresult> error_{CUDA_SUCCESS};
  mutable std::mutex mutex_;
  Stream*
      legacy_;  // not counted: the stream holds the context; released in tear-down of the object
  std::vector<Stream*> streams_;              // every live stream but the legacy one
  std::atomic<std::size_t> stream_count_{0};  // of those, for who need not know more
  std::unordered_map<std::uint64_t, Ref<Stream>> per_thread_;
  std::vector<Ref<Stream>> gates_;  // that new streams wait for, until they are through
  std::set<ContextResource*> resources_;
  // Apart from the rest: the threads that run kernels write here, those that launch them there.
  alignas(64) std::mutex running_mutex_;
  std::vector<GridRun*> running_;
};

/// The calling thread's current context; fails with 201 when there is none, 709 when it is gone, or
/// the sticky error.
Context& current_context();
/// As above, but a broken context is fine: for calls that only look.
Context& current_context_even_broken();
/// The current context or nullptr; no check at all.
Context* peek_context() noexcept;
/// A live context by its number, or nullptr.
Context* find_context(std::uint64_t id);
std::vector<Ref<Context>> live_contexts();

/// A context handle given by the caller; null means the current one where `null_is_current`.
Context& context_of(CUcontext handle);
Context& usable(Context& context);  ///< fails as current_context() does

void push_context(Context& context);
Ref<Context> pop_context();          ///< fails with 201 when the stack is empty
void set_context(Context* context);  ///< replaces the top; null removes it

/// Makes a context current for a scope, for calls that name their context.
class ScopedContext {
 public:
  explicit ScopedContext(Context& context);
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
};

/// The stream a caller's handle means: null, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or a created
/// one. Its context is usable.
Ref<Stream> stream_of(CUstream handle);
Ref<Stream> stream_even_broken(CUstream handle);
Ref<Stream> default_stream();  ///< what a synchronous call uses

/// What the last kernel fault of the process said; empty when there was none.
std::string last_fault_report();

}  // namespace cucpu::driver
