// What other files already ask for and is not there yet: events between processes.
#include "api/ipc.hpp"
namespace cucpu::driver {
void publish_ipc_record(Event&, Stream&) {}
bool ipc_event_is_over(Event&) { return true; }
void wait_for_ipc_event(Event&) {}
void forget_ipc_event(Event&) noexcept {}
void submit_ipc_wait(Event&, Stream&) {}
}
