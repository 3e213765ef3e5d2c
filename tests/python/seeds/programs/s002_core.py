import cuda.core as cuda

# More Pythonic interface
device = cuda.Device()
print(f"Device: {device.name}")
print(f"Compute capability: {device.compute_capability}")
print(f"Total memory: {device.total_memory / 1e9:.2f} GB")

# Context managers for resource safety
with cuda.Stream() as stream:
    # Operations in this stream
    pass

nbytes = 64
mem_handle = device.allocate(nbytes)
assert mem_handle.size == nbytes
