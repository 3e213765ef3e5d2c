"""Several devices: copy between them, and let a kernel of one read the memory of another.

    CUCORE_CPU_DEVICES=2 python examples/python/peer_copies.py     # two CPU devices, on any machine

With a single device there is no peer to copy to; the example then prints that.
"""

from __future__ import annotations

import numpy as np
from cuda.core import (
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LaunchConfig,
    Program,
    ProgramOptions,
    launch,
)

SOURCE = r"""
extern "C" __global__ void add_from(const int* there, int* here) { here[threadIdx.x] += there[threadIdx.x]; }
"""


def main(n: int = 256) -> None:
    devices = Device.get_all_devices()
    if len(devices) < 2:
        print("one device only: set CUCORE_CPU_DEVICES=2 to see two CPU devices")
        return
    here, there = devices[:2]
    assert here.can_access_peer(there), "these two devices cannot reach each other's memory"

    there.set_current()
    far_stream = there.create_stream()
    pool = DeviceMemoryResource(there, DeviceMemoryResourceOptions())  # a pool of our own: its access rights are ours
    pool.peer_accessible_by = {here}
    far = pool.allocate(4 * n, stream=far_stream)
    far.copy_from(np.arange(n, dtype=np.int32), stream=far_stream)
    ready = far_stream.record()

    here.set_current()
    stream = here.create_stream()
    stream.wait(ready)  # events work across devices
    near = here.allocate(4 * n, stream=stream)
    near.copy_from(far, stream=stream)  # a peer copy
    kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{here.arch}")).compile("cubin").get_kernel("add_from")
    launch(stream, LaunchConfig(grid=1, block=n), kernel, far, near)  # and a peer access

    result = np.empty(n, np.int32)
    near.copy_to(result, stream=stream)
    stream.sync()
    assert np.array_equal(result, 2 * np.arange(n))
    print(f"{here.name} read {4 * n} bytes of device {there.device_id} by a copy and from a kernel")
    near.close(stream)
    far.close(stream)


if __name__ == "__main__":
    main()
