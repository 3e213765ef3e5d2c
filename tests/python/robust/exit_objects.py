# SPDX-License-Identifier: Apache-2.0
"""Creates one object of each kind while a kernel runs, and keeps it until the interpreter exits.

test_exit.py runs it as a program: `exit_objects.py PLACE [NAME...]` keeps the named objects (default: all) at PLACE and
returns from main.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda.bindings import driver, runtime
from cuda.core import (
    Buffer,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Linker,
    LinkerOptions,
    ManagedMemoryResource,
    ObjectCode,
    PinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)
from cuda.core.graph import GraphDefinition
from cuda.core.utils import InMemoryProgramCache, StridedMemoryView

device = Device(0)
device.set_current()
code = ObjectCode.from_cubin(Path(os.environ["KERNELS"]).read_bytes())
one = LaunchConfig(grid=1, block=1)
busy = device.create_stream()  # a kernel runs on it from here on


def keep_busy() -> None:
    flag = LegacyPinnedMemoryResource().allocate(8)
    ctypes.memset(int(flag.handle), 0, 8)
    if os.environ.get("CUCORE_DEVICE") == "cpu":
        launch(busy, one, code.get_kernel("for_ever"), flag)
    else:  # on a GPU the kernel ends by itself
        launch(busy, one, code.get_kernel("for_a_second"), flag)
    keep_busy.flag = flag  # type: ignore[attr-defined]


PTX = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }\n"


def building() -> Any:
    builder = device.create_graph_builder().begin_building()
    launch(builder, one, code.get_kernel("nothing"))
    return builder


def split() -> Any:
    builder = device.create_graph_builder().begin_building()
    return builder.split(3)


def graph() -> Any:
    built = building().end_building().complete()
    built.launch(busy)
    return built


def definition() -> Any:
    made = GraphDefinition()
    made.launch(one, code.get_kernel("nothing"))
    return made


def host_call(*_: Any) -> None:
    """A host function queued after the kernel, which never ends on the CPU device and may end on a GPU."""
    if os.environ.get("CUCORE_DEVICE") == "cpu":
        print("never", file=sys.stderr)


def callback() -> Any:
    builder = device.create_graph_builder().begin_building()
    builder.callback(host_call)
    built = builder.end_building().complete()
    built.launch(busy)  # waits for the running kernel
    return built


def host_function() -> Any:
    stream = device.create_stream()
    stream.wait(busy)
    driver.cuLaunchHostFunc(stream.handle, host_call, None)
    return stream


def many_callbacks() -> Any:
    """Callbacks that run while the interpreter shuts down."""
    stream = device.create_stream()
    builder = device.create_graph_builder().begin_building()
    for _ in range(100):
        builder.callback(lambda: sum(range(2000)))
    built = builder.end_building().complete()
    for _ in range(20):
        built.launch(stream)
    return stream, built


def linker() -> Any:
    return Linker(ObjectCode.from_ptx(PTX.encode()), options=LinkerOptions(arch=f"sm_{device.arch}"))


def program() -> Any:
    made = Program('extern "C" __global__ void k() {}', "c++", ProgramOptions(arch="sm_90"))
    return made, made.compile("ptx")


def cached() -> Any:
    cache = InMemoryProgramCache()
    return cache, Program('extern "C" __global__ void k() {}', "c++", ProgramOptions(arch="sm_90")).compile(
        "ptx", cache=cache
    )


def waiting() -> Any:
    async def wait() -> None:
        await busy

    return wait()


def coroutine() -> Any:
    made = waiting()
    made.close()
    return made, asyncio.new_event_loop().close()


def view() -> Any:
    buffer = PinnedMemoryResource().allocate(64, stream=busy)
    return StridedMemoryView.from_any_interface(buffer, stream_ptr=-1), memoryview(buffer)


def pool() -> Any:
    resource = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20))
    return resource, resource.allocate(4096, stream=busy)


def foreign() -> Any:
    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, int(busy.handle)

    buffer = device.allocate(64, stream=device.create_stream(Stream()))
    return buffer


def bindings() -> Any:
    _, stream = driver.cuStreamCreate(0)
    _, event = driver.cuEventCreate(0)
    _, memory = runtime.cudaMalloc(64)
    return stream, event, memory


class Owner:
    """Frees memory in a Python __del__ method, at any time during shutdown."""

    def __init__(self) -> None:
        self.stream = device.create_stream()
        self.buffer = device.allocate(64, stream=self.stream)
        self.event = self.stream.record()

    def __del__(self) -> None:
        self.buffer.close(self.stream)
        self.event.close()
        self.stream.close()


MAKERS: dict[str, Callable[[], Any]] = {
    "device": lambda: Device(0),
    "stream": device.create_stream,
    "waiting stream": lambda: (s := device.create_stream()).wait(busy) or s,
    "event": lambda: busy.record(),
    "buffer": lambda: device.allocate(1 << 12, stream=busy),
    "pinned": lambda: PinnedMemoryResource().allocate(64, stream=busy),
    "legacy pinned": lambda: LegacyPinnedMemoryResource().allocate(64),
    "managed": lambda: ManagedMemoryResource().allocate(64, stream=busy),
    "view of memory": lambda: Buffer.from_handle(int(device.allocate(8, stream=busy).handle), 8),
    "pool": pool,
    "program": program,
    "cache": cached,
    "code": lambda: ObjectCode.from_ptx(PTX.encode()),
    "kernel": lambda: ObjectCode.from_ptx(PTX.encode()).get_kernel("k"),
    "linker": linker,
    "building": building,
    "split": split,
    "graph": graph,
    "definition": definition,
    "callback": callback,
    "host function": host_function,
    "many callbacks": many_callbacks,
    "coroutine": coroutine,
    "strided view": view,
    "foreign stream": foreign,
    "bindings": bindings,
    "owner": Owner,
}


WAITING = ("legacy pinned",)  # if freed while Python still runs, it would wait for work that never ends


def use(kept: list[Any]) -> None:
    """An operation that a thread may be executing when the process exits."""
    stream = device.create_stream()
    while True:
        buffer = device.allocate(1 << 12, stream=stream)
        launch(stream, one, code.get_kernel("nothing"))
        buffer.close(stream)
        stream.sync()
        kept.append(stream.record())
        del kept[-1]


def sync_for_ever() -> None:
    Device(0).set_current()
    busy.sync()


def main(place: str, names: list[str]) -> None:
    names = names or list(MAKERS)

    def make() -> list[Any]:
        Device(0).set_current()
        return [MAKERS[name]() for name in names]

    if place == "global":
        globals()["kept"] = make()
    elif place == "cycle":
        circle: list[Any] = make()
        circle.append(circle)
    elif place == "module":
        sys.modules["kept_by_a_module"] = make()  # type: ignore[assignment]
    elif place == "thread":
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(make()))
        thread.start()
        thread.join()
        globals()["kept"] = found
    elif place == "thread local":
        local = threading.local()
        names = [name for name in names if name not in WAITING]

        def run() -> None:
            local.kept = make()
            time.sleep(0.2)

        threading.Thread(target=run).start()  # Python joins this thread at shutdown
        globals()["kept"] = local
    elif place == "atexit":
        names = [name for name in names if name not in WAITING]
        globals()["kept"] = make()

        @atexit.register
        def at_end() -> None:
            del globals()["kept"]
            globals()["kept"] = make()

    elif place == "daemon":
        globals()["kept"] = make()
        for target in (lambda: use([]), lambda: use([]), sync_for_ever):
            threading.Thread(target=target, daemon=True).start()
        time.sleep(0.1)
    elif place == "os._exit":
        globals()["kept"] = make()
        os._exit(0)
    elif place == "sys.exit in a thread":
        globals()["kept"] = make()
        threading.Thread(target=sys.exit).start()
    else:
        raise SystemExit(f"no such place: {place}")


if __name__ == "__main__":
    keep_busy()
    main(sys.argv[1], sys.argv[2:])
