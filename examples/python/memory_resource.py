"""A custom memory resource that counts allocations and becomes the default of a device."""

from __future__ import annotations

from typing import Any

from cuda.core import Buffer, Device, DeviceMemoryResource, MemoryResource


class Counting(MemoryResource):
    """Allocates from another resource and counts the allocations."""

    def __init__(self, upstream: MemoryResource) -> None:
        self.upstream = upstream
        self.live: dict[int, int] = {}
        self.peak = 0

    def allocate(self, size: int, *, stream: Any) -> Buffer:
        memory = self.upstream.allocate(size, stream=stream)
        self.live[int(memory.handle)] = size
        self.peak = max(self.peak, sum(self.live.values()))
        # A buffer that comes back to *this* resource; until then it keeps the upstream's alive.
        self._held = {**getattr(self, "_held", {}), int(memory.handle): memory}
        return Buffer.from_handle(int(memory.handle), size, mr=self, stream=stream)

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        del self.live[int(ptr)]
        self._held.pop(int(ptr)).close(stream)

    @property
    def is_device_accessible(self) -> bool:
        return self.upstream.is_device_accessible

    @property
    def is_host_accessible(self) -> bool:
        return self.upstream.is_host_accessible

    @property
    def device_id(self) -> int:
        return self.upstream.device_id


def main() -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    counting = Counting(DeviceMemoryResource(device))
    usual, device.memory_resource = device.memory_resource, counting  # Device.allocate uses it from here
    try:
        kept = device.allocate(1000, stream=stream)
        with device.allocate(5000, stream=stream) as passing:
            passing.fill(0, stream=stream)
        assert kept.memory_resource is counting
        assert list(counting.live.values()) == [1000] and counting.peak == 6000
        kept.close(stream)
        assert not counting.live
    finally:
        device.memory_resource = usual
    stream.sync()
    print(f"{device.name}: at most {counting.peak} bytes in use, none left")


if __name__ == "__main__":
    main()
