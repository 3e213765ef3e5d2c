# needs: cupy
from types import SimpleNamespace

import numpy as np
from cuda.core import (
    Buffer,
    Device,
    DeviceMemoryResource,
    LegacyPinnedMemoryResource,
    ManagedMemoryResource,
    PinnedMemoryResource,
)

dev = Device()
dev.set_current()
stream = dev.create_stream()
# Allocate device memory using default memory resource
buf = dev.allocate(size=1024, stream=stream)
print(f"Buffer handle: {buf.handle}")
print(f"Buffer size: {buf.size} bytes")
# Access memory resource directly
device_mr = dev.memory_resource
device_buf = device_mr.allocate(4096, stream=stream)
# Pinned (page-locked) memory - accessible from GPU with zero-copy
pinned_mr = LegacyPinnedMemoryResource()
pinned_buf = pinned_mr.allocate(4096, stream=stream)
# New-style pinned memory with async operations
pinned_mr_new = PinnedMemoryResource()
pinned_buf_new = pinned_mr_new.allocate(4096, stream=stream)
# Managed memory (unified memory) - automatically migrated
managed_mr = ManagedMemoryResource()
managed_buf = managed_mr.allocate(4096, stream=stream)
# Copy data between buffers
src_buf = dev.allocate(1024, stream=stream)
dst_buf = dev.allocate(1024, stream=stream)
src_buf.copy_to(dst_buf, stream=stream)
# Copy from host to device
host_data = np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32)
src_buf.copy_from(host_data, stream=stream)
# Fill buffer with a value
buf.fill(value=0, stream=stream)  # Zero-fill
buf.fill(value=b"\xff", stream=stream)  # Fill with byte pattern
# DLPack interop (NumPy 2.1+, CuPy)
import cupy as cp  # noqa: E402

device_array = cp.from_dlpack(device_buf)
pinned_array = np.from_dlpack(pinned_buf)
assert device_array.size == 4096 and pinned_array.size == 4096
# What was copied and filled is there
check = pinned_mr_new.allocate(1024, stream=stream)
src_buf.copy_to(check, stream=stream)
stream.sync()
assert np.from_dlpack(check).view(np.float32)[:4].tolist() == [1.0, 2.0, 3.0, 4.0]
buf.copy_to(check, stream=stream)
stream.sync()
assert (np.from_dlpack(check).view(np.uint8) == 0xFF).all()
# Create buffer from existing pointer (non-owning)
plain = DeviceMemoryResource(dev)
some_library = SimpleNamespace(get_gpu_pointer=lambda: int(device_buf.handle))
external_ptr = some_library.get_gpu_pointer()
buf = Buffer.from_handle(ptr=external_ptr, size=4096)
# Deallocate (async on stream)
buf.close(stream)
# Context manager for automatic cleanup
with dev.allocate(1024, stream=stream) as buf:
    # Use buffer...
    pass  # Automatically closed
stream.close()
