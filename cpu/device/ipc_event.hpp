// cpu/device/ipc_event.hpp: events that other processes see. Memory that they see is in ipc.cpp
// alone.
#pragma once

#include <functional>

#include "cpu/device/event.hpp"

namespace cucpu::driver {

/// A record begins; the answer ends it.
std::function<void()> begin_ipc_record(Event& event);
void publish_ipc_record(Event& event, Stream& stream);
[[nodiscard]] bool ipc_event_is_over(Event& event);
void wait_for_ipc_event(Event& event);
void forget_ipc_event(Event& event) noexcept;
/// Waits for the event's last record, wherever it was made.
Ref<Op> ipc_wait(Event& event);

}  // namespace cucpu::driver
