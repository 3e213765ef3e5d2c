# SPDX-License-Identifier: Apache-2.0
"""The interpreter exits while objects of each kind are alive, at each place that can hold one, with a running kernel.

One process per place keeps one object of each kind. CUCORE_LONG=1 tests each pair of object and place in its own process;
CUCORE_LONG_TURNS=n repeats that n times.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("exit_objects.py")
PLACES = (
    "global", "cycle", "module", "thread", "thread local", "atexit", "daemon", "os._exit", "sys.exit in a thread",
)  # fmt: skip
NAMES = re.findall(r'^    "([^"]+)": ', PROGRAM.read_text(), re.MULTILINE)

pytestmark = pytest.mark.promise(
    "The interpreter exits silently with any object alive, wherever it is referenced, and with work still running"
)


def ends_quietly(child, place: str, *names: str) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, place, *names], env=child.environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), f"{place} {names}\n{done.stderr}"


@pytest.mark.parametrize("place", PLACES)
def test_exit_with_one_object_of_each_kind_alive_is_silent(child, place):
    ends_quietly(child, place)


@pytest.mark.skipif(os.environ.get("CUCORE_LONG") != "1", reason="CUCORE_LONG=1 runs the whole matrix")
@pytest.mark.parametrize("name", NAMES)
def test_exit_with_one_object_alive_is_silent(child, name):
    """At every place, with one process per processor in parallel."""
    turns = int(os.environ.get("CUCORE_LONG_TURNS", "1"))
    with ThreadPoolExecutor(os.cpu_count()) as several:
        for end in [several.submit(ends_quietly, child, place, name) for place in PLACES for _ in range(turns)]:
            end.result()


def test_exit_after_an_uncaught_exception_prints_only_its_traceback(child):
    status, _, err = child.run("setup()\nb = device.allocate(64, stream=stream)\nraise KeyError('mine')")
    assert status == 1 and err.rstrip().endswith("KeyError: 'mine'")


def test_exit_without_using_a_device_is_silent(child):
    child.ok("import cuda.core, cuda.bindings.driver, cuda.bindings.runtime", prelude=False)


SLEEPING = """
from cuda.bindings import driver
setup()
began = threading.Event()

def sleep(*_):
    began.set()
    time.sleep(SECONDS)
    print("ended", flush=True)

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(2.5)  # the interpreter is taking its modules apart

sys.modules["slow"] = Slow()  # destroyed with the modules, while other code may still use the globals
"""


@pytest.mark.parametrize("seconds, printed", [(0.5, "ended\n"), (2.0, "")], ids=["half a second", "two seconds"])
@pytest.mark.parametrize(
    "queue",
    [
        "b = device.create_graph_builder().begin_building(); b.callback(sleep); g = b.end_building().complete(); g.launch(stream)",
        "driver.cuLaunchHostFunc(stream.handle, sleep, None)",
        "driver.cuStreamAddCallback(stream.handle, sleep, None, 0)",
    ],
    ids=["graph", "host function", "stream callback"],
)
def test_exit_while_a_callback_sleeps_is_silent(child, queue, seconds, printed):
    """Exit waits a second for a running callback. Python terminates a thread that requests the GIL after shutdown; that
    must not unwind through the driver."""
    status, out, err = child.run(f"{SLEEPING.replace('SECONDS', str(seconds))}\n{queue}\nbegan.wait()")
    assert (status, out, err) == (0, printed, "")


MANY = """
from cuda.bindings import driver
setup()
for _ in range(300):
    driver.cuLaunchHostFunc(stream.handle, lambda *_: None, None)
"""


def test_exit_between_two_callbacks_is_silent(child):
    """A thread of the driver is about to take the GIL when the interpreter finalizes: many processes, few processors."""
    started = [child.start(MANY) for _ in range(4 * os.cpu_count())]
    ends = [(*process.communicate(), process.returncode) for process in started]
    assert ends == [("", "", 0)] * len(ends)


BEGINS_QUICKLY = """
setup()
step = "mad.lo.u32 %r1, %r1, 77, %r2;\\n@%p0 xor.b32 %r2, %r2, %r1;\\nsetp.lt.u32 %p0, %r1, %r2;\\n"
text = ".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k(.param .u64 p) {\\n.reg .b64 %rd<2>; .reg .b32 %r<4>; .reg .pred %p<2>;\\n"
text += "ld.param.u64 %rd1, [p];\\nmov.u32 %r1, %tid.x;\\nmov.u32 %r2, %ctaid.x;\\nsetp.lt.u32 %p0, %r1, %r2;\\n" + step * 1000
text += "st.global.u32 [%rd1], %r2;\\nret;\\n}\\n"
b = device.allocate(4, stream=stream)
kernel = ObjectCode.from_ptx(text.encode()).get_kernel("k")
began = 0
while not began or time.monotonic() - began < HUNDREDTHS / 100:
    launch(stream, LaunchConfig(grid=1000, block=128), kernel, b)
    stream.sync()
    began = began or time.monotonic()
"""


@pytest.mark.cpu_only
@pytest.mark.parametrize("hundredths", (3, 6, 10, 20, 30, 45))
def test_exit_while_optimized_code_is_compiled_is_silent(child, hundredths):
    """LLVM's static variables are destroyed at process exit: compilations must have stopped before."""
    settings = {"CUCORE_CPU_STRICT": "0", "CUCORE_CPU_TIER": "auto", "CUCORE_CPU_CACHE": "0"}
    assert child.run(BEGINS_QUICKLY.replace("HUNDREDTHS", str(hundredths)), **settings) == (0, "", "")
