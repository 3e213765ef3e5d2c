# SPDX-License-Identifier: Apache-2.0
"""Ray: a real cluster schedules actors on CPU devices and moves buffers through its object store, also when an actor dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions, PinnedMemoryResource

ray = pytest.importorskip("ray", reason="Ray is not installed")
from ray import cloudpickle  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # actors cannot import a test
pytestmark = pytest.mark.cpu_only  # needs several devices
SIZE = 4 << 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUCORE_CPU_DEVICES", "4")
        patch.setenv("CUCORE_CPU_THREADS", "1")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("PYTHONWARNINGS", "ignore")
        ray.init(
            num_cpus=2, num_gpus=4, include_dashboard=False, log_to_driver=False, logging_level="error",
            object_store_memory=200 << 20,
        )  # fmt: skip
        yield
        ray.shutdown()


class Owner:
    """An actor that owns a device."""

    def __init__(self) -> None:
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.kept: dict[str, Any] = {}

    def devices(self) -> list[str]:
        return [device.uuid for device in Device.get_all_devices()]

    def make(self, value: int, size: int = SIZE, pinned: bool = False) -> Any:
        resource = PinnedMemoryResource() if pinned else self.device.memory_resource
        buffer = resource.allocate(size, stream=self.stream)
        buffer.fill(value, stream=self.stream)
        return buffer

    def values(self, buffer: Any) -> set[int]:
        back = bytearray(buffer.size)
        buffer.copy_to(back, stream=self.stream)
        return set(back)

    def fill(self, buffer: Any, value: int) -> None:
        buffer.fill(value, stream=self.stream)
        self.stream.sync()

    def keep(self, name: str, thing: Any) -> bool:
        self.kept[name] = thing
        return bool(memoryview(thing).readonly)

    def in_use(self) -> int:
        self.stream.sync()
        return self.device.memory_resource.attributes.used_mem_current

    def leave(self) -> None:
        os.kill(os.getpid(), 9)


def actors(count: int, **options: Any) -> list[Any]:
    make = ray.remote(num_gpus=1, num_cpus=0, **options)(Owner)
    return [make.remote() for _ in range(count)]


def test_every_actor_owns_a_device(cluster):
    owners = actors(4)
    seen = ray.get([owner.devices.remote() for owner in owners])
    assert all(len(devices) == 1 for devices in seen) and len({devices[0] for devices in seen}) == 4


def test_actor_that_finds_no_free_device_waits(cluster):
    owners = actors(4)
    ray.get([owner.devices.remote() for owner in owners])
    fifth = actors(1)[0].devices.remote()
    assert ray.wait([fifth], timeout=0.5)[0] == []
    gone = ray.get(owners[2].devices.remote())
    ray.kill(owners[2])
    assert ray.get(fifth) == gone


@pytest.mark.parametrize("pinned", [False, True], ids=["device", "pinned"])
def test_buffer_goes_from_actor_to_actor(cluster, pinned):
    first, second = actors(2)
    made = first.make.remote(7, pinned=pinned)
    assert ray.get(second.values.remote(made)) == {7}
    assert ray.get(first.in_use.remote()) == 0  # the store has it, the actor's own is freed


def test_pinned_buffer_is_read_in_the_object_store(cluster, device, stream):
    buffer = PinnedMemoryResource().allocate(SIZE, stream=stream)
    buffer.fill(5, stream=stream)
    stored = ray.put(buffer)
    one, two = ray.get(stored), ray.get(stored)
    assert one.handle == two.handle != buffer.handle  # the store's memory, not copies of it
    assert one.is_device_accessible and memoryview(one).readonly and set(memoryview(one)) == {5}
    there = device.allocate(SIZE, stream=stream)
    there.copy_from(one, stream=stream)
    back = np.empty(SIZE, np.uint8)
    there.copy_to(back, stream=stream)
    assert set(back) == {5}
    assert ray.get(actors(1)[0].keep.remote("it", stored)) is True


def test_shared_buffer_reaches_an_actor_by_reference(cluster, device, stream):
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = pool.allocate(4096, stream=stream)
    buffer.fill(1, stream=stream)
    stream.sync()
    # Only the actor with the same device can open it.
    owners = actors(4)
    uuids = [devices[0] for devices in ray.get([owner.devices.remote() for owner in owners])]
    mine = uuids.index(device.uuid)
    ray.get(owners[mine].fill.remote(buffer, 6))
    back = np.empty(4096, np.uint8)
    buffer.copy_to(back, stream=stream)
    assert set(back) == {6}
    with pytest.raises(Exception, match="does not see"):
        ray.get(owners[mine - 1].fill.remote(buffer, 7))


def test_killed_actor_is_restarted_and_its_device_is_free_again(cluster):
    (owner,) = actors(1, max_restarts=1, max_task_retries=2)
    before = ray.get(owner.devices.remote())
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(owner.leave.options(max_task_retries=0).remote())
    assert ray.get(owner.values.remote(ray.put(ray.get(owner.make.remote(3))))) == {3}
    assert len(ray.get(owner.devices.remote())) == len(before) == 1
    others = actors(3)  # nothing leaks: all four devices are in use again
    assert len({d for o in [owner, *others] for d in ray.get(o.devices.remote())}) == 4
