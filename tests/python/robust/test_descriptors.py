"""Pickles and descriptors from elsewhere: checked before use, and read without a driver."""

import pickle
import random

import pytest
from cuda.core import (
    Buffer,
    CUDAError,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    Event,
    EventOptions,
    LaunchConfig,
    ObjectCode,
    ProgramOptions,
)
from cuda.core._ipc import IPCBufferDescriptor, IPCEventDescriptor

REFUSED = pytest.mark.promise("A descriptor of the wrong length, kind or content is refused before it is used")


def shared(device, stream):
    pool = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20, ipc_enabled=True))
    return pool, pool.allocate(4096, stream=stream)


@REFUSED
@pytest.mark.parametrize(
    "payload", [b"", b"\0", bytes(63), bytes(65), bytes(4096), "text", None, 3], ids=lambda v: repr(v)[:12]
)
def test_handles_of_the_wrong_length(payload):
    for kind in ("pool", "memory", "other"):
        with pytest.raises((TypeError, ValueError)):
            IPCBufferDescriptor._make(payload, 4096, kind)
    with pytest.raises((TypeError, ValueError)):
        IPCEventDescriptor._make(payload, False)


@REFUSED
@pytest.mark.cpu_only  # a driver that is not ours may trust its own handles
def test_damaged_buffer_handles(device, stream):
    pool, buffer = shared(device, stream)
    good = buffer.ipc_descriptor
    handle = pool.allocation_handle
    mapped = DeviceMemoryResource.from_allocation_handle(device, handle)
    numbers = random.Random(3)
    tampered = [bytes(64), b"\xff" * 64]
    for _ in range(200):
        changed = bytearray(good._payload)
        changed[numbers.randrange(64)] ^= 1 << numbers.randrange(8)
        tampered.append(bytes(changed))
    for payload in tampered:
        for size in (4096, 0, 2**62, 2**63):
            try:
                Buffer.from_ipc_descriptor(mapped, IPCBufferDescriptor._make(payload, size), stream=stream).close()
            except (CUDAError, ValueError, OverflowError, RuntimeError, TypeError) as error:
                assert str(error)
    for size in (-1, -(2**63)):
        with pytest.raises(ValueError):
            IPCBufferDescriptor._make(good._payload, size)
    with pytest.raises((CUDAError, ValueError)):
        Buffer.from_ipc_descriptor(
            mapped, IPCBufferDescriptor._make(good._payload, good.size + (1 << 21)), stream=stream
        )


@REFUSED
@pytest.mark.cpu_only
def test_damaged_event_handles(device):
    event = device.create_event(EventOptions(ipc_enabled=True))
    numbers = random.Random(4)
    for _ in range(100):
        changed = bytearray(event.ipc_descriptor._handle)
        changed[numbers.randrange(64)] ^= 1 << numbers.randrange(8)
        try:
            Event.from_ipc_descriptor(IPCEventDescriptor._make(bytes(changed), False)).close()
        except (CUDAError, RuntimeError, ValueError) as error:
            assert str(error)


@pytest.mark.promise("Unpickling code, options, descriptors and errors touches no driver and needs no device")
def test_pickles_load_without_a_device(child, device, stream, code, tmp_path):
    ptx = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
    things = [
        LaunchConfig(grid=1, block=2),
        ProgramOptions(arch="sm_90"),
        ObjectCode.from_ptx(ptx, name="n"),
        ObjectCode.from_cubin(code),
        CUDAError("text", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        device.create_event(EventOptions(ipc_enabled=True)).ipc_descriptor,
        shared(device, stream)[1].ipc_descriptor,
    ]
    path = tmp_path / "things.pickle"
    path.write_bytes(pickle.dumps(things))
    out = child.ok(
        f"""
        import pickle
        things = pickle.load(open({str(path)!r}, "rb"))
        from cuda.core import _core
        print(len(things), _core.driver_is_loaded(), things[4].code)
        """,
        CUCORE_DEVICE="cpu",
        CUCORE_CPU_LIBRARY="/nowhere/at/all.so",
        CUDA_VISIBLE_DEVICES="",
    )
    assert out == f"{len(things)} False 700\n"


@pytest.mark.promise("An error carries its CUDA code and name as values, and says which call failed")
def test_errors_carry_code_name_and_call(device, stream):
    with pytest.raises(CUDAError) as caught:
        device.allocate(2**60, stream=stream)
    error = caught.value
    assert (error.code, error.name) == (2, "CUDA_ERROR_OUT_OF_MEMORY")
    assert "cuMemAlloc" in str(error) and isinstance(error, MemoryError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.name, str(again)) == (type(error), error.code, error.name, str(error))
