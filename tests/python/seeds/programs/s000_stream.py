from cuda.core import Device, Stream, StreamOptions

dev = Device()
dev.set_current()
# Create a new stream with default options (non-blocking)
stream = dev.create_stream()
# Create stream with custom options
options = StreamOptions(
    nonblocking=True,  # Does not synchronize with NULL stream
    priority=0,  # Lower number = higher priority
)
stream = dev.create_stream(options=options)
# Stream properties
print(f"Is nonblocking: {stream.is_nonblocking}")
print(f"Priority: {stream.priority}")
print(f"Handle: {stream.handle}")
print(f"Device: {stream.device}")
# Synchronize stream (wait for all work to complete)
stream.sync()
# Wait for an event or another stream
other_stream = dev.create_stream()
stream.wait(other_stream)  # Wait for other_stream's work
# Record an event on the stream
event = stream.record()
# Access default streams
from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM  # noqa: E402

# Create stream from foreign handle (e.g., from CuPy)
from types import SimpleNamespace  # noqa: E402

cupy_stream = SimpleNamespace(ptr=int(other_stream.handle))
foreign_handle = int(cupy_stream.ptr)
stream = Stream.from_handle(foreign_handle)
# Clean up
stream.close()
assert int(LEGACY_DEFAULT_STREAM.handle) == 1 and int(PER_THREAD_DEFAULT_STREAM.handle) == 2
