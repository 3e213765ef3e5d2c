from cuda import cuda

# Initialize CUDA
(err,) = cuda.cuInit(0)
assert err == cuda.CUresult.CUDA_SUCCESS

# Get device count
err, device_count = cuda.cuDeviceGetCount()
print(f"Found {device_count} CUDA devices")

# Query device properties
err, device = cuda.cuDeviceGet(0)
err, name = cuda.cuDeviceGetName(128, device)
print(f"Device 0: {name.decode()}")
