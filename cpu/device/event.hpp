// cpu/device/event.hpp: an event: the last point somebody recorded with it.
#pragma once

#include <mutex>

#include "cpu/device/context.hpp"

namespace cucpu::driver {

class CaptureMark;

class Event final : public Handled<Event, CUevent, Kind::event>, public ContextResource {
 public:
  Event(Context& context, unsigned flags);
  ~Event() override;
  void context_gone() noexcept override { retire(); }

  const unsigned flags;
  [[nodiscard]] bool has_timing() const noexcept { return !(flags & CU_EVENT_DISABLE_TIMING); }
  [[nodiscard]] Context& context() const noexcept { return *context_; }

  [[nodiscard]] Ref<Point> point() const;  ///< null when never recorded
  void set_point(Ref<Point> point);

  /// Set while the last record was captured: the graph nodes it stands for. A real record clears
  /// it.
  [[nodiscard]] Ref<Object> captured() const;
  void set_captured(Ref<Object> mark);

  /// Records in a stream that is not capturing; other processes hear of it.
  void record(Stream& stream);
  /// Queues a wait for the last record, if that is not over.
  void wait_in(Stream& stream);
  /// Records what all streams of a context have queued.
  void record_all(Context& context);

 private:
  Ref<Context> context_;
  mutable std::mutex mutex_;
  Ref<Point> point_;
  Ref<Object> captured_;
};

}  // namespace cucpu::driver
