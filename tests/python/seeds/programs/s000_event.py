from cuda.core import Device, EventOptions

dev = Device()
dev.set_current()
stream = dev.create_stream()
# Create event with timing enabled
event_opts = EventOptions(
    enable_timing=True,  # Enable timing data collection
    busy_waited_sync=False,  # Use spin-wait vs blocking sync
    ipc_enabled=False,  # Enable inter-process communication
)
event = dev.create_event(options=event_opts)
# Record events for timing
start = stream.record(options=EventOptions(enable_timing=True))
# ... perform GPU operations ...
end = stream.record(options=EventOptions(enable_timing=True))
end.sync()
# Calculate elapsed time (in milliseconds)
elapsed_ms = end - start
print(f"Elapsed time: {elapsed_ms} ms")
# Wait for event to complete
event.sync()
# Check if event completed (non-blocking)
is_done = event.is_done
# Stream waits for event
stream.wait(event)
# IPC events for multi-process communication
ipc_event = stream.record(options=EventOptions(ipc_enabled=True))
descriptor = ipc_event.get_ipc_descriptor()
# Send descriptor to another process...
# Clean up
event.close()
stream.close()
assert elapsed_ms >= 0 and is_done and descriptor is not None
