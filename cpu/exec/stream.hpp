// SPDX-License-Identifier: Apache-2.0
// cpu/exec/stream.hpp: a stream: a queue of operations that run in order, one at a time.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "cpu/base/object.hpp"
#include "cpu/exec/op_trace.hpp"
#include "cpu/exec/task.hpp"

namespace cucpu::driver {

class Capture;

enum class StreamRole { created, legacy, per_thread };

class Stream final : public Handled<Stream, CUstream, Kind::stream>, public Task {
 public:
  Stream(ExecutionContext& context, StreamRole role, unsigned flags, int priority);
  ~Stream() override;

  /// Queues an operation after all queued before, with the implicit waits of the legacy default
  /// stream. Returns its number: the operation is complete once completed() has reached it.
  std::uint64_t submit(Ref<Op> op);

  /// Queues a wait for a number of another stream and records it for comes_after().
  void submit_wait(const Ref<Stream>& stream, std::uint64_t number);
  /// True when work queued here from now on runs after that number of another stream, because a
  /// wait for it was queued here. Only the last waits are known.
  [[nodiscard]] bool comes_after(const Stream& stream, std::uint64_t number) const;

  [[nodiscard]] std::uint64_t submitted() const noexcept {
    return submitted_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t completed() const noexcept {
    return completed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool drained() const noexcept { return completed() >= submitted(); }

  /// For a private stream with an empty queue: counts an operation that completes with
  /// end_external(), called on any thread.
  std::uint64_t begin_external() noexcept;
  void end_external() noexcept { finish_op(); }

  /// Blocks the calling thread: it runs work that no worker has started, then spins, then sleeps.
  void wait(std::uint64_t number);

  /// Posts `task` when `number` completes; false when it is complete already (nothing is posted).
  bool wake_when(std::uint64_t number, Task& task);

  [[nodiscard]] ExecutionContext& context() const noexcept override { return *context_; }
  [[nodiscard]] StreamRole role() const noexcept { return role_; }
  [[nodiscard]] unsigned flags() const noexcept { return flags_; }
  /// Whether it takes part in the legacy stream's implicit waits.
  [[nodiscard]] bool is_blocking() const noexcept {
    return role_ != StreamRole::legacy && !(flags_ & CU_STREAM_NON_BLOCKING);
  }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  void drive() noexcept override;
  [[nodiscard]] trace::Track track() const noexcept override { return trace::stream_track(id_); }

  std::atomic<CUsynchronizationPolicy> sync_policy{CU_SYNC_POLICY_AUTO};
  Ref<Object> green_context;  ///< the GreenContext it was made from, if any
  std::atomic<Capture*> capture{
      nullptr};  ///< not null while operations are captured instead of run; owned by the capture

  /// Attribute values that have no effect here. Guarded by attributes_mutex.
  std::mutex attributes_mutex;
  std::vector<std::pair<int, CUlaunchAttributeValue>> attributes;

 private:
  std::uint64_t push(Ref<Op> op);
  void finish_op() noexcept;
  bool participate(std::uint64_t number);
  void advance(std::uint64_t until) noexcept;

  Ref<ExecutionContext> context_;
  const StreamRole role_;
  const unsigned flags_;
  const std::uint64_t id_;

  // Written by threads that queue work.
  alignas(64) mutable std::mutex mutex_;
  std::deque<Ref<Op>> queue_;
  std::atomic<std::uint64_t> submitted_{0};
  bool active_ = false;  // a thread owns the task, or it is posted
  std::uint64_t legacy_seen_ =
      0;  // the number of the legacy stream that this stream waits for already
  std::condition_variable over_;
  std::vector<std::pair<std::uint64_t, Task*>> waiters_;
  std::atomic<std::int64_t> spin_{
      20'000};  // nanoseconds that a waiting host thread spins; see wait()
  std::atomic<std::uint32_t> waiting_{0};   // host threads and tasks that wait for completions
  std::atomic<std::int64_t> posted_at_{0};  // when a worker was last asked to run this stream
  struct KnownWait {
    std::uint64_t stream = 0, number = 0;  // the stream's id; 0: none
  };
  std::array<KnownWait, 8> waits_;  // the most recent waits, for comes_after()
  std::size_t next_wait_ = 0;

  // Written by the owner of the task for every operation. On its own cache line to avoid false
  // sharing with threads that queue work.
  alignas(64) std::deque<Ref<Op>> taken_;  // operations swapped out of the queue
  bool in_op_ = false;
  std::atomic<std::uint64_t> completed_{0};
  OpTrace trace_;
};

/// The completion of an operation in a stream, as an event stores it.
class Point : public Object {
 public:
  Ref<Stream> stream;  ///< null: complete from the start
  std::uint64_t number = 0;
  std::atomic<std::int64_t> nanoseconds{0};  ///< time of the completion on the steady clock
  [[nodiscard]] bool is_over() const noexcept { return !stream || stream->completed() >= number; }
};

std::int64_t now_ns() noexcept;

/// Waits for a number in another stream.
class WaitOp final : public Op {
 public:
  WaitOp(Ref<Stream> stream, std::uint64_t number) : stream_{std::move(stream)}, number_{number} {}
  Progress run(Task& task) override;
  [[nodiscard]] trace::Label label() const override {
    return {"wait", "wait for stream " + std::to_string(stream_->id())};
  }

 private:
  Ref<Stream> stream_;
  std::uint64_t number_;
};

}  // namespace cucpu::driver
