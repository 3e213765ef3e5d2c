# SPDX-License-Identifier: Apache-2.0
"""Concurrent threads, on Python with and without a GIL."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

import pytest
from cuda.bindings import driver, runtime
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from cuda.core.graph import GraphDefinition
from cuda.core.utils import StridedMemoryView

THREADS = 8


def together(work: Callable[[int], Any]) -> list[Any]:
    """Runs work(0), work(1), ... on separate threads that start together; returns their results in order."""
    answers: list[Any] = [None] * THREADS
    gate = threading.Barrier(THREADS)

    def run(number: int) -> None:
        gate.wait()
        try:
            answers[number] = work(number)
        except BaseException as error:
            answers[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_modules_do_not_enable_the_gil() -> None:
    assert not sys._is_gil_enabled()  # type: ignore[attr-defined]


def test_class_accessed_by_many_threads_is_created_once() -> None:
    names = ["CUDA_MEMCPY3D", "CUgraphNodeParams", "CUdevice_attribute", "CUstream", "CUtensorMap", "CUmemLocation"]
    found = together(lambda _: [(getattr(driver, name), runtime.cudaMemcpyKind) for name in names])
    assert all(row == found[0] for row in found)
    codes = together(lambda _: driver.cuDeviceGetCount()[0])
    assert all(code is codes[0] for code in codes)


def test_threads_launch_allocate_and_close_concurrently(device: Device, kernel: Any) -> None:
    add_one = kernel("add_one")

    def work(number: int) -> int:
        mine = Device(0)
        mine.set_current()
        stream = mine.create_stream()
        total = 0
        for _ in range(20):
            buffer = mine.allocate(4, stream=stream)
            buffer.fill(0, stream=stream)
            for _ in range(number + 1):
                launch(stream, LaunchConfig(grid=1, block=1), add_one, buffer, 1)
            event = stream.record()
            total += int.from_bytes(buffer.copy_to(bytearray(4), stream=stream), "little")
            event.close()
            buffer.close(stream)
        stream.close()
        return total

    assert together(work) == [20 * (number + 1) for number in range(THREADS)]


def test_object_closed_by_many_threads_is_closed_once(device: Device, stream: Any) -> None:
    for _ in range(50):
        buffer, event, other = device.allocate(64, stream=stream), stream.record(), device.create_stream()
        graph = GraphDefinition().instantiate()
        together(lambda _, held=(buffer, event, other, graph): [thing.close() for thing in held])  # type: ignore[misc]
        assert buffer.is_closed and event.is_closed and other.is_closed and graph.is_closed


def test_stream_or_event_closed_by_one_thread_raises_in_others(device: Device, kernel: Any) -> None:
    add_one, one = kernel("add_one"), LaunchConfig(grid=1, block=1)
    target = device.allocate(4, stream=device.default_stream)
    target.fill(0, stream=device.default_stream)
    device.sync()
    graph = GraphDefinition().instantiate()

    def use(number: int, stream: Any, event: Any) -> int:
        """The number of calls that worked before the close."""
        if number == 0:
            event.close()
            stream.close()
            return 0
        Device(0).set_current()
        calls = (
            lambda: launch(stream, one, add_one, target, 1),
            lambda: stream.record(event),
            lambda: stream.wait(event),
            lambda: event.is_done,
            lambda: graph.launch(stream),
            lambda: stream.sync(),
            lambda: (repr(stream), repr(event), stream == stream, hash(event)),
        )
        done = 0
        try:
            for call in calls * 5:
                call()
                done += 1
        except Exception as error:  # whichever of the two was closed first
            assert "closed" in str(error), error
        return done

    for _ in range(40):
        stream = device.create_stream()
        event = stream.record()
        together(lambda number, held=(stream, event): use(number, *held))  # type: ignore[misc]
        assert stream.is_closed and event.is_closed
        device.sync()  # the next stream's kernels use the same memory


def test_view_read_by_many_threads_has_one_shape() -> None:
    np = pytest.importorskip("numpy")
    array = np.zeros((2, 3, 4), np.float32)
    for _ in range(50):
        view = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
        read = together(lambda _, held=view: (held.shape, held.strides, held.ptr, held.__dlpack_device__()))  # type: ignore[misc]
        assert all(row[0] is read[0][0] and row == read[0] for row in read)
        assert read[0] == ((2, 3, 4), (12, 4, 1), array.ctypes.data, (1, 0))


def test_threads_view_arrays_of_all_element_types() -> None:
    np = pytest.importorskip("numpy")
    arrays = [np.zeros((3, 4), kind) for kind in "?bBhHiIlLqQefdFD"]

    def work(number: int) -> list[Any]:
        views = [StridedMemoryView.from_any_interface(array, stream_ptr=-1) for array in arrays * 10]
        return [(view.ptr, view.dtype, view.shape) for view in views]

    expected = [(array.ctypes.data, array.dtype, (3, 4)) for array in arrays * 10]
    assert all(answer == expected for answer in together(work))


def test_threads_compile_and_get_the_same_kernel(device: Device) -> None:
    source = 'extern "C" __global__ void f(int* p) { *p = 1; }'

    def compiled(number: int) -> str:
        code = Program(source + f"// {number}", "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx")
        return repr(code.get_kernel("f"))

    assert together(compiled) == ["<Kernel f>"] * THREADS
    code = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx")
    kernels = together(lambda _: code.get_kernel("f"))
    assert all(kernel == kernels[0] for kernel in kernels)


def test_threads_build_graphs_whose_callbacks_run_while_others_wait(device: Device) -> None:
    def work(number: int) -> int:
        seen: list[int] = []
        Device(0).set_current()
        stream = Device(0).create_stream()
        for _ in range(10):
            definition = GraphDefinition()
            for _ in range(2):
                definition.callback(lambda: seen.append(number))
            graph = definition.instantiate()
            graph.launch(stream)
            stream.sync()
            graph.close()
        return len(seen)

    assert together(work) == [20] * THREADS


def test_structs_and_handles_are_created_and_freed_by_many_threads(device: Device) -> None:
    def work(number: int) -> bool:
        for _ in range(200):
            params = driver.CUgraphNodeParams()
            params.kernel.gridDimX = number
            handle = driver.CUstream(number)
            if params.kernel.gridDimX != number or int(handle) != number:
                return False
        return True

    assert all(together(work))
