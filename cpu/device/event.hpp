// SPDX-License-Identifier: Apache-2.0
// cpu/device/event.hpp: events: the last recorded point in a stream.
#pragma once

#include <atomic>
#include <mutex>

#include "cpu/device/context.hpp"

namespace cucpu::driver {

class CaptureMark;

class Event final : public Handled<Event, CUevent, Kind::event>, public ContextResource {
 public:
  Event(Context& context, unsigned flags);
  ~Event() override;
  void on_context_destroyed() noexcept override { retire(); }

  const unsigned flags;
  [[nodiscard]] bool has_timing() const noexcept { return !(flags & CU_EVENT_DISABLE_TIMING); }
  [[nodiscard]] Context& context() const noexcept { return *context_; }

  [[nodiscard]] Ref<Point> point() const;  ///< null when never recorded
  void set_point(Ref<Point> point);

  /// Not null when the last record was captured: the graph nodes that it stands for. A record
  /// outside of a capture clears it.
  [[nodiscard]] Ref<Object> captured() const;
  [[nodiscard]] bool is_captured() const noexcept {
    return is_captured_.load(std::memory_order_acquire);
  }
  void set_captured(Ref<Object> mark);

  /// Records in a stream that is not capturing; also for other processes.
  void record(Stream& stream);
  /// Queues a wait for the last record unless that is complete.
  void wait_in(Stream& stream);
  /// Records the work queued in all streams of a context.
  void record_all(Context& context);

 private:
  void replace(Ref<Point>& point);  // swaps them

  Ref<Context> context_;
  mutable std::mutex mutex_;
  Ref<Point> point_;
  Ref<Object> captured_;
  std::atomic<bool> is_captured_{false};  // captured_ is not null; read without the lock
};

}  // namespace cucpu::driver
