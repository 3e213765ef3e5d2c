// cpu/api/ipc.hpp: events that other processes see. Memory that they see is in ipc.cpp alone.
#pragma once

#include "api/event.hpp"

namespace cucpu::driver {

void publish_ipc_record(Event& event, Stream& stream);
[[nodiscard]] bool ipc_event_is_over(Event& event);
void wait_for_ipc_event(Event& event);
void forget_ipc_event(Event& event) noexcept;
/// Queues a wait for the event's last record, wherever it was made.
void submit_ipc_wait(Event& event, Stream& stream);

}  // namespace cucpu::driver
