// cpu/exec/stream.hpp: a stream: operations in order, at most one of them running.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "cpu/base/object.hpp"
#include "cpu/exec/task.hpp"

namespace cucpu::driver {

class Capture;
class GreenContext;

enum class StreamRole { created, legacy, per_thread };

class Stream final : public Handled<Stream, CUstream, Kind::stream>, public Task {
 public:
  Stream(Context& context, StreamRole role, unsigned flags, int priority);
  ~Stream() override;

  /// Queues an operation behind everything queued before, with the implicit waits of the legacy
  /// default stream. Returns its number: the operation is over once completed() has reached it.
  std::uint64_t submit(Ref<Op> op);

  /// Queues a wait for a number of another stream, and remembers it.
  void submit_wait(const Ref<Stream>& stream, std::uint64_t number);
  /// True when what is queued here from now on comes after that number of another stream, because a
  /// wait for it was queued here. Waits of long ago may be forgotten.
  [[nodiscard]] bool comes_after(const Stream& stream, std::uint64_t number) const;

  [[nodiscard]] std::uint64_t submitted() const noexcept {
    return submitted_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t completed() const noexcept {
    return completed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool drained() const noexcept { return completed() >= submitted(); }

  /// For a stream of an object's own, with nothing queued: counts an operation that ends with the
  /// call of end_outside(), wherever that is made.
  std::uint64_t begin_outside() noexcept;
  void end_outside() noexcept { finish_op(); }

  /// Waits in the calling thread: does the work itself when no worker has begun it, looks briefly,
  /// then sleeps.
  void wait(std::uint64_t number);

  /// Arranges for `task` to be posted when `number` is over; false when it already is (and nothing
  /// was arranged).
  bool wake_when(std::uint64_t number, Task& task);

  [[nodiscard]] Context& context() const noexcept override { return *context_; }
  [[nodiscard]] StreamRole role() const noexcept { return role_; }
  [[nodiscard]] unsigned flags() const noexcept { return flags_; }
  [[nodiscard]] bool is_blocking()
      const noexcept;  ///< takes part in the legacy stream's implicit waits
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  void drive() noexcept override;

  std::atomic<CUsynchronizationPolicy> sync_policy{CU_SYNC_POLICY_AUTO};
  Ref<Object> green_context;  ///< the GreenContext it was made from, if any
  std::atomic<Capture*> capture{
      nullptr};  ///< set while operations are recorded instead of run; owned by the capture

  /// Attribute values that only have to be kept. Guarded by attributes_mutex.
  std::mutex attributes_mutex;
  std::vector<std::pair<int, CUlaunchAttributeValue>> attributes;

 private:
  std::uint64_t push(Ref<Op> op);
  void finish_op() noexcept;
  bool take_part(std::uint64_t number);
  void advance(std::uint64_t until) noexcept;

  Ref<Context> context_;
  const StreamRole role_;
  const unsigned flags_;
  const std::uint64_t id_;

  // Written by those that queue work.
  alignas(64) mutable std::mutex mutex_;
  std::deque<Ref<Op>> queue_;
  std::atomic<std::uint64_t> submitted_{0};
  bool active_ = false;            // some thread owns the task, or it is posted
  std::uint64_t legacy_seen_ = 0;  // the legacy stream's number this stream already waits for
  std::condition_variable over_;
  std::vector<std::pair<std::uint64_t, Task*>> waiters_;
  std::atomic<std::int64_t> spin_{
      20'000};  // nanoseconds a waiting host thread looks before it sleeps; see wait()
  std::atomic<std::uint32_t> waiting_{
      0};  // host threads and tasks that want to hear of completions
  struct KnownWait {
    std::uint64_t stream = 0, number = 0;  // the stream's id; 0: none
  };
  std::array<KnownWait, 8> waits_;  // the last ones, for comes_after()
  std::size_t next_wait_ = 0;

  // Written by the owner of the task alone, for every operation: in lines of its own, or it and
  // those that queue would wait for each other's.
  alignas(64) std::deque<Ref<Op>> taken_;  // from the queue, all at once
  bool in_op_ = false;
  std::atomic<std::uint64_t> completed_{0};
};

/// The end of an operation in a stream, as an event keeps it.
class Point : public Object {
 public:
  Ref<Stream> stream;  ///< null: over from the start
  std::uint64_t number = 0;
  std::atomic<std::int64_t> nanoseconds{0};  ///< when it happened, on the steady clock
  [[nodiscard]] bool is_over() const noexcept { return !stream || stream->completed() >= number; }
};

std::int64_t now_ns() noexcept;

/// Waits for a number in another stream.
class WaitOp final : public Op {
 public:
  WaitOp(Ref<Stream> stream, std::uint64_t number) : stream_{std::move(stream)}, number_{number} {}
  Progress run(Task& task) override;

 private:
  Ref<Stream> stream_;
  std::uint64_t number_;
};

}  // namespace cucpu::driver
