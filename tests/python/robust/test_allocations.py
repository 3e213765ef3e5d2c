# SPDX-License-Identifier: Apache-2.0
"""Allocations that are too large, have an invalid size, or fail in the operating system."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cuda.bindings import driver, runtime
from cuda.core import (
    CUDAError,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LegacyPinnedMemoryResource,
    ManagedMemoryResource,
    PinnedMemoryResource,
    VirtualMemoryResource,
)

HUGE = [2**40 * 100, 2**47, 2**62, 2**63 - 1, 2**63, 2**64 - 512, 2**64 - 1]

needs_refusals = pytest.mark.skipif(
    "san.so" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer that cannot allocate memory ends the process"
)


def resources(device):
    return {
        "device": device.memory_resource,
        "pool": DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20)),
        "pinned": PinnedMemoryResource(),
        "managed": ManagedMemoryResource(),
        "legacy": LegacyPinnedMemoryResource(),
        "virtual": VirtualMemoryResource(device),
    }


NAMES = ["device", "pool", "pinned", "managed", "legacy", "virtual"]


def works_after(resource, stream):
    buffer = resource.allocate(4096, stream=stream)
    assert buffer.size >= 4096
    buffer.close(stream)


@pytest.mark.promise("An allocation over the limit is error 2, and the next allocation works")
@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("name", NAMES)
def test_allocation_over_the_device_limit_raises_and_the_next_one_works(device, stream, name, size):
    resource = resources(device)[name]
    with pytest.raises((CUDAError, ValueError, OverflowError)) as caught:
        resource.allocate(size, stream=stream)
    if isinstance(caught.value, CUDAError):
        assert caught.value.code in (1, 2) and caught.value.name.startswith("CUDA_ERROR_")
    works_after(resource, stream)


@pytest.mark.promise(
    "Negative or excessive sizes are refused by an error that names them, before anything is allocated"
)
@pytest.mark.parametrize("size", [-1, -(2**63), 2**64, 2**200, 1.5, "1", None, b"1", [1]])
@pytest.mark.parametrize("name", NAMES)
def test_invalid_size_raises_an_error_that_names_it(device, stream, name, size):
    resource = resources(device)[name]
    with pytest.raises((TypeError, ValueError, OverflowError), match="size"):
        resource.allocate(size, stream=stream)
    works_after(resource, stream)


@pytest.mark.promise("An allocation over the limit is error 2, and the next allocation works")
def test_allocation_of_one_byte_over_the_limit_is_out_of_memory(device, stream):
    _, total = (int(n) for n in driver.cuMemGetInfo()[1:])
    error, _ = driver.cuMemAlloc(total + 1)
    assert error == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    error, pointer = driver.cuMemAlloc(4096)
    assert error == 0
    driver.cuMemFree(pointer)


@pytest.mark.cpu_only  # NVIDIA's driver oversubscribes managed memory and does not detect the overflow of a pitch
@pytest.mark.promise("An allocation over the limit is error 2, and the next allocation works")
@pytest.mark.parametrize("size", HUGE)
def test_every_allocating_driver_call_over_the_limit_is_out_of_memory(device, stream, size):
    prop = driver.CUmemAllocationProp()
    prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    array = driver.CUDA_ARRAY_DESCRIPTOR()
    array.Width, array.Height = size % 2**63, size % 2**63
    array.NumChannels, array.Format = 4, driver.CUarray_format.CU_AD_FORMAT_FLOAT
    calls = {
        "cuMemAlloc": lambda: driver.cuMemAlloc(size),
        "cuMemAllocPitch": lambda: driver.cuMemAllocPitch(size, size, 4),
        "cuMemAllocPitch small width": lambda: driver.cuMemAllocPitch(16, size, 4),
        "cuMemAllocHost": lambda: driver.cuMemAllocHost(size),
        "cuMemHostAlloc": lambda: driver.cuMemHostAlloc(size, 0),
        "cuMemAllocManaged": lambda: driver.cuMemAllocManaged(size, 1),
        "cuMemAllocAsync": lambda: driver.cuMemAllocAsync(size, stream.handle),
        "cuMemAddressReserve": lambda: driver.cuMemAddressReserve(size & ~0xFFFFF | 1 << 60, 0, 0, 0),
        "cuMemCreate": lambda: driver.cuMemCreate(size & ~0x1FFFFF, prop, 0),
        "cuArrayCreate": lambda: driver.cuArrayCreate(array),
        "cudaMalloc": lambda: runtime.cudaMalloc(size),
        "cudaMallocHost": lambda: runtime.cudaMallocHost(size),
        "cudaMallocManaged": lambda: runtime.cudaMallocManaged(size, 1),
        "cudaMallocPitch": lambda: runtime.cudaMallocPitch(size, size),
    }
    for name, call in calls.items():
        error, *_ = call()
        assert int(error) in (1, 2), name
    runtime.cudaGetLastError()
    error, pointer = driver.cuMemAlloc(64)
    assert error == 0
    driver.cuMemFree(pointer)


@pytest.mark.cpu_only
@needs_refusals
@pytest.mark.promise("When the operating system refuses memory, the result is error 2, not a crash")
def test_allocation_over_the_process_limit_is_out_of_memory(child):
    out = child.ok(
        """
        import resource
        setup()
        device.allocate(1 << 20, stream=stream).close()
        used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGESIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
        codes = set()
        for make in (device.memory_resource, LegacyPinnedMemoryResource(), ManagedMemoryResource(), PinnedMemoryResource()):
            kept = []
            try:
                for _ in range(1000):
                    kept.append(make.allocate(8 << 20, stream=stream))
                    kept[-1].fill(1, stream=stream)
                    stream.sync()
                    if len(kept) * 8 > 256: break  # pages of a reserved range are not counted against the limit
            except MemoryError as error:
                codes.add(getattr(error, "code", 2))
            except CUDAError as error:
                codes.add(error.code)
            for buffer in kept: buffer.close(stream)
        stream.sync()
        assert codes <= {2}, codes
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        buffer = device.allocate(1 << 20, stream=stream)
        buffer.fill(3, stream=stream)
        stream.sync()
        print("fine")
        """
    )
    assert out == "fine\n"


@pytest.mark.cpu_only
@needs_refusals
@pytest.mark.promise("When the compiler runs out of memory, the result is error 2, and the next load works")
def test_compilation_over_the_process_limit_is_out_of_memory(child):
    out = child.ok(
        r"""
        import ctypes, resource
        from cuda.bindings import driver

        def start():
            global memory
            driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
            memory = int(driver.cuMemAlloc(4096)[1])

        def compile_and_run(number):
            body = " ".join(f"mad.lo.u32 %r1, %r1, %r1, {n}; ld.global.u32 %r2, [%rd0+{4 * n}]; xor.b32 %r1, %r1, %r2;" for n in range(200))
            text = ".version 8.0 .target sm_90 .address_size 64 .visible .entry k(.param .u64 p) { .reg .b32 %r<3>; .reg .b64 %rd<2>;"
            text += f"ld.param.u64 %rd0, [p]; mov.u32 %r1, %tid.x; add.u32 %r1, %r1, {number}; {body} st.global.u32 [%rd0], %r1; ret; }}"
            error, module = driver.cuModuleLoadData(text.encode() + b"\0")
            if error: return int(error)
            error, function = driver.cuModuleGetFunction(module, b"k")
            error, = driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, ((memory,), (ctypes.c_uint64,)), 0)
            ran, = driver.cuCtxSynchronize()
            if ran:  # compiled, but then there was no memory to run it
                assert driver.cuDevicePrimaryCtxReset(0)[0] == 0
                start()
            else:
                driver.cuModuleUnload(module)
            return int(error or ran)

        driver.cuInit(0)
        start()
        assert compile_and_run(0) == 0
        codes = []
        for number, more in enumerate([*range(0, 48 << 20, 2 << 20), 1 << 30]):
            used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGESIZE")
            resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))
            codes.append(compile_and_run(1 + number))
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert compile_and_run(1000 + number) == 0
        assert codes[-1] == 0 and set(codes) <= {0, 2}, codes
        print("fine")
        """,
        CUCORE_CPU_CACHE="0",
    )
    assert out == "fine\n"


@pytest.fixture
def control_group() -> Iterator[tuple[Path, int]]:
    """A control group with a memory limit, for child processes."""
    limit = 1 << 30
    top = Path("/sys/fs/cgroup")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        own = (top / "memory" if controllers else top) / path.lstrip("/")
        for around in (own, own.parent):  # a group that contains processes cannot have child groups
            group = around / f"cucore-test-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            try:
                (group / name).write_text(str(limit))
                yield group, limit
                return
            except OSError:
                continue
            finally:
                group.rmdir()
    pytest.skip("no control group can be made here")


@pytest.mark.cpu_only
@pytest.mark.promise("An allocation over the limit is error 2, and the next allocation works")
def test_allocation_over_the_control_group_limit_is_out_of_memory(child, control_group):
    folder, limit = control_group
    out = child.ok(
        """
        from cuda.bindings import driver
        setup()
        error, free, total = driver.cuMemGetInfo()
        print(int(error), total)
        print(int(driver.cuMemAlloc(total + 1)[0]))
        error, pointer = driver.cuMemAlloc(total // 2)  # there is this much, and it can be used
        driver.cuMemsetD8(pointer, 1, total // 2)
        print(int(error), int(driver.cuMemAlloc(total // 2 + 1)[0]), int(driver.cuCtxSynchronize()[0]))
        print(int(driver.cuMemFree(pointer)[0]), int(driver.cuMemAlloc(total // 2)[0]))
        """,
        prefix=("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(folder)),
        CUCORE_CPU_MEMORY="",
        CUCORE_CPU_DEVICES="1",
    )
    assert out == f"0 {limit}\n2\n0 2 0\n0 0\n"


@pytest.mark.cpu_only
@pytest.mark.promise("An allocation over the limit is error 2, and the next allocation works")
def test_small_allocations_fail_only_when_the_device_is_full(child):
    out = child.ok(
        """
        setup()
        kept = []
        try:
            while True:
                kept.append(device.allocate(1 << 16, stream=stream))
        except MemoryError as error:
            assert error.code == 2 and error.name == "CUDA_ERROR_OUT_OF_MEMORY"
        count = len(kept)
        for buffer in kept: buffer.close(stream)
        stream.sync()
        again = [device.allocate(1 << 16, stream=stream) for _ in range(count)]
        print(count)
        """,
        CUCORE_CPU_MEMORY="32M",
    )
    assert 256 <= int(out) <= 512
