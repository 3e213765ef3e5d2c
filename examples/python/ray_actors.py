"""Ray: actors that own a device each, and pinned memory in the object store.

    CUCORE_CPU_DEVICES=4 python examples/python/ray_actors.py     # four CPU devices, on any machine

Ray assigns a device to every actor with `num_gpus=1`, through CUDA_VISIBLE_DEVICES. Pinned memory goes to the
object store without a staging copy, and every actor on the machine reads it there, in place.
"""

from __future__ import annotations

import os

import numpy as np
from cuda.core import Buffer, Device, LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void powers(const float* in, float* out, int n, int exponent) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    float value = 1;
    for (int k = 0; k < exponent; ++k) value *= in[i];
    out[i] = value;
}
"""


class Worker:
    """Owns a device: its kernel is compiled once."""

    def __init__(self) -> None:
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{self.device.arch}"))
        self.kernel = program.compile("cubin").get_kernel("powers")
        self.pinned = PinnedMemoryResource()

    def uuid(self) -> str:
        return self.device.uuid

    def powers(self, data: Buffer, exponent: int) -> Buffer:
        """The result in pinned memory, which goes to the object store as it is."""
        n = data.size // 4
        here = self.device.allocate(data.size, stream=self.stream)
        here.copy_from(data, stream=self.stream)  # from the object store to the device
        result = self.pinned.allocate(data.size, stream=self.stream)
        launch(
            self.stream, LaunchConfig(grid=(n + 255) // 256, block=256), self.kernel, here, result, np.int32(n),
            np.int32(exponent),
        )  # fmt: skip
        self.stream.sync()
        here.close(self.stream)
        return result


def main(n: int = 1 << 20) -> None:
    try:
        import ray
    except ImportError:
        print("skipped: Ray is not installed")
        return
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    devices = Device.get_all_devices()
    ray.init(
        num_cpus=len(devices),
        num_gpus=len(devices),
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    try:
        actor = ray.remote(num_gpus=1, num_cpus=0)(Worker)
        workers = [actor.remote() for _ in devices]
        assert len(set(ray.get([worker.uuid.remote() for worker in workers]))) == len(devices)

        devices[0].set_current()
        stream = devices[0].create_stream()
        data = PinnedMemoryResource().allocate(4 * n, stream=stream)
        stream.sync()
        values = np.from_dlpack(data).view(np.float32)
        values[:] = np.linspace(0, 1, n, dtype=np.float32)
        stored = ray.put(data)
        answers = [workers[k % len(workers)].powers.remote(stored, k) for k in range(8)]
        for k, answer in enumerate(ray.get(answers)):  # read-only, in the object store's memory
            assert np.allclose(np.frombuffer(answer, np.float32), values**k, atol=1e-5)
        print(f"{len(workers)} actors with a device each computed 8 powers of {n} numbers")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
