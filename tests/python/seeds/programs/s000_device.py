# needs: devices=2
from cuda.core import Device

# Get device by ID (0 is the default)
dev = Device(0)
# Initialize device and set as current
dev.set_current()
# Access device properties
print(f"Device: {dev.name}")
print(f"Compute Capability: {dev.compute_capability}")  # e.g., (9, 0)
print(f"Architecture: sm_{dev.arch}")  # e.g., "sm_90"
print(f"UUID: {dev.uuid}")
print(f"PCI Bus ID: {dev.pci_bus_id}")
# Query device properties
props = dev.properties
print(f"Multiprocessors: {props.multiprocessor_count}")
print(f"Max threads per block: {props.max_threads_per_block}")
print(f"Shared memory per block: {props.max_shared_memory_per_block} bytes")
print(f"Warp size: {props.warp_size}")
print(f"Memory pools supported: {props.memory_pools_supported}")
# Check peer access between devices
dev0 = Device(0)
dev1 = Device(1)
if dev0.can_access_peer(dev1):
    print("P2P access enabled between device 0 and 1")
# Synchronize all operations on device
dev.sync()
# Get all available devices
all_devices = Device.get_all_devices()
for d in all_devices:
    print(f"Device {d.device_id}: {d.name}")

assert props.warp_size == 32 and len(all_devices) >= 2
