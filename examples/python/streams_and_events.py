"""Two streams work at the same time, one waits for the other, and events measure it. Uses no NumPy."""

import asyncio

from cuda.core import Device, EventOptions, PinnedMemoryResource

SIZE = 1 << 20


async def main() -> None:
    device = Device()
    device.set_current()
    first, second = device.create_stream(), device.create_stream()
    timed = EventOptions(timing_enabled=True)

    start = first.record(options=timed)
    a = device.allocate(SIZE, stream=first)
    b = device.allocate(SIZE, stream=second)
    a.fill(b"\1\2\3\4", stream=first)
    b.fill(0, stream=second)
    second.wait(first)  # b is filled from a only after a is ready
    b.copy_from(a, stream=second)
    end = second.record(options=timed)

    host = PinnedMemoryResource().allocate(SIZE, stream=second)
    b.copy_to(host, stream=second)
    await second  # other tasks run meanwhile
    assert bytes(memoryview(host)[:8]) == b"\1\2\3\4\1\2\3\4"
    print(f"{device.name}: filled and copied {SIZE >> 20} MiB in {end - start:.3f} ms")
    for buffer in (a, b, host):
        buffer.close()


if __name__ == "__main__":
    asyncio.run(main())
