from cuda.core import system

# Get number of available devices
num_devices = system.get_num_devices()
print(f"Number of CUDA devices: {num_devices}")
# Get driver version
driver_ver = system.driver_version
print(f"CUDA Driver version: {driver_ver}")
# Access system-level device info (requires cuda-bindings 13.1.2+ or 12.9.6+)
from cuda.core import Device  # noqa: E402

dev = Device(0)
dev.set_current()
# Convert to system device for NVML access
sys_dev = dev.to_system_device()
assert num_devices > 0 and driver_ver[0] >= 12 and sys_dev is not None
