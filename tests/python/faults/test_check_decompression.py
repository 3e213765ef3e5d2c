# SPDX-License-Identifier: Apache-2.0
"""CUCORE_CHECK for cuMemBatchDecompressAsync: races with other streams, uninitialized input, freed memory. Each fault has a silent twin."""

from __future__ import annotations

import pytest
from child import ON_GPU, expect

pytestmark = pytest.mark.skipif(ON_GPU, reason="about the CPU device alone")

# `packed` bytes at `memory` are 256 bytes after decompression, which go to memory + 1024; their number goes to memory + 2048.
PROGRAM = """
    import zlib
    a, b = device.create_stream(), device.create_stream()
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(bytes(range(64)) * 4) + packer.flush()
    def result_of(answer):
        assert int(answer[0]) == 0, answer
        return answer[1] if len(answer) > 1 else None
    memory = int(result_of(driver.cuMemAlloc(4096)))
    kept = int(result_of(driver.cuMemAlloc(4096)))
    result_of(driver.cuMemcpyHtoD(kept, packed, len(packed)))
    def copy(stream, to=memory):
        result_of(driver.cuMemcpyDtoDAsync(to, kept, len(packed), int(stream.handle)))
    def source(first=0, count=None):
        data = packed[first:][:count]
        result_of(driver.cuMemcpyHtoD(memory + first, data, len(data)))
    def decompress(stream=stream, more=0, at=None):
        job = driver.CUmemDecompressParams()
        job.srcNumBytes, job.dstNumBytes = len(packed) + more, 512
        job.src, job.dst, job.dstActBytes = at or memory, memory + 1024, memory + 2048
        job.algo = driver.CUmemDecompressAlgorithm.CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE
        return result_of(driver.cuMemBatchDecompressAsync([job], 1, 0, int(stream.handle)))
    started = []
    def start(body, stream=stream, block=64):
        started.append(kernel(body))
        launch(stream, LaunchConfig(grid=1, block=block), started[-1], ctypes.c_uint64(memory))
    try:
        {}
        stream.sync(), a.sync(), b.sync()
        print("0")
    except CUDAError as error:
        print(int(error.code), str(error))
"""


def finds(code: int, kinds: str, work: str, *parts: str) -> None:
    text = expect(PROGRAM.format(work), f"{code} ", {"CUCORE_CHECK": kinds})
    for part in parts:
        assert part in text, text


def is_silent(kinds: str, work: str) -> None:
    expect(PROGRAM.format(work), "0\n", {"CUCORE_CHECK": kinds})


EVENT = "b.wait(a.record())"
READ = "start('ld.global.u32 %r3, [%rd1+{}]; st.global.u32 [%rd1+3072], %r3;', {}, block={})"
WRITE = "start('st.global.u32 [%rd1+{}], %r2;', {}, block={})"
# Operations of the streams a and b, and the second one on other memory; {0} and {1} are the streams.
PAIRS = {
    "a copy to its input": ("copy(a)", "decompress(b)", "copy(b, memory + 2560)"),
    "its input and a write": ("decompress(a)", WRITE.format(0, "b", 4), WRITE.format(2560, "b", 4)),
    "its output and a read": ("decompress(a)", READ.format(1024, "b", 64), READ.format(0, "b", 4)),
    "a read of its output": (
        READ.format(1024, "a", 64),
        "decompress(b)",
        READ.format(1024, "b", 1).replace("3072", "3584"),
    ),
    "its number of bytes and a read": ("decompress(a)", READ.format(2048, "b", 1), READ.format(2052, "b", 1)),
    "two decompressions": ("decompress(a)", "decompress(b)", READ.format(0, "b", 4)),
}


@pytest.mark.promise("Check mode finds races between operations of different streams")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("name", PAIRS)
def test_decompression_races_with_another_stream_unless_they_are_ordered(name: str) -> None:
    first, second, elsewhere = PAIRS[name]
    setup = "source(); "
    report = "data race", "batch decompression in stream ", "nothing orders the two operations"
    finds(719, "race", f"{setup}{first}; {second}", *report)
    is_silent("race", f"{setup}{first}; {EVENT}; {second}")
    is_silent("race", f"{setup}{first}; {elsewhere}")


@pytest.mark.promise("Check mode finds reads of uninitialized memory")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
def test_decompression_of_uninitialized_input_is_reported() -> None:
    finds(719, "init", "decompress()", "batch decompression: uninitialized read of device memory at 0x")
    finds(719, "init", "source(count=20); decompress()", "uninitialized read", "20 bytes into")
    finds(719, "init", "source(first=1); decompress()", "uninitialized read", "; into the")
    is_silent("all", "source(); decompress()")
    # Bytes after the end of the data are not read.
    is_silent("all", "source(); decompress(more=16)")


@pytest.mark.promise("Check mode finds reads of uninitialized memory")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
def test_output_of_a_decompression_is_initialized() -> None:
    read = "start('ld.global.u32 %r3, [%rd1+{}]; st.global.u32 [%rd1+3072], %r3;', block={})"
    is_silent("all", f"source(); decompress(); {read.format(1024, 64)}")
    is_silent("all", f"source(); decompress(); {read.format(2048, 1)}")
    finds(
        719,
        "init",
        f"source(); decompress(); {read.format(1028, 64)}",
        "uninitialized device memory",
        "thread (63, 0, 0)",
    )
    finds(719, "init", read.format(1024, 64), "uninitialized device memory", "thread (0, 0, 0)")


def test_input_beyond_its_allocation_fails_when_it_is_queued() -> None:
    expect(
        PROGRAM.format("source(); job = decompress(more=1 << 20)")
        .replace("except CUDAError", "except AssertionError")
        .replace("int(error.code), ", ""),
        "CUDA_ERROR_INVALID_VALUE",
        {"CUCORE_CHECK": "memory"},
    )


@pytest.mark.promise("Check mode finds accesses out of bounds, into a neighbouring allocation and after the free")
def test_input_that_is_freed_before_the_decompression_runs_is_reported() -> None:
    """Stream a waits for the host meanwhile."""
    work = """
        flag = int(result_of(driver.cuMemAllocHost(4)))
        ctypes.memset(flag, 0, 4)
        other = int(result_of(driver.cuMemAllocAsync(256, int(b.handle))))
        result_of(driver.cuMemcpyHtoDAsync(other, packed, len(packed), int(b.handle)))
        b.sync()
        result_of(driver.cuStreamWaitValue32(int(a.handle), flag, 1, 0))
        decompress(a, at=other)
        {}
        ctypes.c_int.from_address(flag).value = 1
        a.sync()
    """
    free = "result_of(driver.cuMemFreeAsync(other, int(b.handle))); b.sync()"
    finds(700, "memory", work.format(free), "batch decompression: illegal memory access", "freed")
    is_silent("memory", work.format("pass"))
