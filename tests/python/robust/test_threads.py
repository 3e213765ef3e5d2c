# SPDX-License-Identifier: Apache-2.0
"""Concurrent threads compile, load, launch, capture, allocate and close."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from cuda.core import Device, LaunchConfig, ObjectCode, Program, ProgramOptions, launch

ONE = LaunchConfig(grid=1, block=1)
PTX = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
.reg .b64 %%rd<2>;
ld.param.u64 %%rd1, [p];
st.global.u32 [%%rd1], %d;
ret;
}
"""


@pytest.mark.promise("Threads can compile, launch, capture and close concurrently")
def test_64_threads_compile_launch_capture_and_close_concurrently(device, code):
    shared_stream = device.create_stream()
    shared_code = ObjectCode.from_cubin(code)
    start = threading.Barrier(64)
    once = {"c++"}  # one thread compiles CUDA C++, which is slow; the others load their own PTX

    def work(n):
        mine = Device(0)
        mine.set_current()
        start.wait()
        stream = mine.create_stream()
        for turn in range(3):
            if n == 7 and once:
                once.clear()
                text = f'extern "C" __global__ void k(int* p) {{ *p += {n + turn}; }}'
                kernel = Program(text, "c++", ProgramOptions(arch=f"sm_{mine.arch}")).compile("cubin").get_kernel("k")
                arguments, expected = (), n + turn
            elif n % 8 == 0:
                kernel, arguments, expected = ObjectCode.from_ptx(PTX % (n + turn)).get_kernel("k"), (), n + turn
            else:
                kernel, arguments, expected = shared_code.get_kernel("add_one"), (1,), 1
            buffer = mine.allocate(4, stream=stream)
            buffer.fill(0, stream=stream)
            if n % 3 == 0:
                builder = stream.create_graph_builder().begin_building(mode="thread_local")
                launch(builder, ONE, kernel, buffer, *arguments)
                builder.callback(lambda: None)
                graph = builder.end_building().complete()
                graph.launch(stream)
                graph.close()
                builder.close()
            else:
                launch(stream, ONE, kernel, buffer, *arguments)
            launch(shared_stream, ONE, shared_code.get_kernel("nothing"))
            event = stream.record()
            shared_stream.wait(event)
            out = bytearray(4)
            buffer.copy_to(out, stream=stream)
            assert int.from_bytes(out, "little") == expected
            buffer.close(stream)
            event.close()
        stream.close()
        return n

    with ThreadPoolExecutor(64) as threads:
        assert sorted(threads.map(work, range(64))) == list(range(64))
    shared_stream.sync()


@pytest.mark.promise("Threads can compile, launch, capture and close concurrently")
def test_use_of_an_object_closed_by_another_thread_raises(device, kernel):
    """Threads that use an object while another closes it get an exception, never a crash."""
    one, nothing = ONE, kernel("nothing")
    for _ in range(20):
        stream = device.create_stream()
        buffer = device.allocate(4096, stream=stream)
        event = stream.record()
        start = threading.Barrier(5)
        wrong = []

        def use(calls, start=start, wrong=wrong):
            Device(0).set_current()
            start.wait()
            for _ in range(30):
                for call in calls:
                    try:
                        call()
                    except RuntimeError:  # closed
                        pass
                    except Exception as error:
                        if getattr(error, "code", None) not in (1, 400):
                            wrong.append(error)

        def close(things, start=start):
            start.wait()
            for thing in things:
                thing.close()

        threads = [
            threading.Thread(target=use, args=([lambda s=stream: launch(s, one, nothing), stream.sync],)),
            threading.Thread(target=use, args=([stream.record, lambda e=event: e.is_done, event.sync],)),
            threading.Thread(target=use, args=([lambda b=buffer, s=stream: b.copy_to(bytearray(4096), stream=s)],)),
            threading.Thread(target=use, args=([lambda b=buffer, s=stream: b.fill(1, stream=s)],)),
            threading.Thread(target=close, args=([event, stream, buffer],)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
    fresh = device.create_stream()
    launch(fresh, one, nothing)
    fresh.sync()


@pytest.mark.promise("Threads can compile, launch, capture and close concurrently")
@pytest.mark.parametrize("wait", ["stream", "event", "device", "copy", "fence"])
def test_waiting_thread_releases_the_gil(device, stream, gate, wait):
    """The thread that ends the wait can get the GIL only from the waiting thread."""
    buffer, out = device.allocate(64, stream=stream), bytearray(64)
    buffer.fill(7, stream=stream)
    shut = gate(stream)
    event, other = stream.record(), device.create_stream()
    other.wait(event)
    calls = {
        "stream": stream.sync,
        "event": event.sync,
        "device": device.sync,
        "copy": lambda: buffer.copy_to(out, stream=stream),
        "fence": other.sync,
    }
    may_open = threading.Lock()
    may_open.acquire()

    def open_it():
        with may_open:
            shut.open()

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=open_it)
    thread.start()
    try:
        sys.setswitchinterval(1000)  # no thread releases the GIL because of the switch interval
        may_open.release()
        calls[wait]()
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    stream.sync()
    if wait == "copy":
        assert out == bytes([7] * 64)
