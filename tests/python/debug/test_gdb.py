# SPDX-License-Identifier: Apache-2.0
"""Kernels under GDB: breakpoints, variables, steps, and the commands of the extension."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import cucore
import gdb_session as session
import pytest

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device alone"),
]

PROGRAM = Path(__file__).parent / "program.py"
LINES = (Path(__file__).parent / "kernel.cu").read_text().splitlines()
RESULT = "result 10.5 19.5 1043.5"

Debug = Callable[..., list[str]]


def line(text: str) -> int:
    """The number of the line of kernel.cu that has this text."""
    (found,) = [number for number, content in enumerate(LINES, 1) if text in content]
    return found


@pytest.fixture(scope="module", autouse=True)
def tracing() -> None:
    if not session.can_trace():
        pytest.skip("this system does not let a debugger start a program")


@pytest.fixture
def debug(tmp_path: Path) -> Debug:
    def run(*commands: str, arguments: Sequence[str] = (), before: Sequence[str] = (), **environment: str) -> list[str]:
        return session.run(PROGRAM, commands, folder=tmp_path, arguments=arguments, before=before, **environment)

    return run


@pytest.mark.promise("GDB stops in kernels, shows their source and variables, and steps through them")
def test_breakpoint_shows_source_arguments_locals_and_shared_memory(debug: Debug) -> None:
    place = line("tile[threadIdx.x] = v")
    out = debug(
        f"break kernel.cu:{place}",
        "run",
        "info args",
        "info locals",
        "print p.tag[1]",
        "print threadIdx",
        "print blockDim.x",
        "print mode",
        "print local",
        "print dynamic[0]",
        "print counter",
        "print table",
        "print x[i + 3]",
        "ptype tile",
    )
    assert f"kernel.cu:{place}" in out[1] and "tile[threadIdx.x] = v + p.x;" in out[1]
    assert "n = 96" in out[2] and "a = 2" in out[2] and "tag = {7, 8, 9}" in out[2]
    assert "i = 0" in out[3] and "v = 4" in out[3]  # 2 * (2 * 0 + 1) + 2
    values = [text.partition(" = ")[2] for text in out[4:13]]
    assert values == ["8", "{x = 0, y = 0, z = 0}", "32", "kMul", "{1, 2, 2}", "0", "0", "{1, 2, 3, 4}", "3"]
    assert out[13] == "type = float [32]"


def test_step_enters_functions_and_backtrace_shows_the_callers(debug: Debug) -> None:
    out = debug(
        f"break kernel.cu:{line('float v = scale')}", "run", "step", "backtrace", "print s", "up", "print i", "finish"
    )
    assert f"kernel.cu:{line('float r = v * s')}" in out[2]
    frames = [re.sub(r"^#\d+ +(0x\S+ in )?", "", text) for text in out[3].splitlines()]
    assert [frame.split("(")[0].split()[0] for frame in frames] == ["scale", "saxpy"]
    assert out[4].endswith("= 2") and out[6].endswith("= 0")


def test_backtrace_ends_at_the_kernel_where_the_library_is_stripped(debug: Debug, tmp_path: Path) -> None:
    """As in a wheel: the functions of the device that call the kernel have no names."""
    if (strip := shutil.which("strip")) is None:
        pytest.skip("needs strip")
    stripped = tmp_path / "libcucore_cpu.so"
    subprocess.run([strip, "-o", stripped, cucore.LIBRARY_FOLDER / "libcucore_cpu.so"], check=True)
    out = debug(f"break kernel.cu:{line('float r = v * s')}", "run", "backtrace", CUCORE_CPU_LIBRARY=str(stripped))
    frames = [re.sub(r"^#\d+ +(0x\S+ in )?", "", text) for text in out[2].splitlines()]
    assert [frame.split("(")[0].split()[0] for frame in frames] == ["scale", "saxpy"], out[2]


def test_inlined_function_has_a_frame_of_its_own(debug: Debug) -> None:
    out = debug(f"break kernel.cu:{line('float t = v + v')}", "run", "backtrace", "print v", "up", "info locals")
    frames = out[2].splitlines()
    assert "twice" in frames[0] and "saxpy" in frames[1], out[2]
    assert "k = 0" in out[5] and "i = 0" in out[5]


def test_variable_that_moves_between_registers_is_followed_through_a_loop(debug: Debug) -> None:
    place = line("v = w + table[k]")
    out = debug(
        f"break kernel.cu:{place}",
        "run",
        "print k",
        "print w",
        "continue",
        "print k",
        "print w",
        "delete",
        "next",
        "print v",
    )
    assert [out[i].split(" = ")[-1] for i in (2, 3, 5, 6)] == ["0", "0", "1", "2"]


def test_next_stays_with_the_thread_across_a_barrier(debug: Debug) -> None:
    out = debug(
        f"break kernel.cu:{line('__syncthreads')} if threadIdx.x == 5",
        "run",
        "next",
        "print threadIdx.x",
        "print tile[31] != 0",
    )
    assert f"{line('y[i] += v')}" in out[2]
    assert out[3].endswith("= 5") and out[4].endswith("= true")


def test_changed_variable_changes_the_result(debug: Debug) -> None:
    place = line("float v = scale")
    out = debug(f"break kernel.cu:{place} if i == 1", "run", "set var a = 10", "delete", "continue")
    assert "result 10.5 51.5 1043.5" in out[4]  # 1 + (2 * (2 * 10 + 1) + 2) + tile[0] + local[1]


def test_kernel_name_is_a_breakpoint_behind_the_prologue(debug: Debug) -> None:
    out = debug("break saxpy", "run", "print n", "print threadIdx.x", "break factorial", "info breakpoints")
    assert "kernel.cu" in out[1] and out[2].endswith("= 96") and out[3].endswith("= 0")
    assert "factorial" in out[5]


def test_threads_lists_states_and_positions(debug: Debug) -> None:
    place = line("y[i] += v")
    out = debug(
        f"break kernel.cu:{place}",
        "run",
        "cucore threads",
        "delete",
        f"break kernel.cu:{line('float v = scale')}",
        "continue",
        "cucore threads",
    )
    text = out[2].splitlines()
    assert "kernel saxpy, grid (3,1,1), block (32,1,1)" in text[0]
    assert re.match(rf"\* \(0,0,0\) +\((\d+),0,0\) +running +kernel.cu:{place}$", text[-1]), out[2]
    assert re.search(rf"\(0,0,0\)\.\.\(30,0,0\) +ready +kernel.cu:{line('__syncthreads')}$", out[2], re.MULTILINE), out[
        2
    ]
    later = out[6].splitlines()
    assert re.match(r"\* \(1,0,0\) +\(0,0,0\) +running", later[2]), out[6]
    assert re.match(r"  \(1,0,0\) +\(1,0,0\)\.\.\(31,0,0\) +not started$", later[3]), out[6]


def test_thread_selects_a_suspended_thread_and_leaves_the_program_as_it_was(debug: Debug) -> None:
    place = line("y[i] += v")
    out = debug(
        f"break kernel.cu:{place}",
        "run",
        "cucore thread 7",
        "print i",
        "print threadIdx",
        "backtrace",
        "cucore thread 0 0 0",
        "print v",
        "cucore thread 31",
        "print i",
        "cucore thread 32",
        "cucore thread 1 1",
        "delete",
        "cucore thread 3",
        "continue",
    )
    assert f"kernel.cu:{line('__syncthreads')}" in out[2] and "block (0,0,0) thread (7,0,0): ready" in out[2]
    assert out[3].endswith("= 7") and "x = 7" in out[4]
    assert "saxpy" in out[5] and len(out[5].splitlines()) == 1
    assert out[7].endswith("= 4") and out[9].endswith("= 31")
    assert "there is no thread (32,0,0)" in out[10] and "there is no thread (1,1,0)" in out[11]
    assert RESULT in out[14]


def test_thread_and_block_run_until_they_start(debug: Debug) -> None:
    place = line("float v = scale")
    out = debug(
        f"break kernel.cu:{place}",
        "run",
        "cucore thread 3",
        "print threadIdx.x",
        "cucore thread 1",
        "cucore block 2",
        "print blockIdx.x",
        "print threadIdx.x",
        "cucore block 0",
        "cucore block 3",
        "cucore block",
        "delete",
        "continue",
    )
    assert "continuing until block (0,0,0) thread (3,0,0) starts" in out[2] and out[3].endswith("= 3")
    assert f"kernel.cu:{line('__syncthreads')}" in out[4]
    assert out[6].endswith("= 2") and out[7].endswith("= 0")
    assert "block (0,0,0) has ended" in out[8] and "there is no block (3,0,0)" in out[9]
    assert out[10] == "block (2,0,0) of (3,1,1)"
    assert RESULT in out[12]


def test_commands_outside_kernels_say_what_is_missing(debug: Debug) -> None:
    out = debug("cucore threads", "run", "cucore threads")
    assert "the CPU device is not loaded yet" in out[0]
    assert RESULT in out[1]


def test_host_breakpoint_and_kernel_breakpoint_in_one_session(debug: Debug, tmp_path: Path) -> None:
    answers = tmp_path / "pdb.txt"
    answers.write_text("print('host', COUNT + 1)\ncontinue\n")
    out = debug(
        f"break kernel.cu:{line('float v = scale')}",
        f"run {PROGRAM} breakpoint < {answers}",
        "print blockDim.x",
        "delete",
        "continue",
    )
    assert "host 97" in out[1] and "hit Breakpoint 1, saxpy" in out[1]
    assert out[2].endswith("= 32") and "result" in out[4]


def test_time_limit_does_not_end_a_stopped_kernel(debug: Debug) -> None:
    out = debug(
        f"break kernel.cu:{line('float v = scale')}",
        "run",
        "shell sleep 1.5",
        "delete",
        "continue",
        CUCORE_CPU_TIMEOUT="0.5",
    )
    assert RESULT in out[4]


def test_stop_in_a_kernel_leaves_other_host_threads_running(debug: Debug, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    program = tmp_path / "busy.py"
    program.write_text(
        "import threading, time\n"
        f"def beat():\n    while True:\n        open({str(beats)!r}, 'a').write('x'); time.sleep(0.01)\n"
        "threading.Thread(target=beat, daemon=True).start()\n"
        f"__file__ = {str(PROGRAM)!r}\nexec(open(__file__).read())\n"
    )
    count = f"python import os, time; n = os.path.getsize({str(beats)!r}); time.sleep(1); print('beats', os.path.getsize({str(beats)!r}) - n)"
    out = session.run(
        program,
        [f"break kernel.cu:{line('float v = scale')}", "run", count, "delete", "continue"],
        folder=tmp_path,
        before=["set non-stop on"],
    )
    found = re.search(r"beats (\d+)", out[2])
    assert found and int(found[1]) > 0, out


def test_line_information_alone_gives_lines_and_parameters(debug: Debug) -> None:
    out = debug(
        f"break kernel.cu:{line('y[i] += v')}",
        "run",
        "print saxpy_param_0",
        "print threadIdx",
        "print tile[0]",
        arguments=["lineinfo"],
    )
    assert f"kernel.cu:{line('y[i] += v')}" in out[1]
    assert out[2].endswith("= 96") and "y = 0" in out[3] and out[4].endswith("= 4.5")


def test_ptx_without_lines_is_debugged_as_ptx(debug: Debug) -> None:
    out = debug("break saxpy", "run", "next", "info locals", "print blockDim", arguments=["plain"])
    assert ".ptx:" in out[1] and "saxpy_param_0" in out[3] and "x = 32" in out[4]
    assert re.search(r"^r\d+ = ", out[3], re.MULTILINE)
