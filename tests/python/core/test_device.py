# SPDX-License-Identifier: Apache-2.0
"""Device: one object per device and thread, its properties and factory methods."""

import pickle
import threading

import pytest
from cuda.core import Context, Device, MemoryResource


def test_device_is_one_object_per_thread(device):
    assert Device(0) is device and Device(device) is device and Device() is device
    seen = []
    thread = threading.Thread(target=lambda: seen.append(Device(0)))
    thread.start()
    thread.join()
    assert seen[0] is not device and seen[0] == device and hash(seen[0]) == hash(device)


def test_derived_device_class_returns_the_same_objects(device):
    class Mine(Device):
        extra = 3

    assert Mine(0) is Device(0) and Mine() is Device() and Mine(device_id=0) is Device(0)
    assert type(Mine(0)) is Device and Device.__new__(Mine, 0) is Device.__new__(Device, 0) is Device(0)
    with pytest.raises(TypeError, match="colour"):
        Mine(colour=1)


def test_constant_properties_return_the_same_object(device):
    for name in ("name", "uuid", "pci_bus_id", "arch", "properties", "compute_capability"):
        assert getattr(device, name) is getattr(device, name)


def test_invalid_device_raises_an_error_that_names_it():
    with pytest.raises(ValueError, match="99"):
        Device(99)
    with pytest.raises(ValueError):
        Device(-1)
    with pytest.raises(TypeError):
        Device("zero")


def test_method_before_set_current_raises_an_error_that_names_the_remedy():
    errors = []

    def work():
        fresh = Device(0)
        for call in (fresh.create_stream, fresh.create_event, fresh.sync):
            try:
                call()
            except RuntimeError as error:
                errors.append(str(error))
        fresh.allocate(16).close()  # memory may be the first object that a program creates
        fresh.create_stream().close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(errors) == 3 and all("set_current()" in text for text in errors)


def test_device_identity_and_architecture_are_consistent(device):
    cc = device.compute_capability
    assert device.arch == f"{cc.major}{cc.minor}" and cc == (cc.major, cc.minor)
    assert device.name and device.total_memory > 0
    assert len(device.uuid) == 36 and device.uuid.count("-") == 4
    assert device.pci_bus_id.count(":") == 2
    assert int(device) == device.device_id == 0
    assert device in Device.get_all_devices()


def test_properties_are_numbers_and_flags(device):
    properties = device.properties
    assert properties is device.properties
    assert properties.warp_size == 32
    assert properties.max_threads_per_block >= 512
    assert properties.unified_addressing is True
    assert properties.compute_capability_major == device.compute_capability.major
    names = [name for name in dir(properties) if not name.startswith("_")]
    assert len(names) >= 140
    assert all(isinstance(getattr(properties, name), (int, bool)) for name in names)


def test_pickled_device_is_the_same_object(device):
    assert pickle.loads(pickle.dumps(device)) is device


def test_set_current_with_a_context_returns_the_previous_one(device):
    context = device.context
    assert isinstance(context, Context) and not context.is_green
    before = device.set_current(context)
    assert before == context
    assert device.set_current() is None


def test_the_memory_resource_can_be_replaced(device):
    original = device.memory_resource
    with pytest.raises(TypeError):
        device.memory_resource = object()

    class Mine(MemoryResource):
        pass

    mine = Mine()
    device.memory_resource = mine
    try:
        assert device.memory_resource is mine
        with pytest.raises(NotImplementedError):
            device.allocate(16, stream=device.default_stream)
    finally:
        device.memory_resource = original


def test_allocation_without_a_stream_uses_the_default_stream(device):
    buffer = device.allocate(1024)
    assert buffer.size == 1024
    buffer.close()


def test_device_can_access_itself_as_peer(device):
    assert device.can_access_peer(device) is True


@pytest.mark.skipif(len(Device.get_all_devices()) < 2, reason="needs two devices")
def test_methods_use_their_device_when_another_is_current():
    first, second = Device(0), Device(1)
    second.set_current()
    first.set_current()
    stream = second.create_stream()
    assert stream.device.device_id == 1
    assert Device().device_id == 0
    event = second.create_event()
    assert event.device.device_id == 1
    assert Device().device_id == 0


def test_sync_waits_for_all_streams(device, stream):
    event = stream.record()
    device.sync()
    assert event.is_done
