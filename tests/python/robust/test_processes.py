# SPDX-License-Identifier: Apache-2.0
"""Processes started with fork, spawn and forkserver; signals."""

import shutil
import signal
import subprocess
import sys
import time

import pytest

FORK = pytest.mark.promise(
    "A forked child gets an error that names spawn and can exit normally; the parent is unaffected"
)


@FORK
def test_fork_during_launches_raises_in_the_child_and_leaves_the_parent_usable(child):
    out = child.ok(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python says what this test is about
        setup()
        one, k = LaunchConfig(grid=1, block=1), code.get_kernel("add_one")
        b = device.allocate(4, stream=stream); b.fill(0, stream=stream)
        kept = [device.allocate(64, stream=stream), stream.record(), device.create_stream(),
                LegacyPinnedMemoryResource().allocate(64), stream.create_graph_builder()]
        threading.Thread(target=lambda: [launch(stream, one, k, b, 1) for _ in range(500)]).start()
        for i in range(8):
            pid = os.fork()
            if pid == 0:
                try:
                    launch(stream, one, k, b, 1)
                    stream.sync()
                except CUDAError as error:
                    ok = error.code == 3 and "spawn" in str(error)
                else:
                    ok = False
                try: Device(0).allocate(8)
                except Exception: pass
                kept.clear(); gc.collect()
                if i % 2: os._exit(0 if ok else 1)
                sys.exit(0 if ok else 1)  # the way of a program that ends by itself
            assert os.waitpid(pid, 0)[1] == 0
        stream.sync()
        launch(stream, one, k, b, 1); stream.sync()
        print("parent fine")
        """
    )
    assert out.endswith("parent fine\n")


@FORK
def test_fork_before_the_first_use_works_in_both_processes(child):
    child.ok(
        """
        pid = os.fork()
        setup()
        launch(stream, LaunchConfig(grid=1, block=1), code.get_kernel("nothing")); stream.sync()
        if pid: assert os.waitpid(pid, 0)[1] == 0
        """
    )


# Its exit handler waits for a thread that exists in the parent only, as a driver's may.
DRIVER_S_END = """
#include <unistd.h>
static pid_t first;
__attribute__((constructor)) static void begin(void) { first = getpid(); }
__attribute__((destructor)) static void end(void) { if (getpid() != first) pause(); }
"""


@FORK
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_forked_child_exits_without_the_exit_handlers_of_the_driver(child, tmp_path):
    source, library = tmp_path / "end.c", tmp_path / "end.so"
    source.write_text(DRIVER_S_END)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    out = child.ok(
        """
        import warnings
        warnings.simplefilter("ignore")  # from 3.12 on one of threads and fork
        setup()
        pid = os.fork()
        if pid == 0:
            print("bye")
            sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        """,
        LD_PRELOAD=str(library),
    )
    assert out == "bye\n"


@pytest.mark.promise("Processes started by spawn and forkserver work like the first one")
def test_spawn_and_forkserver_processes_work(cubin, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import multiprocessing, sys
from pathlib import Path
from cuda.core import Device, LaunchConfig, ObjectCode, launch
CODE = Path(sys.argv[1]).read_bytes()
def work(n):
    device = Device(0); device.set_current(); stream = device.create_stream()
    kernel = ObjectCode.from_cubin(CODE).get_kernel("add_one")
    b = device.allocate(4, stream=stream); b.fill(0, stream=stream)
    for _ in range(n): launch(stream, LaunchConfig(grid=1, block=1), kernel, b, 1)
    out = bytearray(4); b.copy_to(out, stream=stream)
    return int.from_bytes(out, "little")
if __name__ == "__main__":
    assert work(3) == 3
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(work, [5, 7]) == [5, 7]
    assert work(3) == 3
"""
    )
    done = subprocess.run([sys.executable, program, cubin], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


WAITS = {
    "stream sync": "stream.sync()",
    "device sync": "device.sync()",
    "event sync": "stream.record().sync()",
    "copy back": "device.allocate(64, stream=stream).copy_to(bytearray(64), stream=stream)",
}


@pytest.mark.promise("Ctrl-C interrupts waits, and all objects stay usable")
@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_interrupts_a_wait_and_everything_stays_usable(child, wait):
    process = child.start(
        f"""
        import ctypes, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        setup()
        flag = LegacyPinnedMemoryResource().allocate(4)
        word = ctypes.c_int.from_address(int(flag.handle)); word.value = 0
        launch(stream, LaunchConfig(grid=1, block=1), code.get_kernel("wait_for"), flag)
        try:
            print("waiting", flush=True)
            {WAITS[wait]}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        word.value = 1  # the kernel was not harmed: it can still end
        stream.sync()
        b = device.allocate(4, stream=stream); b.fill(0, stream=stream)
        launch(stream, LaunchConfig(grid=1, block=1), code.get_kernel("add_one"), b, 1)
        out = bytearray(4); b.copy_to(out, stream=stream)
        print(out[0])
        """
    )
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.3)  # the wait has probably begun: an uninterruptible wait would hang here
    process.send_signal(signal.SIGINT)
    said = process.stdout.readline()
    out, err = process.stdout.read(), process.stderr.read()
    process.wait()
    assert (process.returncode, said, out, err) == (0, "interrupted\n", "1\n", "")


@pytest.mark.promise("Ctrl-C interrupts waits, and all objects stay usable")
def test_ctrl_c_during_a_compilation_is_raised_after_it(child):
    """The interrupt is raised when the compilation ends; the next compilation works."""
    process = child.start(
        """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        setup()
        n = 0
        try:
            print("compiling", flush=True)
            while True:
                n += 1
                Program(f'extern "C" __global__ void k{n}(int* p) {{ *p = {n}; }}', "c++", ProgramOptions(arch="sm_90")).compile("ptx")
        except KeyboardInterrupt:
            pass
        Program('extern "C" __global__ void k() {}', "c++", ProgramOptions(arch="sm_90")).compile("ptx")
        print("fine")
        """
    )
    assert process.stdout.readline() == "compiling\n"
    process.send_signal(signal.SIGINT)
    out, err = process.stdout.read(), process.stderr.read()
    process.wait()
    assert (process.returncode, out, err) == (0, "fine\n", "")
