// SPDX-License-Identifier: Apache-2.0
// Events: points in streams.
#include "cpu/device/event.hpp"

#include "cpu/device/capture.hpp"
#include "cpu/device/ipc.hpp"
#include "cpu/exec/ops.hpp"
#include "cpu/exec/stream_order.hpp"

namespace cucpu::driver {

Event::Event(Context& context, unsigned flags) : flags{flags}, context_{&context} {
  context.adopt(*this);
}
Event::~Event() {
  release_ipc_event(*this);
  context_->disown(*this);
}

Ref<Point> Event::point() const {
  const std::lock_guard lock{mutex_};
  return point_;
}

[[gnu::always_inline]] inline void Event::replace(Ref<Point>& point) {
  const std::lock_guard lock{mutex_};
  std::swap(point_, point);  // the old one is destroyed after the lock is released
  if (!is_captured()) [[likely]]
    return;
  captured_ = nullptr;
  is_captured_ = false;
}

void Event::set_point(Ref<Point> point) { replace(point); }

Ref<Object> Event::captured() const {
  const std::lock_guard lock{mutex_};
  return captured_;
}

void Event::set_captured(Ref<Object> mark) {
  const std::lock_guard lock{mutex_};
  captured_ = std::move(mark);
  is_captured_ = captured_.get() != nullptr;
}

void Event::record(Stream& stream) {
  auto point = make_object<Point>();
  const bool idle = stream.drained() &&
                    (stream.role() == StreamRole::legacy
                         ? context_of(stream).blocking_streams_with_work().empty()
                         : !stream.is_blocking() || context_of(stream).legacy_stream().drained());
  if (idle) {
    // Nothing to wait for: complete at once. set_point() publishes the time.
    point->nanoseconds.store(now_ns(), std::memory_order_relaxed);
  } else {
    point->stream = Ref<Stream>{&stream};
    point->number = stream.submit(make_object<RecordOp>(point));
  }
  replace(point);
  if (operations::are_checked()) [[unlikely]]
    operations::recorded(this, view_of(stream));
  if (flags & CU_EVENT_INTERPROCESS) publish_ipc_record(*this, stream);
}

void Event::wait_in(Stream& stream) {
  if (flags & CU_EVENT_INTERPROCESS) {
    operations::disable();
    if (!ipc_event_is_over(*this)) stream.submit(ipc_wait(*this));
    return;
  }
  const Ref<Point> last = point();
  if (last && operations::are_checked()) [[unlikely]]
    operations::joins_event(stream.id(), this);
  if (last && !last->is_over()) stream.submit_wait(last->stream, last->number);
}

void Event::record_all(Context& context) {
  require_not_capturing(context);
  // A private stream waits for all streams of the context.
  auto all = make_object<Stream>(context, StreamRole::created, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  for (auto& stream : context.streams())
    all->submit(make_object<WaitOp>(stream, stream->submitted()));
  operations::joins_all(all->id());
  record(*all);
}

}  // namespace cucpu::driver
