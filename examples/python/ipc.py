"""Two processes work on one buffer: memory and an event are shared, no bytes are sent.

The parent fills a buffer and records an event; the child waits for the event, doubles the numbers and answers.
Processes are started with "spawn": a CUDA context does not survive fork.
"""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
from cuda.core import (
    Buffer,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    Event,
    EventOptions,
    LaunchConfig,
    Program,
    ProgramOptions,
    launch,
)

SOURCE = r"""
extern "C" __global__ void twice(int* data) { data[threadIdx.x] *= 2; }
"""
N = 64


def child(pipe: Any) -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    buffer, descriptor = pipe.recv()  # the memory resource comes along with its buffer
    stream.wait(Event.from_ipc_descriptor(descriptor))  # the parent's stream, seen from here
    kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("twice")
    launch(stream, LaunchConfig(grid=1, block=N), kernel, buffer)
    stream.sync()
    assert isinstance(buffer, Buffer) and buffer.is_mapped
    buffer.close(stream)
    pipe.send("done")


def main() -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = pool.allocate(4 * N, stream=stream)
    buffer.copy_from(np.arange(N, dtype=np.int32), stream=stream)
    ready = stream.record(options=EventOptions(ipc_enabled=True))

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=child, args=(there,))
    process.start()
    here.send((buffer, ready.ipc_descriptor))
    answer = here.recv()
    process.join()
    assert (answer, process.exitcode) == ("done", 0)

    result = np.empty(N, np.int32)
    buffer.copy_to(result, stream=stream)
    stream.sync()
    assert np.array_equal(result, 2 * np.arange(N))
    print(
        f"{device.name}: process {process.pid} doubled {N} numbers of process {multiprocessing.current_process().pid}"
    )
    buffer.close(stream)


if __name__ == "__main__":
    main()
