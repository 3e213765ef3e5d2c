# SPDX-License-Identifier: Apache-2.0
"""Pickles and IPC descriptors from other processes are validated before use and unpickled without a driver."""

import multiprocessing
import os
import pickle
import random
import re
import subprocess

import pytest
from cuda.core import (
    Buffer,
    CUDAError,
    Device,
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
def test_handle_of_the_wrong_length_raises(payload):
    for kind in ("pool", "memory", "other"):
        with pytest.raises((TypeError, ValueError)):
            IPCBufferDescriptor._make(payload, 4096, kind)
    with pytest.raises((TypeError, ValueError)):
        IPCEventDescriptor._make(payload, False)


@REFUSED
@pytest.mark.cpu_only  # NVIDIA's driver does not validate its handles
def test_damaged_buffer_handle_raises(device, stream):
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


def open_with_sizes(mr, descriptor, sizes, answer):
    """Runs in another process: opens the same buffer with each size and returns the outcomes."""
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    outcomes = []
    for size in sizes:
        try:
            buffer = Buffer.from_ipc_descriptor(mr, IPCBufferDescriptor._make(descriptor._payload, size), stream=stream)
        except Exception as error:
            outcomes.append(f"{type(error).__name__}: {error}")
        else:
            outcomes.append(buffer.size)
            buffer.close(stream)
    answer.send(outcomes)


@REFUSED
def test_descriptor_with_a_larger_size_raises(device, stream):
    try:
        pool, buffer = shared(device, stream)
    except CUDAError as error:
        if error.code != 801:
            raise
        pytest.skip("this device shares no pools")
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    sizes = [buffer.size + (1 << 26), 2**62, buffer.size, 16, buffer.size]
    process = context.Process(target=open_with_sizes, args=(pool, buffer.ipc_descriptor, sizes, there))
    process.start()
    there.close()
    outcomes = here.recv()  # raises if the other process fails
    process.join()
    for size, outcome in zip(sizes[:2], outcomes, strict=False):
        assert re.fullmatch(
            rf"ValueError: the descriptor says {size} bytes, more than the \d+ that are mapped", outcome
        )
    assert outcomes[2:] == [buffer.size, 16, buffer.size]


# Modules that are imported later may be readable by the first user only.
OTHER_USER = """
import pickle, uuid, multiprocessing.reduction, cuda.core._ipc, cuda.core._memory, cuda.core._sharing; from cuda.bindings import driver; from cuda.core import _core; Device(0).set_current()
os.setgid(65534); os.setuid(65534)
device = Device(0); device.set_current()
pool = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20, ipc_enabled=True))
stream = device.create_stream()
event = stream.record(options=EventOptions(ipc_enabled=True))
plain = driver.cuMemAlloc(4096)[1]
handle, _ = _core.export_memory(int(plain), 4096, None)
pooled = pool.allocate(4096, stream=stream); stream.sync()
"""


@pytest.mark.promise("Handles of processes of another user are refused, and none are given to them")
@pytest.mark.cpu_only  # tests permissions of the operating system; a GPU's driver has its own rules
@pytest.mark.skipif(os.geteuid() != 0, reason="requires root to change the user")
@pytest.mark.parametrize("exporter", ["other user", "self"])
def test_handles_of_another_user_are_rejected(child, tmp_path, exporter):
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    other_user = OTHER_USER.splitlines()
    exports = "\n".join(
        [
            *(other_user if exporter == "other user" else [other_user[1], *other_user[3:]]),
            "print(pickle.dumps((handle, event.ipc_descriptor, int(pool.allocation_handle))).hex(), flush=True)",
            "import sys; sys.stdin.read()",
        ]
    )
    imports = "\n".join(
        [
            *other_user[: 3 if exporter == "self" else 2],
            """
device = Device(0); device.set_current()
handle, descriptor, fd = pickle.loads(bytes.fromhex(os.environ["GIVEN"]))
for attempt in (lambda: _core.open_imported(None, cuda.core._ipc.IPCBufferDescriptor._make(handle, 1, 'memory'), None), lambda: Event.from_ipc_descriptor(descriptor)):
    try:
        attempt()
        print("opened")
    except CUDAError as error:
        print(error.code)
try:
    opened = os.open(f"/proc/{os.environ['OWNER']}/fd/{fd}", os.O_RDWR)
    DeviceMemoryResource.from_allocation_handle(device, opened)
    print("opened")
except PermissionError:
    print("kept by the system")
except CUDAError as error:
    print(error.code)
""",
        ]
    )
    env = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    process = child.start(exports, stdin=subprocess.PIPE, **env)
    try:
        given = process.stdout.readline().strip()
        assert given, process.stderr.read()
        out = child.ok(imports, GIVEN=given, OWNER=str(process.pid), **env)
    finally:
        process.communicate()
    assert process.returncode == 0
    assert out == ("400\n400\nkept by the system\n" if exporter == "self" else "400\n400\n1\n")


@REFUSED
@pytest.mark.cpu_only
def test_damaged_event_handle_raises(device, stream):
    event = stream.record(options=EventOptions(ipc_enabled=True))
    numbers = random.Random(4)
    for _ in range(100):
        changed = bytearray(event.ipc_descriptor._handle)
        changed[numbers.randrange(64)] ^= 1 << numbers.randrange(8)
        try:
            Event.from_ipc_descriptor(IPCEventDescriptor._make(bytes(changed), False)).close()
        except (CUDAError, RuntimeError, ValueError) as error:
            assert str(error)


@pytest.mark.promise("Unpickling code, options, descriptors and errors calls no driver function and needs no device")
def test_unpickling_needs_no_driver_and_no_device(child, device, stream, code, tmp_path):
    ptx = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
    things = [
        LaunchConfig(grid=1, block=2),
        ProgramOptions(arch="sm_90"),
        ObjectCode.from_ptx(ptx, name="n"),
        ObjectCode.from_cubin(code),
        CUDAError("text", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        stream.record(options=EventOptions(ipc_enabled=True)).ipc_descriptor,
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


@pytest.mark.promise("An error has its CUDA code and name as attributes and names the call that failed")
def test_error_has_code_name_and_function(device, stream):
    with pytest.raises(CUDAError) as caught:
        device.allocate(2**60, stream=stream)
    error = caught.value
    assert (error.code, error.name) == (2, "CUDA_ERROR_OUT_OF_MEMORY")
    assert "cuMemAlloc" in str(error) and isinstance(error, MemoryError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.name, str(again)) == (type(error), error.code, error.name, str(error))
